import { lockDirectory } from '../../../src/core/db/directory-lock.js';

/** `lock-directory DIRECTORY [START_AT_MS]`: claims the directory, prints the outcome, and stays until it is killed. */
const [directory = '', startAtMs = '0'] = process.argv.slice(2);
await new Promise((resolve) => setTimeout(resolve, Math.max(0, Number(startAtMs) - Date.now())));
try {
  await lockDirectory(directory);
  process.stdout.write('locked\n');
} catch (error) {
  process.stdout.write(`refused ${(error as Error).name} ${(error as Error).message}\n`);
}
setInterval(() => undefined, 60_000);
