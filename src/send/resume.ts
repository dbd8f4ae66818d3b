import { createHash } from 'node:crypto';
import type { Input } from './input.js';
import { emptyTally, type Tally } from './ledger.js';
import { count } from './numbers.js';
import type { SendOptions } from './options.js';
import { openProgressFile, type Progress, type ProgressFile } from './progress-file.js';

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
  const note = `Continuing after the first ${count(tally.records, 'record')}.`;
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
