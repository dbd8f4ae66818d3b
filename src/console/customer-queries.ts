import { sql, type SQL } from 'drizzle-orm';
import {
  containsText,
  intArray,
  queryRow,
  queryRows,
  textArray,
  timeText,
  toPattern,
} from '../core/db/sql.js';
import type { Orm } from '../core/db/client.js';
import { formatCount } from '../core/pages/format.js';
import { DAY_MS } from '../core/time.js';
import { failedSince, type FailedSignIns } from '../accounts/identity/sign-in/failed-queries.js';

/** Can also filter the list. */
export interface Signal {
  /** The query parameter `signal`. */
  id: string;
  label: string;
  /** Customers are it, like “Near a cap”. Otherwise, they have it. */
  isState?: true;
  /** The list begins with the highest. */
  urgency: 0 | 1 | 2 | 3;
  /** Shows the cause; relative to the customer's page. */
  path: string;
}

export interface CustomerFilter {
  /** Case-insensitive. Any part of a slug or name, or the beginning of a member's e-mail address. */
  search?: string | undefined;
  /** Customers that the search found elsewhere. */
  found?: readonly string[] | undefined;
  /** Default: all. */
  ids?: readonly string[] | undefined;
  isOnPlan?: SQL | undefined;
  state: 'current' | 'archived' | 'all';
}

export interface Customer {
  id: string;
  slug: string;
  name: string;
  isArchived: boolean;
  /** The addresses of the first owner and of an open invitation for one. */
  owner: string | null;
  ownerName: string | null;
  invited: string | null;
  owners: number;
  /** Keys that expire within seven days and have no successor. */
  expiringKeys: number;
  /** The latest delivery failed, or the service disabled the endpoint. */
  failingWebhooks: number;
  /** All members during the last day. Fewer than 5 wrong passwords are typing errors. */
  failed: FailedSignIns;
}

const SOON_MS = 7 * DAY_MS;

/** Read for the figures and signals of all customers. */
const MAX_CUSTOMERS = 100_000;

export interface CustomerRange {
  offset?: number;
  limit: number;
  /** By name, from Z to A. */
  isReversed?: boolean;
  /** Customers whose own name or slug the search matches come before those that it finds by others. */
  isNamedFirst?: boolean;
  /** Lowest first, then customers without a rank. Within a rank, by name. */
  ranks?: { ids: readonly string[]; ranks: readonly number[] } | undefined;
}

export const listCustomers = async (
  orm: Orm,
  nowMs: number,
  { search, found, ids, isOnPlan = sql`true`, state }: CustomerFilter,
  { offset = 0, limit, ranks, isReversed, isNamedFirst }: CustomerRange,
): Promise<{ customers: Customer[]; hasMore: boolean }> => {
  const isListed = ids ? sql`o.id = any (${textArray(ids)}::uuid[])` : sql`true`;
  const ranked =
    ranks &&
    sql`left join unnest(${textArray(ranks.ids)}::uuid[], ${intArray(ranks.ranks)}::int[]) as r (id, rank) on r.id = o.id`;
  const rows = await readCustomers(
    orm,
    nowMs,
    sql`${ranked ?? sql``} where ${isListed} and ${isOnPlan} and ${isInState(state)} and ${matches(search, found)}
      order by ${search !== undefined && isNamedFirst ? sql`${isNamed(search)} desc,` : sql``} ${ranked ? sql`r.rank nulls last,` : sql``} ${byName(isReversed)} offset ${offset} limit ${limit + 1}`,
  );
  return { customers: rows.slice(0, limit), hasMore: rows.length > limit };
};

const byName = (isReversed = false): SQL =>
  isReversed ? sql`lower(o.name) collate "C" desc, o.slug desc` : sql`lower(o.name) collate "C", o.slug`;

/** Not archived. */
export const readCurrentCustomers = (orm: Orm, nowMs: number): Promise<Customer[]> =>
  readCustomers(orm, nowMs, sql`where o.archived_at is null order by o.id limit ${MAX_CUSTOMERS}`);

export const findCustomer = async (orm: Orm, nowMs: number, slug: string): Promise<Customer | undefined> =>
  (await readCustomers(orm, nowMs, sql`where o.slug = ${slug}`))[0];

const isInState = (state: CustomerFilter['state']): SQL =>
  state === 'all' ? sql`true` : sql`o.archived_at is ${sql.raw(state === 'archived' ? 'not null' : 'null')}`;

const isNamed = (search: string) => containsText(search, sql`o.slug`, sql`o.name`);

function matches(search: string | undefined, found: readonly string[] = []): SQL {
  if (search === undefined) return sql`true`;
  const isMembers = sql`o.id in (
    select m.org_id from users u join memberships m on m.user_id = u.id where u.email like ${toPattern(search.toLowerCase())})`;
  return sql`(${isNamed(search)} or ${isMembers} or o.id = any (${textArray(found)}::uuid[]))`;
}

export const listFailures = (orm: Orm, orgId: string, limit: number) =>
  queryRows(orm)<{ id: string; url: string; since: string }>`
    select id, url, ${timeText(sql`failing_since`)} as since from webhook_endpoints
    where org_id = ${orgId}::uuid and failing_since is not null order by failing_since desc limit ${limit}`;

const has = (count: number, thing: string): string => (count === 0 ? 'None' : formatCount(count, thing));

/** Live keys that are in effect. */
export async function readKeys(orm: Orm, { id }: { id: string }, nowMs: number) {
  const { count, at } = (await queryRow(orm)<{ count: number; at: string | null }>`
    select count(*)::int as count, ${timeText(sql`max(last_used_at)`)} as at from api_keys
      where org_id = ${id}::uuid and livemode and revoked_at is null and service_key_id is null
        and (expires_at is null or expires_at > ${toTime(nowMs)}::timestamptz)`)!;
  if (at === null) return { state: has(count, 'live key'), note: count > 0 ? 'never called' : '' };
  return { state: has(count, 'live key'), note: 'last call', at: new Date(at) };
}

export async function readPeople(orm: Orm, { id }: { id: string }, nowMs: number) {
  const { members, invited } = (await queryRow(orm)<{ members: number; invited: number }>`
    select (select count(*)::int from memberships where org_id = ${id}::uuid) as members,
      (select count(*)::int from invitations where org_id = ${id}::uuid and ${isOpenInvitation(nowMs)}) as invited`)!;
  return {
    state: has(members, 'member'),
    note: invited === 0 ? '' : formatCount(invited, 'open invitation'),
  };
}

export async function readWebhooks(orm: Orm, { id }: { id: string }) {
  const { count, failing } = (await queryRow(orm)<{ count: number; failing: number }>`
    select count(*)::int as count, (count(*) filter (where ${isFailing}))::int as failing from webhook_endpoints
      where org_id = ${id}::uuid`)!;
  const state = has(count, 'endpoint');
  if (failing > 0) return { state, note: `${failing} failing`, tone: 'bad' as const };
  return { state, note: count > 0 ? 'all delivered' : '' };
}

const isFailing = sql`(failing_since is not null and is_enabled or disabled_reason is not null)`;
const isOpenInvitation = (nowMs: number): SQL =>
  sql`accepted_at is null and revoked_at is null and expires_at > ${toTime(nowMs)}::timestamptz`;

export const ownSignals: (Signal & { isMet: (customer: Customer) => boolean })[] = [
  { id: 'ownerless', label: 'No owner', path: '/people', urgency: 1, isMet: ({ owners }) => owners === 0 },
  {
    id: 'webhooks',
    label: 'Webhooks failing',
    urgency: 3,
    path: '/webhooks',
    isMet: ({ failingWebhooks }) => failingWebhooks > 0,
  },
  {
    id: 'expiring',
    label: 'Keys expiring within 7 days',
    urgency: 2,
    path: '/keys',
    isMet: ({ expiringKeys }) => expiringKeys > 0,
  },
  {
    id: 'sign-ins',
    label: 'Failed sign-ins in the last day',
    urgency: 1,
    path: '/people',
    isMet: ({ failed }) => failed.passwords + failed.codes > 0,
  },
];

type CustomerRow = { [Name in keyof Customer]: Customer[Name] | null };

/** @param which joins, a condition and an order for the rows `o` of organizations */
async function readCustomers(orm: Orm, nowMs: number, which: SQL): Promise<Customer[]> {
  const rows = await queryRows(orm)<CustomerRow>`
    with page as materialized (
      select *, row_number() over () as place from (
        select o.id, o.slug, o.name, o.archived_at from organizations o ${which}
      ) o
    ), failed as materialized (
      select m.org_id, json_build_object('passwords', sum(f.passwords), 'codes', sum(f.codes)) as failed
      from page join memberships m on m.org_id = page.id join failed_sign_ins f using (user_id)
      where f.hour >= ${failedSince(nowMs).toISOString()}::timestamptz
      group by m.org_id having sum(f.passwords) >= 5 or sum(f.codes) > 0
    ), owned as materialized (
      select m.org_id, min(u.email) as owner, (array_agg(u.name order by u.email))[1] as name, count(*)::int as count from memberships m join users u on u.id = m.user_id
      where m.org_id in (select id from page) and m.role = 'owner' group by 1
    ), invited as materialized (
      select org_id, min(email) as email from invitations
      where org_id in (select id from page) and role = 'owner' and ${isOpenInvitation(nowMs)}
      group by 1
    ), keyed as materialized (
      select org_id, count(*)::int as count from api_keys k
      where org_id in (select id from page) and revoked_at is null and service_key_id is null
        and expires_at > ${toTime(nowMs)}::timestamptz and expires_at <= ${toTime(nowMs + SOON_MS)}::timestamptz
        and not exists (select from api_keys s where s.org_id = k.org_id and s.rotated_from_id = k.id)
      group by org_id
    ), failing as materialized (
      select org_id, count(*)::int as count from webhook_endpoints
      where org_id in (select id from page) and ${isFailing}
      group by org_id
    )
    select h.id, h.slug, h.name, h.archived_at is not null as "isArchived", m.owner, m.name as "ownerName", coalesce(m.count, 0) as owners, i.email as invited,
      coalesce(k.count, 0) as "expiringKeys", coalesce(w.count, 0) as "failingWebhooks", f.failed
    from page h
    left join owned m on m.org_id = h.id
    left join invited i on i.org_id = h.id
    left join keyed k on k.org_id = h.id
    left join failing w on w.org_id = h.id
    left join failed f on f.org_id = h.id
    order by h.place`;
  const none: FailedSignIns = { passwords: 0, codes: 0 };
  return rows.map((row) => ({ ...row, failed: row.failed ?? none }) as Customer);
}

const toTime = (ms: number): string => new Date(ms).toISOString();
