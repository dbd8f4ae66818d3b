import { decodeDimensions } from '../entitlements/dimensions.js';
import { sql } from 'drizzle-orm';
import type { Request, Response, Router } from 'express';
import { v7 as uuid } from 'uuid';
import { z } from 'zod';
import type { Source } from '../../accounts/identity/source.js';
import type { Orm, Tx } from '../../core/db/client.js';
import { selectRow } from '../../core/db/sql.js';
import { compareDecimals, toPlainDecimal } from '../../core/decimal.js';
import { AppError } from '../../core/errors.js';
import { parseInput, text } from '../../core/http/validate.js';
import { toAddress, toPager } from '../../core/pages/address.js';
import {
  addForm,
  fieldError,
  readQuery,
  textField,
  type FormFields,
  type FormState,
} from '../../core/pages/form.js';
import { formatDecimal } from '../../core/pages/format.js';
import { pageRouter } from '../../core/pages/layout.js';
import { DAY_MS, monthOf } from '../../core/time.js';
import { changeAsOperator, rehearseAsOperator } from '../../accounts/identity/operator/http.js';
import { requireConfirmation } from '../../accounts/identity/session/operator.js';
import { correctEvents } from '../corrections/corrections.js';
import { readCredits } from '../credit-grants/credits.js';
import { creditsOf, parseEventsRequest, readEventPage } from '../events/events.js';
import { currentQuantity, findEvent, listEventsFrom, type EventRow } from '../events/event-queries.js';
import {
  chooseProduct,
  eventScopeOf,
  readProducts,
  toModeTabs,
  toProductOptions,
} from '../reports/choices.js';
import { correctionFields, toFieldError } from '../reports/correction-pages.js';
import { addressOf, readCustomer, renderCustomer, type ConsoleDeps } from '../../console/page.js';

/** `why` as in forms that an older version has shown. */
const { reason: why, ...otherFields } = correctionFields;
const correctionSchema = z.object({
  idempotencyKey: text(255),
  why,
  ...otherFields,
  quantity: z
    .string()
    .refine((typed) => !/^\s*[-−]/.test(typed), 'must not be below 0')
    .pipe(otherFields.quantity),
});
const keySchema = correctionSchema.pick({ idempotencyKey: true });

/** For a search by key. */
const MAX_MATCHES = 20;

const notices = { corrected: 'The event is corrected.' };

const base = (slug: string) => `${addressOf(slug)}/usage`;

export function customerUsageChangePages(deps: ConsoleDeps): Router {
  const router = pageRouter();
  addEvents(router, deps);
  addCorrections(router, deps);
  return router;
}

function addEvents(router: Router, deps: ConsoleDeps): void {
  const { orm } = deps.db;
  router.get('/customers/:slug/usage', async (req, res) => {
    const customer = await readCustomer(deps, req);
    const path = base(customer.slug);
    const query = readQuery(req);
    const { mode, product: slug, idempotencyKey, cursor, from, to, after } = parseEventsRequest(query);
    const products = await readProducts({ orm, clock: deps.clock }, customer.id, mode);
    const product = await chooseProduct(orm, customer.id, products, slug);
    const searched = idempotencyKey !== undefined;
    const { events, nextCursor } = searched
      ? { events: await listEventsFrom(orm, customer.id, idempotencyKey, MAX_MATCHES), nextCursor: undefined }
      : product
        ? await readEventPage(orm, eventScopeOf(customer.id, [product], mode), { from, to, after })
        : { events: [], nextCursor: undefined };
    const kept = { product: product?.slug, mode };
    const page = { view: 'metering/console/events', tab: 'usage', title: 'Events', notices };
    await renderCustomer(deps, req, res, page, customer, {
      form: { values: { ...query, ...kept }, errors: {}, problem: undefined },
      mode,
      modes: toModeTabs(path, { product: product?.slug }, mode),
      productOptions: toProductOptions(products),
      isSearched: searched,
      dimensions: searched ? 'Dimensions' : product?.dimensions.join(', '),
      events: events.map((event) => ({
        ...event,
        occurredAt: new Date(event.occurredAt),
        values: Object.entries(decodeDimensions(event.keys, event.dimensions) ?? {})
          .map(([name, value]) => (searched ? `${name}: ${value}` : value))
          .join(', '),
        counted: currentQuantity(event),
        credits: event.creditPrice === '0' ? undefined : creditsOf(event),
        href: toAddress(`${path}/corrections`, { idempotencyKey: event.idempotencyKey }),
      })),
      pager: toPager(path, kept, { cursor, nextCursor }),
    });
  });
}

function addCorrections(router: Router, deps: ConsoleDeps): void {
  const { orm } = deps.db;

  const show = async (req: Request, res: Response, form: FormState, effect?: object[]) => {
    const customer = await readCustomer(deps, req);
    const asked = textField(form.values, 'idempotencyKey') ?? readQuery(req).idempotencyKey;
    if (asked === undefined) return res.redirect(303, base(customer.slug));
    const { idempotencyKey } = parseInput(keySchema, { idempotencyKey: asked });
    const event = await findEvent(orm, customer.id, idempotencyKey);
    const page = { view: 'metering/console/correction', tab: 'usage', title: 'Correct an event' };
    if (!event) {
      res.status(404);
      return renderCustomer(deps, req, res, page, customer, { form, event, idempotencyKey });
    }
    const counted = currentQuantity(event);
    await renderCustomer(deps, req, res, page, customer, {
      // A form submitted twice corrects only once, because both requests carry this key.
      form: { ...form, values: { quantity: counted, correctionKey: uuid(), ...form.values, idempotencyKey } },
      event,
      counted,
      effect,
    });
  };

  addForm(router, '/customers/:slug/usage/corrections', {
    before: [requireConfirmation(deps.clock)],
    async act(req, res, { step, ...fields }) {
      const { id: orgId, slug } = await readCustomer(deps, req);
      const { why: reason, ...input } = parseInput(correctionSchema, given(fields));
      const form = { values: fields, errors: {}, problem: undefined };
      if (step === 'edit') return show(req, res, form);
      const corrections = [{ ...input, reason, quantity: toPlainDecimal(input.quantity, 0) }];
      const event = await findEvent(orm, orgId, input.idempotencyKey);
      if (!event) throw noEvent();
      const correct = (tx: Tx, source: Source) =>
        correctEvents(tx, { orgId, livemode: undefined, by: 'operator', corrections }, source);
      const counted = currentQuantity(event);
      if (step !== 'save' && compareDecimals(corrections[0]!.quantity, counted) === 0)
        throw fieldError('quantity', `is already ${formatDecimal(counted)}`);
      const toError = toFieldError(noEvent());
      if (step === 'save') {
        await changeAsOperator(deps, req, res, correct).catch(toError);
        return res.redirect(303, toAddress(base(slug), { done: 'corrected' }));
      }
      const effect = await rehearseAsOperator(deps, req, res, async (tx, source) => {
        const before = await readSums(tx, orgId, event, source.at);
        await correct(tx, source);
        const after = await readSums(tx, orgId, event, source.at);
        return before.map((one, i) => ({ ...one, after: after[i]!.before }));
      }).catch(toError);
      await show(req, res, form, effect);
    },
    show,
    codes: new Set(['idempotency_conflict', 'event_not_found']),
  });
}

const given = (fields: FormFields) => ({
  ...Object.fromEntries(
    ['quantity', 'why', 'correctionKey'].map((name) => [name, textField(fields, name)?.trim()]),
  ),
  idempotencyKey: textField(fields, 'idempotencyKey'),
});

const noEvent = () => new AppError('event_not_found', 'This customer has no such event.');

/** The sums that a correction of the event changes. */
async function readSums(orm: Orm, orgId: string, event: EventRow, at: Date) {
  const { idempotencyKey, productSlug, metric, livemode, creditPrice } = event;
  const occurredMs = Date.parse(event.occurredAt);
  const day = new Date(Math.floor(occurredMs / DAY_MS) * DAY_MS);
  const month = monthOf(occurredMs);
  const own = sql`org_id = ${orgId}::uuid and livemode = ${livemode} and metric = ${metric}
    and product_id = (select id from products where slug = ${productSlug})`;
  const sums = await selectRow<{ day: string; month: string }>(
    orm,
    sql`select
      (select trim_scale(coalesce(sum(quantity), 0))::text from usage_hours
        where ${own} and hour >= ${day.toISOString()}::timestamptz and hour < ${day.toISOString()}::timestamptz + interval '1 day') as day,
      (select trim_scale(coalesce(sum(quantity), 0))::text from usage_totals where ${own} and period = ${month}::date) as month`,
  );
  const counted = currentQuantity((await findEvent(orm, orgId, idempotencyKey))!);
  const unit = metric;
  return [
    { label: 'This event', unit, before: counted },
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
