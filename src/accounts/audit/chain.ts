import { createHash } from 'node:crypto';
import type { auditLog } from './table.js';

/** What can be wrong with a chain. `end`: the record of where it ends; `rewritten`: it is not the one that was noted. */
type ProblemKind = 'changed' | 'removed' | 'inserted' | 'moved' | 'end' | 'rewritten';

/** What is wrong, and with which row; rows that are gone have a number only. */
export interface ChainProblem {
  kind: ProblemKind;
  seq: number | null;
  id: string | null;
  action: string | null;
  detail: string;
}

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

export const problemAt = (kind: ProblemKind, seq: number | null, detail: string): ChainProblem => ({
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

/** A row of the log that has its place in the chain. */
export type ChainedRow = Omit<typeof auditLog.$inferSelect, 'seq' | 'hash' | 'at'> & {
  seq: number;
  /** RFC 3339 in UTC, with milliseconds. */
  at: string;
};

/** Stands for the Organization in the hashes of the log that belongs to none. */
export const OPERATOR_CHAIN = 'operator';

/** What the first row follows: no row of another Organization, and no other kind of chain, begins like this. */
export const genesisHash = (orgId: string): string => sha256(`gauge audit chain 1\n${orgId}`);

/** The hash of a row that comes after the one with `previousHash`: of everything that is stored of it. */
export function hashRow(previousHash: string, row: ChainedRow): string {
  const { orgId, seq, id, at, action, actor, target, details, ip, requestId } = row;
  const fields = { orgId, seq, id, at, action, actor, target, details, ip, requestId };
  return sha256(`${previousHash}\n${canonicalJson(fields)}`);
}

/** JSON that is the same for the same value (RFC 8785): keys sorted by their UTF-16 code units, no spaces. */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const fields = value as Record<string, unknown>;
  const members = Object.keys(fields)
    .sort()
    .map((key) => `${JSON.stringify(key)}:${canonicalJson(fields[key])}`);
  return `{${members.join(',')}}`;
}

/** The value as it comes back from a column of JSON: times are text, and what is undefined is not there. */
export const asStored = <T>(value: T): T => JSON.parse(JSON.stringify(value)) as T;

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');
