import { sql, type SQL } from 'drizzle-orm';
import type { CustomerFacts, CustomerSummary, Flag } from '../../console/customer-summary.js';
import type { GroupTables, Orm } from '../../core/db/client.js';
import { wholeTables } from '../../core/db/shards.js';
import { selectRows, textArray } from '../../core/db/sql.js';
import { formatShare } from '../../core/pages/format.js';
import type { Context } from '../../core/http/context.js';
import { DAY_MS, monthOf } from '../../core/time.js';
import { toCap, toUseTrend } from '../dashboard/overview.js';
import { listCurrentUse } from '../dashboard/overview-queries.js';
import { readLimitViews } from '../entitlements/limit-view.js';
import { effectiveCap } from '../entitlements/table.js';
import { readProductSums } from '../events/page-queries.js';
import { parsePeriod } from '../reports/period.js';
import { findStripeProblem } from '../stripe/comparison.js';

/** Live, in the month. Decimals are text, which keeps all their digits. */
interface ProductUse {
  slug: string;
  name: string;
  used: string;
  /** Null if usage is unlimited or there is no entitlement. */
  cap: string | null;
}

const MAX_USES = 3;
const NEAR = 0.8;

export const customerSummary: CustomerSummary = {
  column: 'Live usage this month (UTC)',
  view: 'metering/console/use',
  signals: [
    {
      id: 'credits',
      label: 'Out of credits',
      path: '/credits',
      condition: (nowMs) => (t) => sql`exists (${outOfCredits(t, nowMs)} and a.org_id = o.id offset 0)`,
    },
    {
      id: 'near',
      label: 'At least 80% of a cap used',
      path: '/usage',
      condition: (nowMs) => usesAbove(nowMs, sql.raw('0.8')),
    },
    {
      id: 'over',
      label: 'Over a cap',
      path: '/usage',
      isNarrow: true,
      condition: (nowMs) => usesAbove(nowMs, sql.raw('1')),
    },
    {
      id: 'stripe',
      label: 'One Stripe customer for several Organizations',
      path: '',
      condition: () => sql`exists (${sharers(sql`o.id`)})`,
    },
  ],
  async read(orm, nowMs, orgIds) {
    const rows = new Map((await readUses(orm, nowMs, orgIds)).map((row) => [row.orgId, row]));
    const out = await selectRows<{ orgId: string }>(
      orm,
      sql`${outOfCredits(wholeTables, nowMs)} and a.org_id = any (${textArray(orgIds)}::uuid[])`,
    );
    const spent = new Set(out.map(({ orgId }) => orgId));
    const sharing = await selectRows<{ orgId: string }>(
      orm,
      sql`select o.id::text as "orgId" from organizations o
        where o.id = any (${textArray(orgIds)}::uuid[]) and exists (${sharers(sql`o.id`)})`,
    );
    const shared = new Set(sharing.map(({ orgId }) => orgId));
    return new Map(
      orgIds.map((id) => [
        id,
        toFacts(rows.get(id), [...(spent.has(id) ? [outFlag] : []), ...(shared.has(id) ? [sharedFlag] : [])]),
      ]),
    );
  },
  panel: { view: 'metering/console/use-panel', read: readUsePanel },
};

interface UsesRow {
  orgId: string;
  /** By share of the cap, highest first. */
  uses: ProductUse[];
  count: number;
}

const readUses = (orm: Orm, nowMs: number, orgIds: readonly string[]): Promise<UsesRow[]> =>
  selectRows<UsesRow>(
    orm,
    sql`
    select org_id as "orgId", json_agg(json_build_object('slug', slug, 'name', name, 'used', trim_scale(quantity)::text, 'cap', trim_scale(cap)::text)
      order by place) as uses, max(count)::int as count
    from (
      select t.org_id, p.slug, p.name, t.quantity, c.cap, count(*) over (partition by t.org_id) as count,
        row_number() over (partition by t.org_id
          order by case when c.cap = 0 then 1e30 else t.quantity / c.cap end desc nulls last, t.quantity desc, p.slug) as place
      from ${useOf(wholeTables, nowMs)} and t.org_id = any (${textArray(orgIds)}::uuid[])
    ) ranked
    where place <= ${MAX_USES}
    group by org_id`,
  );

const cap = sql.raw(effectiveCap('e', 'p'));

/** An archived product has no cap. */
const useOf = (t: GroupTables, nowMs: number): SQL => sql`${t('usage_totals')} t
    join ${t('products')} p on p.id = t.product_id and p.usage_metric = t.metric
    left join ${t('entitlements')} e on e.org_id = t.org_id and e.product_id = t.product_id and p.archived_at is null
    cross join lateral (select case when e.org_id is not null then ${cap} end as cap) c
    where t.period = ${monthOf(nowMs)}::date and t.livemode and t.quantity > 0`;

/**
 * Scans the month's totals once by their index; the Organizations found are then checked exactly, until the page is
 * full.
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

const RECENT_MS = 7 * DAY_MS;

/** Overdrawn, or burned credits in the last seven days and have none left. */
function outOfCredits(t: GroupTables, nowMs: number): SQL {
  const [now, recent] = [nowMs, nowMs - RECENT_MS].map(
    (ms) => sql`${new Date(ms).toISOString()}::timestamptz`,
  );
  return sql`select a.org_id as "orgId" from ${t('credit_accounts')} a where a.livemode and (
      cardinality(a.debtors) > 0
      or not exists (
        select from unnest(a.rests, a.starts, a.ends) as g (rest, start_at, end_at)
        where rest > 0 and start_at <= ${now} and end_at > ${now}
      ) and exists (
        select from ${t('credit_entries')} e
        where e.org_id = a.org_id and e.livemode and e.at > ${recent} and e.kind = 'burn' limit 1
      )
    )`;
}

/** The same Stripe customer pays for their usage. */
const sharers = (orgId: SQL): SQL =>
  sql`select other.slug, other.name from organizations own
    join organizations other on other.stripe_customer_id = own.stripe_customer_id and other.id <> own.id
    where own.id = ${orgId}`;

function toFacts(row: UsesRow | undefined, flags: Flag[]): CustomerFacts {
  const uses = (row?.uses ?? []).map(toUseView);
  // `uses` is sorted by share.
  const share = uses[0]?.share ?? 0;
  return {
    data: { uses, moreUses: (row?.count ?? 0) - uses.length },
    flags: [...flags, ...toFlags(share)],
  };
}

const outFlag: Flag = { tone: 'bad', label: 'Out of credits' };
const sharedFlag: Flag = { tone: 'warn', label: 'Shared Stripe customer' };

function toFlags(share: number): Flag[] {
  if (share >= 1) return [{ tone: 'bad', label: 'Over a cap' }];
  return share >= NEAR ? [{ tone: 'warn', label: 'Near a cap' }] : [];
}

function toUseView({ used, cap, ...product }: ProductUse) {
  if (cap === null) return { ...product, used, cap, share: undefined, percent: undefined };
  const share = Number(cap) > 0 ? Number(used) / Number(cap) : 1;
  return { ...product, used, cap, share, percent: formatShare(used, cap) };
}

const PANEL_PRODUCTS = 8;
const PANEL_SHARERS = 5;

/** Nearest to the cap first, with limits, 30 days of usage, and the latest problem with Stripe. */
async function readUsePanel({ db, clock }: Pick<Context, 'db' | 'clock'>, orgId: string) {
  const now = new Date(clock.now());
  const inEffect = await listCurrentUse(db.orm, orgId, { now, livemode: true, limit: PANEL_PRODUCTS + 1 });
  const shown = inEffect.slice(0, PANEL_PRODUCTS);
  const subjects = shown.map(({ productId, usageMetric }) => ({
    orgId,
    productId,
    livemode: true,
    metric: usageMetric,
  }));
  const limits = await readLimitViews(db, subjects, now.getTime());
  const period = parsePeriod('last30', {}, now);
  const productIds = shown.map(({ productId }) => productId);
  const days = await readProductSums(db.orm, orgId, { productIds, livemode: true, ...period });
  return {
    stripeProblem: await findStripeProblem(db.orm, 'org_id', orgId),
    sharers: await selectRows(
      db.orm,
      sql`${sharers(sql`${orgId}::uuid`)} order by other.slug limit ${PANEL_SHARERS}`,
    ),
    month: now,
    hasMoreProducts: inEffect.length > PANEL_PRODUCTS,
    products: shown.map((product, i) => ({
      ...product,
      cap: toCap(product),
      limits: limits[i] ?? [],
      trend: toUseTrend(
        product.usageMetric,
        days.filter(({ productId }) => productId === product.productId),
        period,
      ),
    })),
  };
}
