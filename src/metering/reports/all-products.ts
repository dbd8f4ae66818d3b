import { formatEstimate } from '../../core/charts/stacked.js';
import { groupBy } from '../../core/collections.js';
import type { Orm } from '../../core/db/client.js';
import { compareDecimals, differenceOf, sumDecimals } from '../../core/decimal.js';
import { formatMonth, formatShare } from '../../core/pages/format.js';
import type { AccountId } from '../credit-grants/queries.js';
import {
  readProductParts,
  readProductSums,
  toKeySeries,
  type Narrowing,
  type ProductPart,
  type ProductSum,
  type UsageProduct,
} from '../events/page-queries.js';
import type { PageDeps } from './choices.js';
import { partPlaces, readBurns } from './credits/queries.js';
import { capsOf, toCap } from '../entitlements/caps.js';
import { includes, periodBefore, readBefore, stepsOf, type Period } from './period.js';
import { capReachedAt, toProjection } from './projection.js';
import {
  capitalise,
  changeSince,
  chartLinksOf,
  linksOf,
  toBeforeView,
  toChosen,
  toUsageChart,
} from './report-view.js';
import { capMonthOf, readAllEventSteps, type UsageReport, type UsageRequest } from './report.js';

type Sum = ProductSum & { credits: string };

/** A part has credits at the present prices. Undefined if these do not explain all that the period burned, or a subject’s cannot be read. */
async function readPriced(
  orm: Orm,
  id: AccountId,
  products: readonly UsageProduct[],
  range: Period,
  { showsCredits, part }: { showsCredits: boolean; part: Narrowing | undefined },
): Promise<Sum[] | undefined> {
  const { orgId, livemode } = id;
  const productIds = products.map((product) => product.id);
  const sums = await readProductSums(orm, orgId, { productIds, livemode, ...range, ...part });
  if (part?.subject !== undefined) {
    const steps = showsCredits ? await readSubjectCredits(orm, id, products, range, part) : [];
    if (!steps) return undefined;
    return sums.map((sum) => {
      const own = steps.filter(({ productId, start }) => productId === sum.productId && start === sum.start);
      return { ...sum, credits: sumDecimals(own.map(({ credits }) => credits)) };
    });
  }
  // Late usage burns credits on a day that may have no usage of its own.
  const burns = (showsCredits ? await readBurns(orm, id, range) : [])
    .filter(({ productId }) => productIds.includes(productId))
    .map(({ productId, start, burned, returned }) => {
      return { productId, start, credits: differenceOf(burned, returned) };
    });
  if (part) {
    const explained = sumDecimals(sums.map(({ wholeCredits = '0' }) => wholeCredits));
    if (showsCredits && explained !== sumDecimals(burns.map(({ credits }) => credits))) return undefined;
    return sums
      .filter(({ events }) => events !== '0')
      .map(({ credits = '0', ...sum }) => ({ ...sum, credits: showsCredits ? credits : '0' }));
  }
  const rows = new Map<string, Sum>();
  for (const { productId, start, ...sum } of [...sums, ...burns]) {
    const name = `${productId} ${start}`;
    const empty = { productId, start, quantity: '0', events: '0', credits: '0' };
    rows.set(name, { ...empty, ...rows.get(name), ...sum });
  }
  return [...rows.values()].toSorted((a, b) => a.start - b.start);
}

const MAX_POINTS = 20_000;

/** By product, step and subject, from the events. Undefined if these cannot be read in time. */
async function readSubjectCredits(
  orm: Orm,
  { orgId, livemode }: AccountId,
  products: readonly UsageProduct[],
  period: Period,
  part: Pick<Narrowing, 'subject'> = {},
) {
  const place = part.subject === undefined ? partPlaces.subject : undefined;
  const priced = products.filter(({ creditPrice, countsSubjects }) => creditPrice !== null && countsSubjects);
  const found = await Promise.all(
    priced.map(async ({ id: productId, usageMetric: metric }) => {
      const scope = { orgId, productId, livemode };
      const query = { ...period, metric, place, limit: MAX_POINTS };
      const steps = await readAllEventSteps(orm, scope, query, part);
      return steps?.map((step) => ({ ...step, productId }));
    }),
  );
  return found.every((steps) => steps !== undefined) ? found.flat() : undefined;
}

const largestFirst = (a: ProductRow, b: ProductRow): number =>
  compareDecimals(b.quantity, a.quantity) || Number(sumOf(b.own, 'events')) - Number(sumOf(a.own, 'events'));

/** Metrics differ, so the chart and the shares count credits, or events where no usage burned credits. */
export async function readAllProducts(
  { orm, clock }: PageDeps,
  id: AccountId,
  products: UsageProduct[],
  request: UsageRequest,
  { showsCredits, part, key }: Parameters<typeof readPriced>[4] & Pick<UsageReport, 'key'>,
) {
  const { period } = request;
  const now = new Date(clock.now());
  const priced = await readPriced(orm, id, products, period, { showsCredits, part });
  const sums = priced ?? (await readPriced(orm, id, products, period, { showsCredits: false, part }))!;
  const isExplained = showsCredits && priced !== undefined;
  const before = await readBefore(period, now, (range) =>
    readPriced(orm, id, products, range, { showsCredits: isExplained, part }),
  );
  /** In the chart, and those before it. */
  const daySums = [...(before?.rows ?? []), ...sums];
  // A filter that finds nothing keeps the measure.
  const burns = part && isExplained && sums.length === 0 ? await readBurns(orm, id, period) : [];
  const hasCredits =
    daySums.some(({ credits }) => credits !== '0') ||
    burns.some(({ burned, returned }) => burned !== returned);
  const unit: Unit = hasCredits ? 'credits' : 'events';
  const totalOf = (list: readonly Sum[]) => sumOf(list, unit);
  const capped = await readCaps(orm, id, products, { period, sums, daySums, part }, now);
  const rows = capped
    .map(({ product, cap }) => {
      const isOf = ({ productId }: Sum) => productId === product.id;
      const own = sums.filter(isOf);
      return { product, own, quantity: totalOf(own), earlier: before?.sameRows.filter(isOf) ?? [], cap };
    })
    .filter(({ own, earlier }) => own.length > 0 || earlier.length > 0)
    .sort(largestFirst);
  const total = totalOf(sums);
  const { by, stacks, series } = await readStack(orm, id, products, request, { part, unit, total });
  const toSteps = (list: readonly Sum[]) =>
    [...groupBy(list, ({ start }) => start)].map(([start, own]) => ({ start, quantity: totalOf(own) }));
  const projection = toProjection(toSteps(daySums), period, now);
  return {
    daySums,
    ...toChosen(request, key),
    csvHref: request.showsKeys ? linksOf(request)({}, `${request.path}.csv`) : undefined,
    isEmpty: sums.length === 0,
    combined: part && request.showsKeys ? toCombined(products, request) : [],
    stacks,
    unit,
    total,
    before: before && toBeforeView(before, totalOf, total),
    isExplained,
    projected: projection?.total && formatEstimate(projection.total),
    chart: toUsageChart({
      ...chartLinksOf(request),
      unit,
      by: by === 'key' ? 'API key' : by,
      series:
        series ??
        rows.map(({ product, own }) => {
          const byStart = new Map(own.map((sum) => [sum.start, sum[unit]]));
          return {
            name: product.name,
            values: stepsOf(period).map((at) => byStart.get(at.getTime()) ?? '0'),
          };
        }),
      before: before && { ...before, rows: toSteps(before.rows) },
      projection,
      now,
    }),
    caps: capsOf(
      capped.map(({ product: { slug, name, usageMetric }, cap }) => ({
        productSlug: slug,
        productName: name,
        usageMetric,
        cap: includes(period, now) ? cap : undefined,
      })),
    ),
    parts: rows.length > 0 ? [toPart(rows, unit, total, request, now)] : [],
  };
}

async function readCaps(
  orm: Orm,
  { orgId, livemode }: AccountId,
  products: readonly UsageProduct[],
  {
    period,
    sums,
    daySums,
    part,
  }: { period: Period; part: Narrowing | undefined } & Record<'sums' | 'daySums', readonly ProductSum[]>,
  now: Date,
) {
  const month = part ? undefined : capMonthOf(period, now);
  const range = { productIds: products.map((product) => product.id), livemode };
  const ofMonth =
    !month || month === period ? sums : await readProductSums(orm, orgId, { ...range, ...month });
  return products.map((product) => {
    const own = ofMonth.filter(({ productId }) => productId === product.id);
    const cap = month && toCap({ unitCap: product.unitCap, usedThisMonth: sumOf(own, 'quantity') });
    const days = daySums.filter(({ productId }) => productId === product.id);
    const pace = cap && toProjection(days, period, now);
    return {
      product,
      cap: cap && { ...cap, reachedAt: pace && capReachedAt(pace, Number(cap.unitCap)) },
    };
  });
}

/** Links to the products with subjects, with the same filters: there, an API key combines with a subject. */
export const toCombined = (products: readonly UsageProduct[], request: UsageRequest) =>
  products
    .filter(({ countsSubjects }) => countsSubjects)
    .slice(0, 5)
    .map(({ slug, name }) => ({ name, href: linksOf(request)({ product: slug, by: '' }) }));

interface Whole {
  unit: Unit;
  total: string;
}

/** Divides the chart. With a filter, it is divided only by product. */
async function readStack(
  orm: Orm,
  id: AccountId,
  products: readonly UsageProduct[],
  request: UsageRequest,
  { part, ...whole }: Whole & { part: Narrowing | undefined },
) {
  const names = [
    'product',
    ...(part || !request.showsKeys ? [] : ['key']),
    ...(!part && products.some(({ countsSubjects }) => countsSubjects) ? ['subject'] : []),
  ];
  const wanted = names.find((name) => name === request.by);
  const isPart = wanted === 'key' || wanted === 'subject';
  const series = isPart ? await readPartSeries(orm, id, products, request.period, wanted, whole) : undefined;
  const by = series ? wanted : 'product';
  const link = linksOf(request);
  const stacks = names.map((name) => ({
    label: name === 'key' ? 'API key' : capitalise(name),
    href: link({ by: name === 'product' ? '' : name }),
    isCurrent: name === by,
  }));
  return { by, stacks, series };
}

/** Undefined if credits by part are not known, or do not add up. */
async function readPartSeries(
  orm: Orm,
  id: AccountId,
  products: readonly UsageProduct[],
  period: Period,
  kind: ProductPart['kind'],
  { unit, total }: Whole,
) {
  const { livemode } = id;
  const productIds = products.map((product) => product.id);
  const range = { productIds, livemode, ...period, limit: MAX_POINTS };
  const rows = await readProductParts(orm, id.orgId, range);
  const ofKind = (wanted: ProductPart['kind']) => rows.filter((row) => row.kind === wanted);
  const isOfEvents = kind === 'subject' && unit === 'credits';
  const costs = isOfEvents ? await readSubjectCredits(orm, id, products, period) : undefined;
  const amountOf = (list: readonly Pick<ProductPart, Unit>[]) =>
    sumDecimals(list.map((row) => row[unit] ?? '0'));
  const isWhole = rows.length < MAX_POINTS && compareDecimals(amountOf(ofKind('key')), total) === 0;
  if (!isWhole || (isOfEvents && !costs)) return undefined;
  const steps = stepsOf(period);
  const parts: Omit<ProductPart, 'kind' | 'productSlug'>[] =
    costs?.map((step) => ({ ...step, value: step.value!, keyName: step.value, keyPrefix: null })) ??
    ofKind(kind);
  const sums = [...groupBy(parts, ({ value, start }) => `${start} ${value}`).values()].map((own) => {
    const { value, keyName, keyPrefix, start } = own[0]!;
    return {
      apiKeyId: value,
      keyName: kind === 'subject' ? value : keyName,
      keyPrefix,
      start: new Date(start!).toISOString(),
      quantity: amountOf(own),
    };
  });
  const series = toKeySeries(sums, steps).map(({ name, quantities }) => ({ name, values: quantities }));
  const rest = steps.map((at, i) => {
    const whole = amountOf(ofKind('key').filter(({ start }) => start === at.getTime()));
    return differenceOf(whole, sumDecimals(series.map(({ values }) => values[i]!)));
  });
  return rest.every((quantity) => quantity === '0')
    ? series
    : [...series, { name: 'No subject', values: rest, isLast: true }];
}

/** That a page reads without being asked for a subject. */
const MAX_EVENTS = 100_000;

/** Over all products, by API key and by subject. Credits at the present prices are shown only if they add up to the total. */
export async function readWholeParts(
  { orm, clock }: PageDeps,
  id: AccountId,
  products: readonly UsageProduct[],
  request: UsageRequest,
  { part, showsCredits }: Parameters<typeof readPriced>[4],
) {
  const eventsOf = (list: readonly ProductPart[]) => sumDecimals(list.map(({ events }) => events));
  const readRange = async (range: Period) => {
    const of = { productIds: products.map((product) => product.id), livemode: id.livemode };
    const { from, to } = range;
    const rows = await readProductParts(orm, id.orgId, { ...of, from, to, limit: MAX_PARTS });
    const ofKind = (kind: ProductPart['kind']) => rows.filter((row) => row.kind === kind);
    const isReadable =
      showsCredits && ofKind('subject').length > 0 && Number(eventsOf(ofKind('key'))) <= MAX_EVENTS;
    const costs = isReadable ? await readSubjectCredits(orm, id, products, range) : undefined;
    return { ofKind, costs, credits: sumDecimals(rows.map((row) => row.credits ?? '0')) };
  };
  const same = periodBefore(request.period, new Date(clock.now()));
  const [{ ofKind, costs, credits }, earlier] = await Promise.all([
    readRange(request.period),
    same && readRange(same),
  ]);
  const link = linksOf(request);
  return (report: Whole & { isExplained: boolean; before: Pick<Whole, 'total'> | undefined }) => {
    const hasCredits = part
      ? report.isExplained && credits !== '0'
      : report.unit === 'credits' && compareDecimals(credits, report.total) === 0;
    return (['key', 'subject'] as const).flatMap((kind) => {
      const own = ofKind(kind);
      if (own.length === 0 || (kind === 'key' && !request.showsKeys)) return [];
      // The stored sums of a key are not divided by subject, nor those of a subject by key.
      if (part && (kind === 'key' ? !part.apiKeyIds : part.apiKeyIds)) return [];
      const isChosen = (value: string) =>
        value === part?.subject || part?.apiKeyIds?.includes(value) === true;
      const isPriced = hasCredits && (kind === 'key' || costs !== undefined);
      const amountOf = (list: readonly Amount[]) =>
        sumDecimals(list.map((row) => (isPriced ? (row.credits ?? '0') : row.events)));
      const isOfEvents = kind === 'subject' && isPriced;
      const toAmounts = (list: readonly Amount[]) =>
        new Map([...groupBy(list, ({ value }) => value)].map(([value, of]) => [value, amountOf(of)]));
      const amounts = toAmounts(isOfEvents ? costs! : own);
      const isSum = !isPriced || part || earlier?.credits === report.before?.total;
      const known = isOfEvents ? earlier?.costs : earlier?.ofKind(kind);
      const before = known && report.before && (isSum || isOfEvents) ? toAmounts(known) : undefined;
      const sums = [...groupBy(own, ({ value }) => value)]
        .map(([value, of]) => ({ value, of, first: of[0]!, quantity: amounts.get(value) ?? '0' }))
        .sort((a, b) => compareDecimals(b.quantity, a.quantity));
      const ofKeys = amountOf(ofKind('key'));
      const listed = sumDecimals(sums.map(({ quantity }) => quantity));
      const whole = compareDecimals(ofKeys, listed) > 0 ? ofKeys : listed;
      const was = before && isSum && ([amountOf(earlier!.ofKind('key')), amountOf(known!)] as const);
      const rest = {
        value: 'No subject',
        ...changeOfRest([whole, listed], was),
        ...(isPriced && { events: differenceOf(eventsOf(ofKind('key')), eventsOf(own)) }),
      };
      return {
        name: kind === 'key' ? 'API key' : 'subject',
        more: Math.max(0, sums.length - MAX_ROWS),
        columns: isPriced ? ['Credits', 'Events', 'Share of credits'] : ['Events', 'Share of events'],
        rows: [
          ...sums.slice(0, MAX_ROWS).map(({ value, of, first: { keyName, keyPrefix }, quantity }) => ({
            id: value,
            isCurrent: isChosen(value),
            value: kind === 'subject' ? value : (keyName ?? 'Operator'),
            code: keyPrefix && `${keyPrefix}…`,
            href:
              kind === 'key' && keyName === null ? undefined : link({ [kind]: isChosen(value) ? '' : value }),
            quantity,
            ...(before && changeSince(quantity, before.get(value))),
            ...(isPriced && { events: eventsOf(of) }),
          })),
          ...(rest.quantity === '0' ? [] : [rest]),
        ].map((row) => ({ ...row, share: formatShare(row.quantity, whole) })),
      };
    });
  };
}

type WholeAndListed = readonly [string, string];

const changeOfRest = (now: WholeAndListed, before: WholeAndListed | false | undefined) => ({
  quantity: differenceOf(...now),
  ...(before && changeSince(differenceOf(...now), differenceOf(...before))),
});

const MAX_ROWS = 20;
type Amount = Pick<ProductPart, 'credits' | 'events'> & { value: string | null };

/** More than a page lists, in all products. */
const MAX_PARTS = 2_000;

type Unit = 'credits' | 'events';

const sumOf = <Name extends Unit | 'quantity'>(list: readonly Record<Name, string>[], what: Name): string =>
  sumDecimals(list.map((sum) => sum[what]));

interface ProductRow {
  product: UsageProduct;
  own: Sum[];
  quantity: string;
  earlier: Sum[];
  cap: ReturnType<typeof toCap>;
}

function toPart(rows: readonly ProductRow[], unit: Unit, total: string, request: UsageRequest, now: Date) {
  const link = linksOf(request);
  // Beside the quantity of another period.
  const capName =
    request.period.range === 'month' ? 'the cap' : `${formatMonth(now).replace(/ \d+$/, '')}’s cap`;
  return {
    name: 'product',
    more: 0,
    columns: ['Quantity', unit === 'credits' ? 'Credits' : 'Events', `Share of ${unit}`],
    rows: rows.map(({ product, own, earlier, quantity, cap }) => ({
      cap,
      capShare: cap && `${formatShare(cap.used, cap.unitCap)} of ${capName}`,
      value: product.name,
      href: link({ product: product.slug, by: '' }),
      quantity: sumOf(own, 'quantity'),
      unit: product.usageMetric,
      [unit]: quantity,
      ...changeSince(quantity, sumOf(earlier, unit)),
      // Without a price, usage costs nothing.
      isFree: unit === 'credits' && product.creditPrice === null && quantity === '0',
      share: formatShare(quantity, total),
    })),
  };
}
