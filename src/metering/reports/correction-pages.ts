import type { Request, RequestHandler, Response, Router } from 'express';
import { z } from 'zod';
import { sql } from 'drizzle-orm';
import { change, rehearse } from '../../accounts/audit/audit.js';
import type { Source } from '../../accounts/identity/source.js';
import type { Database, Orm, Tx } from '../../core/db/client.js';
import { queryRow } from '../../core/db/sql.js';
import { formatDay, formatDecimal } from '../../core/pages/format.js';
import { DAY_MS, monthOf } from '../../core/time.js';
import {
  addDecimals,
  compareDecimals,
  multiplyDecimals,
  subtractDecimals,
  toPlainDecimal,
} from '../../core/decimal.js';
import { AppError } from '../../core/errors.js';
import type { Context } from '../../core/http/context.js';
import { parseInput, text } from '../../core/http/validate.js';
import { toAddress, type Query } from '../../core/pages/address.js';
import { postForm, fieldError, newForm, textField, readQuery } from '../../core/pages/form.js';
import { byMember } from '../../accounts/identity/session/authority.js';
import { personSource, requireRole, sessionOf } from '../../accounts/identity/session/session.js';
import { managingRoles } from '../../accounts/organizations/table.js';
import { currentQuantity, findEvent, type EventRow } from '../events/event-queries.js';
import { findProduct, type UsageProduct } from '../events/page-queries.js';
import { amount } from '../events/page-schema.js';
import { toCap } from '../entitlements/caps.js';
import { readLimitViews } from '../entitlements/limit-view.js';
import { readOutlook } from './credits/pages.js';
import type { Typed } from './event-view.js';
import { correctEvents, mayNotCorrect } from '../corrections/corrections.js';
import { correctionsSchema } from '../corrections/schema.js';

const { shape } = correctionsSchema.shape.corrections.element;
const formSchema = z.object({
  event: shape.idempotencyKey,
  correct: z.enum(['amend', 'void'], 'must be amend or void').default('amend'),
  quantity: z
    .string()
    .refine((typed) => !/^\s*[-−]/.test(typed), 'must not be below 0')
    .pipe(amount)
    .optional(),
  reason: text(200),
  correctionKey: z.uuid(),
});

type CorrectionDatabase = Pick<Database, 'orm' | 'shards'>;

interface CorrectionForm {
  before: RequestHandler[];
  open: (req: Request, res: Response) => Promise<Omit<Correction, 'correction'>>;
  show: (req: Request, res: Response, typed: Typed) => Promise<void>;
}

/** The address names the event, and the list around it. */
export function addCorrectionForm(
  router: Router,
  path: string,
  db: CorrectionDatabase,
  { before, open, show }: CorrectionForm,
): void {
  postForm(router, path, {
    before,
    async act(req, res, fields) {
      const { correct: _correct, done: _done, ...place } = readQuery(req);
      const given = ['quantity', 'reason', 'correctionKey'].map((name) => [
        name,
        textField(fields, name)?.trim(),
      ]);
      const { event, correct, quantity, ...input } = parseInput(formSchema, {
        ...readQuery(req),
        ...Object.fromEntries(given),
      });
      if (correct === 'amend' && quantity === undefined) throw fieldError('quantity', 'is required');
      if (fields.step === 'edit') return show(req, res, { form: newForm(fields) });
      const { make, ...opened } = await open(req, res);
      const effect = await makeCorrection(db, {
        ...opened,
        make: fields.step === 'save' ? make : undefined,
        correction: {
          ...input,
          idempotencyKey: event,
          quantity: correct === 'void' ? '0' : toPlainDecimal(quantity!, 0),
        },
      });
      if (effect) return show(req, res, { form: newForm(fields), effect });
      const [own = ''] = req.originalUrl.split('?');
      res.redirect(303, toAddress(`${own}#event`, { done: 'corrected', ...(place as Query) }));
    },
    show: (req, res, form) => show(req, res, { form }),
    codes: new Set(['idempotency_conflict', 'event_not_found']),
  });
}

export function addOwnCorrections(router: Router, context: Context, show: CorrectionForm['show']): void {
  const { db, clock } = context;
  const mayCorrect: RequestHandler = (_req, res, next) =>
    next(sessionOf(res).mayCorrect ? undefined : mayNotCorrect());
  addCorrectionForm(router, '/usage', db, {
    before: [requireRole(...managingRoles), mayCorrect],
    open: async (req, res) => {
      const source = personSource(req, res, clock);
      return {
        orgId: sessionOf(res).orgId,
        by: 'member',
        noEvent: new AppError('event_not_found', 'Your Organization has no such event.'),
        make: (work) => change(context, byMember(res), (tx) => work(tx, source)),
        rehearse: (work) => rehearse(context, byMember(res), (tx) => work(tx, source)),
      };
    },
    show,
  });
}

type Work<T> = (tx: Tx, source: Source) => Promise<T>;
type Sums = Awaited<ReturnType<typeof readSums>>;

interface Correction {
  orgId: string;
  by: 'member' | 'operator';
  correction: { idempotencyKey: string; quantity: string; reason: string; correctionKey: string };
  noEvent: AppError;
  make: ((work: Work<unknown>) => Promise<unknown>) | undefined;
  rehearse: <T>(work: Work<T>) => Promise<T>;
}

/** The effect of the correction; undefined after it is made. */
async function makeCorrection(
  { orm, shards }: CorrectionDatabase,
  { orgId, by, correction, noEvent, make, rehearse }: Correction,
) {
  const event = await findEvent(orm, orgId, correction.idempotencyKey);
  if (!event) throw noEvent;
  const correct: Work<unknown> = (tx, source) =>
    correctEvents(tx, { orgId, livemode: undefined, by, corrections: [correction] }, source);
  const toError = toFieldError(noEvent);
  if (make) {
    await make(correct).catch(toError);
    return undefined;
  }
  const counted = currentQuantity(event);
  if (compareDecimals(correction.quantity, counted) === 0)
    throw fieldError('quantity', `is already ${formatDecimal(counted)}`);
  const product = (await findProduct(orm, orgId, event.productSlug))!;
  const { before, after, at } = await rehearse(async (tx, source) => {
    const read = () => readSums(tx, orgId, event, product, source.at);
    const before = await read();
    await correct(tx, source);
    return { before, after: await read(), at: source.at };
  }).catch(toError);
  const limits = await readLimitSums(shards, orgId, event, product, at);
  const others = limits.map((sum) =>
    toEffect(sum, addDecimals(subtractDecimals(sum.before, counted), correction.quantity)),
  );
  return {
    rows: [
      ...before.rows.map((sum, i) => toEffect(sum, after.rows[i]!.before)),
      ...others.filter(({ note }) => note),
    ],
    outlook: endOf(before) === endOf(after) ? undefined : [before.outlook, after.outlook],
  };
}

const endOf = ({ outlook }: Sums) =>
  outlook && (outlook.isOut || (outlook.end ? formatDay(outlook.end) : outlook.isLater));

interface Sum {
  label: string;
  unit: string;
  before: string;
  most?: { name: 'cap' | 'limit'; unitCap: string | null };
}

/** Its note names the cap or limit that the change crosses. */
function toEffect({ most, ...sum }: Sum, after: string) {
  const [was, will] = [sum.before, after].map((used) => most && toCap({ ...most, usedThisMonth: used }));
  const note = `${will?.isOver ? 'over' : 'no longer over'} its ${most?.name} of ${formatDecimal(will?.unitCap ?? 0)}`;
  return { ...sum, after, note: was?.isOver === will?.isOver ? undefined : note };
}

/** The sums that a correction of the event changes. */
async function readSums(
  orm: Orm,
  orgId: string,
  { idempotencyKey, metric, livemode, creditPrice, ...event }: EventRow,
  { id, usageMetric, unitCap }: UsageProduct,
  at: Date,
) {
  const occurredMs = Date.parse(event.occurredAt);
  const day = new Date(Math.floor(occurredMs / DAY_MS) * DAY_MS);
  const own = sql`org_id = ${orgId}::uuid and livemode = ${livemode} and metric = ${metric} and product_id = ${id}::uuid`;
  const sums = await queryRow(orm)<{ day: string; month: string }>`select
    (select trim_scale(coalesce(sum(quantity), 0))::text from usage_hours
      where ${own} and hour >= ${day.toISOString()}::timestamptz and hour < ${day.toISOString()}::timestamptz + interval '1 day') as day,
    (select trim_scale(coalesce(sum(quantity), 0))::text from usage_totals where ${own} and period = ${monthOf(occurredMs)}::date) as month`;
  const counted = currentQuantity((await findEvent(orm, orgId, idempotencyKey))!);
  const most = metric === usageMetric ? { name: 'cap' as const, unitCap } : undefined;
  const outlook = creditPrice === '0' ? undefined : await readOutlook(orm, { orgId, livemode }, at);
  const inCredits = (label: string, before: string) => (outlook ? [{ label, unit: 'credits', before }] : []);
  const rows: Sum[] = [
    { label: 'This event', unit: metric, before: counted },
    ...inCredits('Its credits', multiplyDecimals(counted, creditPrice)),
    { label: 'Its day (UTC)', unit: metric, before: sums!.day },
    { label: 'Its month (UTC)', unit: metric, before: sums!.month, ...(most && { most }) },
    ...inCredits('Credits left', outlook?.balance ?? '0'),
  ];
  return { rows, outlook };
}

/** The limits whose windows the event is in, of the product and of its subject. */
async function readLimitSums(
  shards: Database['shards'],
  orgId: string,
  { metric, livemode, subject, occurredAt }: EventRow,
  { id: productId, usageMetric }: UsageProduct,
  at: Date,
): Promise<Sum[]> {
  if (metric !== usageMetric) return [];
  const asked = [undefined, ...(subject === '' ? [] : [subject])];
  const own = { orgId, productId, livemode, metric };
  const views = await readLimitViews(
    { shards },
    asked.map((subject) => ({ ...own, subject })),
    at.getTime(),
  );
  return views.flat().flatMap(({ subject, when, since, cap }) =>
    Date.parse(occurredAt) < since
      ? []
      : [
          {
            label: `Used ${subject === undefined ? '' : `by ${subject} `}${when}`,
            unit: metric,
            before: cap.used,
            most: { name: 'limit', unitCap: cap.unitCap },
          },
        ],
  );
}

/** @param noEvent replaces the error for an unknown event */
const toFieldError =
  (noEvent: AppError) =>
  (error: unknown): never => {
    if (!(error instanceof AppError)) throw error;
    if (error.code === 'event_not_found') throw noEvent;
    const [place] = (error.code === 'quantity_out_of_range' && error.errors) || [];
    throw place ? fieldError('quantity', `is too large. ${place.detail}`) : error;
  };
