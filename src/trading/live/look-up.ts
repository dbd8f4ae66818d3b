import { setTimeout as sleep } from 'node:timers/promises';
import type { VenueOutcome } from '../orders/order.js';
import type { Venue } from './venue.js';
import type { VenueFillAnswer, VenueOrder } from './venue-schema.js';
import { formatHundredths, toHundredths, toVenueFills, type SentOrder } from './wire.js';

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
/** What is older than this may have been moved to the venue's archive. */
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
    if (found) return settle(deps, order, found, isArchived, signal);
  }
  return { kind: 'absent' };
}

async function settle(
  deps: LookUpDeps,
  order: SentOrder,
  found: VenueOrder,
  isArchived: boolean,
  signal: AbortSignal,
): Promise<Found> {
  if (found.status === 'resting') return { kind: 'resting', venueOrderId: found.order_id };
  const expected = toHundredths(found.fill_count_fp);
  return collectFills(deps, order, { venueOrderId: found.order_id, expected, isArchived }, signal);
}

/**
 * The fills of a finished order, once they are as many as the order says. The venue lists fills a moment after it has
 * answered, so the list is read again until both agree.
 */
export async function collectFills(
  { venue, fillPausesMs }: LookUpDeps,
  order: SentOrder,
  { venueOrderId, expected, isArchived }: { venueOrderId: string; expected: number; isArchived: boolean },
  signal: AbortSignal,
): Promise<Found> {
  if (expected === 0) return final(order, venueOrderId, []);
  let listed = 0;
  for (const pauseMs of [0, ...fillPausesMs]) {
    if (pauseMs > 0) await sleep(pauseMs, undefined, { signal });
    const filter = { ticker: order.ticker, orderId: venueOrderId, isArchived };
    const fills = await venue.listFills(filter, signal);
    listed = fills.reduce((sum, fill) => sum + toHundredths(fill.count_fp), 0);
    if (listed === expected) return final(order, venueOrderId, fills);
  }
  const [some, all] = [formatHundredths(listed), formatHundredths(expected)];
  return { kind: 'incomplete', reason: `the venue lists ${some} of ${all} filled contracts` };
}

function final(order: SentOrder, venueOrderId: string, wires: readonly VenueFillAnswer[]): Found {
  const fills = toVenueFills(order, wires);
  const filled = fills.reduce((sum, { contracts }) => sum + contracts, 0);
  const reason = filled === order.contracts ? null : UNFILLED;
  return { kind: 'final', outcome: { kind: 'done', venueOrderId, fills, reason } };
}

/** Why an order ended with less than it asked for. */
export const UNFILLED = 'no more contracts stood at the limit price or better';
