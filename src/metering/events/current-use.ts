import { and, asc, eq, gt, isNull, lte, ne, or, sql } from 'drizzle-orm';
import type { Orm } from '../../core/db/client.js';
import { matches } from '../../core/db/sql.js';
import { DAY_MS, monthOf } from '../../core/time.js';
import { effectiveCap, entitlements, NO_METRIC, products, type UsageLimit } from '../entitlements/table.js';
import { usageHours, usageTotals } from '../ingestion/table.js';

/** Quantities are exact decimals. */
export type ProductUse = Awaited<ReturnType<typeof listCurrentUse>>[number];

/** In UTC, highest share of the cap first. Each sum is looked up by primary key: one total and at most 48 hours. */
export async function listCurrentUse(
  orm: Orm,
  orgId: string,
  { now, livemode, limit }: UseAt & { limit: number },
) {
  const monthly = useOfMonth(orm, orgId, { now, livemode });
  const daily = useOfTwoDays(orm, orgId, { now, livemode });
  const cap = sql.raw(effectiveCap('entitlements', 'products'));
  const rows = await orm
    .select({
      productId: products.id,
      productSlug: products.slug,
      productName: products.name,
      kind: entitlements.kind,
      usageMetric: products.usageMetric,
      unitCap: sql<string | null>`trim_scale(${cap})::text`,
      perSubject: sql<
        UsageLimit[] | null
      >`jsonb_path_query_array(${entitlements.limits}, '$[*] ? (@.per == "subject")')`,
      usedThisMonth: sql<string | null>`trim_scale(${monthly.quantity})::text`,
      usedToday: daily.today,
      usedYesterday: daily.yesterday,
    })
    .from(entitlements)
    .innerJoin(products, eq(products.id, entitlements.productId))
    .leftJoinLateral(monthly, sql`true`)
    .leftJoinLateral(daily, sql`true`)
    .where(
      and(
        eq(entitlements.orgId, orgId),
        isNull(products.archivedAt),
        ne(products.usageMetric, NO_METRIC),
        lte(entitlements.startsAt, now),
        or(isNull(entitlements.endsAt), gt(entitlements.endsAt, now)),
      ),
    )
    .orderBy(
      sql`${monthly.quantity} / nullif(${cap}, 0) desc nulls last`,
      sql`${monthly.quantity} desc nulls last`,
      asc(products.slug),
    )
    .limit(limit);
  return rows.map((row) => ({
    ...row,
    usedThisMonth: row.usedThisMonth ?? '0',
    usedToday: row.usedToday ?? '0',
    usedYesterday: row.usedYesterday ?? '0',
  }));
}

const ofProduct = { productId: products.id, metric: products.usageMetric };

interface UseAt {
  now: Date;
  livemode: boolean;
}

const useOfMonth = (orm: Orm, orgId: string, { now, livemode }: UseAt) =>
  orm
    .select({ quantity: usageTotals.quantity })
    .from(usageTotals)
    .where(matches(usageTotals, { orgId, period: monthOf(now.getTime()), livemode, ...ofProduct }))
    .limit(1)
    .as('monthly');

function useOfTwoDays(orm: Orm, orgId: string, { now, livemode }: UseAt) {
  const today = startOfDay(now);
  const yesterday = new Date(today.getTime() - DAY_MS);
  const isRecent = sql`${usageHours.hour} >= ${yesterday.toISOString()}::timestamptz`;
  const isToday = sql`${usageHours.hour} >= ${today.toISOString()}::timestamptz`;
  return orm
    .select({
      today: sql<string | null>`trim_scale(sum(${usageHours.quantity}) filter (where ${isToday}))::text`.as(
        'today',
      ),
      yesterday: sql<
        string | null
      >`trim_scale(sum(${usageHours.quantity}) filter (where not ${isToday}))::text`.as('yesterday'),
    })
    .from(usageHours)
    .where(and(matches(usageHours, { orgId, livemode, ...ofProduct }), isRecent))
    .as('daily');
}

const startOfDay = (at: Date): Date => new Date(Math.floor(at.getTime() / DAY_MS) * DAY_MS);
