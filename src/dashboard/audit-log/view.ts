import { linkTo, tell, toText, type Part } from './sentences.js';
import { toFacts, type Fact } from './facts.js';
import type { Actor } from './people.js';
import type { AuditRow } from '../../audit/queries.js';

/** A row of the log as the page shows it. */
export interface EntryView {
  id: string;
  seq: number | null;
  at: Date;
  actor: Actor;
  what: Part[];
  action: string;
  target: string;
  /** The page of the target, where there is one. */
  href: string | undefined;
  facts: Fact[];
  ip: string | null;
  requestId: string | null;
  hash: string | null;
}

export function toEntryView(row: AuditRow, actor: Actor): EntryView {
  const { id, seq, at, action, target, details, ip, requestId, hash } = row;
  return {
    id,
    seq,
    at,
    actor,
    what: tell({ action, target, details, email: actor.email }),
    action,
    target,
    href: linkTo(row),
    facts: toFacts(details),
    ip,
    requestId,
    hash,
  };
}

export const csvColumns = [
  'seq',
  'at',
  'action',
  'summary',
  'actor',
  'actorName',
  'actorEmail',
  'target',
  'details',
  'ip',
  'requestId',
  'id',
  'hash',
];

/** The same for a file: with it the hashes can be computed again elsewhere. */
export function toCsvCells(row: AuditRow, actor: Actor) {
  const { id, seq, at, action, target, details, ip, requestId, hash } = row;
  const summary = toText(tell({ action, target, details, email: actor.email }));
  const json = JSON.stringify(details);
  return [
    seq,
    at,
    action,
    summary,
    row.actor,
    actor.name,
    actor.email,
    target,
    json,
    ip,
    requestId,
    id,
    hash,
  ];
}
