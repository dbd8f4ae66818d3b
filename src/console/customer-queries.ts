import { sql, type SQL } from 'drizzle-orm';
import { firstIdOf } from '../audit/queries.js';
import type { Clock } from '../core/clock.js';
import type { Orm } from '../core/db/client.js';
import { selectRows } from '../core/db/select-rows.js';
import { DAY_MS, monthOf } from '../core/time.js';
import { effectiveCap } from '../entitlements/table.js';

/** What stands out about a customer, and can be asked for. */
export const signals = ['near', 'over', 'expiring', 'codes'] as const;
type Signal = (typeof signals)[number];
export const states = ['current', 'archived', 'all'] as const;

export interface CustomerFilter {
  /** How its slug, its name or the address of a member begins, in whatever case. */
  search?: string | undefined;
  signal?: Signal | undefined;
  state: (typeof states)[number];
}

/** Usage of a product in the month, live. Decimals are exact text. */
export interface ProductUse {
  slug: string;
  name: string;
  used: string;
  /** Null is unlimited, or without an entitlement. */
  cap: string | null;
}

export interface Customer {
  slug: string;
  name: string;
  isArchived: boolean;
  /** Those nearest to their cap first, `MAX_USES` at most. */
  uses: ProductUse[];
  /** Products with usage in the month. */
  productCount: number;
  /** Of the next seven days. */
  expiringKeys: number;
  /** Wrong codes after a right password, of all members, within a day. */
  refusedCodes: number;
}

const MAX_USES = 3;
const SOON_MS = 7 * DAY_MS;
/** Refused codes that are counted at most, the newest: each account has few tries. */
const MAX_CODES = 10_000;
/** Organizations that are looked through in one statement for those that a signal is true of. */
const WINDOW = 500;
/** How long the windows of one page are read, one after the other: a page is bounded however rare a signal is. */
const BUDGET_MS = 40;

export interface CustomerPage {
  customers: Customer[];
  /** The slug after which the next page begins. */
  nextCursor: string | undefined;
  /** The time was over before the page was full. */
  isPartial: boolean;
}

/** A page of the customers by slug. */
export async function listCustomers(
  orm: Orm,
  clock: Clock,
  filter: CustomerFilter,
  { after, limit }: { after: string | undefined; limit: number },
): Promise<CustomerPage> {
  const startMs = clock.now();
  const size = filter.signal === undefined ? limit + 1 : WINDOW;
  const found: Customer[] = [];
  for (let begin = after ?? ''; ;) {
    const where = sql`o.slug > ${begin} and ${isInState(filter.state)} and ${matches(filter.search)}`;
    const window = { where, size, limit: limit + 1 - found.length };
    const { customers, end, isLast } = await readWindow(orm, startMs, window, filter.signal);
    found.push(...customers);
    if (found.length > limit) {
      const page = found.slice(0, limit);
      return { customers: page, nextCursor: page.at(-1)!.slug, isPartial: false };
    }
    if (isLast) return { customers: found, nextCursor: undefined, isPartial: false };
    if (clock.now() - startMs >= BUDGET_MS) return { customers: found, nextCursor: end, isPartial: true };
    begin = end!;
  }
}

/** One of them; undefined if there is none. */
export async function findCustomer(orm: Orm, nowMs: number, slug: string): Promise<Customer | undefined> {
  const window = { where: sql`o.slug = ${slug}`, size: 1, limit: 1 };
  return (await readWindow(orm, nowMs, window)).customers[0];
}

interface Window {
  where: SQL;
  /** Organizations that are looked at. */
  size: number;
  /** Of those that the signal is true of. */
  limit: number;
}

const isInState = (state: CustomerFilter['state']): SQL =>
  state === 'all' ? sql`true` : sql`o.archived_at is ${sql.raw(state === 'archived' ? 'not null' : 'null')}`;

function matches(search: string | undefined): SQL {
  if (search === undefined) return sql`true`;
  const pattern = toPattern(search);
  return sql`o.id in (
    select id from organizations where slug like ${pattern}
    union all select id from organizations where lower(name) like ${pattern}
    union all select m.org_id from users u join memberships m on m.user_id = u.id where u.email like ${pattern})`;
}

/** What begins so, in lower case; nothing in what was typed has a meaning of its own. */
export const toPattern = (search: string): string =>
  `${search.toLowerCase().replaceAll(/[\\%_]/g, (mark) => `\\${mark}`)}%`;

const cap = sql.raw(effectiveCap('e', 'p'));

/** Totals of the month with the caps of entitlements; an archived product has none. */
const useOf = (org: SQL, nowMs: number): SQL => sql`usage_totals t
    join products p on p.id = t.product_id and p.usage_metric = t.metric
    left join entitlements e on e.org_id = t.org_id and e.product_id = t.product_id and p.archived_at is null
    cross join lateral (select case when e.org_id is not null then ${cap} end as cap) c
    where t.org_id = ${org} and t.period = ${monthOf(nowMs)}::date and t.livemode`;

const expiringKeysOf = (org: SQL, nowMs: number): SQL => sql`api_keys
    where org_id = ${org} and revoked_at is null and expires_at > ${toTime(nowMs)}::timestamptz
      and expires_at <= ${toTime(nowMs + SOON_MS)}::timestamptz`;

const usesBeyond = (nowMs: number, share: SQL): SQL =>
  sql`exists (select from ${useOf(sql`w.id`, nowMs)} and t.quantity > 0 and t.quantity >= c.cap * ${share})`;

const conditions: Record<Signal, (nowMs: number) => SQL> = {
  near: (nowMs) => usesBeyond(nowMs, sql.raw('0.8')),
  over: (nowMs) => usesBeyond(nowMs, sql.raw('1')),
  expiring: (nowMs) => sql`exists (select from ${expiringKeysOf(sql`w.id`, nowMs)})`,
  codes: () => sql`w.id in (select org_id from refused)`,
};

type WindowRow = { [Name in keyof Customer]: Customer[Name] | null } & { end: string | null; size: number };

/** One row at least, which says where the window ends. */
async function readWindow(
  orm: Orm,
  nowMs: number,
  { where, size, limit }: Window,
  signal?: Signal,
): Promise<{ customers: Customer[]; end: string | undefined; isLast: boolean }> {
  const rows = await selectRows<WindowRow>(
    orm,
    sql`
  with w as materialized (
    select o.id, o.slug, o.name, o.archived_at from organizations o where ${where} order by o.slug limit ${size}
  ), refused as materialized (
    select m.org_id, sum(r.codes)::int as codes
    from (
      select target, count(*) as codes
      from (
        select target, details from operator_log
        where action = 'user.code_refused' and id >= ${firstIdOf(nowMs - DAY_MS)} order by id desc limit ${MAX_CODES}
      ) newest
      where details ->> 'at' = 'sign_in' group by target
    ) r
    join users u on u.email = r.target
    join memberships m on m.user_id = u.id
    group by m.org_id
  ), hit as materialized (
    select * from w where ${signal === undefined ? sql`true` : conditions[signal](nowMs)} order by slug limit ${limit}
  )
  select s."end", s.size, h.slug, h.name, h.archived_at is not null as "isArchived", u.uses,
    coalesce(u.count, 0) as "productCount", k.count as "expiringKeys", coalesce(r.codes, 0) as "refusedCodes"
  from (select max(slug) as "end", count(*)::int as size from w) s
  left join hit h on true
  left join lateral (
    select json_agg(json_build_object('slug', slug, 'name', name, 'used', trim_scale(quantity)::text, 'cap', trim_scale(cap)::text)
      order by place) as uses, max(count)::int as count
    from (
      select p.slug, p.name, t.quantity, c.cap, count(*) over () as count,
        row_number() over (order by case when c.cap = 0 then 1e30 else t.quantity / c.cap end desc nulls last, t.quantity desc, p.slug) as place
      from ${useOf(sql`h.id`, nowMs)} and t.quantity > 0
    ) ranked
    where place <= ${MAX_USES}
  ) u on true
  left join lateral (select count(*)::int as count from ${expiringKeysOf(sql`h.id`, nowMs)}) k on true
  left join refused r on r.org_id = h.id
  order by h.slug`,
  );
  const customers = rows
    .filter(({ slug }) => slug !== null)
    .map(({ end: _end, size: _size, ...row }) => ({ ...row, uses: row.uses ?? [] }) as Customer);
  return { customers, end: rows[0]!.end ?? undefined, isLast: rows[0]!.size < size };
}

const toTime = (ms: number): string => new Date(ms).toISOString();
