import { sql, type SQL } from 'drizzle-orm';
import { containsText, selectRow, selectRows, textArray } from '../core/db/sql.js';
import type { GroupTables, Orm } from '../core/db/client.js';
import { selectFromAll, wholeTables, type ReportedDatabase } from '../core/db/shards.js';
import { cutPage } from '../core/http/page.js';
import { DAY_MS } from '../core/time.js';
import { failedSince, type FailedSignIns } from '../accounts/identity/sign-in/failed-queries.js';

/** Can also filter the list. */
export interface Signal {
  /** The query parameter `signal`. */
  id: string;
  label: string;
  /** Shows the cause; relative to the customer's page. */
  path: string;
  /** Another signal covers all of this signal's customers and more. */
  isNarrow?: true;
  /** A function reads sharded tables, in each shard group. */
  condition: (nowMs: number) => SQL | ((t: GroupTables) => SQL);
}

export const states = ['current', 'archived', 'all'] as const;

export interface CustomerFilter {
  /** Case-insensitive. Any part of a slug or name, or the beginning of a member's email address. */
  search?: string | undefined;
  signal?: Signal | undefined;
  state: (typeof states)[number];
}

export interface Customer {
  id: string;
  slug: string;
  name: string;
  isArchived: boolean;
  hasOwner: boolean;
  /** Keys that expire within seven days. */
  expiringKeys: number;
  /** The latest delivery failed, or the service disabled the endpoint. */
  failingWebhooks: number;
  /** All members during the last day. */
  failed: FailedSignIns;
}

const SOON_MS = 7 * DAY_MS;

/** For one page of a search. */
const MAX_SEARCHED = 100_000;

/** In slug order. */
export async function listCustomers(
  db: ReportedDatabase & { orm: Orm },
  nowMs: number,
  { search, signal, state }: CustomerFilter,
  { after, limit }: { after: string | undefined; limit: number },
) {
  const most = limit + 1;
  const end = search === undefined ? undefined : await findSearchEnd(db.orm, after);
  const isBefore = end === undefined ? sql`true` : sql`o.slug <= ${end}`;
  const isAsked = (t: GroupTables) =>
    sql`o.slug > ${after ?? ''} and ${isBefore} and ${isInState(state)} and ${matches(search, t)}`;
  const findBySignal = async (condition: (t: GroupTables) => SQL): Promise<SQL> => {
    const rows = await selectFromAll<{ slug: string }>(
      db,
      (t) => sql`select o.slug from ${t('organizations')} o
        where ${t.owns(sql`o.id`)} and ${isAsked(t)} and ${condition(t)} order by o.slug limit ${most}`,
      ({ slug }) => [slug],
      most,
    );
    return sql`o.slug = any (${textArray(rows.map(({ slug }) => slug))}::text[])`;
  };
  const condition = signal?.condition(nowMs);
  const where =
    typeof condition === 'function'
      ? await findBySignal(condition)
      : sql`${isAsked(wholeTables)} and ${condition ?? sql`true`}`;
  const found = await readCustomers(db.orm, nowMs, where, most);
  const { page: customers, nextCursor = end } = cutPage(found, limit, ({ slug }) => slug);
  return { customers, nextCursor };
}

/** Undefined if the search reaches the end. */
async function findSearchEnd(orm: Orm, after: string | undefined): Promise<string | undefined> {
  const last = sql`select slug from organizations where slug > ${after ?? ''} order by slug offset ${MAX_SEARCHED - 1} limit 1`;
  return (await selectRow<{ slug: string }>(orm, last))?.slug;
}

export const findCustomer = async (orm: Orm, nowMs: number, slug: string): Promise<Customer | undefined> =>
  (await readCustomers(orm, nowMs, sql`o.slug = ${slug}`, 1))[0];

const isInState = (state: CustomerFilter['state']): SQL =>
  state === 'all' ? sql`true` : sql`o.archived_at is ${sql.raw(state === 'archived' ? 'not null' : 'null')}`;

function matches(search: string | undefined, t: GroupTables): SQL {
  if (search === undefined) return sql`true`;
  const isMembers = sql`o.id in (
    select m.org_id from ${t('users')} u join ${t('memberships')} m on m.user_id = u.id where u.email like ${toPattern(search)})`;
  return sql`(${containsText(search, sql`o.slug`, sql`o.name`)} or ${isMembers})`;
}

/** Escapes the wildcards of LIKE. */
const toPattern = (search: string): string =>
  `${search.toLowerCase().replaceAll(/[\\%_]/g, (mark) => `\\${mark}`)}%`;

const isExpiring = (nowMs: number): SQL => sql`revoked_at is null and service_key_id is null
    and expires_at > ${toTime(nowMs)}::timestamptz and expires_at <= ${toTime(nowMs + SOON_MS)}::timestamptz`;

const hasFailed = (nowMs: number): SQL => sql`f.hour >= ${failedSince(nowMs).toISOString()}::timestamptz`;

const isFailing = sql.raw('(failing_since is not null and is_enabled or disabled_reason is not null)');

const hasOwner = (orgId: SQL): SQL =>
  sql`exists (select from memberships m where m.org_id = ${orgId} and m.role = 'owner' offset 0)`;

export const ownSignals: Signal[] = [
  {
    id: 'ownerless',
    label: 'No owner',
    path: '/people',
    condition: () => sql`not ${hasOwner(sql`o.id`)}`,
  },
  {
    id: 'webhooks',
    label: 'Webhooks failing',
    path: '/webhooks',
    // Keeps the subquery a lookup by primary key for each customer.
    condition: () => (t) =>
      sql`exists (select from ${t('webhook_endpoints')} where org_id = o.id and ${isFailing} offset 0)`,
  },
  {
    id: 'expiring',
    label: 'Keys expiring within 7 days',
    path: '/keys',
    condition: (nowMs) => (t) =>
      sql`o.id in (select org_id from ${t('api_keys')} where ${isExpiring(nowMs)})`,
  },
  {
    id: 'sign-ins',
    label: 'Failed sign-ins in the last day',
    path: '/people',
    condition: (nowMs) =>
      sql`o.id in (select m.org_id from failed_sign_ins f join memberships m using (user_id) where ${hasFailed(nowMs)})`,
  },
];

type CustomerRow = { [Name in keyof Customer]: Customer[Name] | null };

async function readCustomers(orm: Orm, nowMs: number, where: SQL, limit: number): Promise<Customer[]> {
  const rows = await selectRows<CustomerRow>(
    orm,
    sql`
  with page as materialized (
    select o.id, o.slug, o.name, o.archived_at from organizations o where ${where} order by o.slug limit ${limit}
  ), failed as materialized (
    select m.org_id, json_build_object('passwords', sum(f.passwords), 'codes', sum(f.codes)) as failed
    from page join memberships m on m.org_id = page.id join failed_sign_ins f using (user_id)
    where ${hasFailed(nowMs)}
    group by m.org_id
  ), keyed as materialized (
    select org_id, count(*)::int as count from api_keys where org_id in (select id from page) and ${isExpiring(nowMs)} group by org_id
  ), failing as materialized (
    select org_id, count(*)::int as count from webhook_endpoints where org_id in (select id from page) and ${isFailing} group by org_id
  )
  select h.id, h.slug, h.name, h.archived_at is not null as "isArchived", ${hasOwner(sql`h.id`)} as "hasOwner",
    coalesce(k.count, 0) as "expiringKeys", coalesce(w.count, 0) as "failingWebhooks", f.failed
  from page h
  left join keyed k on k.org_id = h.id
  left join failing w on w.org_id = h.id
  left join failed f on f.org_id = h.id
  order by h.slug`,
  );
  const none: FailedSignIns = { passwords: 0, codes: 0 };
  return rows.map((row) => ({ ...row, failed: row.failed ?? none }) as Customer);
}

const toTime = (ms: number): string => new Date(ms).toISOString();
