import type { Request, RequestHandler, Response, Router } from 'express';
import { z } from 'zod';
import { sql } from 'drizzle-orm';
import { change, rehearse } from '../../accounts/audit/audit.js';
import type { Source } from '../../accounts/identity/source.js';
import type { Orm, Tx } from '../../core/db/client.js';
import { queryRow } from '../../core/db/sql.js';
import { formatDecimal } from '../../core/pages/format.js';
import { DAY_MS, monthOf } from '../../core/time.js';
import { readCredits } from '../credit-grants/credits.js';
import { compareDecimals, multiplyDecimals, toPlainDecimal } from '../../core/decimal.js';
import { AppError } from '../../core/errors.js';
import type { Context } from '../../core/http/context.js';
import { parseInput, text } from '../../core/http/validate.js';
import { toAddress, type Query } from '../../core/pages/address.js';
import { postForm, fieldError, newForm, textField, readQuery } from '../../core/pages/form.js';
import { byMember } from '../../accounts/identity/session/authority.js';
import { personSource, requireRole, sessionOf } from '../../accounts/identity/session/session.js';
import { managingRoles } from '../../accounts/organizations/table.js';
import { currentQuantity, findEvent, type EventRow } from '../events/event-queries.js';
import { amount } from '../events/page-schema.js';
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

interface CorrectionForm {
  before: RequestHandler[];
  open: (req: Request, res: Response) => Promise<Omit<Correction, 'correction'>>;
  show: (req: Request, res: Response, typed: Typed) => Promise<void>;
}

/** The address names the event, and the list around it. */
export function addCorrectionForm(
  router: Router,
  path: string,
  { orm }: { orm: Orm },
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
      const effect = await makeCorrection(orm, {
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

interface Correction {
  orgId: string;
  by: 'member' | 'operator';
  correction: { idempotencyKey: string; quantity: string; reason: string; correctionKey: string };
  noEvent: AppError;
  make: ((work: Work<unknown>) => Promise<unknown>) | undefined;
  rehearse: (work: Work<object[]>) => Promise<object[]>;
}

/** The effect of the correction; undefined after it is made. */
async function makeCorrection(
  orm: Orm,
  { orgId, by, correction, noEvent, make, rehearse }: Correction,
): Promise<object[] | undefined> {
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
  return rehearse(async (tx, source) => {
    const before = await readSums(tx, orgId, event, source.at);
    await correct(tx, source);
    const after = await readSums(tx, orgId, event, source.at);
    return before.map((one, i) => ({ ...one, after: after[i]!.before }));
  }).catch(toError);
}

/** The sums that a correction of the event changes. */
async function readSums(orm: Orm, orgId: string, event: EventRow, at: Date) {
  const { idempotencyKey, productSlug, metric, livemode, creditPrice } = event;
  const occurredMs = Date.parse(event.occurredAt);
  const day = new Date(Math.floor(occurredMs / DAY_MS) * DAY_MS);
  const month = monthOf(occurredMs);
  const own = sql`org_id = ${orgId}::uuid and livemode = ${livemode} and metric = ${metric}
    and product_id = (select id from products where slug = ${productSlug})`;
  const sums = await queryRow(orm)<{ day: string; month: string }>`select
    (select trim_scale(coalesce(sum(quantity), 0))::text from usage_hours
      where ${own} and hour >= ${day.toISOString()}::timestamptz and hour < ${day.toISOString()}::timestamptz + interval '1 day') as day,
    (select trim_scale(coalesce(sum(quantity), 0))::text from usage_totals where ${own} and period = ${month}::date) as month`;
  const counted = currentQuantity((await findEvent(orm, orgId, idempotencyKey))!);
  const unit = metric;
  return [
    { label: 'This event', unit, before: counted },
    ...(creditPrice === '0'
      ? []
      : [{ label: 'Its credits', unit: 'credits', before: multiplyDecimals(counted, creditPrice) }]),
    { label: 'Its day (UTC)', unit, before: sums!.day },
    { label: 'Its month (UTC)', unit, before: sums!.month },
    ...(creditPrice === '0'
      ? []
      : [
          {
            label: 'Credits left',
            unit: 'credits',
            before: (await readCredits(orm, { orgId, livemode }, at)).balance,
          },
        ]),
  ];
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
