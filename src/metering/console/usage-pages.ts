import type { Router } from 'express';
import { z } from 'zod';
import { cutPage, toCursor } from '../../core/http/page.js';
import { text } from '../../core/http/validate.js';
import { toAddress, toPager } from '../../core/pages/address.js';
import { sendCsv } from '../../core/pages/csv.js';
import { fieldError, type FormFields, parseQueryForm, readQuery, tryQuery } from '../../core/pages/form.js';
import { toNamedOptions } from '../../core/pages/format.js';
import { renderPage, pageRouter } from '../../core/pages/layout.js';
import { monthOf, monthRange } from '../../core/time.js';
import { findProduct, listProducts } from '../entitlements/queries.js';
import { slugSchema } from '../../accounts/identity/operator/schema.js';
import { findOrganization, listOrganizations } from '../../accounts/identity/organizations/queries.js';
import type { Context } from '../../core/http/context.js';
import { listCustomers } from '../../console/customer-queries.js';
import { granularities, listCustomerUsage } from '../reports/operator/queries.js';
import {
  keyOf,
  positionSchema,
  present,
  readSteps,
  toPosition,
  toUsageCsv,
} from '../reports/operator/steps.js';
import { toModeTabs } from '../reports/choices.js';
import { mode } from '../events/page-schema.js';
import { addressOf, CONSOLE, decodeKey, PAGE_SIZE, type ConsoleDeps } from '../../console/page.js';
import { readUsageChart, type NameOf } from './usage-chart.js';

const USAGE = `${CONSOLE}/usage`;

/** Beyond it, the page offers a search instead. */
const MAX_OPTIONS = 200;
const MAX_MATCHES = 20;

const day = z.iso
  .date('must be a date like 2026-01-31')
  .refine((date) => date >= '1970', 'must be between the years 1970 and 9999');

const querySchema = z.object({
  from: day,
  to: day,
  granularity: z.enum(granularities, 'must be one of the options'),
  mode,
  organization: text(254).optional(),
  product: text(200).optional(),
  cursor: z.string().optional(),
});

export function customerUsagePages({ log, ...deps }: ConsoleDeps & Pick<Context, 'log'>): Router {
  const { db, clock } = deps;
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
      presets: toPresets(links, clock.now()),
      modes: toModeTabs(USAGE, links, values.mode === 'test' ? 'test' : 'live'),
      customerOptions: toOptions(customers, 'All customers'),
      productOptions: toOptions(products, 'All products'),
      result,
    });
  });

  router.get('/usage.csv', async (req, res) => {
    const { range, customers, products } = await readRequest(deps, readQuery(req));
    if (customers.length > 1) throw fieldError('organization', 'matches several customers');
    if (products.length > 1) throw fieldError('product', 'matches several products');
    await sendCsv(log, req, res, toUsageCsv(db, range));
  });

  return router;
}

/** Defaults: this month's totals in live mode. A search may match several customers or products. */
async function readRequest(deps: ConsoleDeps, query: FormFields) {
  const { cursor, ...given } = parseQueryForm(querySchema, { ...thisMonth(deps.clock.now()), ...query });
  const { granularity } = given;
  const days = { from: new Date(given.from), to: new Date(given.to) };
  const steps = readSteps({ ...days, granularity, livemode: given.mode === 'live' }, fieldError);
  const customers = await findCustomers(deps, given.organization);
  const products = await findProducts(deps, given.product);
  const range = { ...steps, orgId: customers[0]?.id, productId: products[0]?.id };
  return { given, cursor, range, customers, products };
}

/** The choices if a search has several matches. */
async function readResult(
  { db }: ConsoleDeps,
  { given, cursor, range, customers, products }: Awaited<ReturnType<typeof readRequest>>,
  nameOf: NameOf,
) {
  const choices = toChoices(given, { customers, products });
  if (choices.length > 0) return { choices, chosen: {} };
  const [customer] = customers;
  const [product] = products;
  const chosen = {
    ...(customer && { organization: customer.slug }),
    ...(product && { product: product.slug }),
  };
  const key = decodeKey(cursor, positionSchema);
  const after = key === undefined ? undefined : toPosition(key);
  const found = await listCustomerUsage(db, { ...range, after, limit: PAGE_SIZE + 1 });
  const { page, nextCursor } = cutPage(found, PAGE_SIZE, (last) => toCursor(keyOf(last)));
  const hasChart = page.length > 0 && after === undefined;
  return {
    choices,
    chosen,
    customer,
    product,
    granularity: range.granularity,
    rows: page.map((row) => ({
      ...present(row, range),
      customerName: nameOf('organization', row.organization),
      productName: nameOf('product', row.product),
      href: addressOf(row.organization),
      productHref: toAddress(USAGE, { ...given, ...chosen, product: row.product }),
    })),
    hasChart,
    drawn: hasChart ? await readUsageChart(db, range, { customer, product, nameOf }) : undefined,
    csvHref: toAddress(`${USAGE}.csv`, { ...given, ...chosen }),
    pager: toPager(USAGE, { ...given, ...chosen }, { cursor, nextCursor }),
  };
}

const monthOfDays = (nowMs: number) => {
  const { start, end } = monthRange(monthOf(nowMs));
  return { from: start.slice(0, 10), to: end.slice(0, 10) };
};

const thisMonth = (nowMs: number) => ({ ...monthOfDays(nowMs), granularity: 'total', mode: 'live' });

/** Links to other ranges and modes keep these. */
const toLinks = (fields: FormFields): Record<string, string> =>
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
  return presets.map(({ label, ...range }) => ({
    label,
    href: toAddress(USAGE, { ...given, ...range }),
    isCurrent: given.from === range.from && given.to === range.to,
  }));
}

interface Named {
  slug: string;
  name: string;
}

const toNames = (rows: Named[]) => new Map(rows.map(({ slug, name }) => [slug, name]));

/** Undefined if there are too many for a list. */
function toOptions(rows: Named[], all: string) {
  if (rows.length > MAX_OPTIONS) return undefined;
  return [{ value: '', label: all }, ...toNamedOptions(rows)];
}

/** The entry with this slug, or all partial matches. */
async function findNamed<T extends Named>(
  field: string,
  typed: string | undefined,
  {
    find,
    search,
  }: { find: (slug: string) => Promise<T | undefined>; search: (part: string) => Promise<T[]> },
): Promise<T[]> {
  if (typed === undefined) return [];
  const exact = slugSchema.safeParse(typed).success ? await find(typed) : undefined;
  const found = exact ? [exact] : await search(typed.trim());
  if (found.length === 0) throw fieldError(field, 'has no match');
  return found;
}

const findCustomers = ({ db, clock }: ConsoleDeps, typed: string | undefined) =>
  findNamed<Named & { id: string }>('organization', typed, {
    find: (slug) => findOrganization(db.orm, { slug }),
    search: async (search) => {
      const matches = await listCustomers(
        db.orm,
        clock.now(),
        { search, state: 'all' },
        { limit: MAX_MATCHES },
      );
      return matches.customers;
    },
  });

const findProducts = ({ db }: ConsoleDeps, typed: string | undefined) =>
  findNamed('product', typed, {
    find: (slug) => findProduct(db.orm, slug),
    search: (part) => listProducts(db.orm, { after: undefined, limit: MAX_MATCHES - 1 }, part),
  });

function toChoices(
  given: Record<string, string | undefined>,
  { customers, products }: { customers: Named[]; products: Named[] },
) {
  const fields = [
    { field: 'organization', noun: 'customers', found: customers },
    { field: 'product', noun: 'products', found: products },
  ];
  return fields
    .filter(({ found }) => found.length > 1)
    .map(({ field, noun, found }) => ({
      title: `Choose one of these ${noun}`,
      isCut: found.length === MAX_MATCHES,
      links: found.map(({ slug, name }) => ({
        slug,
        name,
        href: toAddress(USAGE, { ...given, [field]: slug }),
      })),
    }));
}
