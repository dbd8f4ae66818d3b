/** What can be wrong with a chain. `end`: the record of where it ends; `rewritten`: it is not the one that was noted. */
export type ProblemKind = 'changed' | 'removed' | 'inserted' | 'moved' | 'end' | 'rewritten';

/** What is wrong, and with which row; rows that are gone have a number only. */
export interface ChainProblem {
  kind: ProblemKind;
  seq: number | null;
  id: string | null;
  action: string | null;
  detail: string;
}

/** What names a row. */
export interface RowName {
  seq: number | null;
  id: string;
  action: string;
}

export const problemOf = (kind: ProblemKind, row: RowName, detail: string): ChainProblem => ({
  kind,
  seq: row.seq,
  id: row.id,
  action: row.action,
  detail,
});

export const problemAt = (kind: ProblemKind, seq: number, detail: string): ChainProblem => ({
  kind,
  seq,
  id: null,
  action: null,
  detail,
});

/** `row 4`, `rows 4 to 6`. */
export const rows = (first: number, last: number): string =>
  first === last ? `row ${first}` : `rows ${first} to ${last}`;

export const isOrAre = (first: number, last: number): string => (first === last ? 'is' : 'are');
