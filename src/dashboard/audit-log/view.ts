import { isDeepStrictEqual } from 'node:util';
import { findPeople, listAuditRows, type AuditRow } from '../../accounts/audit/queries.js';
import { findOperatorNames } from '../../accounts/identity/users/queries.js';
import type { Orm } from '../../core/db/client.js';
import { parseNumbersAsText } from '../../core/http/json.js';
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
] as const;

/** Includes everything needed to recompute the hashes. */
export function toCsvCells(wording: Wording, row: AuditRow, actor: Actor) {
  const cells = {
    ...row,
    summary: toText(toSentence(wording, { ...row, email: actor.email })),
    actorName: actor.name,
    actorEmail: actor.email,
    details: JSON.stringify(row.details),
  };
  return csvColumns.map((column) => cells[column]);
}

type FactValue = { text: string; isNone: boolean; href?: string } | { at: Date };

type Fact = { label: string; value: FactValue } | { label: string; from: FactValue; to: FactValue };

function toFacts({ before, after, ...others }: Record<string, unknown>): Fact[] {
  return [
    ...toChanges(readDefinition(before), readDefinition(after)),
    ...Object.entries(others).flatMap(([name, value]) =>
      name === 'changes' && Array.isArray(value)
        ? value.filter(isFields).flatMap(toFacts)
        : listFacts(name, value),
    ),
  ];
}

/** A plan is logged with its definition as JSON text. */
function readDefinition(fields: unknown): unknown {
  if (!isFields(fields) || typeof fields.definition !== 'string' || !fields.definition.startsWith('{'))
    return fields;
  return { ...fields, definition: parseNumbersAsText(fields.definition) };
}

/** Lists fields and items that have fields themselves one by one. */
function listFacts(name: string, value: unknown): Fact[] {
  const fields = toFields(value);
  if (!fields || !Object.values(fields).some((own) => typeof own === 'object')) return [fact(name, value)];
  return Object.entries(fields).flatMap(([own, part]) => listFacts(`${name}, ${toWords(own)}`, part));
}

function toChanges(before: unknown, after: unknown): Fact[] {
  if (isFields(before) && isFields(after)) {
    const names = new Set([...Object.keys(before), ...Object.keys(after)]);
    return [...names].flatMap((name) => listChanged(toWords(name), before[name], after[name]));
  }
  if (before !== undefined && after !== undefined) return listChanged('Change', before, after);
  const [name, end, side] = after === undefined ? ['before', ' before', before] : ['after', '', after];
  if (!isFields(side)) return side === undefined ? [] : [fact(name, side)];
  return Object.entries(side).flatMap(([field, value]) => listFacts(field + end, value));
}

/** Lists changed fields of objects and lists one by one. */
function listChanged(path: string, before: unknown, after: unknown): Fact[] {
  if (isDeepStrictEqual(before, after)) return [];
  const [was, will] = [toFields(before), toFields(after)];
  if (!was || !will) return [{ label: capitalize(path), from: toValue(before), to: toValue(after) }];
  const names = new Set([...Object.keys(was), ...Object.keys(will)]);
  return [...names].flatMap((name) => listChanged(`${path}, ${toWords(name)}`, was[name], will[name]));
}

/** Items of a list are named by their key or slug. */
function toFields(value: unknown): Record<string, unknown> | undefined {
  if (value === undefined) return {};
  if (!Array.isArray(value)) return isFields(value) && !isRollover(value) ? value : undefined;
  if (!value.every(isFields)) return undefined;
  const nameOf = (item: object) => Object.entries(item).find(([name]) => /^key$|slug$/i.test(name))?.[1];
  return Object.fromEntries(value.map((item, i) => [nameOf(item) ?? i + 1, item] as [string, unknown]));
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

const toWords = (name: string): string => name.replaceAll(/([a-z])([A-Z])/g, '$1 $2').toLowerCase();
const capitalize = (words: string): string => words.charAt(0).toUpperCase() + words.slice(1);
const toLabel = (name: string): string => capitalize(toWords(name).replaceAll(/\burl\b/g, 'URL'));

const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/;

function toValue(value: unknown): FactValue {
  if (value === null || value === undefined || value === '') return { text: 'none', isNone: true };
  if (typeof value === 'boolean') return { text: value ? 'yes' : 'no', isNone: false };
  if (typeof value === 'string') {
    const at = time.test(value) ? new Date(value) : undefined;
    return at && !Number.isNaN(at.getTime()) ? { at } : { text: value, isNone: false };
  }
  return { text: write(value), isNone: false };
}

/** The credits of a grant that live on after its end. */
const isRollover = (value: Record<string, unknown>): boolean => 'percent' in value && 'for' in value;

function write(value: unknown): string {
  if (Array.isArray(value)) return value.map(write).join(value.some(isFields) ? '; ' : ', ') || 'none';
  if (value === null) return 'none';
  if (!isFields(value)) return typeof value === 'string' ? value : JSON.stringify(value);
  if (isRollover(value)) return `${write(value.percent)}% for ${write(value.for).slice(1, -1)} days`;
  const parts = Object.entries(value).map(([name, own]) => `${toWords(name)} ${write(own)}`);
  return parts.join(', ') || 'none';
}
