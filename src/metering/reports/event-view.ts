import { v7 as uuid } from 'uuid';
import { z } from 'zod';
import type { Viewer } from '../../accounts/portal/viewer.js';
import type { Orm } from '../../core/db/client.js';
import { ExactNumber, toJson } from '../../core/http/json.js';
import { text } from '../../core/http/validate.js';
import { newForm, type FormFields, type FormState } from '../../core/pages/form.js';
import { HOUR_MS } from '../../core/time.js';
import { decodeDimensions } from '../entitlements/dimensions.js';
import { currentQuantity, findArchived, listEventsFrom, type EventRow } from '../events/event-queries.js';
import { authorOf, creditsOf, decodePosition, readEventPage } from '../events/events.js';
import type { Narrowing, UsageProduct } from '../events/page-queries.js';
import { eventScopeOf } from './choices.js';
import { includes } from './period.js';
import { linksOf, toArchivedView } from './report-view.js';
import type { UsageRequest } from './report.js';

const SHOWN_EVENTS = { ofOne: 10, ofAll: 7 };

export async function readEvents(
  orm: Orm,
  orgId: string,
  products: UsageProduct[],
  request: UsageRequest,
  { part, now }: { part: Narrowing | undefined; now: Date },
) {
  const { period, cursor, subject } = request;
  const scope = eventScopeOf(orgId, products, request.mode);
  const { from, to } = spanOf(request);
  const after = cursor === undefined ? undefined : decodePosition(cursor);
  const limit = products.length === 1 ? SHOWN_EVENTS.ofOne : SHOWN_EVENTS.ofAll;
  const page = await readEventPage(orm, scope, { from, to, part, after, limit });
  const link = linksOf(request, products.length === 1 ? products[0]!.slug : undefined);
  const archived =
    subject === undefined ? await findArchived(orm, orgId, { of: scope, from, to }) : undefined;
  return {
    rows: page.events.map(toEventView).map((event) => ({
      ...event,
      ...nameOf(event, products.length > 1, request),
      isCurrent: event.idempotencyKey === request.event,
      href: link({ event: event.idempotencyKey, cursor }),
    })),
    product: products.length === 1 ? products[0] : undefined,
    hourName: request.hour && `${request.hour}:00 to ${request.hour}:59`,
    allHref: `${link({ hour: '' })}#events`,
    searchedTo: page.searchedTo === undefined ? undefined : new Date(page.searchedTo),
    archived: archived && toArchivedView(archived),
    pager: {
      first: cursor === undefined ? undefined : `${link()}#events`,
      next: page.nextCursor === undefined ? undefined : `${link({ cursor: page.nextCursor })}#events`,
    },
    isOpen: [cursor, request.hour, request.event].some((choice) => choice !== undefined),
    isLive: cursor === undefined && includes(period, now),
    refreshHref: `${link({ event: request.event })}#events`,
    csvHref: request.showsKeys ? link({}, `${request.path}/events.csv`) : undefined,
  };
}

export function spanOf({ period, hour }: UsageRequest) {
  const from = hour === undefined ? period.from : new Date(period.from.getTime() + Number(hour) * HOUR_MS);
  const to = hour === undefined ? period.to : new Date(from.getTime() + HOUR_MS);
  return { from: from.toISOString(), to: to.toISOString() };
}

const MAX_FOUND = 20;

/** Undefined unless the query asks for an event, by the start of its key. Another viewer's event is not found. */
export async function readLookUp(
  orm: Orm,
  { orgId, mode, subject }: Pick<Viewer, 'orgId' | 'mode' | 'subject'>,
  query: FormFields,
) {
  const wanted = z.object({ event: text(255) }).safeParse(query).data?.event;
  if (wanted === undefined) return undefined;
  const listed = await listEventsFrom(orm, orgId, wanted, MAX_FOUND + 1);
  // A subject's own page knows its events by their whole keys.
  const isExact = listed[0]?.idempotencyKey === wanted || subject !== undefined;
  const found = listed.filter(
    (event) =>
      (!isExact || event.idempotencyKey === wanted) &&
      (mode === undefined || event.livemode === (mode === 'live')) &&
      (subject === undefined || event.subject === subject),
  );
  const event = found.length === 1 ? found[0] : undefined;
  return {
    wanted: event?.idempotencyKey ?? wanted,
    event,
    found: found.slice(0, MAX_FOUND),
    hasMore: found.length > MAX_FOUND,
    archived: found.length > 0 || subject !== undefined ? undefined : await findArchived(orm, orgId, {}),
  };
}

export const placeOf = ({ productSlug, livemode, occurredAt }: EventRow) => ({
  product: productSlug,
  mode: livemode ? 'live' : 'test',
  range: 'month',
  month: occurredAt.slice(0, 7),
});

export type LookUp = NonNullable<Awaited<ReturnType<typeof readLookUp>>>;

/** A correction that the form shows, or its effect. */
export interface Typed {
  form: FormState;
  effect?: object | undefined;
}

interface Around {
  /** To the same list, with another event or none. */
  link: (change: { event?: string | undefined; correct?: 'amend' | 'void' | undefined }) => string;
  rows: readonly { idempotencyKey: string }[];
  owner: 'Your Organization' | 'This customer';
  showsKeys: boolean;
  mayCorrect: boolean;
  /** Events of others that the reader may see. */
  elsewhere?: Record<'slug' | 'name' | 'key' | 'mode', string>[];
  hrefsOf: (event: EventRow) => { key: string; day: string; ledger: string | undefined };
}

/** @param correct what the reader has chosen to do with the event */
export function toEventPanel(
  { wanted, event, found, hasMore, archived }: LookUp,
  { link, rows, hrefsOf, ...around }: Around,
  correct: unknown,
  typed: Typed = { form: newForm() },
) {
  const at = rows.findIndex(({ idempotencyKey }) => idempotencyKey === wanted);
  const hrefOf = (row: (typeof rows)[number] | undefined) => row && link({ event: row.idempotencyKey });
  const what = correct === 'void' ? ('void' as const) : ('amend' as const);
  const counted = event && currentQuantity(event);
  return {
    ...around,
    wanted,
    hasMore,
    found: found.map((row) => ({
      ...toEventView(row),
      name: row.idempotencyKey,
      parts: row.productName,
      href: link({ event: row.idempotencyKey }),
    })),
    isPadded: wanted !== wanted.trim(),
    archived: archived && toArchivedView(archived),
    closeHref: `${link({})}#events`,
    previousHref: hrefOf(rows[at - 1]),
    nextHref: at === -1 ? undefined : hrefOf(rows[at + 1]),
    event: event && {
      ...toEventView(event),
      json: toSent(event),
      /** A portal names neither people nor keys. */
      corrections: (around.showsKeys ? (event.corrections ?? []) : []).map((correction) => ({
        ...correction,
        correctedAt: new Date(correction.correctedAt),
        author: authorOf(correction, around.owner === 'This customer'),
      })),
      amendHref: link({ event: wanted, correct: 'amend' }),
      voidHref: link({ event: wanted, correct: 'void' }),
      hrefs: hrefsOf(event),
    },
    correction:
      event && around.mayCorrect && correct !== undefined
        ? {
            isVoid: what === 'void',
            effect: typed.effect,
            action: `${link({ event: wanted, correct: what })}#correct-title`,
            cancel: link({ event: wanted }),
            // A form submitted twice corrects once: both requests carry this key.
            form: {
              ...typed.form,
              values: { quantity: counted!, correctionKey: uuid(), ...typed.form.values },
            },
          }
        : undefined,
  };
}

/** Names an event by its product in a list of all products, otherwise by its values, or by its API key without any. */
function nameOf(event: ReturnType<typeof toEventView>, isOfAll: boolean, request: UsageRequest) {
  const values = [
    ...event.dimensions.map(([name, value]) => (Object.hasOwn(request.values, name) ? '' : value)),
    request.subject === undefined ? event.subject : '',
  ];
  const parts = values.filter(Boolean).join(' · ');
  const keyName = request.showsKeys ? (event.keyName ?? 'Operator') : event.productName;
  return isOfAll ? { name: event.productName, parts } : { name: parts || keyName, parts: '' };
}

/** The metric is the one that the product had then. */
function toSent(event: EventRow): string {
  const { productSlug, metric, quantity, occurredAt, idempotencyKey, subject } = event;
  const sent = { productSlug, metric, quantity: new ExactNumber(quantity), occurredAt, idempotencyKey };
  const dimensions = decodeDimensions(event.keys, event.dimensions);
  return toJson({ ...sent, ...(subject !== '' && { subject }), dimensions }, 2);
}

export function toEventView(event: EventRow) {
  return {
    ...event,
    shortKey: event.idempotencyKey.replace(/^(.{12}).{3,}$/u, '$1…'),
    exactOccurredAt: event.occurredAt,
    exactReceivedAt: event.receivedAt,
    occurredAt: new Date(event.occurredAt),
    receivedAt: new Date(event.receivedAt),
    counted: currentQuantity(event),
    cost: event.creditPrice === '0' ? undefined : creditsOf(event),
    dimensions: Object.entries(decodeDimensions(event.keys, event.dimensions) ?? {}),
    isCorrected: event.corrections !== null,
  };
}
