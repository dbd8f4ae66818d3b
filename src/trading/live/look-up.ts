import { setTimeout as sleep } from 'node:timers/promises';
import type { VenueOutcome } from '../orders/order.js';
import type { Venue } from './venue.js';
import type { VenueFillAnswer, VenueOrder } from './venue-schema.js';
import { toVenueFills, type SentOrder } from './wire.js';
import { formatCount, parseCount, sumCounts } from '../market/contracts.js';

/** What the venue knows about an order. */
export type Found =
  | { kind: 'final'; outcome: Extract<VenueOutcome, { kind: 'done' }> }
  | { kind: 'absent' }
  /** It stands in the book, which orders of this service never should. */
  | { kind: 'resting'; venueOrderId: string }
  /** Its fills are not all listed yet. */
  | { kind: 'incomplete'; reason: string };

/** Clocks differ, and the venue counts in whole seconds. */
const MARGIN_SECONDS = 120;
/**
 * What is older than this is looked for in the venue's archive too. Orders move there after two weeks (since September 2026), fills after
 * months, each by a limit of its own: so one may be there and the other not.
 */
const ARCHIVE_AFTER_MS = 24 * 60 * 60 * 1000;

export interface LookUpDeps {
  venue: Venue;
  now: () => number;
  /** Pauses before the venue's list of fills is read again while it is not complete. */
  fillPausesMs: readonly number[];
}

/**
 * Finds an order by the name that we gave it, and what became of it.
 * @throws UnexpectedAnswerError, VenueUnavailableError
 */
export async function lookUp(deps: LookUpDeps, order: SentOrder, signal: AbortSignal): Promise<Found> {
  const sinceSeconds = Math.floor(order.createdAt.getTime() / 1000) - MARGIN_SECONDS;
  const isOld = deps.now() - order.createdAt.getTime() > ARCHIVE_AFTER_MS;
  for (const isArchived of isOld ? [false, true] : [false]) {
    const orders = await deps.venue.listOrders({ ticker: order.ticker, sinceSeconds, isArchived }, signal);
    const found = orders.find(({ client_order_id: name }) => name === order.clientOrderId);
    if (found) return settle(deps, order, found, isOld, signal);
  }
  return { kind: 'absent' };
}

async function settle(
  deps: LookUpDeps,
  order: SentOrder,
  found: VenueOrder,
  isOld: boolean,
  signal: AbortSignal,
): Promise<Found> {
  if (found.status === 'resting') return { kind: 'resting', venueOrderId: found.order_id };
  const expected = parseCount(found.fill_count_fp);
  return collectFills(deps, order, { venueOrderId: found.order_id, expected, isOld }, signal);
}

/**
 * The fills of a finished order, once they are as many as the order says. The venue lists fills a moment after it has
 * answered, so the list is read again until both agree.
 */
export async function collectFills(
  { venue, fillPausesMs }: LookUpDeps,
  order: SentOrder,
  { venueOrderId, expected, isOld }: { venueOrderId: string; expected: number; isOld: boolean },
  signal: AbortSignal,
): Promise<Found> {
  if (expected === 0) return final(order, venueOrderId, []);
  let listed = 0;
  for (const pauseMs of [0, ...fillPausesMs]) {
    if (pauseMs > 0) await sleep(pauseMs, undefined, { signal });
    const filter = { ticker: order.ticker, orderId: venueOrderId };
    const present = await venue.listFills(filter, signal);
    const moved = isOld ? await venue.listFills({ ...filter, isArchived: true }, signal) : [];
    const fills = [...new Map([...present, ...moved].map((fill) => [fill.fill_id, fill])).values()];
    listed = sumCounts(fills.map((fill) => parseCount(fill.count_fp)));
    if (listed === expected) return final(order, venueOrderId, fills);
  }
  const [some, all] = [formatCount(listed), formatCount(expected)];
  return { kind: 'incomplete', reason: `the venue lists ${some} of ${all} filled contracts` };
}

function final(order: SentOrder, venueOrderId: string, wires: readonly VenueFillAnswer[]): Found {
  const fills = toVenueFills(order, wires);
  const filled = sumCounts(fills.map(({ contracts }) => contracts));
  const reason = filled === order.contracts ? null : UNFILLED;
  return { kind: 'final', outcome: { kind: 'done', venueOrderId, fills, reason } };
}

/** Why an order ended with less than it asked for. */
export const UNFILLED = 'no more contracts stood at the limit price or better';
