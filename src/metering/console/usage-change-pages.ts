import { decodeDimensions } from '../entitlements/dimensions.js';
import type { Request, Response, Router } from 'express';
import { v7 as uuid } from 'uuid';
import { z } from 'zod';
import { toPlainDecimal } from '../../core/decimal.js';
import { AppError } from '../../core/errors.js';
import { parseInput, text } from '../../core/http/validate.js';
import type { Context } from '../../core/http/context.js';
import { toAddress, toPager } from '../../core/pages/address.js';
import { sendCsv } from '../../core/pages/csv.js';
import {
  addForm,
  fieldError,
  readQuery,
  textField,
  type FormFields,
  type FormState,
} from '../../core/pages/form.js';
import { DAY_MS } from '../../core/time.js';
import { pageRouter } from '../../core/pages/layout.js';
import { changeAsOperator, rehearseAsOperator } from '../../accounts/identity/operator/http.js';
import { requireConfirmation } from '../../accounts/identity/session/operator.js';
import { creditsOf, parseEventsRequest, readEventPage } from '../events/events.js';
import { rangeSchemas } from '../events/page-schema.js';
import { currentQuantity, findEvent, listEventsFrom } from '../events/event-queries.js';
import {
  chooseProduct,
  eventScopeOf,
  MAX_PRODUCTS,
  readProducts,
  toModeTabs,
  toProductOptions,
} from '../reports/choices.js';
import { toEventsCsv } from '../reports/csv.js';
import { correctionFields, makeCorrection } from '../reports/correction-pages.js';
import { addressOf, readCustomer, renderCustomer, type ConsoleDeps } from '../../console/page.js';

/** `why` as in forms that an older version has shown. */
const { reason: why, ...otherFields } = correctionFields;
const correctionSchema = z.object({ idempotencyKey: text(255), why, ...otherFields });
const keySchema = correctionSchema.pick({ idempotencyKey: true });

/** For a search by key. */
const MAX_MATCHES = 20;

const notices = { corrected: 'The event is corrected.' };

type EventDeps = ConsoleDeps & Pick<Context, 'log'>;

const base = (slug: string) => `${addressOf(slug)}/usage`;

export function customerUsageChangePages(deps: EventDeps): Router {
  const router = pageRouter();
  addEvents(router, deps);
  addCorrections(router, deps);
  return router;
}

function addEvents(router: Router, deps: EventDeps): void {
  const { orm } = deps.db;

  const readRequest = async (req: Request) => {
    const customer = await readCustomer(deps, req);
    const { from, to, ...query }: FormFields = readQuery(req);
    const days = parseInput(rangeSchemas.custom.partial(), { from, to });
    const request = parseEventsRequest({
      ...query,
      from: days.from && `${days.from}T00:00`,
      to: days.to && new Date(Date.parse(days.to) + DAY_MS).toISOString(),
    });
    const products = await readProducts({ orm, clock: deps.clock }, customer.id, request.mode);
    const slug = products.length === 1 ? products[0]!.slug : request.product;
    const product = slug && (await chooseProduct(orm, customer.id, products, slug));
    return {
      customer,
      query: { ...query, ...days } as FormFields & typeof days,
      request,
      products,
      product: product || undefined,
    };
  };

  router.get('/customers/:slug/usage.csv', async (req, res) => {
    const { customer, request, product } = await readRequest(req);
    if (!product) throw fieldError('product', 'is required');
    await sendCsv(deps.log, req, res, toEventsCsv(deps, customer.id, product, request));
  });

  router.get('/customers/:slug/usage', async (req, res) => {
    const { customer, query, request, products, product } = await readRequest(req);
    const path = base(customer.slug);
    const { mode, idempotencyKey, cursor } = request;
    const searched = idempotencyKey !== undefined;
    const scope = eventScopeOf(customer.id, product ? [product] : products.slice(0, MAX_PRODUCTS), mode);
    const { events, nextCursor } = searched
      ? { events: await listEventsFrom(orm, customer.id, idempotencyKey, MAX_MATCHES), nextCursor: undefined }
      : await readEventPage(orm, scope, request);
    const kept = { product: product?.slug, mode, from: query.from, to: query.to };
    const options = toProductOptions(products);
    const place = toAddress('', { ...kept, idempotencyKey, cursor }).slice(1);
    const page = { view: 'metering/console/events', tab: 'usage', title: 'Events', notices };
    await renderCustomer(deps, req, res, page, customer, {
      form: { values: { ...query, ...kept }, errors: {}, problem: undefined },
      mode,
      modes: toModeTabs(path, kept, mode),
      productOptions: options && [{ value: '', label: 'All products' }, ...options],
      isSearched: searched,
      csvHref: product && !searched ? toAddress(`${path}.csv`, kept) : undefined,
      events: events.map((event) => ({
        ...event,
        occurredAt: new Date(event.occurredAt),
        values: Object.entries(decodeDimensions(event.keys, event.dimensions) ?? {})
          .map(([name, value]) => `${name}: ${value}`)
          .join(', '),
        counted: currentQuantity(event),
        credits: event.creditPrice === '0' ? undefined : creditsOf(event),
        isCorrected: event.idempotencyKey === query.corrected,
        href: toAddress(`${path}/corrections`, { idempotencyKey: event.idempotencyKey, place }),
      })),
      pager: toPager(path, kept, { cursor, nextCursor }),
    });
  });
}

function addCorrections(router: Router, deps: ConsoleDeps): void {
  const { orm } = deps.db;

  const show = async (req: Request, res: Response, form: FormState, effect?: object[]) => {
    const customer = await readCustomer(deps, req);
    const { idempotencyKey: linked, place } = readQuery(req);
    const asked = textField(form.values, 'idempotencyKey') ?? linked;
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
      form: {
        ...form,
        values: { quantity: counted, correctionKey: uuid(), place, ...form.values, idempotencyKey },
      },
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
      const effect = await makeCorrection(orm, {
        orgId,
        by: 'operator',
        correction: { ...input, reason, quantity: toPlainDecimal(input.quantity, 0) },
        noEvent: noEvent(),
        make: step === 'save' ? (work) => changeAsOperator(deps, req, res, work) : undefined,
        rehearse: (work) => rehearseAsOperator(deps, req, res, work),
      });
      if (!effect) {
        const back = `${base(slug)}?${textField(fields, 'place') ?? ''}`;
        const { idempotencyKey: corrected } = input;
        return res.redirect(303, `${toAddress(back, { done: 'corrected', corrected })}#corrected`);
      }
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
