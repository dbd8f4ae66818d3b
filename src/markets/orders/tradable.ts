import { formatCount, formatPrice } from '../../core/pages/format.js';
import { AppError, type ErrorPlace } from '../../core/errors.js';
import { asksOf, bidsOf, emptyBook, isCrossed, matchOrder, type OrderBook } from '../market/book.js';
import { ORDER_SIZE, isOrderSize } from '../market/contracts.js';
import { feeRuleOf } from '../market/fees.js';
import { isOnTick, isPlaced, WEATHER_SHARD, type ListedMarket } from '../market/market.js';
import { DOLLAR, formatDollars, type Micros } from '../market/money.js';
import { MAX_TRADING_AGE_MS, type MarketData } from '../market/source.js';
import { ageOf, type Snapshot, type SnapshotReads } from '../snapshot/snapshot.js';
import type { OrderInput } from '../ledger/order-input.js';
import { findNearExtreme } from '../signals/near-extreme.js';

export type TradableMarket = ReturnType<typeof requireTradable>;

type AskedOrder = Pick<OrderInput, 'ticker' | 'side' | 'action' | 'contracts' | 'limitPrice' | 'rest'>;

/**
 * Returns the order's market if it is tradable now, on fresh data.
 * @throws AppError market_data_unavailable, market_data_stale, unknown_market, live_trading_disabled, market_closed,
 * invalid_request
 */
export function requireTradable(
  snapshots: SnapshotReads,
  { ticker, contracts, limitPrice, mode, rest }: AskedOrder & Pick<OrderInput, 'mode'>,
  nowMs: number,
) {
  const snapshot = requireFresh(snapshots, nowMs);
  const market = snapshot.markets.get(ticker);
  if (!market) throw new AppError('unknown_market', `There is no market ${ticker}.`);
  // Live orders require a market whose station is known for certain.
  if (mode === 'live' && !isPlaced(market))
    throw new AppError('live_trading_disabled', `${ticker} can be traded only on paper: ${market.problem}.`);
  if (mode === 'live' && market.exchangeIndex !== undefined)
    throw new AppError(
      'live_trading_disabled',
      `${ticker} can be traded only on paper: it is on the venue's exchange shard ${market.exchangeIndex}, but live accounts have their money on shard ${WEATHER_SHARD}.`,
    );
  const feeRule = feeRuleOf(snapshot.data, market);
  assertOpen(snapshot, market, nowMs);
  assertCertain(snapshot, ticker, nowMs);
  if (!feeRule) throw closed(market, `the venue's fee for the series ${market.seriesTicker} is not known`);
  const near = rest?.cancelOn.includes('observation') && findNearExtreme(snapshot, market, nowMs);
  if (near) throw closed(market, `${near}; only an order that observations do not cancel may rest`);
  assertPrice(market, limitPrice);
  if (!isOrderSize(contracts)) throw invalid('/contracts', ORDER_SIZE);
  return { snapshot, market, book: snapshot.data.books.get(ticker) ?? emptyBook, feeRule };
}

/** Returns an AppError that the check throws. */
export function attempt<T>(check: () => T): T | AppError {
  try {
    return check();
  } catch (error) {
    if (error instanceof AppError) return error;
    throw error;
  }
}

export function requireFresh({ current, sources }: SnapshotReads, nowMs: number): Snapshot {
  if (!current)
    throw new AppError('market_data_unavailable', 'No market data has been loaded yet.', {
      retryAfterSeconds: 5,
    });
  const ageMs = ageOf(current, nowMs);
  if (ageMs > MAX_TRADING_AGE_MS)
    throw stale(
      `The market data is ${Math.floor(ageMs / 1000)} s old. Orders need data that is at most ${MAX_TRADING_AGE_MS / 1000} s old.`,
    );
  if (sources.some(({ part, state }) => part === 'markets' && state === 'unexpected'))
    throw stale(
      'The venue sent an unexpected response. Trading is closed until the venue can be read again.',
    );
  return current;
}

/** @throws AppError market_data_stale if the book is in doubt or too old, even if the listing is fresh */
export function assertCertain({ data }: Snapshot, ticker: string, nowMs: number): void {
  if (data.doubts?.has(ticker))
    throw stale(
      `The order book of ${ticker} is in doubt: the venue's stream is late, was interrupted or contradicted itself, or the book could not be read. Orders are accepted again after the book has been read.`,
    );
  const ageMs = nowMs - (data.bookTimes?.get(ticker)?.getTime() ?? nowMs);
  if (ageMs > MAX_TRADING_AGE_MS)
    throw stale(
      `The order book of ${ticker} is ${Math.floor(ageMs / 1000)} s old. Orders need a book that is at most ${MAX_TRADING_AGE_MS / 1000} s old.`,
    );
}

const stale = (detail: string): AppError =>
  new AppError('market_data_stale', detail, { retryAfterSeconds: 15 });

function assertOpen({ data }: Snapshot, market: ListedMarket, nowMs: number): void {
  const { status, openTime, closeTime } = market;
  const pause = pauseOf(data, nowMs);
  if (pause !== undefined) throw closed(market, pause);
  if (market.untradable !== undefined) throw closed(market, market.untradable);
  if (status !== 'active') throw closed(market, `its status is ${status}`);
  if (nowMs < openTime.getTime()) throw closed(market, `it opens at ${openTime.toISOString()}`);
  if (nowMs >= closeTime.getTime()) throw closed(market, `it closed at ${closeTime.toISOString()}`);
}

/** Undefined if it is not. Data from before an announced pause cannot show whether the pause took effect. */
function pauseOf({ isTrading, resumesAt, pause, fetchedAt }: MarketData, nowMs: number): string | undefined {
  if (!isTrading)
    return resumesAt === undefined
      ? 'the venue has paused trading'
      : `the venue has paused trading; it resumes at ${resumesAt.toISOString()}`;
  const hasBegun = pause && pause.from.getTime() <= nowMs && nowMs < pause.until.getTime();
  return hasBegun && fetchedAt < pause.from
    ? `the venue pauses trading now; it resumes at ${pause.until.toISOString()}`
    : undefined;
}

const closed = ({ ticker }: ListedMarket, why: string): AppError =>
  new AppError('market_closed', `${ticker} does not accept orders: ${why}.`);

function assertPrice({ priceRanges }: ListedMarket, limitPrice: Micros): void {
  if (limitPrice > 0n && limitPrice < DOLLAR && isOnTick(priceRanges, limitPrice)) return;
  const steps = priceRanges.map(
    ({ start, end, step }) =>
      `a multiple of $${formatDollars(step)} from $${formatDollars(start)} to $${formatDollars(end)}`,
  );
  throw invalid('/limitPrice', `must be above $0 and below $1, and ${steps.join(', or ')}`);
}

export function assertTerms({ rest }: Pick<OrderInput, 'rest'>, nowMs: number): void {
  if (rest?.expiresAt && rest.expiresAt.getTime() <= nowMs)
    throw invalid('/expiresAt', 'must be in the future');
}

export function invalid(pointer: string, detail: string): AppError {
  const places: ErrorPlace[] = [{ pointer, code: 'invalid_request', detail }];
  return new AppError('invalid_request', `${pointer} ${detail}`, { errors: places });
}

/**
 * Accepts an order that may rest or can fill at least in part. A post-only order is accepted only if no part of it
 * would fill.
 * @param whole the book as the venue shows it
 * @param book the same book, minus the liquidity taken by paper orders
 * @throws AppError price_moved
 */
export function assertReachable(whole: OrderBook, book: OrderBook, order: AskedOrder): void {
  if (isCrossed(whole))
    throw new AppError(
      'price_moved',
      `The order book of ${order.ticker} is crossed: its best bid is not below its best ask.`,
    );
  const { side, action, limitPrice, rest } = order;
  const reached = rest?.postOnly ? whole : book;
  const isReached = matchOrder(reached, { ...order, timeInForce: 'immediate_or_cancel' }).filledContracts > 0;
  if (rest ? !(rest.postOnly && isReached) : isReached) return;
  const levelsOf = action === 'buy' ? asksOf : bidsOf;
  const name = `${side.toUpperCase()} of ${order.ticker}`;
  const [best] = levelsOf(reached, side);
  if (!best) {
    const isTaken = levelsOf(whole, side).length > 0;
    const offers = action === 'buy' ? 'asks' : 'bids';
    const why = isTaken ? ': your own orders have taken all of the current book' : ' at the moment';
    throw new AppError('price_moved', `There are no ${offers} for ${name}${why}.`);
  }
  const offer = action === 'buy' ? 'is offered at' : 'can be sold at';
  throw new AppError(
    'price_moved',
    `${name} ${offer} ${formatPrice(best.price)} at best (${formatCount(best.contracts, 'contract')}). The limit price is ${formatPrice(limitPrice)}${rest ? ', and the order is post-only' : ''}.`,
  );
}
