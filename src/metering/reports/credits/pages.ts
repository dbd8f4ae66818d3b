import type { Request, Response, Router } from 'express';
import { z } from 'zod';
import type { Orm } from '../../../core/db/client.js';
import type { Context } from '../../../core/http/context.js';
import { ExactNumber } from '../../../core/http/json.js';
import { dayField, parseInput, text } from '../../../core/http/validate.js';
import { toAddress, toPager } from '../../../core/pages/address.js';
import { sendCsv, type CsvCell } from '../../../core/pages/csv.js';
import { requireDayOrder, requireOnce, tryQuery, type FormFields } from '../../../core/pages/form.js';
import { toNamedOptions } from '../../../core/pages/format.js';
import { pageRouter, renderPage } from '../../../core/pages/layout.js';
import { DAY_MS } from '../../../core/time.js';
import { slugSchema } from '../../../accounts/identity/operator/schema.js';
import { readViewQuery, requirePage, viewerOf } from '../../../accounts/portal/viewer.js';
import { readCredits } from '../../credit-grants/credits.js';
import type { AccountId } from '../../credit-grants/queries.js';
import { creditEntryKinds } from '../../credits/table.js';
import { mode, modes, productsQuerySchema, type Mode } from '../../events/page-schema.js';
import { accountOf, readProducts, toModeTabs, type PageDeps } from '../choices.js';
import { hasBalance, readDays, readLedger } from './ledger.js';
import { findOrganizationPlan, findPlan } from '../../plans/queries.js';
import { listRefills } from '../../plans/grants.js';
import { readCreditPace } from './queries.js';
import { addStatement } from './statement-pages.js';
import { kindOptions, paceRange, toAccountView, toDays, toEntryView } from './view.js';

const LATEST_ENTRIES = 5;
const PAGE_SIZE = 50;
/** Per statement. */
const BATCH_SIZE = 2_000;

export function creditPages(context: Context): Router {
  const router = pageRouter();
  const { db, clock } = context;
  const { orm } = db;

  router.get('/credits', requirePage('credits'), async (req, res) => {
    const viewer = viewerOf(res);
    const { orgId } = viewer;
    const path = `${viewer.home}/credits`;
    const query = readViewQuery(req, res);
    const now = new Date(clock.now());
    const shown = modes.find((one) => one === query.mode) ?? 'live';
    const { form } = await tryQuery(res, query, async () => {
      requireOnce(query);
      return parseInput(productsQuerySchema.pick({ mode: true }), query);
    });
    const id = accountOf(orgId, shown);
    const { rows } = await readLedger(orm, id, now, { limit: LATEST_ENTRIES });
    const products = await readProducts({ orm, clock }, orgId, shown);
    const page = { view: 'metering/credits/credits', title: 'Credits', section: 'credits' };
    await renderPage(context, req, res, page, {
      form,
      mode: shown,
      modes: toModeTabs(path, {}, shown, viewer.mode),
      account: await readAccountView(orm, id, now),
      pricedProducts: products.filter(({ creditPrice }) => creditPrice !== null),
      entries: rows.slice(0, LATEST_ENTRIES).map(toEntryView),
      ledgerHref: toAddress(`${path}/ledger`, { mode: shown }),
      statementHref: toAddress(`${viewer.home}/statement`, { mode: shown }),
      usageHref: viewer.shows('usage') ? toAddress(`${viewer.home}/usage`, { mode: shown }) : undefined,
    });
  });

  addLedger(router, context);
  addStatement(router, context);
  return router;
}

/** When the credits run out, and how many expire unused. `isLater` if the pace is known but no end is near. */
export async function readOutlook(orm: Orm, id: AccountId, now: Date) {
  const { balance, projection } = await readAccountView(orm, id, now);
  return { ...projection, balance, isOut: Number(balance) <= 0, isLater: projection !== undefined };
}

export async function readAccountView(orm: Orm, id: AccountId, now: Date) {
  // Includes entries of this millisecond.
  const to = new Date(now.getTime() + 1);
  const credits = await readCredits(orm, id, now);
  const pace = await readCreditPace(orm, id, { ...paceRange(now), to });
  const plan = id.livemode ? await findOrganizationPlan(orm, id.orgId) : undefined;
  const { definition } = (plan && (await findPlan(orm, plan.plan, plan.version))) ?? {};
  return toAccountView(credits, plan && definition && listRefills({ ...plan, definition }), pace, now);
}

const ledgerSchema = z.object({
  mode: mode.default('live'),
  product: slugSchema.optional(),
  grant: text(128).optional(),
  kind: z.enum(creditEntryKinds, 'must be one of the options').optional(),
  from: dayField.optional(),
  to: dayField.optional(),
  cursor: z.string().optional(),
});

/** `to` is the form's last day. */
export function parseLedger(query: FormFields) {
  requireOnce(query);
  const { mode, product, grant, kind, from, to, cursor } = parseInput(ledgerSchema, query);
  requireDayOrder({ from, to });
  return {
    mode,
    cursor,
    isOneDay: from !== undefined && from === to,
    filter: {
      productSlug: product,
      grantKey: grant,
      kind,
      from: from && `${from}T00:00:00Z`,
      to: to && new Date(Date.parse(to) + DAY_MS).toISOString(),
    },
  };
}

/** The entries of one day, or the sums of several; then the cursor is the day after them. */
async function readPage({ orm, clock }: PageDeps, orgId: string, input: ReturnType<typeof parseLedger>) {
  const { mode, cursor, filter, isOneDay } = input;
  const id = accountOf(orgId, mode);
  const now = new Date(clock.now());
  if (isOneDay) return readLedger(orm, id, now, { ...filter, limit: PAGE_SIZE, cursor });
  const to =
    cursor === undefined
      ? filter.to
      : `${parseInput(z.object({ cursor: dayField }), { cursor }).cursor}T00:00:00Z`;
  const page = await readDays(orm, id, now, { ...filter, to });
  return { rows: page?.rows, unbooked: page?.unbooked, nextCursor: page?.nextCursor?.slice(0, 10) };
}

function addLedger(router: Router, context: Context): void {
  router.get('/credits/ledger', requirePage('credits'), async (req, res) => {
    const { orgId, home, mode } = viewerOf(res);
    const ledger = { path: `${home}/credits/ledger`, csvPath: `${home}/credits/ledger.csv`, only: mode };
    const view = await readLedgerView(context, res, orgId, readViewQuery(req, res), ledger);
    const page = { view: 'metering/credits/ledger', title: 'Ledger of credits', section: 'credits' };
    const creditsHref = toAddress(`${home}/credits`, { mode: view.mode });
    await renderPage(context, req, res, page, { ...view, creditsHref });
  });

  router.get('/credits/ledger.csv', requirePage('credits'), (req, res) =>
    sendLedger(context, req, res, viewerOf(res).orgId, readViewQuery(req, res)),
  );
}

type LedgerDeps = Pick<Context, 'db' | 'clock'>;

/** The customer and the operator see the same ledger. A query that it does not understand is reported in its form. */
export async function readLedgerView(
  { db: { orm }, clock }: LedgerDeps,
  res: Response,
  orgId: string,
  query: FormFields,
  { path, csvPath, only }: { path: string; csvPath: string; only?: Mode | undefined },
) {
  const shown = modes.find((one) => one === query.mode) ?? 'live';
  const { form, result } = await tryQuery(res, query, async () => {
    const input = parseLedger(query);
    const page = await readPage({ orm, clock }, orgId, input);
    return { ...page, ...input, hasBalance: hasBalance(input.filter) };
  });
  const { cursor: _cursor, done: _done, ...kept } = query as Record<string, string>;
  const { mode: _mode, ...filters } = kept;
  const products = await readProducts({ orm, clock }, orgId, shown);
  return {
    form,
    mode: shown,
    modes: toModeTabs(path, filters, shown, only),
    ledgerHref: path,
    isFiltered: Object.keys(filters).length > 0,
    productOptions: toNamedOptions(
      products.filter(({ creditPrice, slug }) => creditPrice !== null || slug === query.product),
    ),
    kindOptions,
    days: result?.rows && !result.isOneDay ? toDays(result.rows, path, kept) : undefined,
    entries: result?.isOneDay ? result.rows?.map(toEntryView) : undefined,
    allDaysHref: toAddress(path, { ...kept, from: undefined, to: undefined }),
    result,
    pager:
      result && toPager(path, kept, { cursor: result.cursor, nextCursor: result.nextCursor ?? undefined }),
    csvHref: toAddress(csvPath, kept),
  };
}

export async function sendLedger(
  { db, clock, log }: LedgerDeps & Pick<Context, 'log'>,
  req: Request,
  res: Response,
  orgId: string,
  query: FormFields,
): Promise<void> {
  const { mode, filter } = parseLedger(query);
  const balance = hasBalance(filter) ? ['balance'] : [];
  await sendCsv(log, req, res, {
    filename: `credits-${mode}.csv`,
    columns: ['at', 'hour', 'kind', 'product', 'grant_key', 'amount', 'mode', ...balance],
    pieces: exportEntries({ orm: db.orm, clock }, accountOf(orgId, mode), filter),
  });
}

/** Newest first. Each batch is a statement, so memory does not grow with the file. */
async function* exportEntries(
  { orm, clock }: PageDeps,
  id: AccountId,
  filter: ReturnType<typeof parseLedger>['filter'],
): AsyncGenerator<CsvCell[][]> {
  const now = new Date(clock.now());
  let [cursor, balance]: (string | undefined)[] = [];
  do {
    const page = await readLedger(orm, id, now, { ...filter, limit: BATCH_SIZE, cursor, balance });
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
    [cursor, balance] = [page.nextCursor ?? undefined, page.balance];
  } while (cursor);
}
