import type { Clock } from '../core/clock.js';
import type { Orm } from '../core/db/client.js';
import { AppError } from '../core/errors.js';
import { toAddress, type Query } from '../core/pages/address.js';
import { monthOf } from '../core/time.js';
import { findProduct, listProducts, type UsageProduct } from './page-queries.js';
import { modes, ranges, type Mode, type RangeKind } from './page-schema.js';
import { asRange, includes, monthPeriod, neighbour, toPeriodQuery, type Period } from './period.js';

/** The products that a page lets choose from at most. */
export const MAX_PRODUCTS = 100;

/** One product more than a page lists tells that there are more. */
export function readProducts(
  { orm, clock }: { orm: Orm; clock: Clock },
  orgId: string,
  mode: Mode,
): Promise<UsageProduct[]> {
  const scope = { orgId, period: monthOf(clock.now()), livemode: mode === 'live' };
  return listProducts(orm, scope, MAX_PRODUCTS + 1);
}

/**
 * The product of that slug, or the first one with usage this month, or the first one.
 * @throws AppError not_found that names the field
 */
export async function chooseProduct(
  orm: Orm,
  orgId: string,
  products: UsageProduct[],
  slug: string | undefined,
): Promise<UsageProduct | undefined> {
  if (slug === undefined) return products.find((product) => product.isUsedNow) ?? products[0];
  const listed = products.find((product) => product.slug === slug);
  return (
    listed ?? (await findProduct(orm, orgId, slug)) ?? notThere('product', 'is not one of your Organization')
  );
}

/** Refuses what an address names for not being the Organization's: the answer does not say whether it is another's. */
export function notThere(field: string, detail: string): never {
  throw new AppError('not_found', `/${field} ${detail}.`, {
    errors: [{ pointer: `/${field}`, code: 'not_found', detail }],
  });
}

/** The choice as a field shows it: undefined if there are too many, then the slug is typed. */
export function toProductOptions(products: UsageProduct[]) {
  if (products.length > MAX_PRODUCTS) return undefined;
  // A name in another direction of writing must not turn the slug behind it around.
  return products.map(({ slug, name }) => ({ value: slug, label: `\u2068${name}\u2069 (${slug})` }));
}

export const toModeTabs = (path: string, query: Query, current: Mode) =>
  modes.map((mode) => ({
    label: mode === 'live' ? 'Live' : 'Test',
    href: toAddress(path, { ...query, mode }),
    isCurrent: mode === current,
  }));

const rangeLabels: Record<RangeKind, string> = {
  day: 'Day',
  last7: 'Last 7 days',
  last30: 'Last 30 days',
  month: 'Month',
  custom: 'Custom range',
};

export function toRangeTabs(path: string, period: Period, current: RangeKind, query: Query, now: Date) {
  return ranges.map((range) => ({
    label: rangeLabels[range],
    href: toAddress(path, { ...query, ...toPeriodQuery(asRange(period, range, now)) }),
    isCurrent: range === current,
  }));
}

/** The ways to the period before and after, and back to this month. */
export function toNeighbours(path: string, period: Period, query: Query, now: Date) {
  const link = (to: Period | undefined) => to && toAddress(path, { ...query, ...toPeriodQuery(to) });
  const isAhead = includes(period, now) || period.from > now;
  const isThisMonth = period.range === 'month' && includes(period, now);
  return {
    previousHref: link(neighbour(period, -1)),
    nextHref: isAhead ? undefined : link(neighbour(period, 1)),
    thisMonthHref: isThisMonth ? undefined : link(monthPeriod(now)),
  };
}
