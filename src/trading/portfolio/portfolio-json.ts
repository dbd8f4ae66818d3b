import { reportJson, type LiveReport } from '../live/report.js';
import { formatDollars, type Micros } from '../market/money.js';
import { ageOf, toStateJson, type SnapshotStore } from '../snapshot/snapshot.js';
import type { Portfolio, ValuedPosition } from './portfolio.js';
import type { OpenOrderRow } from './queries.js';
import type { EventOutcomes } from '../ledger/valuation.js';
import { TIME_TO_LIVE_MS } from '../market/source.js';

const dollars = (micros: Micros | null): string | null => (micros === null ? null : formatDollars(micros));

/** The answer of `GET /portfolio`. Money is true at once; what the marks are made from says how old it is. */
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

/** How old the market data are, and how things stand with their sources. */
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
  cash: dollars(portfolio.cash),
  reserved: dollars(portfolio.reserved),
  available: dollars(portfolio.cash - portfolio.reserved),
  equity: dollars(portfolio.equity),
  liquidationValue: dollars(portfolio.liquidation),
  cost: dollars(portfolio.cost),
  realisedPnl: dollars(portfolio.realised),
  unrealisedPnl: dollars(portfolio.unrealised),
  fees: dollars(portfolio.fees),
  deposits: dollars(portfolio.deposits),
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
  averagePrice: dollars(position.averagePrice),
  cost: dollars(position.cost),
  liquidationValue: dollars(mark.value),
  liquidationFees: dollars(mark.fees),
  valuation: mark.valuation,
  unsellableContracts: mark.unsellableContracts,
  unrealisedPnl: dollars(position.unrealised),
  realisedPnl: dollars(position.realised),
  fees: dollars(position.fees),
  status: mark.status,
  settlement: settlement && { ...settlement, value: dollars(settlement.value) },
  openedAt: position.openedAt,
  updatedAt: position.updatedAt,
});

const toEventJson = ({ eventTicker, cost, worstCase, bestCase, outcomes }: EventOutcomes) => ({
  eventTicker,
  cost: dollars(cost),
  worstCase: dollars(worstCase),
  bestCase: dollars(bestCase),
  outcomes: outcomes.map(({ ticker, payout, result }) => ({
    ticker,
    payout: dollars(payout),
    result: dollars(result),
  })),
});

const toOpenOrderJson = ({ label: _label, reason: _reason, ...order }: OpenOrderRow) => ({
  ...order,
  limitPrice: dollars(order.limitPrice),
  reserved: dollars(order.reserved),
});
