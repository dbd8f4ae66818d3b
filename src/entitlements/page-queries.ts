import { sql, type SQL } from 'drizzle-orm';
import type { Orm } from '../core/db/client.js';
import { selectRows, timeText } from '../core/db/select-rows.js';
import type { EntitlementKind } from './table.js';

/** An entitlement in whatever state, with the month's balances of both modes. Decimals are exact text. */
export interface GrantRow {
  productSlug: string;
  productName: string;
  kind: EntitlementKind;
  usageMetric: string;
  /** Null is unlimited. */
  unitCap: string | null;
  startsAt: string;
  endsAt: string | null;
  liveUsed: string;
  testUsed: string;
}

const used = (orgId: string, period: string, livemode: boolean): SQL => sql`(
    select quantity from usage_totals
    where org_id = ${orgId}::uuid and period = ${period}::date and livemode = ${livemode} and product_id = g.product_id and metric = g.usage_metric
    limit 1)`;

/**
 * A page of an Organization's entitlements by product slug, those that start later or have ended, too. The balances
 * are looked up for the rows of the page alone. `period` is the first day of a month.
 */
export const selectGrants = (
  orgId: string,
  period: string,
  { after, limit }: { after: string | undefined; limit: number },
): SQL => sql`
  select g.slug as "productSlug", g.name as "productName", g.kind, g.usage_metric as "usageMetric", trim_scale(g.unit_cap)::text as "unitCap",
    ${timeText(sql`g.starts_at`)} as "startsAt", ${timeText(sql`g.ends_at`)} as "endsAt",
    trim_scale(coalesce(${used(orgId, period, true)}, 0))::text as "liveUsed",
    trim_scale(coalesce(${used(orgId, period, false)}, 0))::text as "testUsed"
  from (
    select e.product_id, e.kind, e.starts_at, e.ends_at, p.slug, p.name, p.usage_metric, p.unit_cap
    from entitlements e
    cross join lateral (select * from products where id = e.product_id limit 1) p
    where e.org_id = ${orgId}::uuid and p.slug collate "C" > ${after ?? ''} collate "C"
    order by p.slug collate "C"
    limit ${limit}
  ) g
  order by g.slug collate "C"`;

export const listGrants = (
  orm: Orm,
  orgId: string,
  period: string,
  page: { after: string | undefined; limit: number },
): Promise<GrantRow[]> => selectRows(orm, selectGrants(orgId, period, page));
