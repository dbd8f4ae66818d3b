import { createHash } from 'node:crypto';
import {
  closeSync,
  existsSync,
  fsyncSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { z } from 'zod';
import { openPrivateFile } from '../../../core/private-file.js';
import { formatCount } from '../../../core/pages/format.js';
import { CommandError } from '../../../commands/kit/command.js';
import type { Input } from '../../../commands/kit/input.js';
import { emptyTally } from './batches.js';
import type { MappingOptions, RecordRefusal } from './mapping.js';
import type { FormatOptions } from './records.js';

const count = z.number().int().min(0);
const contents = z.object({
  input: z.object({ size: count, modifiedAt: z.string() }),
  url: z.string(),
  settings: z.string(),
  tally: z.object({
    lastRecord: count,
    records: count,
    accepted: count,
    deduped: count,
    rejected: count,
    reasons: z.record(z.string(), count).default({}),
  }),
  rejectedBytes: count,
});

/** Progress of an interrupted run. Losing it costs only time, because a record sent twice is counted once. */
type Progress = Pick<z.infer<typeof contents>, 'tally' | 'rejectedBytes'>;

export interface ProgressFile {
  start: Progress;
  note: string | undefined;
  /** Saves at most once a second unless forced. If saving fails, the run continues. */
  save(read: () => Progress, isForced: boolean): void;
  remove(): void;
}

export interface ProgressOptions extends FormatOptions {
  file: string;
  url: string;
  apiKey: string;
  /** Id of the backfill to stage into; undefined if events are counted immediately. */
  backfill: string | undefined;
  mapping: MappingOptions;
  isDryRun: boolean;
  isRestart: boolean;
}

const SAVE_EVERY_MS = 1_000;

/** Standard input and dry runs have no progress file, because they cannot be resumed. */
export function openProgressFile(
  options: ProgressOptions,
  { size, modifiedAt }: Input,
  onFailure: (error: Error) => void,
): ProgressFile {
  const { file, format, delimiter, mapping, url, apiKey, backfill, isDryRun, isRestart } = options;
  const beginning = { tally: emptyTally(), rejectedBytes: 0 };
  if (size === undefined || modifiedAt === undefined || isDryRun)
    return { start: beginning, note: undefined, save: () => undefined, remove: () => undefined };

  // Another key may belong to another Organization, and another mapping produces different events, so the run starts
  // over if either has changed.
  const settings = createHash('sha256')
    .update(
      JSON.stringify([
        format,
        delimiter,
        Object.entries(mapping),
        apiKey,
        ...(backfill === undefined ? [] : [backfill]),
      ]),
    )
    .digest('hex');
  const identity = { input: { size, modifiedAt }, url, settings };
  const path = `${file}.gauge-progress.json`;
  let savedAt = -Infinity;
  let hasFailed = false;

  function save(read: () => Progress, isForced: boolean): void {
    if (hasFailed || (!isForced && performance.now() - savedAt < SAVE_EVERY_MS)) return;
    savedAt = performance.now();
    try {
      // Renaming is atomic: a killed run leaves the old file or the new file, never half of one.
      writeFileSync(`${path}.new`, `${JSON.stringify({ ...identity, ...read() })}\n`, { mode: 0o600 });
      renameSync(`${path}.new`, path);
    } catch (error) {
      hasFailed = true;
      onFailure(error as Error);
    }
  }

  return {
    ...findStart(path, identity, isRestart, beginning),
    save,
    remove: () => rmSync(path, { force: true }),
  };
}

function findStart(path: string, identity: object, isRestart: boolean, beginning: Progress) {
  const none = { start: beginning, note: undefined };
  if (isRestart || !existsSync(path)) return none;
  try {
    const { tally, rejectedBytes, ...found } = contents.parse(JSON.parse(readFileSync(path, 'utf8')));
    if (JSON.stringify(found) === JSON.stringify(identity)) {
      const note = `Continuing after the first ${formatCount(tally.records, 'record')}.`;
      return { start: { tally, rejectedBytes }, note };
    }
  } catch {
    // This command did not write the file. Treat it like the progress of another input.
  }
  const note = `Starting from the beginning, because ${path} belongs to another input, address, key or mapping.`;
  return { ...none, note };
}

/**
 * Opens the file for refused records, which is created at the first refusal.
 * @param inputPath the input file, which must be a different file
 * @param settledBytes bytes that an interrupted run wrote for settled records; anything after them is cut off, because
 * those records are sent again
 * @throws CommandError if the file cannot be written
 */
export function openRejectedFile(path: string, inputPath: string, settledBytes: number) {
  let file: number | undefined;
  let isDirty = false;
  let bytes = settledBytes;

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
  // Devices and pipes are only written to; regular files are truncated or removed.
  bytes = stats?.isFile() ? Math.min(bytes, stats.size) : 0;
  if (stats?.isFile()) orExplain(() => (bytes > 0 ? truncateSync(path, bytes) : rmSync(path)));

  return {
    path,
    /** Includes bytes written by the runs that this run resumes. */
    get bytes() {
      return bytes;
    },
    append(refusals: RecordRefusal[]) {
      if (refusals.length === 0) return;
      const text = refusals.map((refusal) => `${toLine(refusal)}\n`).join('');
      orExplain(() => {
        file ??= openPrivateFile(path);
        writeFileSync(file, text);
      });
      bytes += Buffer.byteLength(text);
      isDirty = true;
    },
    /** Flushes appended data to disk, so that it survives a power failure. */
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

function toLine({ record, code, detail, event }: RecordRefusal): string {
  const { number, pointer, keys, value } = record;
  const place = pointer === undefined ? { line: number } : { record: number, pointer, keys };
  const entry = { ...place, code, detail, event: event ?? null };
  try {
    return JSON.stringify({ ...entry, original: value });
  } catch {
    return JSON.stringify({ ...entry, original: null });
  }
}
