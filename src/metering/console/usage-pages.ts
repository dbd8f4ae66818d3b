import type { Router } from 'express';
import { z } from 'zod';
import { compareDecimals, sumDecimals } from '../../core/decimal.js';
import { toCursor } from '../../core/http/page.js';
import { dayField, text } from '../../core/http/validate.js';
import { toAddress, toPager } from '../../core/pages/address.js';
import { sendCsv } from '../../core/pages/csv.js';
import { fieldError, type FormFields, parseQueryForm, readQuery, tryQuery } from '../../core/pages/form.js';
import { toNamedOptions, toNames } from '../../core/pages/format.js';
import { renderPage, pageRouter } from '../../core/pages/layout.js';
import { DAY_MS } from '../../core/time.js';
import { findProduct, listProducts } from '../entitlements/queries.js';
import { slugSchema } from '../../accounts/identity/operator/schema.js';
import { findOrganization, listOrganizations } from '../../accounts/identity/organizations/queries.js';
import { listCustomers } from '../../console/customer-queries.js';
import { granularities, listCustomerUsage, type CustomerUsage } from '../reports/operator/queries.js';
import { present, readSteps, toUsageCsv } from '../reports/operator/steps.js';
import { toDayTabs, toModeTabs } from '../reports/choices.js';
import { closingOf } from '../reports/closing.js';
import { daysOf, monthPeriod } from '../reports/period.js';
import { mode } from '../events/page-schema.js';
import { addressOf, CONSOLE, decodeKey, PAGE_SIZE, type ConsoleDeps } from '../../console/page.js';
import { kinds, readUsageChart, type NameOf } from './usage-chart.js';

const USAGE = `${CONSOLE}/usage`;

/** Beyond it, the page offers a search instead. */
const MAX_OPTIONS = 200;
/** Named in an error. */
const MAX_MATCHES = 20;

/** The file has all rows. */
const MAX_ROWS = 5_000;
/** The position of a page's first row. */
const positionSchema = z.string().regex(/^\d{1,4}$/);

const sorts = ['customer', 'product', 'quantity', 'events', 'credits'] as const;

const querySchema = z.object({
  from: dayField,
  to: dayField,
  granularity: z.enum(granularities, 'must be one of the options'),
  mode,
  by: z.enum(kinds, 'must be product or organization').optional(),
  sum: z.literal('1', 'must be 1').optional(),
  organization: text(254).optional(),
  product: text(200).optional(),
  sort: z
    .enum(sorts.flatMap((sort) => [sort, `-${sort}` as const]))
    .optional()
    .catch(undefined),
  cursor: z.string().optional(),
});

export function customerUsagePages(deps: ConsoleDeps): Router {
  const { db, clock, log } = deps;
  const router = pageRouter();

  router.get('/usage', async (req, res) => {
    const query = readQuery(req);
    const customers = await listOrganizations(db.orm, { after: undefined, limit: MAX_OPTIONS });
    const products = await listProducts(db.orm, { after: undefined, limit: MAX_OPTIONS });
    const names = { organization: toNames(customers), product: toNames(products) };
    const nameOf: NameOf = (kind, slug) => names[kind].get(slug) ?? slug;
    const { form, result } = await tryQuery(res, query, async () =>
      readResult(deps, await readRequest(deps, query), nameOf),
    );
    const page = { view: 'metering/console/usage', title: 'Usage', section: 'usage' };
    const values = { ...thisMonth(clock.now()), ...form.values, ...result?.chosen };
    const links = toLinks(values);
    await renderPage(deps, req, res, page, {
      form: { ...form, values },
      closing: closingOf(monthPeriod(new Date(clock.now())), false, new Date(clock.now())).who,
      presets: toPresets(links, clock.now()),
      modes: toModeTabs(USAGE, links, values.mode === 'test' ? 'test' : 'live'),
      customerOptions: toOptions(customers, 'All customers'),
      productOptions: toOptions(products, 'All products'),
      result,
    });
  });

  router.get('/usage.csv', async (req, res) => {
    const { range } = await readRequest(deps, readQuery(req));
    await sendCsv(log, req, res, toUsageCsv(db, range));
  });

  return router;
}

/** Defaults: this month's totals in live mode. A search may match several customers or products. */
async function readRequest(deps: ConsoleDeps, query: FormFields) {
  const { cursor, ...given } = parseQueryForm(querySchema, { ...thisMonth(deps.clock.now()), ...query });
  const { granularity } = given;
  if (given.to < given.from) throw fieldError('to', 'must not be before the first day');
  const days = { from: new Date(given.from), to: new Date(Date.parse(given.to) + DAY_MS) };
  if (granularity === 'month' && days.to.getUTCDate() !== 1)
    throw fieldError('to', 'must be the last day of a month');
  const steps = readSteps({ ...days, granularity, livemode: given.mode === 'live' }, fieldError);
  const customer = await readCustomer(deps, given.organization);
  const product = await readProduct(deps, given.product);
  const { organization: _organization, product: _product, ...others } = given;
  const chosen = {
    ...others,
    ...(customer && { organization: customer.slug }),
    ...(product && { product: product.slug }),
  };
  const range = { ...steps, orgId: customer?.id, productId: product?.id };
  return { chosen, cursor, range, customer, product };
}

async function readResult(
  { db, clock }: ConsoleDeps,
  { chosen, cursor, range, customer, product }: Awaited<ReturnType<typeof readRequest>>,
  nameOf: NameOf,
) {
  const found = await listCustomerUsage(db, { ...range, after: undefined, limit: MAX_ROWS });
  const total = sumDecimals(found.map(({ credits }) => credits));
  const hasCredits = found.some(({ credits }) => Number(credits) !== 0);
  const isTotal = range.granularity === 'total';
  const sort = chosen.sort ?? (isTotal && hasCredits ? '-credits' : undefined);
  const start = Number(decodeKey(cursor, positionSchema) ?? 0);
  const page = sortRows(found, sort, nameOf).slice(start, start + PAGE_SIZE);
  const nextCursor = start + PAGE_SIZE < found.length ? toCursor(String(start + PAGE_SIZE)) : undefined;
  const hasChart = page.length > 0 && cursor === undefined;
  return {
    chosen,
    customer,
    product,
    granularity: range.granularity,
    rows: page.map((row) => ({
      ...present(row, range),
      customerName: nameOf('organization', row.organization),
      productName: nameOf('product', row.product),
      href: addressOf(row.organization),
      productHref: toAddress(USAGE, { ...chosen, product: row.product }),
      share: Number(row.credits) / Number(total),
    })),
    total: isTotal && hasCredits ? total : undefined,
    isCut: found.length === MAX_ROWS,
    orderOf: (column: Sort) => ({
      order: sort === column ? 'ascending' : sort === `-${column}` ? 'descending' : undefined,
      href: toAddress(USAGE, { ...chosen, sort: nextSort(column, sort) }),
    }),
    hasChart,
    hasCredits,
    drawn: hasChart
      ? await readUsageChart(db, range, {
          customer,
          product,
          by: chosen.by,
          isSum: chosen.sum === '1',
          nameOf,
          linkTo: (change) => toAddress(USAGE, { ...chosen, ...change }),
          now: new Date(clock.now()),
        })
      : undefined,
    csvHref: toAddress(`${USAGE}.csv`, chosen),
    pager: toPager(USAGE, chosen, { cursor, nextCursor }),
  };
}

type Sort = (typeof sorts)[number];

const isName = (sort: Sort): sort is 'customer' | 'product' => sort === 'customer' || sort === 'product';

/** Names begin with A, figures with the largest. */
function nextSort(sort: Sort, current: string | undefined): string {
  const [first, second] = isName(sort) ? [sort, `-${sort}`] : [`-${sort}`, sort];
  return current === first ? second : first;
}

/** Without a sort, the rows stay in order of slug and time. */
function sortRows(
  rows: CustomerUsage[],
  sort: Sort | `-${Sort}` | undefined,
  nameOf: NameOf,
): CustomerUsage[] {
  if (sort === undefined) return rows;
  const column = sort.replace('-', '') as Sort;
  const nameIn = (row: CustomerUsage) =>
    column === 'customer' ? nameOf('organization', row.organization) : nameOf('product', row.product);
  const compare = (a: CustomerUsage, b: CustomerUsage): number =>
    isName(column) ? nameIn(a).localeCompare(nameIn(b), 'en') : compareDecimals(a[column], b[column]);
  return rows.toSorted((a, b) => (sort === column ? compare(a, b) : compare(b, a)));
}

const monthOfDays = (nowMs: number) => daysOf(monthPeriod(new Date(nowMs)));

const thisMonth = (nowMs: number) => ({ ...monthOfDays(nowMs), granularity: 'total', mode: 'live' });

/** Links to other ranges and modes keep these. */
const toLinks = (fields: object): Record<string, string> =>
  Object.fromEntries(
    Object.entries(fields).flatMap(([name, value]) =>
      name !== 'cursor' && typeof value === 'string' ? [[name, value]] : [],
    ),
  );

/** The links keep the other fields. */
function toPresets(given: Record<string, string>, nowMs: number) {
  const month = monthOfDays(nowMs);
  const last = monthOfDays(Date.parse(month.from) - 1);
  const now = new Date(nowMs);
  const yearAgo = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - 11, 1)).toISOString();
  const presets = [
    { label: 'This month', ...month },
    { label: 'Last month', ...last },
    { label: 'Last 12 months', from: yearAgo.slice(0, 10), to: month.to, granularity: 'month' },
  ];
  return toDayTabs(USAGE, given, presets);
}

interface Named {
  slug: string;
  name: string;
}

/** Undefined if there are too many for a list. */
function toOptions(rows: Named[], all: string) {
  if (rows.length > MAX_OPTIONS) return undefined;
  return [{ value: '', label: all }, ...toNamedOptions(rows)];
}

/** The entry with this slug, or the only partial match. */
async function findNamed<T extends Named>(
  field: string,
  typed: string | undefined,
  find: (slug: string) => Promise<T | undefined>,
  search: (part: string) => Promise<T[]>,
): Promise<T | undefined> {
  if (typed === undefined) return undefined;
  const exact = slugSchema.safeParse(typed).success ? await find(typed) : undefined;
  if (exact) return exact;
  const [first, ...others] = await search(typed.trim());
  if (!first) throw fieldError(field, 'has no match');
  if (others.length === 0) return first;
  const slugs = [first, ...others].slice(0, MAX_MATCHES).map(({ slug }) => slug);
  throw fieldError(field, `has several matches. Type one of these: ${slugs.join(', ')}`);
}

const readCustomer = ({ db, clock }: ConsoleDeps, typed: string | undefined) =>
  findNamed<Named & { id: string }>(
    'organization',
    typed,
    (slug) => findOrganization(db.orm, { slug }),
    async (search) => {
      const filter = { search, state: 'all' as const };
      return (await listCustomers(db.orm, clock.now(), filter, { limit: MAX_MATCHES })).customers;
    },
  );

const readProduct = ({ db }: ConsoleDeps, typed: string | undefined) =>
  findNamed(
    'product',
    typed,
    (slug) => findProduct(db.orm, slug),
    (part) => listProducts(db.orm, { after: undefined, limit: MAX_MATCHES }, part),
  );
