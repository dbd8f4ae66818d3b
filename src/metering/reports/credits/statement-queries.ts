import { sql, type SQL } from 'drizzle-orm';
import type { Orm } from '../../../core/db/client.js';
import { selectRow, selectRows, textArray, timeText, queryRows } from '../../../core/db/sql.js';
import { ownRows, type AccountId } from '../../credit-grants/queries.js';
import type { CreditEntryKind } from '../../credits/table.js';
import { SEPARATOR_SQL } from '../../entitlements/dimensions.js';
import type { Range } from './queries.js';

const time = (at: Date): SQL => sql`${at.toISOString()}::timestamptz`;

const countedAt = sql`case kind when 'expire' then date_bin('1 day', hour, timestamptz '2000-01-01 00:00:00+00') - interval '1 microsecond' else hour end`;

/** Entries of the month, or of all later months together. */
export interface EntrySum {
  isLater: boolean;
  kind: CreditEntryKind;
  productId: string;
  grantId: string;
  /** Null for an overdraft. */
  grantKey: string | null;
  grantReason: string | null;
  amount: string;
}

/**
 * By the hour of the usage. An archived entry's time is the beginning of its day, so it may be a day before the hour. A
 * grant expires at the end of the day before its end: with the month if it ends on the next one's first day.
 */
export const selectEntrySums = (id: AccountId, { from, to }: Range): SQL => sql`
  select s.is_later as "isLater", s.kind, s.product_id::text as "productId", s.grant_id::text as "grantId",
    g.grant_key as "grantKey", g.reason as "grantReason", trim_scale(s.amount)::text as amount
  from (
    select ${countedAt} >= ${time(to)} as is_later, kind, product_id, grant_id, sum(amount) as amount
    from credit_entries e
    where ${ownRows('e', id)} and at >= ${time(from)} - interval '1 day' and ${countedAt} >= ${time(from)}
    group by 1, 2, 3, 4
  ) s
  left join credit_grants g on ${ownRows('g', id)} and g.id = s.grant_id
  order by g.grant_key, s.product_id, s.kind`;

export const readEntrySums = (orm: Orm, id: AccountId, month: Range): Promise<EntrySum[]> =>
  selectRows(orm, selectEntrySums(id, month));

/** That began in the month or later, or were void before they began. */
export interface Begun {
  id: string;
  grantKey: string;
  reason: string;
  amount: string;
  startsAt: string;
  isUnused: boolean;
}

export const selectBegun = (id: AccountId, { from }: Range, now: Date): SQL => sql`
  select g.id::text, g.grant_key as "grantKey", g.reason, trim_scale(g.amount)::text as amount, ${timeText(sql`g.starts_at`)} as "startsAt",
    coalesce(g.voided_at < g.starts_at, false) as "isUnused"
  from credit_grants g
  where ${ownRows('g', id)} and (g.starts_at between ${time(from)} and ${time(now)} or g.voided_at < g.starts_at)
  order by g.starts_at, g.grant_key`;

export const readBegun = (orm: Orm, id: AccountId, month: Range, now: Date): Promise<Begun[]> =>
  selectRows(orm, selectBegun(id, month, now));

/** Usage at one price, or its corrections. */
export interface PriceLine {
  kind: 'usage' | 'correction';
  productId: string;
  metric: string;
  /** That the product's prices depend on. */
  dimension: string | null;
  value: string | null;
  price: string;
  quantity: string;
  credits: string;
}

/** From the events themselves, because each has its own price. The largest lines, in order. */
export function selectPriceLines(
  { orgId, livemode }: AccountId,
  { from, to }: Range,
  productIds: readonly string[],
  limit: number,
): SQL {
  const isOwn = (row: SQL) => sql`${row}.org_id = ${orgId}::uuid
      and ${row}.product_id = any (${textArray(productIds)}::uuid[]) and ${row}.livemode = ${livemode}
      and ${row}.occurred_at >= ${time(from)} and ${row}.occurred_at < ${time(to)} and ${row}.credit_price > 0`;
  return sql`
  select * from (
    select c.kind, c.product_id::text as "productId", c.metric, p.credit_dimension as dimension,
      split_part(c.dimensions, ${sql.raw(SEPARATOR_SQL)}, array_position(p.dimensions, p.credit_dimension)) as value,
      trim_scale(c.credit_price)::text as price, trim_scale(sum(c.quantity))::text as quantity,
      trim_scale(sum(c.quantity * c.credit_price))::text as credits
    from (
      select 'usage' as kind, product_id, metric, dimensions, credit_price, quantity from usage_events e where ${isOwn(sql`e`)}
      union all
      select 'correction', c.product_id, c.metric, e.dimensions, c.credit_price, c.quantity - c.previous_quantity
      from usage_corrections c
      join usage_events e on e.org_id = ${orgId}::uuid and e.idempotency_key = c.idempotency_key and e.occurred_at = c.occurred_at
      where ${isOwn(sql`c`)}
    ) c
    join products p on p.id = c.product_id
    group by 1, 2, 3, 4, 5, c.credit_price
    order by abs(sum(c.quantity * c.credit_price)) desc
    limit ${limit}
  ) lines
  order by "productId", kind desc, value collate "C", price::numeric desc, metric`;
}

/** By product and metric, also what cost no credits. */
export const selectTotals = (id: AccountId, { from }: Pick<Range, 'from'>): SQL => sql`
  select t.product_id::text as "productId", t.metric, trim_scale(t.quantity)::text as quantity
  from usage_totals t where ${ownRows('t', id)} and t.period = ${from.toISOString().slice(0, 10)}::date`;

export const readTotals = (orm: Orm, id: AccountId, month: Pick<Range, 'from'>) =>
  selectRows<{ productId: string; metric: string; quantity: string }>(orm, selectTotals(id, month));

export interface MonthFacts {
  name: string;
  slug: string;
  mayCorrect: boolean;
  /** The first day with any usage or grant, or of the Organization. */
  startsAt: string;
  /** Months from `since` to this one whose events are archived. */
  archived: number;
  /** Events of this month or an earlier one, which can be corrected. */
  hasEvents: boolean;
}

export const selectMonthFacts = (id: AccountId, { from, to }: Range, since: Date): SQL => sql`
  select o.name, o.slug, o.may_correct as "mayCorrect", ${timeText(sql`least(o.created_at,
      (select min(starts_at) from credit_grants g where ${ownRows('g', id)}),
      (select min(period) from usage_totals u where ${ownRows('u', id)})::timestamp at time zone 'UTC')`)} as "startsAt",
    (select count(*)::int from usage_archives a where ${ownRows('a', id)} and a.state = 'archived'
      and a.period between ${since.toISOString().slice(0, 10)}::date and ${from.toISOString().slice(0, 10)}::date) as archived,
    exists (
      select from (select distinct product_id from usage_totals t where ${ownRows('t', id)}) p
      cross join lateral (
        select 1 from usage_events e where ${ownRows('e', id)} and e.product_id = p.product_id and e.occurred_at < ${time(to)}
        order by e.occurred_at limit 1
      ) e
    ) as "hasEvents"
  from organizations o where o.id = ${id.orgId}::uuid`;

export const readMonthFacts = async (orm: Orm, id: AccountId, month: Range, since: Date) =>
  (await selectRow<MonthFacts>(orm, selectMonthFacts(id, month, since)))!;

export const listProductNames = async (orm: Orm, ids: readonly string[]) => {
  const rows = await queryRows(orm)<{ id: string; slug: string; name: string }>`
    select id::text, slug, name from products where id = any (${textArray(ids)}::uuid[])`;
  return new Map(rows.map((row) => [row.id, row]));
};
