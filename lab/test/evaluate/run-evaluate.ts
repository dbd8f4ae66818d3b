import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { runEvaluateCommand } from '../../evaluate/command.js';
import type { Evaluation } from '../../evaluate/evaluate.js';
import { formatEpochDay, parseDay } from '../../evaluate/training.js';
import { gaussian, uniform } from '../../../src/markets/venue/simulation/random.js';

export interface EvaluateRun {
  code: number;
  stdout: string;
  stderr: string;
  readonly summary: Evaluation['summary'];
}

/** Runs the command in this process, with the CSV on standard input unless the arguments name a file. */
export async function evaluate(csv: string, args: string[]): Promise<EvaluateRun> {
  let stdout = '';
  let stderr = '';
  const code = await runEvaluateCommand({
    args,
    stdin: Readable.from([Buffer.from(csv)]),
    stdout: { write: (text) => (stdout += text) },
    stderr: { write: (text) => (stderr += text) },
  });
  return {
    code,
    stdout,
    stderr,
    get summary() {
      return JSON.parse(stdout) as Evaluation['summary'];
    },
  };
}

export interface Day {
  date: string;
  observed: number;
  members: number[];
}

/** Consecutive days whose five members are 2° too cold and underdispersed. */
export function days(from: string, count: number, seed = 'days'): Day[] {
  return Array.from({ length: count }, (_, i) => {
    const truth = 10 + 8 * gaussian(seed, 'truth', i);
    const spread = 0.3 + 0.7 * uniform(seed, 'spread', i);
    const centre = truth - 2 + 1.5 * gaussian(seed, 'error', i);
    return {
      date: formatEpochDay(parseDay(from)! + i),
      observed: round(truth),
      members: Array.from({ length: 5 }, (_, k) => round(centre + spread * gaussian(seed, i, k))),
    };
  });
}

const round = (x: number): number => Math.round(x * 10) / 10;

export const header = 'day,obs,fc.1,fc.2,fc.3,fc.4,fc.5';

export const toCsv = (rows: readonly Day[]): string =>
  [header, ...rows.map(({ date, observed, members }) => [date, observed, ...members].join(','))].join('\n');

export const flags = ['-', '--obs', 'obs', '--members', '^fc\\.', '--date', 'day'];

export function createFolder() {
  const folder = mkdtempSync(join(tmpdir(), 'gauge-evaluate-'));
  const path = (name: string) => join(folder, name);
  return {
    path,
    write(name: string, content: string | Buffer): string {
      writeFileSync(path(name), content);
      return path(name);
    },
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}
