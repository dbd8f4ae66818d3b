import type { Request, RequestHandler, Response, Router } from 'express';
import { v7 as uuid } from 'uuid';
import { z } from 'zod';
import { change } from '../../accounts/audit/audit.js';
import { toPlainDecimal } from '../../core/decimal.js';
import { AppError } from '../../core/errors.js';
import type { Context } from '../../core/http/context.js';
import { parseInput, text } from '../../core/http/validate.js';
import { toAddress } from '../../core/pages/address.js';
import {
  postForm,
  fieldError,
  newForm,
  textField,
  type FormState,
  readQuery,
} from '../../core/pages/form.js';
import { renderPage } from '../../core/pages/layout.js';
import { byMember } from '../../accounts/identity/session/authority.js';
import { personSource, requireRole, sessionOf } from '../../accounts/identity/session/session.js';
import { managingRoles } from '../../accounts/organizations/table.js';
import { creditsOf } from '../events/events.js';
import { currentQuantity, findEvent } from '../events/event-queries.js';
import { amount } from '../events/page-schema.js';
import { CORRECTION_PATH } from './event-view.js';
import { USAGE_PATH } from './report-view.js';
import { correctEvents, mayNotCorrect } from '../corrections/corrections.js';
import { correctionsSchema } from '../corrections/schema.js';

const { shape } = correctionsSchema.shape.corrections.element;
const aboutSchema = z.object({
  idempotencyKey: shape.idempotencyKey,
  what: z.enum(['amend', 'void'], 'must be amend or void').default('amend'),
});
export const correctionFields = { quantity: amount, reason: text(200), correctionKey: z.uuid() };
const formSchema = aboutSchema.extend({ ...correctionFields, quantity: amount.optional() });

export function addCorrectionPages(router: Router, context: Context): void {
  const { db, clock } = context;
  const isManager = requireRole(...managingRoles);
  const mayCorrect: RequestHandler = (_req, res, next) =>
    next(sessionOf(res).mayCorrect ? undefined : mayNotCorrect());

  router.get('/usage/events/correction', isManager, mayCorrect, async (req, res) => {
    const { idempotencyKey, what } = readQuery(req);
    await show(req, res, newForm({ ...parseInput(aboutSchema, { idempotencyKey, what }) }));
  });

  postForm(router, '/usage/events/correction', {
    before: [isManager, mayCorrect],
    async act(req, res, fields) {
      const given = Object.keys(formSchema.shape).map((name) => [name, textField(fields, name)?.trim()]);
      const { idempotencyKey, what, quantity, reason, correctionKey } = parseInput(formSchema, {
        ...Object.fromEntries(given),
        idempotencyKey: textField(fields, 'idempotencyKey'),
      });
      if (what === 'amend' && quantity === undefined) throw fieldError('quantity', 'is required');
      const { orgId } = sessionOf(res);
      const corrections = [
        {
          idempotencyKey,
          quantity: what === 'void' ? '0' : toPlainDecimal(quantity!, 0),
          reason,
          correctionKey,
        },
      ];
      const source = personSource(req, res, clock);
      const request = { orgId, livemode: undefined, by: 'member', corrections } as const;
      await change(context, byMember(res), (tx) => correctEvents(tx, request, source)).catch(
        toFieldError(noEvent()),
      );
      res.redirect(303, toAddress(USAGE_PATH, { event: idempotencyKey, done: 'corrected' }));
    },
    show,
    codes: new Set(['idempotency_conflict']),
  });

  async function show(req: Request, res: Response, form: FormState): Promise<void> {
    const { values } = form;
    const about = { idempotencyKey: values.idempotencyKey, what: values.what };
    const { idempotencyKey, what } = parseInput(aboutSchema, about);
    const event = await findEvent(db.orm, sessionOf(res).orgId, idempotencyKey);
    if (!event) throw noEvent();
    const counted = currentQuantity(event);
    const title = what === 'void' ? 'Void an event' : 'Correct an event';
    const page = { view: 'metering/usage/correction', title, section: 'usage' };
    await renderPage(context, req, res, page, {
      // A form submitted twice corrects once: both requests carry this key.
      form: { ...form, values: { quantity: counted, correctionKey: uuid(), ...values } },
      title,
      isVoid: what === 'void',
      event,
      counted,
      cost: event.creditPrice === '0' ? undefined : creditsOf(event),
      eventHref: toAddress(USAGE_PATH, { event: idempotencyKey }),
      action: CORRECTION_PATH,
    });
  }
}

const noEvent = () => new AppError('event_not_found', 'Your Organization has no such event.');

/** @param noEvent replaces the error for an unknown event */
export const toFieldError =
  (noEvent: AppError) =>
  (error: unknown): never => {
    if (!(error instanceof AppError)) throw error;
    if (error.code === 'event_not_found') throw noEvent;
    const [place] = (error.code === 'quantity_out_of_range' && error.errors) || [];
    throw place ? fieldError('quantity', `is too large. ${place.detail}`) : error;
  };
