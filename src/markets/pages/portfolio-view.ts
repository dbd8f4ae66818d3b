import { formatAgo, formatCount } from '../../core/pages/format.js';
import { ageOf, type Snapshot, type SourceState } from '../snapshot/snapshot.js';
import { isFairPrice } from '../settlement/settlement-event.js';
import { isStale } from './freshness.js';
import { ORDERS_PATH, ticketAddress } from './addresses.js';
import type { Portfolio, ValuedPosition } from '../portfolio/portfolio.js';
import { nameMarket } from '../market/market-name.js';
import type { OpenOrderRow } from '../portfolio/queries.js';
import { findMarketView, marketStatusLabels, toMarketView } from './labels.js';
import type { EventOutcomes } from '../ledger/valuation.js';
import { MAX_TRADING_AGE_MS } from '../market/source.js';

interface Marks {
  snapshot: Snapshot | undefined;
  sources: readonly SourceState[];
  refreshSeconds: number;
  now: Date;
}

export function toPortfolioView(portfolio: Portfolio, marks: Marks, canTrade: boolean) {
  const { mode, positions, events, openOrders, equity, deposits, transfers } = portfolio;
  const { snapshot } = marks;
  return {
    mode,
    isNew: portfolio.markets === 0 && portfolio.openOrderCount === 0,
    freshness: toFreshness(marks, positions.length > 0),
    tiles: { ...portfolio, gain: equity === null ? null : equity - deposits - transfers },
    positions: positions.map((position) => toPositionView(position, mode === 'paper' && canTrade)),
    isCut: portfolio.isCut,
    events: events.map((event) => toEventView(event, positions, snapshot)),
    openOrders: openOrders.map((order) => toOpenOrderView(order, snapshot)),
    openOrderCount: portfolio.openOrderCount,
  };
}

function toFreshness({ snapshot, sources, refreshSeconds, now }: Marks, isHolding: boolean) {
  if (!snapshot) {
    const failing = sources.find(({ part, state }) => part === 'markets' && state !== 'waiting');
    const why = failing
      ? `The market data source (${failing.name}) is not responding.`
      : 'Market data is loading.';
    return {
      asOf: null,
      warning: isHolding ? `${why} Positions cannot be valued until it arrives.` : undefined,
    };
  }
  const ageMs = ageOf(snapshot, now.getTime());
  if (!isStale(ageMs, refreshSeconds) || !isHolding) return { asOf: snapshot.asOf, warning: undefined };
  const trading = ageMs > MAX_TRADING_AGE_MS ? '  Trading resumes with newer data.' : '';
  return {
    asOf: snapshot.asOf,
    warning: `Values use market data from ${formatAgo(snapshot.asOf, now)}.${trading}`,
  };
}

function toPositionView(position: ValuedPosition, canSell: boolean) {
  const { mark, settlement, contracts } = position;
  const canSellNow = mark.status === 'active' && mark.unsellableContracts < contracts;
  return {
    ...position,
    market: toMarketView(position),
    value: mark.value,
    note: noteOf(position),
    status: mark.status ? marketStatusLabels[mark.status] : { label: 'Not listed', tone: '' },
    temperature: settlement?.temperature ?? null,
    sellHref:
      canSell && canSellNow
        ? ticketAddress(position.ticker, { side: position.side, action: 'sell' })
        : undefined,
  };
}

/** Undefined if the value simply comes from the order book. */
function noteOf({ mark, contracts, settlement }: ValuedPosition): string | undefined {
  const { valuation, unsellableContracts } = mark;
  const value = settlement?.value ?? null;
  if (valuation === 'expected' && value !== null && isFairPrice(value)) return 'last fair price, not final';
  if (valuation !== 'book') return notes[valuation];
  if (unsellableContracts === 0) return undefined;
  return unsellableContracts === contracts
    ? 'no bids'
    : `no bids for ${formatCount(unsellableContracts, 'contract')}`;
}

const notes = {
  expected: 'expected, not final',
  closed: 'no result yet',
  not_listed: 'no longer listed',
  unknown: undefined,
};

/** The joint result of all its positions, by outcome. */
function toEventView(
  { eventTicker, cost, worstCase, bestCase, outcomes }: EventOutcomes,
  positions: readonly ValuedPosition[],
  snapshot: Snapshot | undefined,
) {
  const held = positions.filter((position) => position.eventTicker === eventTicker);
  const isHour = held[0]!.kind === 'hourly';
  // The relation between the markets is unknown.
  const isRange = outcomes.length === 2 && outcomes.every(({ ticker }) => ticker === null);
  const nameOf = (ticker: string | null, i: number) =>
    isRange
      ? ['Worst case', 'Best case'][i]!
      : ticker === null
        ? isHour
          ? 'Below every threshold'
          : 'Any other bracket'
        : nameMarket(ticker, snapshot?.markets.get(ticker)).label;
  return {
    id: `event-${eventTicker.replaceAll(/[^\w-]/g, '')}`,
    market: toMarketView(held[0]!),
    count: held.length,
    cost,
    worst: worstCase,
    best: bestCase,
    outcomes: outcomes.map((outcome, i) => ({ ...outcome, label: nameOf(outcome.ticker, i) })),
  };
}

const toOpenOrderView = (order: OpenOrderRow, snapshot: Snapshot | undefined) => ({
  ...order,
  href: `${ORDERS_PATH}/${order.id}`,
  market: findMarketView(order.ticker, snapshot, order.label),
});
