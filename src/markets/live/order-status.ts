import { setTimeout as sleep } from 'node:timers/promises';
import type { WorkContext } from '../../core/http/context.js';
import { DAY_MS, SECOND_MS } from '../../core/time.js';
import { isOpen } from '../ledger/orders-table.js';
import { mayRest } from '../market/book.js';
import { addCounts, formatContracts, parseCount, sumCounts } from '../market/contracts.js';
import { SAFE_MS, type VenueOutcome } from '../orders/order.js';
import { recordOutcome } from '../orders/record-outcome.js';
import type { LiveOrderRow } from './queries.js';
import { findGap, type Rows } from '../venue/rows.js';
import { mayBe, type Venue } from './venue.js';
import { toVenueFills, type SentOrder, type VenueFillAnswer, type VenueOrder } from './wire.js';

export type VenueStatus =
  | { kind: 'final'; outcome: Extract<VenueOutcome, { kind: 'done' }> }
  | { kind: 'absent' }
  | { kind: 'resting'; outcome: Extract<VenueOutcome, { kind: 'resting' }>; remaining: number }
  /** Not all fills of the ended order are listed yet. */
  | { kind: 'incomplete'; reason: string };

/** Older orders are not sent, so beyond `SAFE_MS` an unknown order never was: no request is in flight that long. */
export const MAX_SEND_AGE_MS = 10 * SECOND_MS;

/** Clock skew, and the venue's resolution of one second. */
const MARGIN_SECONDS = 120;
/** Orders are archived after two weeks (since September 2026), fills after months: one without the other. */
const ARCHIVE_AFTER_MS = DAY_MS;

export interface StatusDeps {
  venue: Venue;
  now: () => number;
  fillPausesMs: readonly number[];
}

/**
 * By its client order id.
 * @param known fills that were just read
 * @throws UnexpectedAnswerError, VenueUnavailableError
 */
export async function findVenueStatus(
  deps: StatusDeps,
  order: SentOrder,
  signal: AbortSignal,
  known: readonly VenueFillAnswer[] = [],
): Promise<VenueStatus> {
  const sinceSeconds = secondsBefore(order);
  const isOld = deps.now() - order.createdAt.getTime() > ARCHIVE_AFTER_MS;
  let gap: Error | undefined;
  for (const isArchived of isOld ? [false, true] : [false]) {
    const filter = { ticker: order.ticker, sinceSeconds, isArchived };
    const { unreadable, ...list } = await deps.venue.listOrders(filter, signal);
    const found = list.rows.find(({ client_order_id: name }) => name === order.clientOrderId);
    if (!found) {
      const mine = unreadable.filter(({ fields }) => mayBe(fields.client_order_id, order.clientOrderId));
      gap ??= findGap('orders', { ...list, unreadable: mine });
      continue;
    }
    const { order_id: venueOrderId, status, fill_count_fp, remaining_count_fp } = found;
    const filled = parseCount(fill_count_fp);
    const remaining = status === 'resting' ? parseCount(remaining_count_fp) : 0;
    return collectFills(deps, order, { venueOrderId, filled, remaining, status, isOld }, signal, known);
  }
  return gap
    ? { kind: 'incomplete', reason: `the venue's list may leave it out: ${gap.message}` }
    : { kind: 'absent' };
}

const secondsBefore = ({ createdAt }: SentOrder): number =>
  Math.floor(createdAt.getTime() / 1000) - MARGIN_SECONDS;

interface ReportedState {
  venueOrderId: string;
  filled: number;
  remaining: number;
  /** Undefined if the state comes from the response to the new order. */
  status?: VenueOrder['status'];
  isOld: boolean;
}

/**
 * The venue lists fills with a short delay, so an ended order's are read again until they match the filled count.
 * @param known fills that were just read, including other orders'; nothing is read if they suffice
 */
export async function collectFills(
  { venue, fillPausesMs }: StatusDeps,
  order: SentOrder,
  state: ReportedState,
  signal: AbortSignal,
  known: readonly VenueFillAnswer[] = [],
): Promise<VenueStatus> {
  const { venueOrderId, filled, isOld } = state;
  const rests = state.remaining > 0;
  if (state.status === 'resting' && !rests)
    return { kind: 'incomplete', reason: 'the venue lists it in its book, with nothing remaining' };
  if (filled === 0) return toStatus(order, state, []);
  let fills = known.filter((fill) => fill.order_id === venueOrderId);
  let listed = countFilled(fills);
  let gap: Error | undefined;
  if (listed === filled) return toStatus(order, state, fills);
  for (const pauseMs of [0, ...fillPausesMs]) {
    if (pauseMs > 0) await sleep(pauseMs, undefined, { signal });
    const { ticker } = order;
    const present = await venue.listFills({ tickers: [ticker], orderId: venueOrderId }, signal);
    const moved = isOld ? await venue.listArchivedFills({ ticker, orderId: venueOrderId }, signal) : nothing;
    gap = findGap('fills', present) ?? findGap('fills', moved);
    fills = [...new Map([...present.rows, ...moved.rows].map((fill) => [fill.fill_id, fill])).values()];
    listed = countFilled(fills);
    if (rests ? listed >= filled : listed === filled) return toStatus(order, state, fills);
  }
  if (rests) return toStatus(order, state, fills);
  const [some, all] = [formatContracts(listed), formatContracts(filled)];
  const why = gap ? `; ${gap.message}` : '';
  return { kind: 'incomplete', reason: `the venue lists ${some} of ${all} filled contracts${why}` };
}

const nothing: Rows<VenueFillAnswer> = { rows: [], unreadable: [] };

const countFilled = (fills: readonly VenueFillAnswer[]): number =>
  sumCounts(fills.map((fill) => parseCount(fill.count_fp)));

function toStatus(order: SentOrder, state: ReportedState, wires: readonly VenueFillAnswer[]): VenueStatus {
  const { venueOrderId, filled, remaining, status } = state;
  const fills = toVenueFills(order, wires);
  if (remaining > 0) {
    const contracts = addCounts(filled, remaining);
    return { kind: 'resting', outcome: { kind: 'resting', venueOrderId, fills, contracts }, remaining };
  }
  const mayHaveRested = mayRest(order.timeInForce);
  // All that was left after a decrease has filled.
  const isDecreased = mayHaveRested && status === 'executed' && filled < order.contracts;
  const unfilled = mayHaveRested ? TAKEN_OUT : UNFILLED;
  const reason = filled === order.contracts || isDecreased ? null : unfilled;
  const contracts = isDecreased ? { contracts: filled } : {};
  return { kind: 'final', outcome: { kind: 'done', venueOrderId, fills, reason, ...contracts } };
}

export const UNFILLED = 'no more contracts stood at the limit price or better';
const TAKEN_OUT = 'the rest was taken out of the book at the venue';

export interface RecoverDeps extends StatusDeps, Pick<WorkContext, 'db' | 'log'> {
  secondLookMs: number;
}

/**
 * An order that the venue has no record of, and that can no longer arrive, was never sent: its reserved cash is
 * released.
 * @throws UnexpectedAnswerError, VenueUnavailableError: the remaining orders wait for the next pass
 */
export async function recoverOrders(deps: RecoverDeps, orders: readonly LiveOrderRow[], signal: AbortSignal) {
  const known = orders.length > 1 ? await listFillsOf(deps, orders, signal) : [];
  for (const row of orders) {
    const outcome = await findOutcome(deps, row, signal, known);
    if (!outcome) continue;
    try {
      const at = new Date(deps.now());
      const { status } = await recordOutcome(deps.db.orm, row.orgId, row.id, outcome, at);
      deps.log.info({ orderId: row.id, status }, 'an order was found at the venue and booked');
    } catch (error) {
      // The comparison that follows reports contradictions.
      if (!(error instanceof RangeError)) throw error;
      deps.log.error({ err: error, orderId: row.id }, "the venue's state of an order cannot be booked");
    }
  }
}

/** One request for many orders. The fills of orders that may be archived are read order by order. */
async function listFillsOf(
  { venue, now }: RecoverDeps,
  orders: readonly LiveOrderRow[],
  signal: AbortSignal,
): Promise<VenueFillAnswer[]> {
  const oldest = now() - ARCHIVE_AFTER_MS;
  const recent = orders.filter(({ createdAt }) => createdAt.getTime() >= oldest);
  if (recent.length === 0) return [];
  const tickers = [...new Set(recent.map(({ ticker }) => ticker))];
  const sinceSeconds = Math.min(...recent.map(secondsBefore));
  return (await venue.listFills({ tickers, sinceSeconds }, signal)).rows;
}

async function findOutcome(
  deps: RecoverDeps,
  row: LiveOrderRow,
  signal: AbortSignal,
  known: readonly VenueFillAnswer[],
): Promise<VenueOutcome | undefined> {
  const isSafe = deps.now() - row.createdAt.getTime() > SAFE_MS;
  const belongs = mayRest(row.timeInForce) && isOpen(row.status);
  let found = await findVenueStatus(deps, row, signal, known);
  if (found.kind === 'resting' && !belongs && (isSafe || !isOpen(row.status))) {
    deps.log.error({ orderId: row.id }, 'an order that should not be in the book is being cancelled');
    await deps.venue.takeTurn(signal);
    await deps.venue.cancelOrder({ venueOrderId: found.outcome.venueOrderId, ticker: row.ticker });
    found = await findVenueStatus(deps, row, signal);
  }
  // A resting order did reach the venue, so it is never lost.
  if (found.kind === 'absent' && isSafe && row.status !== 'resting') {
    await sleep(deps.secondLookMs, undefined, { signal });
    found = await findVenueStatus(deps, row, signal);
    if (found.kind === 'absent')
      return { kind: 'done', venueOrderId: null, fills: [], reason: 'never reached the venue' };
  }
  if (found.kind === 'resting') return belongs ? found.outcome : undefined;
  return found.kind === 'final' ? found.outcome : undefined;
}
