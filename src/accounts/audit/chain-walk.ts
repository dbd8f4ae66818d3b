import {
  genesisHash,
  hashRow,
  isOrAre,
  problemAt,
  problemOf,
  rows,
  type ChainProblem,
  type ChainedRow,
  type RowName,
} from './chain.js';

/** A row whose hash does not match its content and the previous hash. */
interface Suspect {
  row: StoredRow;
  /** Preceding rows and hashes, nearest first. */
  behind: RowName[];
  hashesBehind: string[];
}

/** Consecutive rows with correct hashes but wrong numbers: all were moved by `shift` places. */
interface Run {
  row: StoredRow;
  last: number;
  shift: number;
}

const nearby = [1, -1, 2, -2, 3, -3, 4, -4, 5, -5];

/**
 * A moved row's hash still matches its original number and previous hash. Both are searched for among nearby rows and
 * the other suspects.
 */
function explainSuspects(suspects: Suspect[], runs: Run[]): ChainProblem[] {
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
    problemOf('inserted', row, 'It was inserted, and the rows after it were renumbered.'),
  );
  const found = suspects
    .filter(({ row }) => !inserted.has(row.seq) && origins.get(row.seq) !== row.seq)
    .map((suspect) => explain(suspect, origins.get(suspect.row.seq), runs));
  return [...put, ...found, ...runs.map(explainRun)];
}

function explain({ row, behind }: Suspect, origin: number | undefined, runs: Run[]): ChainProblem {
  if (origin !== undefined) return problemOf('moved', row, `It was originally row ${origin}.`);
  const run = runs.find((run) => run.row.seq === row.seq + 1 && run.shift < 0);
  if (run) {
    const first = row.seq;
    const gone = rows(first, first - run.shift - 1);
    return problemOf(
      'removed',
      row,
      `The former ${gone} was removed, and this row and later rows were renumbered.`,
    );
  }
  const other = behind[0]
    ? `the earlier row ${behind[0].seq} (${behind[0].action})`
    : 'the chain before this row';
  return problemOf(
    'changed',
    row,
    `It does not match its hash. Either this row was changed, or ${other} was changed together with its hash.`,
  );
}

function explainRun({ row, last, shift }: Run): ChainProblem {
  const from = rows(row.seq - shift, last - shift);
  return problemOf('moved', row, `${rows(row.seq, last)}: originally ${from}.`);
}

/**
 * Returns the row number for which the row's hash is correct: its own number if only the previous row changed, or
 * undefined if the row itself changed.
 */
function findOrigin({ row }: Suspect, suspects: Suspect[]): number | undefined {
  const seqs = new Set([row.seq, ...suspects.map(({ row }) => row.seq), ...nearby.map((by) => row.seq + by)]);
  const hashes = new Set(
    suspects.flatMap(({ row, hashesBehind }) => [row.hash, ...hashesBehind, hashRow(hashesBehind[0]!, row)]),
  );
  for (const seq of seqs)
    for (const hash of hashes) if (hashRow(hash, { ...row, seq }) === row.hash) return seq;
  return undefined;
}

export type StoredRow = ChainedRow & { hash: string };

interface Head {
  seq: number;
  hash: string;
}

/** These limits bound the walk's memory, however broken the chain is. */
const MAX_PROBLEMS = 100;
const MAX_SUSPECTS = 20;
const WINDOW = 5;

export class ChainWalk {
  head: Head;
  /** Counts every problem found, although `finish` returns at most MAX_PROBLEMS. */
  problemCount = 0;
  private readonly problems: ChainProblem[] = [];
  private readonly suspects: Suspect[] = [];
  private readonly runs: Run[] = [];
  /** Newest first. */
  private recent: RowName[] = [];
  private recentHashes: string[];
  private shift = 0;
  private readonly end: Head | undefined;
  private readonly expected: Head | undefined;

  /** @param end the head recorded in `audit_chains` @param expected an earlier head, recorded elsewhere */
  constructor(orgId: string, end: Head | undefined, expected: Head | undefined) {
    this.head = { seq: 0, hash: genesisHash(orgId) };
    this.recentHashes = [this.head.hash];
    this.end = end;
    this.expected = expected;
  }

  add(row: StoredRow): void {
    if (row.seq < 1) {
      this.report(problemOf('inserted', row, 'Row numbers start at 1, so this row was inserted.'));
      return;
    }
    if (this.end && row.seq > this.end.seq)
      this.report(problemOf('inserted', row, `The recorded end of the chain is row ${this.end.seq}.`));
    if (row.seq > this.head.seq + 1) this.addAfterGap(row);
    else if (hashRow(this.head.hash, row) === row.hash) this.shift = 0;
    else this.addMismatch(row);
    if (row.seq === this.expected?.seq && row.hash !== this.expected.hash)
      this.report(
        problemOf(
          'rewritten',
          row,
          'Its hash differs from the recorded hash, so rows up to this one were rewritten.',
        ),
      );
    this.head = { seq: row.seq, hash: row.hash };
    this.recent = [{ seq: row.seq, id: row.id, action: row.action }, ...this.recent].slice(0, WINDOW);
    this.recentHashes = [row.hash, ...this.recentHashes].slice(0, WINDOW + 1);
  }

  addUnchained(row: RowName): void {
    this.report(
      problemOf('inserted', row, 'It has no number although the chain had begun, so it was inserted.'),
    );
  }

  /** Rows from before the chain was introduced have no hashes, so only their count can be compared. */
  countUnchained(count: number, noted: number): void {
    if (count === noted) return;
    const detail = `${noted} rows from before the chain were recorded, but ${count} exist.`;
    this.report(problemAt('rewritten', null, detail));
  }

  /** Returns at most 100 problems, in row order. */
  finish(): ChainProblem[] {
    for (const problem of explainSuspects(this.suspects, this.runs)) this.report(problem);
    this.checkEnd();
    const { seq } = this.head;
    if (this.expected && seq < this.expected.seq)
      this.report(
        problemAt('rewritten', this.expected.seq, `This row was recorded, but the chain ends at row ${seq}.`),
      );
    return this.problems.sort((a, b) => (a.seq ?? Infinity) - (b.seq ?? Infinity));
  }

  /**
   * Reports the gap and accepts the row after the gap. That row cannot be checked without its predecessor's hash, but
   * the hash of the next row confirms it.
   */
  private addAfterGap({ seq }: StoredRow): void {
    const first = this.head.seq + 1;
    const what = rows(first, seq - 1);
    this.report(problemAt('removed', first, `${what} ${isOrAre(first, seq - 1)} missing before row ${seq}.`));
    this.shift = 0;
  }

  private addMismatch(row: StoredRow): void {
    const { hash, seq } = this.head;
    const shift = [this.shift, ...nearby].find(
      (by) => by !== 0 && hashRow(hash, { ...row, seq: row.seq - by }) === row.hash,
    );
    if (shift !== undefined && shift === this.shift) {
      this.runs.at(-1)!.last = row.seq;
    } else if (shift !== undefined && this.runs.length < MAX_SUSPECTS) {
      this.runs.push({ row, last: row.seq, shift });
      this.shift = shift;
    } else if (this.suspects.length < MAX_SUSPECTS) {
      this.suspects.push({ row, behind: this.recent, hashesBehind: this.recentHashes });
      this.shift = 0;
    } else this.report(problemOf('changed', row, `It does not match its hash and that of row ${seq}.`));
  }

  private checkEnd(): void {
    const { head, end } = this;
    if (!end) {
      if (head.seq > 0)
        this.report(problemAt('end', head.seq, 'The record of where the chain ends is missing.'));
    } else if (end.seq > head.seq) {
      const [first, last] = [head.seq + 1, end.seq];
      this.report(
        problemAt('removed', first, `${rows(first, last)} ${isOrAre(first, last)} missing at the end.`),
      );
    } else if (end.seq === head.seq && end.hash !== head.hash) {
      const detail = 'The recorded end has a different hash, so this row or the record was rewritten.';
      const [last] = this.recent;
      this.report(last ? problemOf('end', last, detail) : problemAt('end', head.seq, detail));
    }
  }

  private report(problem: ChainProblem): void {
    this.problemCount++;
    if (this.problems.length < MAX_PROBLEMS) this.problems.push(problem);
  }
}
