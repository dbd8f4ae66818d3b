import { closeSync, fchmodSync, fstatSync, openSync } from 'node:fs';

/** Devices and pipes keep their mode. */
export function openPrivateFile(path: string): number {
  const file = openSync(path, 'a', 0o600);
  try {
    if (fstatSync(file).isFile()) fchmodSync(file, 0o600);
    return file;
  } catch (error) {
    closeSync(file);
    throw error;
  }
}
