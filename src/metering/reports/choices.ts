import { findKey } from '../../accounts/api-keys/queries.js';
import { type Clock, monthOf } from '../../core/time.js';
import type { Orm } from '../../core/db/client.js';
import { AppError } from '../../core/errors.js';
import { toAddress, type Query } from '../../core/pages/address.js';
import type { FormFields } from '../../core/pages/form.js';
import { formatMonth, toNamedOptions } from '../../core/pages/format.js';
import type { EventScope } from '../events/event-queries.js';
import { findProduct, listProducts, type UsageProduct, type UsageScope } from '../events/page-queries.js';
import { modes, ranges, type Mode, type RangeKind } from '../events/page-schema.js';
import { asRange, formatPeriod, includes, neighbour, toPeriodQuery, type Period } from './period.js';

export const MAX_PRODUCTS = 100;

export interface PageDeps {
  orm: Orm;
  clock: Clock;
}

/** One more than a page lists, to show whether there are more. */
export function readProducts({ orm, clock }: PageDeps, orgId: string, mode: Mode): Promise<UsageProduct[]> {
  const scope = { orgId, period: monthOf(clock.now()), livemode: mode === 'live' };
  return listProducts(orm, scope, MAX_PRODUCTS + 1);
}

/** By slug; default: the first with usage this month, or else the first. Undefined if there are no products. */
export async function chooseProduct(
  orm: Orm,
  orgId: string,
  products: UsageProduct[],
  slug: string | undefined,
): Promise<UsageProduct | undefined> {
  if (slug === undefined) return products.find((product) => product.isUsedNow) ?? products[0];
  return (
    products.find((product) => product.slug === slug) ??
    (await findProduct(orm, orgId, slug)) ??
    refuseUnknown('product', 'is not a product of your Organization')
  );
}

/** Not found if there are no products, too. */
export async function requireProduct(
  deps: PageDeps,
  orgId: string,
  { product: slug, mode }: { product?: string | undefined; mode: Mode },
): Promise<UsageProduct> {
  const products = slug === undefined ? await readProducts(deps, orgId, mode) : [];
  const product = await chooseProduct(deps.orm, orgId, products, slug);
  if (!product) throw new AppError('not_found', 'Your Organization has no products yet.');
  return product;
}

export async function chooseKey(orm: Orm, orgId: string, id: string | undefined) {
  if (id === undefined) return undefined;
  return (await findKey(orm, orgId, id)) ?? refuseUnknown('key', 'is not an API key of your Organization');
}

export const scopeOf = (orgId: string, { id: productId }: UsageProduct, mode: Mode): UsageScope => ({
  orgId,
  productId,
  livemode: mode === 'live',
});

export const eventScopeOf = (orgId: string, products: readonly UsageProduct[], mode: Mode): EventScope => ({
  orgId,
  productIds: products.map(({ id }) => id),
  livemode: mode === 'live',
});

export const accountOf = (orgId: string, mode: Mode) => ({ orgId, livemode: mode === 'live' });

export async function* inOnePiece<T>(rows: T[]): AsyncGenerator<T[]> {
  yield rows;
}

/** Does not reveal whether it exists elsewhere. */
function refuseUnknown(field: string, detail: string): never {
  throw new AppError('not_found', `/${field} ${detail}.`, {
    errors: [{ pointer: `/${field}`, code: 'not_found', detail }],
  });
}

/** Undefined if there are too many: the user then types the slug. */
export function toProductOptions(products: UsageProduct[]) {
  if (products.length > MAX_PRODUCTS) return undefined;
  return toNamedOptions(products);
}

/** @param only if set, there is nothing to choose */
export const toModeTabs = (path: string, query: Query, current: Mode, only?: Mode) =>
  (only ? [] : modes).map((mode) => ({
    label: mode === 'live' ? 'Live' : 'Test',
    href: toAddress(path, { ...query, mode }),
    isCurrent: mode === current,
  }));

/** Links to ranges of days, which keep the other fields. */
export const toDayTabs = (path: string, given: Query, ranges: Record<'label' | 'from' | 'to', string>[]) =>
  ranges.map(({ label, ...days }) => ({
    label,
    href: toAddress(path, { ...given, ...days }),
    isCurrent: given.from === days.from && given.to === days.to,
  }));

export function toMonthOptions(months: readonly string[], chosen: Period | undefined, now: Date) {
  const shown = [now, ...(chosen?.range === 'month' ? [chosen.from] : [])].map((at) => at.toISOString());
  const values = new Set([...months, ...shown].map((text) => text.slice(0, 7)));
  return [...values]
    .toSorted()
    .toReversed()
    .map((value) => ({ value, label: formatMonth(new Date(`${value}-01T00:00:00Z`)) }));
}

const rangeLabels: Record<RangeKind, string> = {
  day: 'Day',
  last7: '7 days',
  last30: '30 days',
  month: 'Month',
  custom: 'Custom',
};

function toRangeTabs(path: string, period: Period, current: RangeKind, query: Query, now: Date) {
  return ranges.map((range) => ({
    label: rangeLabels[range],
    href: toAddress(path, { ...query, ...toPeriodQuery(asRange(period, range, now)) }),
    isCurrent: range === current,
  }));
}

function toNeighbours(path: string, period: Period, query: Query, now: Date) {
  const link = (to: Period | undefined) => to && toAddress(path, { ...query, ...toPeriodQuery(to) });
  const isAhead = includes(period, now) || period.from > now;
  return {
    previousHref: link(neighbour(period, -1)),
    nextHref: isAhead ? undefined : link(neighbour(period, 1)),
  };
}

/**
 * @param query as sent
 * @param kept fields that every link keeps
 */
export function toPeriodChoices(
  path: string,
  { mode, period }: { mode: Mode; period: Period },
  query: FormFields,
  kept: Query,
  now: Date,
  only?: Mode,
) {
  const range = ranges.find((range) => range === query.range) ?? 'month';
  return {
    range,
    mode,
    modes: toModeTabs(path, { ...kept, ...toPeriodQuery(period) }, mode, only),
    ranges: toRangeTabs(path, period, range, { ...kept, mode }, now),
    around: toNeighbours(path, period, { ...kept, mode }, now),
    periodName: formatPeriod(period),
  };
}
