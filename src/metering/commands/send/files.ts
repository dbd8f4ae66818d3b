import { closeSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { openPrivateFile } from '../../../core/private-file.js';
import { CommandError } from '../../../commands/kit/command.js';
import type { RecordRefusal } from './mapping.js';

/**
 * Created at the first refusal.
 * @param inputPath must be a different file
 */
export function openRejectedFile(path: string, inputPath: string) {
  let file: number | undefined;

  function orExplain(work: () => void): void {
    try {
      work();
    } catch (error) {
      throw new CommandError(`${path} cannot be written: ${(error as Error).message}`, { cause: error });
    }
  }

  const stats = statSync(path, { throwIfNoEntry: false });
  const inputStats = statSync(inputPath, { throwIfNoEntry: false });
  if (stats && inputStats && stats.ino === inputStats.ino && stats.dev === inputStats.dev)
    throw new CommandError('--rejected must not be the input file.');
  // Devices and pipes are only written to.
  if (stats?.isFile()) orExplain(() => rmSync(path));

  return {
    path,
    append(refusals: RecordRefusal[]) {
      if (refusals.length === 0) return;
      const text = refusals.map((refusal) => `${toLine(refusal)}\n`).join('');
      orExplain(() => {
        file ??= openPrivateFile(path);
        writeFileSync(file, text);
      });
    },
    close() {
      if (file !== undefined) closeSync(file);
    },
  };
}

function toLine({ record, code, detail, event }: RecordRefusal): string {
  const { number, pointer, keys, value, element } = record;
  const place =
    pointer === undefined ? { line: number, element } : { record: number, pointer, keys, element };
  const entry = { ...place, code, detail, event: event ?? null };
  try {
    return JSON.stringify({ ...entry, original: value });
  } catch {
    return JSON.stringify({ ...entry, original: null });
  }
}
