import { sql, type SQL } from 'drizzle-orm';
import { textArray, selectRows } from '../core/db/sql.js';
import type { GroupTables, Orm } from '../core/db/client.js';
import { selectFromAll, wholeTables, type ReportedDatabase } from '../core/db/shards.js';
import { cutPage } from '../core/http/page.js';
import { DAY_MS, monthOf } from '../core/time.js';
import { effectiveCap } from '../metering/entitlements/table.js';
import { failedSince, type FailedSignIns } from '../accounts/identity/sign-in/failed-queries.js';

export const signals = ['near', 'over', 'expiring', 'sign-ins'] as const;
type Signal = (typeof signals)[number];
export const states = ['current', 'archived', 'all'] as const;

export interface CustomerFilter {
  /** Prefix of a slug, a name or a member's address, in any case. */
  search?: string | undefined;
  signal?: Signal | undefined;
  state: (typeof states)[number];
}

/** Live usage of a product in the month. Decimals are exact text. */
export interface ProductUse {
  slug: string;
  name: string;
  used: string;
  /** Null: unlimited, or no entitlement. */
  cap: string | null;
}

export interface Customer {
  slug: string;
  name: string;
  isArchived: boolean;
  /** Highest share of the cap first, at most `MAX_USES`. */
  uses: ProductUse[];
  productCount: number;
  /** Keys that expire in the next seven days. */
  expiringKeys: number;
  /** Failed sign-ins of all members within a day. */
  failed: FailedSignIns;
}

const MAX_USES = 3;
const SOON_MS = 7 * DAY_MS;

/** A page of customers by slug, and the slug after which the next page begins. */
export async function listCustomers(
  db: ReportedDatabase & { orm: Orm },
  nowMs: number,
  { search, signal, state }: CustomerFilter,
  { after, limit }: { after: string | undefined; limit: number },
) {
  const most = limit + 1;
  const isAsked = (t: GroupTables) =>
    sql`o.slug > ${after ?? ''} and ${isInState(state)} and ${matches(search, t)}`;
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
  const condition = signal && conditions[signal](nowMs);
  const where =
    typeof condition === 'function'
      ? await findBySignal(condition)
      : sql`${isAsked(wholeTables)} and ${condition ?? sql`true`}`;
  const found = await readCustomers(db.orm, nowMs, where, most);
  const { page: customers, nextCursor } = cutPage(found, limit, ({ slug }) => slug);
  return { customers, nextCursor };
}

export const findCustomer = async (orm: Orm, nowMs: number, slug: string): Promise<Customer | undefined> =>
  (await readCustomers(orm, nowMs, sql`o.slug = ${slug}`, 1))[0];

const isInState = (state: CustomerFilter['state']): SQL =>
  state === 'all' ? sql`true` : sql`o.archived_at is ${sql.raw(state === 'archived' ? 'not null' : 'null')}`;

function matches(search: string | undefined, t: GroupTables): SQL {
  if (search === undefined) return sql`true`;
  const pattern = toPattern(search);
  return sql`o.id in (
    select id from ${t('organizations')} where slug like ${pattern}
    union all select id from ${t('organizations')} where lower(name) like ${pattern}
    union all select m.org_id from ${t('users')} u join ${t('memberships')} m on m.user_id = u.id where u.email like ${pattern})`;
}

/** A LIKE pattern for a prefix in lower case; wildcards in the input are escaped. */
export const toPattern = (search: string): string =>
  `${search.toLowerCase().replaceAll(/[\\%_]/g, (mark) => `\\${mark}`)}%`;

const cap = sql.raw(effectiveCap('e', 'p'));

/** Totals of the month with the caps of the entitlements; an archived product has no cap. */
const useOf = (t: GroupTables, nowMs: number): SQL => sql`${t('usage_totals')} t
    join ${t('products')} p on p.id = t.product_id and p.usage_metric = t.metric
    left join ${t('entitlements')} e on e.org_id = t.org_id and e.product_id = t.product_id and p.archived_at is null
    cross join lateral (select case when e.org_id is not null then ${cap} end as cap) c
    where t.period = ${monthOf(nowMs)}::date and t.livemode and t.quantity > 0`;

const isExpiring = (nowMs: number): SQL => sql`revoked_at is null
    and expires_at > ${toTime(nowMs)}::timestamptz and expires_at <= ${toTime(nowMs + SOON_MS)}::timestamptz`;

const hasFailed = (nowMs: number): SQL => sql`f.hour >= ${failedSince(nowMs).toISOString()}::timestamptz`;

/**
 * Scans the month's totals once, by their index, and of the entitlements reads only those with their own cap. The
 * Organizations found are then checked exactly, one by one, until the page is full.
 */
const usesAbove = (nowMs: number, share: SQL) => (t: GroupTables) =>
  sql`case when o.id in (
      with product as materialized (
        select id, usage_metric, unit_cap * ${share} as least from ${t('products')} where archived_at is null
      ), own as materialized (
        select org_id, product_id, unit_cap * ${share} as least from ${t('entitlements')} where has_own_cap
      )
      select t.org_id from ${t('usage_totals')} t
      join product p on p.id = t.product_id and p.usage_metric = t.metric
      left join own on own.org_id = t.org_id and own.product_id = t.product_id
      where t.period = ${monthOf(nowMs)}::date and t.livemode
        and t.quantity >= case when own.org_id is null then p.least else own.least end
    ) then exists (select from ${useOf(t, nowMs)} and t.org_id = o.id and t.quantity >= c.cap * ${share} offset 0) end`;

/** A condition on tables that are spread over shard groups is evaluated in each group. */
const conditions: Record<Signal, (nowMs: number) => SQL | ((t: GroupTables) => SQL)> = {
  near: (nowMs) => usesAbove(nowMs, sql.raw('0.8')),
  over: (nowMs) => usesAbove(nowMs, sql.raw('1')),
  expiring: (nowMs) => (t) => sql`o.id in (select org_id from ${t('api_keys')} where ${isExpiring(nowMs)})`,
  'sign-ins': (nowMs) =>
    sql`o.id in (select m.org_id from failed_sign_ins f join memberships m using (user_id) where ${hasFailed(nowMs)})`,
};

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
  ), used as materialized (
    select org_id, json_agg(json_build_object('slug', slug, 'name', name, 'used', trim_scale(quantity)::text, 'cap', trim_scale(cap)::text)
      order by place) as uses, max(count)::int as count
    from (
      select t.org_id, p.slug, p.name, t.quantity, c.cap, count(*) over (partition by t.org_id) as count,
        row_number() over (partition by t.org_id
          order by case when c.cap = 0 then 1e30 else t.quantity / c.cap end desc nulls last, t.quantity desc, p.slug) as place
      from ${useOf(wholeTables, nowMs)} and t.org_id in (select id from page)
    ) ranked
    where place <= ${MAX_USES}
    group by org_id
  ), keyed as materialized (
    select org_id, count(*)::int as count from api_keys where org_id in (select id from page) and ${isExpiring(nowMs)} group by org_id
  )
  select h.slug, h.name, h.archived_at is not null as "isArchived", u.uses, coalesce(u.count, 0) as "productCount",
    coalesce(k.count, 0) as "expiringKeys", f.failed
  from page h
  left join used u on u.org_id = h.id
  left join keyed k on k.org_id = h.id
  left join failed f on f.org_id = h.id
  order by h.slug`,
  );
  const none: FailedSignIns = { passwords: 0, codes: 0 };
  return rows.map((row) => ({ ...row, uses: row.uses ?? [], failed: row.failed ?? none }) as Customer);
}

const toTime = (ms: number): string => new Date(ms).toISOString();
