import { accessSync, closeSync, constants, openSync, readSync, statSync, type Stats } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { ConfigError } from '../../core/config.js';
import { beginsAsTape } from './framing.js';

/**
 * Says at the start what would keep a tape from being written: a day that was not taped cannot be made up for.
 * @throws ConfigError
 */
export function requireTapeTarget(file: string): void {
  const problem = problemOf(resolve(file));
  if (problem !== undefined) throw new ConfigError([`TAPE_FILE: ${problem}`]);
}

function problemOf(path: string): string | undefined {
  const folder = dirname(path);
  if (!statOf(folder)?.isDirectory()) return `there is no folder ${folder}`;
  const found = statOf(path);
  if (found && !found.isFile()) return `${path} is no ordinary file`;
  try {
    accessSync(found ? path : folder, found ? constants.R_OK | constants.W_OK : constants.W_OK);
    return found && !isTape(path) ? `${path} is something else than a tape, and is left alone` : undefined;
  } catch (error) {
    return `${path} cannot be written: ${(error as Error).message}`;
  }
}

const statOf = (path: string): Stats | undefined => statSync(path, { throwIfNoEntry: false });

function isTape(path: string): boolean {
  const file = openSync(path, 'r');
  try {
    const start = Buffer.alloc(64);
    return beginsAsTape(start.subarray(0, readSync(file, start)));
  } finally {
    closeSync(file);
  }
}
