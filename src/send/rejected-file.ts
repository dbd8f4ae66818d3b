import { closeSync, fsyncSync, openSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { SendError, type Refusal } from './record.js';

/** The file of what was refused. It comes into being with the first refusal. */
export interface RejectedFile {
  readonly path: string;
  /** Length of what belongs to this run and the ones it continues, in bytes. */
  readonly bytes: number;
  append(refusals: Refusal[]): void;
  /** Makes sure that a power cut leaves what was appended. */
  sync(): void;
  close(): void;
}

/**
 * @param inputPath the file that is being read, which must not be this one
 * @param settledBytes what an interrupted run had settled: the rest of the file is dropped, as its records come again
 * @throws SendError when the file cannot be written
 */
export function openRejectedFile(path: string, inputPath: string, settledBytes: number): RejectedFile {
  let file: number | undefined;
  let isDirty = false;
  let bytes = settledBytes;

  function orExplain(work: () => void): void {
    try {
      work();
    } catch (error) {
      throw new SendError(`${path} cannot be written: ${(error as Error).message}`, { cause: error });
    }
  }

  const stats = statSync(path, { throwIfNoEntry: false });
  const inputStats = statSync(inputPath, { throwIfNoEntry: false });
  if (stats && inputStats && stats.ino === inputStats.ino && stats.dev === inputStats.dev)
    throw new SendError('--rejected is the input itself.');
  // A device or a pipe is written to; only a file of ours is cut or removed.
  bytes = stats?.isFile() ? Math.min(bytes, stats.size) : 0;
  if (stats?.isFile()) orExplain(() => (bytes > 0 ? truncateSync(path, bytes) : rmSync(path)));

  return {
    path,
    get bytes() {
      return bytes;
    },
    append(refusals) {
      if (refusals.length === 0) return;
      const text = refusals.map((refusal) => `${toLine(refusal)}\n`).join('');
      orExplain(() => {
        file ??= openSync(path, 'a');
        writeFileSync(file, text);
      });
      bytes += Buffer.byteLength(text);
      isDirty = true;
    },
    sync() {
      if (file === undefined || !isDirty) return;
      isDirty = false;
      try {
        fsyncSync(file);
      } catch {
        // Devices and pipes cannot be synced.
      }
    },
    close() {
      if (file !== undefined) closeSync(file);
    },
  };
}

function toLine({ record, code, detail, event }: Refusal): string {
  const { number, pointer, keys, value } = record;
  const place = pointer === undefined ? { line: number } : { record: number, pointer, keys };
  const entry = { ...place, code, detail, event: event ?? null };
  try {
    return JSON.stringify({ ...entry, original: value });
  } catch {
    return JSON.stringify({ ...entry, original: null });
  }
}
