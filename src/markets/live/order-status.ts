import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Database } from '../../core/db/client.js';
import { DAY_MS, MINUTE_MS, SECOND_MS } from '../../core/time.js';
import { isOpen } from '../ledger/orders-table.js';
import { mayRest } from '../market/book.js';
import { addCounts, formatContracts, parseCount, sumCounts } from '../market/contracts.js';
import type { VenueOutcome } from '../orders/order.js';
import { recordOutcome } from '../orders/record-outcome.js';
import type { LiveOrderRow } from './queries.js';
import type { Venue } from './venue.js';
import { toVenueFills, type SentOrder, type VenueFillAnswer, type VenueOrder } from './wire.js';

export type VenueStatus =
  | { kind: 'final'; outcome: Extract<VenueOutcome, { kind: 'done' }> }
  | { kind: 'absent' }
  /** What was not filled stands in the book. */
  | { kind: 'resting'; outcome: Extract<VenueOutcome, { kind: 'resting' }>; remaining: number }
  /** It has ended, and its fills are not all listed yet. */
  | { kind: 'incomplete'; reason: string };

/**
 * An order is not sent any more when it is older than this, and is booked as never sent when it is older than
 * `SAFE_MS` and the venue does not know it. Between both lies the longest that a request can be on its way.
 */
export const MAX_SEND_AGE_MS = 10 * SECOND_MS;
const SAFE_MS = MINUTE_MS;

/** Clocks differ, and the venue counts in whole seconds. */
const MARGIN_SECONDS = 120;
/**
 * What is older than this is looked for in the venue's archive too. Orders move there after two weeks (since September 2026), fills after
 * months, each by a limit of its own: so one may be there and the other not.
 */
const ARCHIVE_AFTER_MS = DAY_MS;

export interface StatusDeps {
  venue: Venue;
  now: () => number;
  /** Pauses before the venue's list of fills is read again while it is not complete. */
  fillPausesMs: readonly number[];
}

/**
 * Finds an order by the name that we gave it, and what became of it.
 * @param known fills that were read a moment ago
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
  for (const isArchived of isOld ? [false, true] : [false]) {
    const orders = await deps.venue.listOrders({ ticker: order.ticker, sinceSeconds, isArchived }, signal);
    const found = orders.find(({ client_order_id: name }) => name === order.clientOrderId);
    if (!found) continue;
    const { order_id: venueOrderId, status, fill_count_fp, remaining_count_fp } = found;
    const filled = parseCount(fill_count_fp);
    const remaining = status === 'resting' ? parseCount(remaining_count_fp) : 0;
    return collectFills(deps, order, { venueOrderId, filled, remaining, status, isOld }, signal, known);
  }
  return { kind: 'absent' };
}

/** From when on the venue may have an order and its fills. */
const secondsBefore = ({ createdAt }: SentOrder): number =>
  Math.floor(createdAt.getTime() / 1000) - MARGIN_SECONDS;

/** An order at the venue, at one moment. */
interface ReportedState {
  venueOrderId: string;
  filled: number;
  /** What stands in the book. */
  remaining: number;
  /** Undefined where the answer to the order itself says it. */
  status?: VenueOrder['status'];
  isOld: boolean;
}

/**
 * The fills of an order. Those of one that has ended are known once they are as many as the order says: the venue lists fills
 * a moment after it has answered, so the list is read again until both agree. Of one that rests those that are listed are known.
 * @param known fills that were read a moment ago, also of other orders: where they are all, nothing is read
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
    return { kind: 'incomplete', reason: 'the venue shows it in its book, with nothing left of it' };
  if (filled === 0) return toStatus(order, state, []);
  let fills = known.filter((fill) => fill.order_id === venueOrderId);
  let listed = countFilled(fills);
  if (listed === filled) return toStatus(order, state, fills);
  for (const pauseMs of [0, ...fillPausesMs]) {
    if (pauseMs > 0) await sleep(pauseMs, undefined, { signal });
    const { ticker } = order;
    const present = await venue.listFills({ tickers: [ticker], orderId: venueOrderId }, signal);
    const moved = isOld ? await venue.listArchivedFills({ ticker, orderId: venueOrderId }, signal) : [];
    fills = [...new Map([...present, ...moved].map((fill) => [fill.fill_id, fill])).values()];
    listed = countFilled(fills);
    if (rests ? listed >= filled : listed === filled) return toStatus(order, state, fills);
  }
  if (rests) return toStatus(order, state, fills);
  const [some, all] = [formatContracts(listed), formatContracts(filled)];
  return { kind: 'incomplete', reason: `the venue lists ${some} of ${all} filled contracts` };
}

const countFilled = (fills: readonly VenueFillAnswer[]): number =>
  sumCounts(fills.map((fill) => parseCount(fill.count_fp)));

function toStatus(
  order: SentOrder,
  { venueOrderId, filled, remaining, status }: ReportedState,
  wires: readonly VenueFillAnswer[],
): VenueStatus {
  const fills = toVenueFills(order, wires);
  if (remaining > 0) {
    const contracts = addCounts(filled, remaining);
    return { kind: 'resting', outcome: { kind: 'resting', venueOrderId, fills, contracts }, remaining };
  }
  const mayHaveRested = mayRest(order.timeInForce);
  // Filled to the end of what it was decreased to.
  const isDecreased = mayHaveRested && status === 'executed' && filled < order.contracts;
  const unfilled = mayHaveRested ? TAKEN_OUT : UNFILLED;
  const reason = filled === order.contracts || isDecreased ? null : unfilled;
  const contracts = isDecreased ? { contracts: filled } : {};
  return { kind: 'final', outcome: { kind: 'done', venueOrderId, fills, reason, ...contracts } };
}

/** Why an order ended with less than it asked for. */
export const UNFILLED = 'no more contracts stood at the limit price or better';
const TAKEN_OUT = 'the rest was taken out of the book at the venue';

export interface RecoverDeps extends StatusDeps {
  db: Database;
  log: Logger;
  /** Before an order that the venue does not know is looked for a second time. */
  secondLookMs: number;
}

/**
 * Finds out what became of orders whose outcome is not known, and books it. An order that the venue does not know once it
 * cannot arrive any more was never sent, or never arrived: its cash is free again.
 * @throws UnexpectedAnswerError, VenueUnavailableError: the others wait for the next time
 */
export async function recoverOrders(
  deps: RecoverDeps,
  orders: readonly LiveOrderRow[],
  signal: AbortSignal,
): Promise<void> {
  const known = orders.length > 1 ? await listFillsOf(deps, orders, signal) : [];
  for (const row of orders) {
    const outcome = await findOutcome(deps, row, signal, known);
    if (!outcome) continue;
    try {
      const at = new Date(deps.now());
      const { status } = await recordOutcome(deps.db.orm, row.orgId, row.id, outcome, at);
      deps.log.info({ orderId: row.id, status }, 'an order was found at the venue and booked');
    } catch (error) {
      // What contradicts itself is told to people by the comparison that follows.
      if (!(error instanceof RangeError)) throw error;
      deps.log.error({ err: error, orderId: row.id }, 'what the venue says about an order cannot be booked');
    }
  }
}

/** Fills of many orders at once. Those of an order from before the archive's edge are read by themselves. */
function listFillsOf(
  { venue, now }: RecoverDeps,
  orders: readonly LiveOrderRow[],
  signal: AbortSignal,
): Promise<VenueFillAnswer[]> {
  const oldest = now() - ARCHIVE_AFTER_MS;
  const recent = orders.filter(({ createdAt }) => createdAt.getTime() >= oldest);
  if (recent.length === 0) return Promise.resolve([]);
  const tickers = [...new Set(recent.map(({ ticker }) => ticker))];
  return venue.listFills({ tickers, sinceSeconds: Math.min(...recent.map(secondsBefore)) }, signal);
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
    deps.log.error({ orderId: row.id }, 'an order that should not be in the book is there: it is cancelled');
    await deps.venue.takeTurn(signal);
    await deps.venue.cancelOrder({ venueOrderId: found.outcome.venueOrderId, ticker: row.ticker });
    found = await findVenueStatus(deps, row, signal);
  }
  // One that rested was there: it is looked for until it is found.
  if (found.kind === 'absent' && isSafe && row.status !== 'resting') {
    await sleep(deps.secondLookMs, undefined, { signal });
    found = await findVenueStatus(deps, row, signal);
    if (found.kind === 'absent')
      return { kind: 'done', venueOrderId: null, fills: [], reason: 'never reached the venue' };
  }
  if (found.kind === 'resting') return belongs ? found.outcome : undefined;
  return found.kind === 'final' ? found.outcome : undefined;
}
