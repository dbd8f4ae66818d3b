import type { Router } from 'express';
import { readViewQuery, requirePage, viewerOf } from '../../../accounts/portal/viewer.js';
import type { Context } from '../../../core/http/context.js';
import { ExactNumber } from '../../../core/http/json.js';
import { parseInput } from '../../../core/http/validate.js';
import { toAddress } from '../../../core/pages/address.js';
import { sendCsv, type CsvCell } from '../../../core/pages/csv.js';
import { requireOnce, tryQuery, type FormFields } from '../../../core/pages/form.js';
import { renderPage } from '../../../core/pages/layout.js';
import { modes, productsQuerySchema, type Mode } from '../../events/page-schema.js';
import { listMonths } from '../../events/page-queries.js';
import { accountOf, inOnePiece, toMonthOptions, toPeriodChoices } from '../choices.js';
import { addMonths, monthPeriod, parsePeriod } from '../period.js';
import { readStatement, type Statement } from './statement.js';

/** Lines on a page of less than 75 KB, and in a file. The rest is one line per product. */
const MAX_LINES = { page: 100, file: 5_000 };

function parseMonth(query: FormFields, now: Date) {
  requireOnce(query);
  const { mode } = parseInput(productsQuerySchema.pick({ mode: true }), query);
  return { mode, period: parsePeriod('month', query, now) };
}

export function addStatement(router: Router, { db, clock, log, ...context }: Context): void {
  const { dedupeHorizonMonths: kept } = context.config;

  router.get('/statement', requirePage('credits'), async (req, res) => {
    const viewer = viewerOf(res);
    const path = `${viewer.home}/statement`;
    const query = readViewQuery(req, res);
    const now = new Date(clock.now());
    const { form, result } = await tryQuery(res, query, async () => {
      const { mode, period } = parseMonth(query, now);
      const id = accountOf(viewer.orgId, mode);
      return { mode, period, statement: await readStatement(db.orm, id, period, now, MAX_LINES.page) };
    });
    const shown = modes.find((one) => one === query.mode) ?? 'live';
    const { mode, period, statement } = result ?? { mode: shown, period: monthPeriod(now) };
    const choices = toPeriodChoices(path, { mode, period }, query, {}, now, viewer.mode);
    const isFirst = statement && statement.startsAt >= period.from;
    const month = period.from.toISOString().slice(0, 7);
    const page = {
      view: 'metering/credits/statement',
      title: `Statement of ${choices.periodName}`,
      section: 'credits',
    };
    await renderPage({ clock, ...context }, req, res, page, {
      ...choices,
      around: { ...choices.around, previousHref: isFirst ? undefined : choices.around.previousHref },
      months: toMonthOptions(await listMonths(db.orm, viewer.orgId), period, now),
      form: { ...form, values: { month, ...form.values } },
      statement,
      archivedFrom: kept === undefined ? undefined : addMonths(period.to, kept),
      creditsHref: toAddress(`${viewer.home}/credits`, { mode }),
      csvHref: toAddress(`${path}.csv`, { month, mode }),
    });
  });

  router.get('/statement.csv', requirePage('credits'), async (req, res) => {
    const { orgId } = viewerOf(res);
    const now = new Date(clock.now());
    const { mode, period } = parseMonth(readViewQuery(req, res), now);
    const statement = await readStatement(db.orm, accountOf(orgId, mode), period, now, MAX_LINES.file);
    const month = period.from.toISOString().slice(0, 7);
    await sendCsv(log, req, res, {
      filename: `statement-${month}-${mode}.csv`,
      columns,
      pieces: inOnePiece(toRows(statement, month, mode)),
    });
  });
}

const columns = [
  'month',
  'mode',
  'section',
  'product',
  'metric',
  'dimension',
  'value',
  'price',
  'quantity',
  'grant_key',
  'credits',
  'is_final',
  'grant_name',
  'customer',
];

/** Usage, corrections and other usage add up to what grants and the overdraft paid, and the movements to the balance. */
function toRows(statement: Statement, month: string, mode: Mode): CsvCell[][] {
  const { outlook, lines, payments, granted, opening, usage, overdraft, closing } = statement;
  const number = (digits: string | null) => (digits === null ? null : new ExactNumber(digits));
  const isFinal = outlook.isFinal ? 'yes' : 'no';
  const toRow = (
    section: string,
    credits: string,
    own: CsvCell[] = [null, null, null, null, null, null],
    { grantKey, name }: { grantKey: string | null; name: string | null } = { grantKey: null, name: null },
  ) => [month, mode, section, ...own, grantKey, number(credits), isFinal, name, statement.organization];
  return [
    ...lines.map(({ kind, product, metric, dimension, value, price, quantity, credits }) =>
      toRow(kind, credits, [product.slug, metric, dimension, value, number(price), number(quantity)]),
    ),
    ...payments.map((grant) => toRow('paid_by_grant', grant.credits, undefined, grant)),
    toRow('paid_by_overdraft', overdraft),
    toRow('opening_balance', opening),
    ...granted.map((grant) => toRow('granted', grant.amount, undefined, grant)),
    toRow('used', usage),
    toRow('expired', statement.expired),
    toRow('forfeited', statement.forfeited),
    toRow('forgiven', statement.forgiven),
    toRow('closing_balance', closing),
  ];
}
