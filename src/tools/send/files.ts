import { createHash } from 'node:crypto';
import {
  closeSync,
  fsyncSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { z } from 'zod';
import { formatCount } from '../../core/pages/format.js';
import { CommandError } from '../kit/command.js';
import type { Input } from '../kit/input.js';
import { emptyTally, type Tally } from './batches.js';
import type { Refusal } from './records.js';
import type { SendOptions } from './send.js';

const count = z.number().int().min(0);
const contents = z.object({
  input: z.object({ size: count, modifiedAt: z.string() }),
  url: z.string(),
  settings: z.string(),
  tally: z.object({ lastRecord: count, records: count, accepted: count, deduped: count, rejected: count }),
  rejectedBytes: count,
});

/** What an interrupted run leaves behind. It only saves time: a record that is sent again is not counted again. */
export type Progress = z.infer<typeof contents> & { tally: Tally };

/** What must be the same for a run to continue another: the input, the address, the key and the mapping. */
export type Identity = Pick<Progress, 'input' | 'url' | 'settings'>;

export interface ProgressFile {
  path: string;
  /** What an earlier run left; undefined where there is none, or `mismatch` where it was about something else. */
  load(): Progress | 'mismatch' | undefined;
  save(progress: Pick<Progress, 'tally' | 'rejectedBytes'>): void;
  remove(): void;
}

export function openProgressFile(path: string, identity: Identity): ProgressFile {
  return {
    path,
    load() {
      let text: string;
      try {
        text = readFileSync(path, 'utf8');
      } catch {
        return undefined;
      }
      const parsed = contents.safeParse(parseJson(text));
      if (!parsed.success) return 'mismatch';
      const { input, url, settings } = parsed.data;
      const isSame = JSON.stringify({ input, url, settings }) === JSON.stringify(identity);
      return isSame ? parsed.data : 'mismatch';
    },
    save({ tally, rejectedBytes }) {
      // Renaming replaces the file in one step: a run that is killed leaves the old one or the new one, never a half.
      writeFileSync(`${path}.new`, `${JSON.stringify({ ...identity, tally, rejectedBytes })}\n`);
      renameSync(`${path}.new`, path);
    },
    remove: () => rmSync(path, { force: true }),
  };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const SAVE_EVERY_MS = 1_000;

/** Where a run's progress is kept; undefined where there is nothing to come back to: standard input, a dry run. */
export function progressFileFor(options: SendOptions, input: Input): ProgressFile | undefined {
  const { file, format, delimiter, mapping, url, apiKey, isDryRun } = options;
  const { size, modifiedAt } = input;
  if (size === undefined || modifiedAt === undefined || isDryRun) return undefined;
  // Another key is perhaps another Organization, and another mapping makes other events: those start anew.
  const settings = createHash('sha256')
    .update(JSON.stringify([format, delimiter, Object.entries(mapping), apiKey]))
    .digest('hex');
  return openProgressFile(`${file}.gauge-progress.json`, { input: { size, modifiedAt }, url, settings });
}

/** Where the run starts, and what a person should know about it. */
export function findStart(
  { isRestart }: SendOptions,
  progressFile: ProgressFile | undefined,
): { tally: Tally; rejectedBytes: number; note?: string } {
  const start = { tally: emptyTally(), rejectedBytes: 0 };
  if (progressFile === undefined || isRestart) return start;
  const progress = progressFile.load();
  if (progress === undefined) return start;
  if (progress === 'mismatch') {
    const note = `Starting from the beginning: ${progressFile.path} is about another input, address, key or mapping.`;
    return { ...start, note };
  }
  const { tally, rejectedBytes } = progress;
  const note = `Continuing after the first ${formatCount(tally.records, 'record')}.`;
  return { tally, rejectedBytes, note };
}

/**
 * Saves progress at most once a second, unless forced. It only saves time later, so that a run goes on where it
 * cannot be kept.
 */
export function createSaver(
  progressFile: ProgressFile | undefined,
  read: () => Pick<Progress, 'tally' | 'rejectedBytes'>,
  onFailure: (error: Error) => void,
): (isForced: boolean) => void {
  let savedAt = -Infinity;
  let hasFailed = false;
  return (isForced) => {
    if (progressFile === undefined || hasFailed) return;
    if (!isForced && performance.now() - savedAt < SAVE_EVERY_MS) return;
    savedAt = performance.now();
    try {
      progressFile.save(read());
    } catch (error) {
      hasFailed = true;
      onFailure(error as Error);
    }
  };
}

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
 * @throws CommandError when the file cannot be written
 */
export function openRejectedFile(path: string, inputPath: string, settledBytes: number): RejectedFile {
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
    throw new CommandError('--rejected is the input itself.');
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
