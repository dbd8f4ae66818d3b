import { createInterface } from 'node:readline';
import { lockDirectory } from '../../../src/core/db/directory-lock.js';

/**
 * For each line `START_AT_MS DIRECTORY`, claims the directory at that time and prints the outcome. Runs until the
 * process is killed.
 */
process.stdout.write('ready\n');
for await (const line of createInterface({ input: process.stdin })) {
  const [, startAtMs, directory] = /^(\d+) (.*)$/.exec(line)!;
  await new Promise((resolve) => setTimeout(resolve, Math.max(0, Number(startAtMs) - Date.now())));
  try {
    await lockDirectory(directory!);
    process.stdout.write('locked\n');
  } catch (error) {
    process.stdout.write(`refused ${(error as Error).name} ${(error as Error).message}\n`);
  }
}
