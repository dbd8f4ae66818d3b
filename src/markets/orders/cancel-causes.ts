import { AppError } from '../../core/errors.js';
import { HOUR_MS, MINUTE_MS } from '../../core/time.js';
import type { CancelCause } from '../ledger/orders-table.js';
import type { Position } from '../ledger/positions.js';
import { forecastOf } from '../learning/forecast.js';
import { isPlaced, spanOf } from '../market/market.js';
import { checkAccess, checkSwitches, withoutName } from '../risk/checks.js';
import { closedSide } from '../risk/exposure.js';
import type { RiskFacts } from '../risk/facts.js';
import { refreshOf, type Snapshot, type SnapshotStore } from '../snapshot/snapshot.js';
import { findNearExtreme } from '../signals/near-extreme.js';
import type { OrderRow } from './queries.js';
import { assertCertain, attempt, requireFresh } from './tradable.js';
import { subtractCounts } from '../market/contracts.js';

interface Seen {
  snapshots: SnapshotStore;
  nowMs: number;
}

/** How long past the hour stations start publishing their next hourly report. */
const REPORT_MS = 50 * MINUTE_MS;

const causes: Record<CancelCause, (order: OrderRow, seen: Seen) => string | undefined> = {
  observation({ ticker, createdAt }, { snapshots: { current }, nowMs }) {
    const market = current?.markets.get(ticker);
    if (!current || !market || !isPlaced(market)) return undefined;
    const near = findNearExtreme(current, market, nowMs);
    if (near !== undefined) return `${capitalized(near)}.`;
    const seen = forecastOf(current.forecasts, market)?.observed;
    if (seen && seen.observedAt > createdAt)
      return `${market.station.name} reported at ${seen.observedAt.toISOString()}.`;
    const { start, end } = spanOf(market.station, market);
    const due = Math.floor((nowMs - REPORT_MS) / HOUR_MS) * HOUR_MS + REPORT_MS;
    const isWithinDay = due >= start.getTime() && due < end.getTime();
    return isWithinDay && due > createdAt.getTime()
      ? `A report of ${market.station.name} is due from ${new Date(due).toISOString()} on.`
      : undefined;
  },
  stale({ ticker }, { snapshots, nowMs }) {
    const refusal = attempt(() => assertCertain(requireFresh(snapshots, nowMs), ticker, nowMs));
    return refusal instanceof AppError ? refusal.message : undefined;
  },
  gate_closed({ ticker }, { snapshots: { current } }) {
    const gate = current && gateOf(current, ticker);
    return !gate || gate.isOpen ? undefined : `The gate of its signal is closed. ${gate.reason}`;
  },
};

const capitalized = (sentence: string): string => sentence[0]!.toUpperCase() + sentence.slice(1);

export const gateOf = (snapshot: Snapshot, ticker: string) => {
  const eventTicker = snapshot.markets.get(ticker)?.eventTicker;
  return refreshOf(snapshot).signals.events.find((event) => event.eventTicker === eventTicker)?.gate;
};

/** Its `cancelOn` conditions or its market may end it. Undefined if it may stay. */
export function findCause(order: OrderRow, seen: Seen): string | undefined {
  const { current } = seen.snapshots;
  const market = current?.markets.get(order.ticker);
  if (current && !market) return 'Cancelled because the market is no longer listed.';
  // The venue itself cancels live orders in a paused market.
  if (order.mode === 'paper' && market?.status === 'inactive')
    return 'Cancelled because the venue paused the market and clears its book before it resumes.';
  for (const cause of order.cancelOn) {
    const reason = causes[cause](order, seen);
    if (reason !== undefined) return `Cancelled automatically: ${reason}`;
  }
  return undefined;
}

/** The switches or the Organization's access to markets may end it. Undefined if it may stay. */
export function findBarrier(
  order: OrderRow,
  facts: RiskFacts | undefined,
  position: Pick<Position, 'side' | 'contracts'> | undefined,
): string | undefined {
  // Unknown switches count as closed.
  if (!facts) return 'Cancelled because the trading switches are not known.';
  const remaining = subtractCounts(order.contracts, order.filledContracts);
  const closable = position?.side === closedSide(order) ? position.contracts : 0;
  const asked = {
    input: { order: { ...order, contracts: remaining } },
    facts,
    closable,
    isReducing: remaining <= closable,
  };
  const refusal = checkAccess(asked) ?? checkSwitches(asked);
  return refusal && `Cancelled: ${withoutName(refusal)}`;
}
