import { reportJson, type LiveReport } from '../live/report.js';
import { dollarsOrNull } from '../market/money.js';
import { ageOf, toStateJson, type SnapshotStore } from '../snapshot/snapshot.js';
import type { Portfolio, ValuedPosition } from './portfolio.js';
import type { OpenOrderRow } from './queries.js';
import type { EventOutcomes } from '../ledger/valuation.js';
import { TIME_TO_LIVE_MS } from '../market/source.js';

/** Booked money is current; `asOf` is the time of the marks. */
export function toPortfolioAnswer(
  portfolio: Portfolio,
  venue: LiveReport | undefined,
  snapshots: SnapshotStore,
  nowMs: number,
) {
  return {
    portfolio: toPortfolioJson(portfolio),
    ...(portfolio.mode === 'live' ? { venue: venue ? reportJson(venue) : null } : {}),
    ...freshnessOf(snapshots, nowMs),
  };
}

export function freshnessOf({ current, sources }: SnapshotStore, nowMs: number) {
  const ageMs = current ? ageOf(current, nowMs) : null;
  return {
    asOf: current?.asOf ?? null,
    ageSeconds: ageMs === null ? null : Math.floor(ageMs / 1000),
    stale: ageMs === null || ageMs > TIME_TO_LIVE_MS,
    sources: sources.map(toStateJson),
  };
}

const toPortfolioJson = (portfolio: Portfolio) => ({
  mode: portfolio.mode,
  cash: dollarsOrNull(portfolio.cash),
  reserved: dollarsOrNull(portfolio.reserved),
  available: dollarsOrNull(portfolio.cash - portfolio.reserved),
  equity: dollarsOrNull(portfolio.equity),
  liquidationValue: dollarsOrNull(portfolio.liquidation),
  cost: dollarsOrNull(portfolio.cost),
  realisedPnl: dollarsOrNull(portfolio.realised),
  unrealisedPnl: dollarsOrNull(portfolio.unrealised),
  fees: dollarsOrNull(portfolio.fees),
  deposits: dollarsOrNull(portfolio.deposits),
  transfers: dollarsOrNull(portfolio.transfers),
  positions: portfolio.positions.map(toPositionJson),
  isCut: portfolio.isCut,
  events: portfolio.events.map(toEventJson),
  openOrders: portfolio.openOrders.map(toOpenOrderJson),
  openOrderCount: portfolio.openOrderCount,
});

const toPositionJson = ({ mark, settlement, ...position }: ValuedPosition) => ({
  ticker: position.ticker,
  eventTicker: position.eventTicker,
  station: position.station?.id ?? null,
  city: position.city,
  date: position.date,
  label: position.label,
  side: position.side,
  contracts: position.contracts,
  averagePrice: dollarsOrNull(position.averagePrice),
  cost: dollarsOrNull(position.cost),
  liquidationValue: dollarsOrNull(mark.value),
  liquidationFees: dollarsOrNull(mark.fees),
  valuation: mark.valuation,
  unsellableContracts: mark.unsellableContracts,
  unrealisedPnl: dollarsOrNull(position.unrealised),
  realisedPnl: dollarsOrNull(position.realised),
  fees: dollarsOrNull(position.fees),
  status: mark.status,
  settlement: settlement && { ...settlement, value: dollarsOrNull(settlement.value) },
  openedAt: position.openedAt,
  updatedAt: position.updatedAt,
});

const toEventJson = ({ eventTicker, cost, worstCase, bestCase, outcomes }: EventOutcomes) => ({
  eventTicker,
  cost: dollarsOrNull(cost),
  worstCase: dollarsOrNull(worstCase),
  bestCase: dollarsOrNull(bestCase),
  outcomes: outcomes.map(({ ticker, payout, result }) => ({
    ticker,
    payout: dollarsOrNull(payout),
    result: dollarsOrNull(result),
  })),
});

const toOpenOrderJson = ({ label: _label, reason: _reason, ...order }: OpenOrderRow) => ({
  ...order,
  limitPrice: dollarsOrNull(order.limitPrice),
  reserved: dollarsOrNull(order.reserved),
});
