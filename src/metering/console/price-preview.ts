import { sql, type SQL } from 'drizzle-orm';
import { groupBy } from '../../core/collections.js';
import type { Database, GroupTables, Orm } from '../../core/db/client.js';
import { compareDecimals, minDecimal, sumDecimals } from '../../core/decimal.js';
import { monthOf, monthRange } from '../../core/time.js';
import { OTHER_SQL, SEPARATOR_SQL } from '../entitlements/dimensions.js';
import { toCreditPrice, type CreditPrice } from '../entitlements/price.js';
import type { Product } from '../entitlements/queries.js';
import { readProducts } from '../plans/plans.js';
import { grantsOf } from '../plans/grants.js';
import { findPlan, listOrganizationsOn, listVersions } from '../plans/queries.js';
import type { Definition, PlanGrant } from '../plans/schema.js';
import { formatDecimal } from '../../core/pages/format.js';
import { compareLimits, listChanges } from '../plans/view.js';
import { namePeriod, nameWindow } from '../window-name.js';
import { readLimitViews } from '../entitlements/limit-view.js';

/** Those with the most usage in the month. */
const MAX_CUSTOMERS = 500;
const SHOWN_CUSTOMERS = 20;

/** Decimals are text, which keeps all their digits. */
type Costs = Record<'quantity' | 'before' | 'after', string>;

interface PreviewRow extends Costs {
  /** Null unless the row is a customer's. */
  slug: string | null;
  name: string | null;
  /** Null for all values without a price of their own. */
  value: string | null;
  kind: 'customer' | 'value' | 'total';
  customers: number;
  /** In combinations of dimensions beyond the limit, which have no sums by value. */
  unknown: string;
}

interface Asked {
  product: Product;
  /** First day of the month. */
  period: string;
  after: CreditPrice | null;
}

const pricesOf = (price: CreditPrice | null): string => JSON.stringify(price?.by?.prices ?? {});

/**
 * A row for each customer, for each value with its own price, and for the total. Reads hourly sums only of the
 * customers with the most usage.
 */
export function selectPreview({ product, period, after }: Asked, t: GroupTables): SQL {
  const before = toCreditPrice(product);
  const { start, end } = monthRange(period);
  const dimensions = [before, after].map((price) => price?.by?.dimension);
  const value = (dimension: string | undefined): SQL =>
    dimension === undefined
      ? sql`null::text`
      : sql`split_part(dimensions, ${sql.raw(SEPARATOR_SQL)}, ${product.dimensions.indexOf(dimension) + 1}::int)`;
  const costOf = (price: CreditPrice | null, column: SQL) =>
    sql`quantity * coalesce((${pricesOf(price)}::jsonb ->> ${column})::numeric, ${price?.price ?? '0'}::numeric)`;
  return sql`
    with customer as materialized (
      select org_id, count(*) over () as customers from ${t('usage_totals')}
      where period = ${period}::date and livemode and product_id = ${product.id}::uuid and metric = ${product.usageMetric} and quantity > 0
      order by quantity desc, org_id
      limit ${MAX_CUSTOMERS}
    ), sums as (
      select c.org_id, c.customers, h.* from customer c
      cross join lateral (
        select ${value(dimensions[0])} as old_value, ${value(dimensions[1])} as new_value, dimensions = ${sql.raw(OTHER_SQL)} as is_unknown,
          sum(quantity) as quantity
        from ${t('usage_hours')}
        where org_id = c.org_id and product_id = ${product.id}::uuid and livemode and metric = ${product.usageMetric}
          and hour >= ${start}::timestamptz and hour < ${end}::timestamptz
        group by 1, 2, 3
      ) h
    ), priced as (
      select org_id, customers, quantity, case when ${pricesOf(after)}::jsonb ? new_value then new_value end as value,
        ${costOf(before, sql`old_value`)} as before, ${costOf(after, sql`new_value`)} as after, case when is_unknown then quantity else 0 end as unknown
      from sums
    ), ranked as (
      select org_id, value, grouping(org_id, value) as grouped, max(customers) as customers, sum(quantity) as quantity, sum(before) as before,
        sum(after) as after, sum(unknown) as unknown,
        row_number() over (partition by grouping(org_id, value) order by sum(after) desc, sum(quantity) desc, org_id, value) as place
      from priced group by grouping sets ((org_id), (value), ())
    )
    select o.slug, o.name, r.value, case r.grouped when 1 then 'customer' when 2 then 'value' else 'total' end as kind,
      r.customers::int, trim_scale(r.quantity)::text as quantity, trim_scale(r.before)::text as before, trim_scale(r.after)::text as after,
      trim_scale(r.unknown)::text as unknown
    from ranked r
    left join lateral (select slug, name from ${t('organizations')} where id = r.org_id limit 1) o on true
    where r.customers is not null and (r.grouped <> 1 or r.place <= ${SHOWN_CUSTOMERS})
    order by r.grouped, r.place`;
}

/** Live usage, at today's price and at another. */
export async function readPreview({ shards }: Pick<Database, 'shards'>, asked: Asked) {
  const rows = (
    await Promise.all(shards.groups.map((group) => group.select<PreviewRow>((t) => selectPreview(asked, t))))
  ).flat();
  const of = (kind: PreviewRow['kind']) => rows.filter((row) => row.kind === kind);
  const byValue = groupBy(of('value'), ({ value }) => value);
  const customers = of('total').map((row) => Math.min(row.customers, MAX_CUSTOMERS));
  return {
    month: new Date(monthRange(asked.period).start),
    customers: of('customer').toSorted(byCost).slice(0, SHOWN_CUSTOMERS),
    values: [...byValue].map(([value, own]) => ({ value, ...sumCosts(own) })).toSorted(byCost),
    total: sumCosts(of('total')),
    unknown: sumDecimals(of('total').map(({ unknown }) => unknown)),
    /** The second is the number included in the sums. */
    customerCount: of('total').reduce((sum, row) => sum + row.customers, 0),
    countedCustomers: customers.reduce((sum, count) => sum + count, 0),
  };
}

const byCost = (a: Costs, b: Costs): number =>
  compareDecimals(b.after, a.after) || compareDecimals(b.quantity, a.quantity);

const sumCosts = (rows: readonly Costs[]): Costs => ({
  quantity: sumDecimals(rows.map((row) => row.quantity)),
  before: sumDecimals(rows.map((row) => row.before)),
  after: sumDecimals(rows.map((row) => row.after)),
});

/** A product of a plan's version, before and after the change. Null is unlimited. */
interface Allowance {
  version: number;
  product: string;
  before: string | null;
  after: string | null;
  isNew: boolean;
  isGone: boolean;
}

interface EffectRow extends Allowance {
  slug: string;
  name: string;
  metric: string;
  quantity: string;
  /** Customers that exceed a cap or lose a product, shown or not. */
  over: number;
}

type Used = Pick<EffectRow, 'isGone' | 'quantity' | 'after'>;

/** The lowest of the cap and the limits of a calendar month. */
function allowancesOf({ entitlements }: Definition, products: Map<string, Product>) {
  return new Map(
    entitlements.map(({ productSlug, unitCap = products.get(productSlug)!.unitCap, limits = [] }) => {
      const monthly = limits.filter(({ window, per }) => window === 'calendar_month' && !per);
      const most = [...(unitCap === null ? [] : [unitCap]), ...monthly.map(({ quantity }) => quantity)];
      return [productSlug, most.length === 0 ? null : most.reduce(minDecimal)] as const;
    }),
  );
}

/** An entitlement that was set by hand stays. */
const selectEffect = (
  plan: string,
  period: string,
  allowances: (Allowance & { productId: string })[],
  t: GroupTables,
): SQL =>
  sql`with found as (select o.slug, o.name, op.version, p.name as product, p.usage_metric as metric, a.before, a.after, a."isNew", a."isGone",
      u.quantity, a."isGone" or u.quantity > a.after as is_over
    from ${t('organization_plans')} op
    join ${t('organizations')} o on o.id = op.org_id
    join json_to_recordset(${JSON.stringify(allowances)}::json)
      as a (version int, "productId" uuid, before numeric, after numeric, "isNew" bool, "isGone" bool) on a.version = op.version
    join ${t('products')} p on p.id = a."productId"
    left join ${t('entitlements')} e on e.org_id = op.org_id and e.product_id = p.id
    left join ${t('usage_totals')} t
      on t.org_id = op.org_id and t.period = ${period}::date and t.livemode and t.product_id = p.id and t.metric = p.usage_metric
    cross join lateral (select coalesce(t.quantity, 0) as quantity) u
    where ${t.owns(sql`op.org_id`)} and op.plan = ${plan} and op.ended_at is null and o.archived_at is null
      and (e.org_id is null or e.plan is not null))
    select slug, name, version, product, metric, before::text, after::text, "isNew", "isGone", trim_scale(quantity)::text as quantity,
      (select count(distinct slug) from found where is_over)::int as over
    from found
    order by "isGone" and quantity > 0 desc, quantity / nullif(after, 0) desc nulls last, quantity desc, slug, product
    limit ${SHOWN_CUSTOMERS}`;

const writeCredits = (grants: readonly PlanGrant[]): string =>
  grants.map(({ amount, every }) => `${formatDecimal(amount)} each ${every}`).join(', ') || 'None';

/** Quantities that change, of all usage in windows other than the calendar month, which is beside the cap. */
const listLimits = (before: Definition, after: Definition) =>
  after.entitlements.flatMap(({ productSlug, limits }) =>
    compareLimits(before.entitlements.find((one) => one.productSlug === productSlug)?.limits, limits).flatMap(
      ({ was, will }) =>
        was && will && !will.per && will.window !== 'calendar_month'
          ? [{ productSlug, window: will.window, before: was.quantity, after: will.quantity }]
          : [],
    ),
  );

/** Moving the plan's customers to the definition: its changes for each version, and this month's live usage beside it. */
export async function readPlanEffect(
  { orm, shards }: Pick<Database, 'shards'> & { orm: Orm },
  plan: string,
  after: Definition,
  nowMs: number,
) {
  const used = (await listVersions(orm, [plan], true)).filter(({ organizations }) => organizations > 0);
  const versions = [];
  for (const row of used) {
    const before = (await findPlan(orm, plan, row.version))!.definition;
    const changes = await listChanges(orm, before, after);
    if (changes.length > 0) versions.push({ ...row, before, changes });
  }
  const on = await listOrganizationsOn(orm, plan, { after: undefined, limit: MAX_CUSTOMERS });
  const befores = new Map(versions.map(({ version, before }) => [version, before]));
  const customers = on.filter(({ archivedAt, row }) => archivedAt === null && befores.has(row.version));
  const slugs = [after, ...versions.map(({ before }) => before)].flatMap(({ entitlements }) =>
    entitlements.map(({ productSlug }) => productSlug),
  );
  const products = await readProducts(orm, slugs);
  const wanted = allowancesOf(after, products);
  const allowances = versions.flatMap(({ version, before }) => {
    const current = allowancesOf(before, products);
    return [...new Set([...current.keys(), ...wanted.keys()])].flatMap((slug) => {
      const [isNew, isGone] = [!current.has(slug), !wanted.has(slug)];
      const [was, will] = [current.get(slug) ?? null, wanted.get(slug) ?? null];
      const product = products.get(slug)!;
      if (!isNew && !isGone && was === will) return [];
      return [{ version, product: slug, productId: product.id, before: was, after: will, isNew, isGone }];
    });
  });
  const period = monthOf(nowMs);
  const groups = await Promise.all(
    shards.groups.map((group) => group.select<EffectRow>((t) => selectEffect(plan, period, allowances, t))),
  );
  const limited = [];
  for (const { organization: slug, name, row } of customers.slice(0, SHOWN_CUSTOMERS))
    for (const change of listLimits(befores.get(row.version)!, after)) {
      const product = products.get(change.productSlug)!;
      const own = { orgId: row.orgId, productId: product.id, livemode: true, metric: product.usageMetric };
      const [states = []] = await readLimitViews({ shards }, [own], nowMs);
      const state = states.find(
        ({ window, quantity }) => window === nameWindow(change.window) && quantity === change.before,
      );
      if (state)
        limited.push({
          ...change,
          slug,
          name,
          product: `${product.name}, ${namePeriod(change.window)}`,
          quantity: state.used,
          metric: product.usageMetric,
          isNew: false,
          isGone: false,
        });
    }
  const isOver = ({ isGone, quantity, after: most }: Used) =>
    isGone || (most !== null && compareDecimals(quantity, most) > 0);
  const counted = new Set(groups.flat().flatMap((row) => (isOver(row) ? row.slug : [])));
  const alsoOver = new Set(limited.flatMap((row) => (isOver(row) && !counted.has(row.slug) ? row.slug : [])));
  const share = ({ quantity, after: most, isGone }: Used) =>
    isGone && quantity !== '0' ? Infinity : Number(quantity) / Number(most ?? Infinity);
  return {
    month: new Date(monthRange(period).start),
    versions,
    customers: customers
      .map(({ organization: slug, name, row }) => ({
        slug,
        name,
        version: row.version,
        before: writeCredits(grantsOf(befores.get(row.version)!, row)),
        after: writeCredits(grantsOf(after, row)),
      }))
      .filter((one) => one.before !== one.after)
      .slice(0, SHOWN_CUSTOMERS),
    rows: [...groups.flat(), ...limited].toSorted((a, b) => share(b) - share(a)).slice(0, SHOWN_CUSTOMERS),
    over: groups.reduce((sum, [first]) => sum + (first?.over ?? 0), 0) + alsoOver.size,
  };
}
