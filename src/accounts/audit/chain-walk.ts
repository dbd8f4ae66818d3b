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

export type StoredRow = ChainedRow & { hash: string };

interface Head {
  seq: number;
  hash: string;
}

/** Bounds memory, however broken the chain is. */
const MAX_PROBLEMS = 100;

const mismatch =
  'It does not match its hash: either it was changed or moved, or the row before it was changed together with its hash.';

export class ChainWalk {
  head: Head;
  /** `finish` returns at most MAX_PROBLEMS. */
  problemCount = 0;
  private readonly problems: ChainProblem[] = [];
  private last: RowName | undefined;
  private readonly end: Head | undefined;
  private readonly expected: Head | undefined;

  /** @param end the head recorded in `audit_chains` @param expected an earlier head, recorded elsewhere */
  constructor(orgId: string, end: Head | undefined, expected: Head | undefined) {
    this.head = { seq: 0, hash: genesisHash(orgId) };
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
    const { seq, hash } = this.head;
    if (row.seq > seq + 1) this.reportMissing(seq + 1, row.seq - 1, `before row ${row.seq}`);
    else if (hashRow(hash, row) !== row.hash) this.report(problemOf('changed', row, mismatch));
    if (row.seq === this.expected?.seq && row.hash !== this.expected.hash)
      this.report(
        problemOf(
          'rewritten',
          row,
          'Its hash differs from the recorded hash, so rows up to this one were rewritten.',
        ),
      );
    this.head = { seq: row.seq, hash: row.hash };
    this.last = row;
  }

  addUnchained(row: RowName): void {
    this.report(
      problemOf('inserted', row, 'It has no number although the chain had begun, so it was inserted.'),
    );
  }

  /** Rows from before the chain have no hashes, so only their count can be compared. */
  countUnchained(count: number, noted: number): void {
    if (count === noted) return;
    const detail = `${noted} rows from before the chain were recorded, but ${count} exist.`;
    this.report(problemAt('rewritten', null, detail));
  }

  /** In row order. */
  finish(): ChainProblem[] {
    this.checkEnd();
    const { seq } = this.head;
    if (this.expected && seq < this.expected.seq)
      this.report(
        problemAt('rewritten', this.expected.seq, `This row was recorded, but the chain ends at row ${seq}.`),
      );
    return this.problems.sort((a, b) => (a.seq ?? Infinity) - (b.seq ?? Infinity));
  }

  /** A row after a gap cannot be checked without its predecessor's hash, but the next row's hash confirms it. */
  private reportMissing(first: number, last: number, place: string): void {
    const detail = `${rows(first, last)} ${isOrAre(first, last)} missing ${place}.`;
    this.report(problemAt('removed', first, detail));
  }

  private checkEnd(): void {
    const { head, end } = this;
    if (!end) {
      if (head.seq > 0)
        this.report(problemAt('end', head.seq, 'The record of where the chain ends is missing.'));
    } else if (end.seq > head.seq) {
      this.reportMissing(head.seq + 1, end.seq, 'at the end');
    } else if (end.seq === head.seq && end.hash !== head.hash) {
      const detail = 'The recorded end has a different hash, so this row or the record was rewritten.';
      this.report(this.last ? problemOf('end', this.last, detail) : problemAt('end', head.seq, detail));
    }
  }

  private report(problem: ChainProblem): void {
    this.problemCount++;
    if (this.problems.length < MAX_PROBLEMS) this.problems.push(problem);
  }
}
