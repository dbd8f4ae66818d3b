import { findPeople, listAuditRows, type AuditRow } from '../../accounts/audit/queries.js';
import { findOperatorNames } from '../../accounts/identity/users/queries.js';
import type { Orm } from '../../core/db/client.js';
import { isUuid } from '../../core/http/request.js';
import { linkTo, nameTargets, toSentence, toText, type Wording } from '../../accounts/audit/wording.js';

export interface Actor {
  id: string;
  name: string;
  email: string | null;
  note: string | null;
}

/** `actors` must come from the Organization's own log: ids could reveal who other Users are. */
export async function readActors(orm: Orm, orgId: string, actors: Iterable<string>) {
  const ids = [...new Set(actors)].filter((actor) => isUuid(actor));
  const people = ids.length === 0 ? [] : await findPeople(orm, orgId, ids);
  const byId = new Map(people.map((person) => [person.id, person]));
  return (id: string): Actor => {
    const person = byId.get(id);
    if (person)
      return {
        id,
        name: person.name,
        email: person.email,
        note: person.role === null ? 'former member' : null,
      };
    if (id === 'operator') return { id, name: 'The operator', email: null, note: 'runs this service' };
    if (id.startsWith('operator:'))
      return { id, name: `The operator (${id.slice(9)})`, email: null, note: 'runs this service' };
    if (id.startsWith('service_key:'))
      return { id, name: 'A service key of the operator', email: null, note: `id ${id.slice(12)}` };
    if (id.startsWith('api_key:')) return { id, name: 'An API key', email: null, note: `id ${id.slice(8)}` };
    if (id === 'system') return { id, name: 'The service', email: null, note: 'automatically' };
    if (id === 'single_sign_on') return { id, name: 'Single sign-on', email: null, note: 'automatically' };
    return {
      id,
      name: 'A former member',
      email: null,
      note: isUuid(id) ? `account removed, id ${id}` : id,
    };
  };
}

/** For pages. Exports keep the logged ids. */
export async function nameOperators(orm: Orm, actors: Iterable<string>, actorOf: (id: string) => Actor) {
  const emails = [...new Set(actors)].filter((id) => id.startsWith(OPERATOR)).map(toEmail);
  const found = emails.length === 0 ? [] : await findOperatorNames(orm, emails);
  const names = new Map(found.map(({ name, email }) => [email, name]));
  return (id: string): Actor => {
    const name = id.startsWith(OPERATOR) ? names.get(toEmail(id)) : undefined;
    return name === undefined ? actorOf(id) : { id, name, email: toEmail(id), note: 'operator' };
  };
}

const OPERATOR = 'operator:';
const toEmail = (actor: string): string => actor.slice(OPERATOR.length);

export type EntryView = ReturnType<typeof toEntryView>;

export function toEntryView(wording: Wording, { details, ...row }: Omit<AuditRow, 'orgId'>, actor: Actor) {
  return {
    ...row,
    actor,
    what: toSentence(wording, { ...row, details, email: actor.email }),
    href: linkTo(wording, row),
    facts: toFacts(details),
  };
}

const LATEST = 5;

export async function readLatestChanges(
  orm: Orm,
  wording: Wording,
  orgId: string,
  { limit = LATEST, ...more }: Partial<Parameters<typeof listAuditRows>[3]> = {},
): Promise<EntryView[]> {
  const listed = await listAuditRows(orm, orgId, {}, { limit, ...more });
  const rows = await nameTargets(orm, wording, listed);
  const actors = rows.map(({ actor }) => actor);
  const actorOf = await nameOperators(orm, actors, await readActors(orm, orgId, actors));
  return rows.map((row) => toEntryView(wording, row, actorOf(row.actor)));
}

/** Readers who are not members cannot open the Organization's pages. */
export const withoutLinks = (entry: EntryView): EntryView => ({
  ...entry,
  href: undefined,
  what: entry.what.map((part) => ('name' in part ? { ...part, href: undefined } : part)),
  facts: entry.facts.map((fact) =>
    'value' in fact && 'href' in fact.value
      ? { ...fact, value: { text: fact.value.text, isNone: false } }
      : fact,
  ),
});

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

/** Includes everything needed to recompute the hashes. */
export function toCsvCells(wording: Wording, row: AuditRow, actor: Actor) {
  const { id, seq, at, action, target, details, ip, requestId, hash } = row;
  const summary = toText(toSentence(wording, { action, target, details, email: actor.email }));
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

type FactValue = { text: string; isNone: boolean; href?: string } | { at: Date };

type Fact = { label: string; value: FactValue } | { label: string; from: FactValue; to: FactValue };

function toFacts({ before, after, ...others }: Record<string, unknown>): Fact[] {
  return [...toChanges(before, after), ...Object.entries(others).map(([name, value]) => fact(name, value))];
}

function toChanges(before: unknown, after: unknown): Fact[] {
  if (isFields(before) && isFields(after)) {
    const names = new Set([...Object.keys(before), ...Object.keys(after)]);
    return [...names].map((name) => ({
      label: toLabel(name),
      from: toValue(before[name]),
      to: toValue(after[name]),
    }));
  }
  const both = { ...(before === undefined ? {} : { before }), ...(after === undefined ? {} : { after }) };
  return Object.entries(both).flatMap(([name, fields]) =>
    isFields(fields)
      ? Object.entries(fields).map(([field, value]) =>
          fact(name === 'before' ? `${field} before` : field, value),
        )
      : [fact(name, fields)],
  );
}

function fact(name: string, value: unknown): Fact {
  if (name === 'livemode' && typeof value === 'boolean')
    return { label: 'Mode', value: { text: value ? 'live' : 'test', isNone: false } };
  if (name === 'previousId' && typeof value === 'string') {
    const href = `/dashboard/api-keys/${encodeURIComponent(value)}`;
    return { label: 'Replaces', value: { text: value, isNone: false, href } };
  }
  return { label: toLabel(name), value: toValue(value) };
}

const isFields = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function toLabel(name: string): string {
  if (name === 'url') return 'URL';
  const words = name.replaceAll(/([a-z])([A-Z])/g, '$1 $2').toLowerCase();
  return words.charAt(0).toUpperCase() + words.slice(1);
}

const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/;

function toValue(value: unknown): FactValue {
  if (value === null || value === undefined || value === '') return { text: 'none', isNone: true };
  if (typeof value === 'boolean') return { text: value ? 'yes' : 'no', isNone: false };
  if (typeof value === 'string') {
    const at = time.test(value) ? new Date(value) : undefined;
    return at && !Number.isNaN(at.getTime()) ? { at } : { text: value, isNone: false };
  }
  const isPlainList =
    Array.isArray(value) && value.length > 0 && value.every((item) => typeof item === 'string');
  return { text: isPlainList ? value.join(', ') : JSON.stringify(value), isNone: false };
}
