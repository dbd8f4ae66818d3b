import type { Router } from 'express';
import { z } from 'zod';
import { compareDecimals, sumDecimals } from '../../../core/decimal.js';
import type { Orm } from '../../../core/db/client.js';
import type { Context } from '../../../core/http/context.js';
import { ExactNumber } from '../../../core/http/json.js';
import { parseInput, text } from '../../../core/http/validate.js';
import { toAddress, toPager } from '../../../core/pages/address.js';
import { sendCsv, type CsvCell } from '../../../core/pages/csv.js';
import { fieldError, requireOnce, tryQuery, type FormFields } from '../../../core/pages/form.js';
import { formatCount, formatShare, toNamedOptions } from '../../../core/pages/format.js';
import { pageRouter, renderPage } from '../../../core/pages/layout.js';
import { DAY_MS } from '../../../core/time.js';
import { slugSchema } from '../../../accounts/identity/operator/schema.js';
import { readViewQuery, requirePage, viewerOf } from '../../../accounts/portal/viewer.js';
import { readCredits } from '../../credit-grants/credits.js';
import type { AccountId } from '../../credit-grants/queries.js';
import { creditEntryKinds } from '../../credits/table.js';
import { listMonths, type UsageProduct } from '../../events/page-queries.js';
import { mode, modes, productsQuerySchema, type Mode } from '../../events/page-schema.js';
import {
  accountOf,
  chooseProduct,
  readProducts,
  scopeOf,
  toModeTabs,
  toMonthOptions,
  toPeriodChoices,
  type PageDeps,
} from '../choices.js';
import { monthPeriod, parsePeriod, toPeriodQuery, type Period } from '../period.js';
import { hasBalance, readLedger } from './ledger.js';
import { readBurns, readCostParts, readCreditPace, type BurnSum, type CostPart } from './queries.js';
import { addStatement } from './statement-pages.js';
import { kindOptions, PACE_DAYS, toAccountView, toEntryView } from './view.js';

/** Costs by part are calculated from events. */
const MAX_PART_DAYS = 92;
const LATEST_ENTRIES = 5;
const PAGE_SIZE = 50;
/** Per statement. */
const BATCH_SIZE = 2_000;

const querySchema = productsQuerySchema.extend({ product: slugSchema.optional() });

export function creditPages(context: Context): Router {
  const router = pageRouter();
  const { db, clock } = context;
  const { orm } = db;
  const deps = { orm, clock };

  router.get('/credits', requirePage('credits'), async (req, res) => {
    const viewer = viewerOf(res);
    const { orgId } = viewer;
    const path = `${viewer.home}/credits`;
    const query = readViewQuery(req, res);
    const now = new Date(clock.now());
    const shown = modes.find((one) => one === query.mode) ?? 'live';
    const { form, result } = await tryQuery(res, query, async () => {
      requireOnce(query);
      const { range, product, ...asked } = parseInput(querySchema, query);
      return readBurned(deps, accountOf(orgId, asked.mode), product, parsePeriod(range, query, now));
    });
    const id = accountOf(orgId, shown);
    const { rows } = await readLedger(orm, id, now, { limit: LATEST_ENTRIES });
    const products = await readProducts(deps, orgId, shown);
    const period = result?.period ?? monthPeriod(now);
    const page = { view: 'metering/credits/credits', title: 'Credits', section: 'credits' };
    const kept = { product: result?.product?.slug };
    await renderPage(context, req, res, page, {
      ...toPeriodChoices(path, { mode: shown, period }, query, kept, now, viewer.mode),
      months: toMonthOptions(await listMonths(orm, orgId), period, now),
      form: { ...form, values: { ...toPeriodQuery(period), ...form.values } },
      account: await readAccountView(orm, id, now),
      pricedProducts: products.filter(({ creditPrice }) => creditPrice !== null),
      entries: rows.slice(0, LATEST_ENTRIES).map(toEntryView),
      ledgerHref: toAddress(`${path}/ledger`, { mode: shown }),
      statementHref: toAddress(`${viewer.home}/statement`, { mode: shown }),
      burned: result && toBurnedView(result, shown, path),
    });
  });

  addLedger(router, context);
  addStatement(router, context);
  return router;
}

export async function readAccountView(orm: Orm, id: AccountId, now: Date) {
  const credits = await readCredits(orm, id, now);
  const from = new Date(now.getTime() - PACE_DAYS * DAY_MS);
  // Includes entries of this millisecond.
  const to = new Date(now.getTime() + 1);
  const pace = await readCreditPace(orm, id, { from, to });
  return toAccountView(credits, pace, now);
}

interface Burned {
  period: Period;
  sums: BurnSum[];
  /** Its costs are broken down. */
  product: UsageProduct | undefined;
  /** Undefined if the costs could not be read in time. */
  parts: CostPart[] | undefined;
}

async function readBurned(
  { orm }: PageDeps,
  id: AccountId,
  slug: string | undefined,
  period: Period,
): Promise<Burned> {
  const sums = await readBurns(orm, id, period);
  const chosen = slug ?? largestOf(sums);
  const product = chosen === undefined ? undefined : await chooseProduct(orm, id.orgId, [], chosen);
  const places = product
    ? [...product.dimensions.map((_, i) => i + 1), ...(product.countsSubjects ? [0] : [])]
    : [];
  const isShort = period.to.getTime() - period.from.getTime() <= MAX_PART_DAYS * DAY_MS;
  const parts =
    product && places.length > 0 && isShort
      ? await readCostParts(orm, scopeOf(id.orgId, product, id.livemode ? 'live' : 'test'), {
          ...period,
          places,
        })
      : undefined;
  return { period, sums, product, parts };
}

/** Largest first. */
function byProduct(sums: readonly BurnSum[]) {
  const slugs = [...new Set(sums.map(({ slug }) => slug))];
  return slugs
    .map((slug) => {
      const own = sums.filter((sum) => sum.slug === slug);
      return { slug, name: own[0]!.name, burned: sumDecimals(own.map((sum) => sum.burned)) };
    })
    .toSorted((a, b) => compareDecimals(b.burned, a.burned));
}

const largestOf = (sums: readonly BurnSum[]): string | undefined => byProduct(sums)[0]?.slug;

function toBurnedView({ period, sums, product, parts }: Burned, shown: Mode, path: string) {
  const rows = byProduct(sums);
  const total = sumDecimals(rows.map(({ burned }) => burned));
  const names = product ? ['subject', ...product.dimensions] : [];
  return {
    returned: sumDecimals(sums.map(({ returned }) => returned)),
    isEmpty: rows.length === 0,
    /** The one with the largest costs, or the chosen one. */
    productName: product?.name,
    isUnread: parts === undefined && product !== undefined && hasParts(product),
    maxDays: MAX_PART_DAYS,
    parts: [
      {
        name: 'product',
        more: 0,
        rows: rows.map((row) => ({
          value: row.name,
          quantity: row.burned,
          share: formatShare(row.burned, total),
          isCurrent: row.slug === product?.slug,
          href: toAddress(path, { product: row.slug, mode: shown, ...toPeriodQuery(period) }),
        })),
      },
      ...names.flatMap((name, place) => toPart(name, parts?.filter((part) => part.place === place) ?? [])),
    ],
  };
}

const hasParts = ({ dimensions, countsSubjects }: UsageProduct) => dimensions.length > 0 || countsSubjects;

/** None for a dimension whose only part has no value. */
function toPart(name: string, own: readonly CostPart[]) {
  if (!own.some(({ value, isOther }) => value || isOther)) return [];
  const sum = sumDecimals(own.map(({ credits }) => credits));
  const rows = own.map(({ value, isOther, count, credits }) => ({
    value: isOther ? formatCount(count, 'other') : value || 'None',
    quantity: credits,
    share: formatShare(credits, sum),
  }));
  return [{ name, rows, more: 0 }];
}

const day = z.iso
  .date('must be a date like 2026-01-31')
  .refine((date) => date.startsWith('20'), 'must be of the years 2000 to 2099');

const ledgerSchema = z.object({
  mode: mode.default('live'),
  product: slugSchema.optional(),
  grant: text(128).optional(),
  kind: z.enum(creditEntryKinds, 'must be one of the options').optional(),
  from: day.optional(),
  to: day.optional(),
  cursor: z.string().optional(),
});

/** `to` is the form's last day. */
export function parseLedger(query: FormFields) {
  requireOnce(query);
  const { mode, product, grant, kind, from, to, cursor } = parseInput(ledgerSchema, query);
  if (from !== undefined && to !== undefined && to < from)
    throw fieldError('to', 'must not be before the first day');
  return {
    mode,
    cursor,
    filter: {
      productSlug: product,
      grantKey: grant,
      kind,
      from: from && `${from}T00:00:00Z`,
      to: to && new Date(Date.parse(to) + DAY_MS).toISOString(),
    },
  };
}

function addLedger(router: Router, context: Context): void {
  const { db, clock, log } = context;

  router.get('/credits/ledger', requirePage('credits'), async (req, res) => {
    const viewer = viewerOf(res);
    const { orgId } = viewer;
    const path = `${viewer.home}/credits/ledger`;
    const query = readViewQuery(req, res);
    const shown = modes.find((one) => one === query.mode) ?? 'live';
    const { form, result } = await tryQuery(res, query, async () => {
      const { mode, cursor, filter } = parseLedger(query);
      const range = { ...filter, limit: PAGE_SIZE, cursor };
      const page = await readLedger(db.orm, accountOf(orgId, mode), new Date(clock.now()), range);
      return { ...page, cursor, hasBalance: hasBalance(filter) };
    });
    const { cursor: _cursor, ...kept } = query as Record<string, string>;
    const page = { view: 'metering/credits/ledger', title: 'Ledger of credits', section: 'credits' };
    const products = await readProducts({ orm: db.orm, clock }, orgId, shown);
    const { mode: _mode, ...filters } = kept;
    await renderPage(context, req, res, page, {
      form,
      mode: shown,
      modes: toModeTabs(path, filters, shown, viewer.mode),
      isFiltered: Object.keys(filters).length > 0,
      productOptions: toNamedOptions(
        products.filter(({ creditPrice, slug }) => creditPrice !== null || slug === query.product),
      ),
      kindOptions,
      entries: result?.rows.map(toEntryView),
      result,
      pager:
        result && toPager(path, kept, { cursor: result.cursor, nextCursor: result.nextCursor ?? undefined }),
      csvHref: toAddress(`${path}.csv`, kept),
      creditsHref: toAddress(`${viewer.home}/credits`, { mode: shown }),
    });
  });

  router.get('/credits/ledger.csv', requirePage('credits'), async (req, res) => {
    const { orgId } = viewerOf(res);
    const { mode, filter } = parseLedger(readViewQuery(req, res));
    await sendCsv(log, req, res, {
      filename: `credits-${mode}.csv`,
      columns: [
        'at',
        'hour',
        'kind',
        'product',
        'grant_key',
        'amount',
        'mode',
        ...(hasBalance(filter) ? ['balance'] : []),
      ],
      pieces: exportEntries({ orm: db.orm, clock }, accountOf(orgId, mode), filter),
    });
  });
}

/** Newest first. Each batch is a statement, so memory does not grow with the file. */
async function* exportEntries(
  { orm, clock }: PageDeps,
  id: AccountId,
  filter: ReturnType<typeof parseLedger>['filter'],
): AsyncGenerator<CsvCell[][]> {
  const now = new Date(clock.now());
  let cursor: string | undefined;
  do {
    const page = await readLedger(orm, id, now, { ...filter, limit: BATCH_SIZE, cursor });
    yield page.rows.map(({ at, hour, kind, productSlug, grantKey, amount, balance }) => [
      at,
      hour,
      kind,
      productSlug,
      grantKey,
      new ExactNumber(amount),
      id.livemode ? 'live' : 'test',
      ...(hasBalance(filter) ? [balance === undefined ? null : new ExactNumber(balance)] : []),
    ]);
    cursor = page.nextCursor ?? undefined;
  } while (cursor);
}
