import { hashRow } from './chain.js';
import { problemOf, rows, type ChainProblem, type RowName } from './chain-problem.js';
import type { StoredRow } from './chain-walk.js';

/** A row that does not match its hash and the one before it. */
export interface Suspect {
  row: StoredRow;
  /** The rows before it, nearest first, and the hashes before it, which begin with that of the nearest one. */
  behind: RowName[];
  hashesBehind: string[];
}

/** Rows that match each other but not their numbers: all of them stand `shift` places from where they were written. */
export interface Run {
  row: StoredRow;
  last: number;
  shift: number;
}

/** How far from its place a row is looked for among rows that were numbered anew. */
export const nearby = [1, -1, 2, -2, 3, -3, 4, -4, 5, -5];

/**
 * Tells a row that was moved from one that was changed, and finds the row whose coming or going made others move: a row
 * was once right at some number after some hash, and both are among those of its neighbours and of the other suspects.
 */
export function explainSuspects(suspects: Suspect[], runs: Run[]): ChainProblem[] {
  const origins = new Map(suspects.map((suspect) => [suspect.row.seq, findOrigin(suspect, suspects)]));
  const isMoved = (seq: number) => {
    const origin = origins.get(seq);
    return (origin !== undefined && origin !== seq) || runs.some((r) => r.row.seq <= seq && seq <= r.last);
  };
  const inserted = new Map<number, RowName>();
  for (const { row, behind } of suspects) {
    const places = row.seq - (origins.get(row.seq) ?? row.seq);
    if (places < 1 || places > nearby.length / 2) continue;
    for (const other of behind.slice(0, places)) if (!isMoved(other.seq!)) inserted.set(other.seq!, other);
  }
  const put = [...inserted.values()].map((row) =>
    problemOf('inserted', row, 'It was put in: the rows behind it were numbered anew.'),
  );
  const found = suspects
    .filter(({ row }) => !inserted.has(row.seq) && origins.get(row.seq) !== row.seq)
    .map((suspect) => explain(suspect, origins.get(suspect.row.seq), runs));
  return [...put, ...found, ...runs.map(explainRun)];
}

function explain({ row, behind }: Suspect, origin: number | undefined, runs: Run[]): ChainProblem {
  if (origin !== undefined) return problemOf('moved', row, `It was written as row ${origin}.`);
  const run = runs.find((run) => run.row.seq === row.seq + 1 && run.shift < 0);
  if (run) {
    const first = row.seq;
    const gone = rows(first, first - run.shift - 1);
    return problemOf('removed', row, `The former ${gone} went: this and the rows behind were numbered anew.`);
  }
  const other = behind[0] ? `row ${behind[0].seq} (${behind[0].action}) before it` : 'the chain before it';
  return problemOf(
    'changed',
    row,
    `It does not match its hash: it was changed, or ${other} was, together with its hash.`,
  );
}

function explainRun({ row, last, shift }: Run): ChainProblem {
  const from = rows(row.seq - shift, last - shift);
  return problemOf('moved', row, `${rows(row.seq, last)}: written as ${from}.`);
}

/** The number with which the row was right; its own if only the row before it is another; undefined for a changed row. */
function findOrigin({ row }: Suspect, suspects: Suspect[]): number | undefined {
  const seqs = new Set([row.seq, ...suspects.map(({ row }) => row.seq), ...nearby.map((by) => row.seq + by)]);
  const hashes = new Set(
    suspects.flatMap(({ row, hashesBehind }) => [row.hash, ...hashesBehind, hashRow(hashesBehind[0]!, row)]),
  );
  for (const seq of seqs)
    for (const hash of hashes) if (hashRow(hash, { ...row, seq }) === row.hash) return seq;
  return undefined;
}
