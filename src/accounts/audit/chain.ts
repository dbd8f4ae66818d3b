import { createHash } from 'node:crypto';
import type { auditLog } from './table.js';

export type ChainedRow = Omit<typeof auditLog.$inferSelect, 'seq' | 'hash' | 'at'> & {
  seq: number;
  /** RFC 3339 in UTC, with milliseconds. */
  at: string;
};

export const OPERATOR_CHAIN = 'operator';

/** Unique to each Organization and to this kind of chain. */
export const genesisHash = (orgId: string): string => sha256(`gauge audit chain 1\n${orgId}`);

export function hashRow(previousHash: string, row: ChainedRow): string {
  const { orgId, seq, id, at, action, actor, target, details, ip, requestId } = row;
  const fields = { orgId, seq, id, at, action, actor, target, details, ip, requestId };
  return sha256(`${previousHash}\n${canonicalJson(fields)}`);
}

/** Deterministic JSON (RFC 8785): keys sorted by UTF-16 code units, no spaces. */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const fields = value as Record<string, unknown>;
  const members = Object.keys(fields)
    .sort()
    .map((key) => `${JSON.stringify(key)}:${canonicalJson(fields[key])}`);
  return `{${members.join(',')}}`;
}

/** The form that a JSON column returns: dates become strings and undefined fields disappear. */
export const asStored = <T>(value: T): T => JSON.parse(JSON.stringify(value)) as T;

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');
