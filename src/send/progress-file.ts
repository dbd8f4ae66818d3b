import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { z } from 'zod';
import type { Tally } from './ledger.js';

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
