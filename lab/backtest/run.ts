import {
  applyFill,
  applySettlement,
  applyVoid,
  type Booking,
  type Holding,
  type Postings,
} from '../../src/markets/ledger/positions.js';
import { type OrderBook, type Side, quoteOrder, type Quote } from '../../src/markets/market/book.js';
import { valueOf } from '../../src/markets/market/contracts.js';
import type { ListedMarket } from '../../src/markets/market/market.js';
import { DOLLAR, type Micros } from '../../src/markets/market/money.js';
import type { MarketData } from '../../src/markets/market/source.js';
import { addTaken, bookHash, withoutTaken, type Taken } from '../../src/markets/orders/paper-book.js';
import type { Signal } from '../../src/markets/signals/signal.js';
import { makeSignals } from '../../src/markets/signals/signals.js';
import type { PointInTime } from './feed.js';
import { feeRuleOf } from '../../src/markets/market/fees.js';
import { markPosition } from '../../src/markets/ledger/valuation.js';

export type Trail = Awaited<ReturnType<typeof runBacktest>>;

export interface RunOptions {
  cash: Micros;
  change?: (point: PointInTime) => PointInTime;
  /** See `Feed.takenMs`. */
  takenMs?: number | undefined;
  onPoint?: () => void;
}

/** As the service would have, with the account and books of each point in time. */
export async function runBacktest(
  points: AsyncIterable<PointInTime> | Iterable<PointInTime>,
  { cash, change = (point) => point, takenMs, onPoint }: RunOptions,
) {
  const broker = createBroker(cash, takenMs);
  /** Positions are valued at the last bids. */
  const equity: { at: Date; amount: Micros }[] = [];
  const counts = {
    /** Every event at every point in time. */
    decisions: 0,
    /** Without those withheld. */
    signals: 0,
    withheld: 0,
    /** Reasons for not buying, with the numbers in their text replaced by N. */
    reasons: new Map<string, number>(),
  };
  const dates = new Set<string>();
  let end = cash;
  for await (const point of points) {
    broker.settle(point.data.markets);
    if (point.due.length > 0) {
      counts.decisions += point.due.length;
      for (const { date } of point.due) dates.add(date);
      follow(change(point), broker, counts);
    }
    end = broker.equity(point.data);
    equity.push({ at: point.at, amount: end });
    onPoint?.();
  }
  return {
    start: cash,
    equity,
    end,
    endCash: broker.cash,
    purchases: broker.purchases,
    dates: [...dates].sort(),
    ...counts,
  };
}

function follow(
  { at, data, events, due, forecasts, gates }: PointInTime,
  broker: ReturnType<typeof createBroker>,
  counts: Pick<Trail, 'signals' | 'withheld' | 'reasons'>,
): void {
  const account = { cash: broker.cash, holdings: broker.holdings };
  const isDue = new Set(due.map(({ eventTicker }) => eventTicker));
  // Positions in events that are not due use up the daily cap. Without a forecast, nothing more is bought there.
  const report = makeSignals({
    data: broker.see(data),
    events,
    forecasts: onlyOf(forecasts, isDue),
    gates,
    at,
    account,
  });
  for (const { eventTicker, signals, suppressed } of report.events) {
    if (!isDue.has(eventTicker)) continue;
    counts.signals += signals.length;
    counts.withheld += suppressed.filter(({ isWithheld }) => isWithheld).length;
    for (const { reason } of suppressed) {
      const kind = reason.replace(/[+−-]?\d[\d.,:TZ-]*/g, 'N');
      counts.reasons.set(kind, (counts.reasons.get(kind) ?? 0) + 1);
    }
    for (const signal of signals) broker.buy(signal, data, at);
  }
}

const onlyOf = (forecasts: PointInTime['forecasts'], events: ReadonlySet<string>): PointInTime['forecasts'] =>
  new Map(
    [...forecasts].map(([stationId, forecast]) => [
      stationId,
      { ...forecast, days: forecast.days.filter(({ eventTicker }) => events.has(eventTicker ?? '')) },
    ]),
  );

export interface Purchase {
  at: Date;
  ticker: string;
  eventTicker: string;
  date: string;
  side: Side;
  contracts: number;
  fills: readonly Quote['fills'][number][];
  /** With the fee. */
  cost: Micros;
  fee: Micros;
  /** `probability` that the side pays; `breakEven` cost per contract in dollars, with fee. */
  probability: number;
  breakEven: number;
  /** Null until the market settles. */
  payout: Micros | null;
}

const immediateBuy = { action: 'buy', timeInForce: 'immediate_or_cancel' } as const;

/**
 * The service's arithmetic. Contracts that were taken stay missing until the book changes, or for `takenMs`, because a
 * change in an inferred book does not prove new contracts. Each booking's postings sum to zero.
 */
export function createBroker(start: Micros, takenMs?: number) {
  const balance: Postings = { cash: start, positions: 0n, fees: 0n, realised: 0n, capital: -start };
  const holdings = new Map<string, Holding>();
  const taken = new Map<string, { hash: string; untilMs: number; levels: Taken }>();
  const purchases: Purchase[] = [];
  const unsettled = new Map<string, Purchase[]>();
  const worthAt = createValuation(takenMs === undefined);

  function book(ticker: string, { holding, postings }: Booking): void {
    for (const account of Object.keys(balance) as (keyof Postings)[]) balance[account] += postings[account];
    const sum = Object.values(balance).reduce((total: Micros, amount: Micros) => total + amount, 0n);
    if (sum !== 0n || balance.cash < 0n) throw new Error(`the books do not balance after ${ticker}`);
    if (holding.contracts > 0) holdings.set(ticker, holding);
    else holdings.delete(ticker);
  }

  function takenOf(ticker: string, shown: OrderBook, at: Date): Taken {
    const found = taken.get(ticker);
    const isStill =
      takenMs === undefined ? found?.hash === bookHash(shown) : at.getTime() < (found?.untilMs ?? 0);
    return found && isStill ? found.levels : [];
  }

  return {
    get cash(): Micros {
      return balance.cash;
    },
    holdings,
    purchases,
    see(data: MarketData): MarketData {
      if (taken.size === 0) return data;
      const books = new Map(
        [...data.books].map(([ticker, shown]) => [
          ticker,
          withoutTaken(shown, takenOf(ticker, shown, data.fetchedAt)),
        ]),
      );
      return { ...data, books };
    },
    buy(signal: Signal, data: MarketData, at: Date): void {
      const { market, side, contracts, limitPrice } = signal;
      const shown = data.books.get(market.ticker)!;
      const order = { ...immediateBuy, side, contracts, limitPrice };
      const before = takenOf(market.ticker, shown, data.fetchedAt);
      const quote = quoteOrder(withoutTaken(shown, before), feeRuleOf(data, market)!, order);
      const cost = -quote.balanceChange;
      if (quote.filledContracts === 0 || cost > balance.cash) return;
      for (const { price, contracts: filled, fee } of quote.fills)
        book(
          market.ticker,
          applyFill(holdings.get(market.ticker), { side, action: 'buy', price, contracts: filled, fee }),
        );
      taken.set(market.ticker, {
        hash: bookHash(shown),
        untilMs: data.fetchedAt.getTime() + (takenMs ?? 0),
        levels: addTaken(before, order, quote.fills),
      });
      const purchase = toPurchase(signal, quote, at);
      purchases.push(purchase);
      unsettled.set(market.ticker, [...(unsettled.get(market.ticker) ?? []), purchase]);
    },
    settle(markets: readonly ListedMarket[]): void {
      for (const { ticker, status, settlementValue, isVoid } of markets) {
        if (status !== 'finalized' || (settlementValue === null && !isVoid)) continue;
        const held = holdings.get(ticker);
        if (held) book(ticker, isVoid ? applyVoid(held) : applySettlement(held, settlementValue!));
        for (const purchase of unsettled.get(ticker) ?? [])
          purchase.payout = isVoid ? purchase.cost - purchase.fee : payoutOf(purchase, settlementValue!);
        unsettled.delete(ticker);
      }
    },
    /** A position without a book keeps its last value. */
    equity: (data: MarketData): Micros => balance.cash + worthAt(holdings, data),
  };
}

/** @param isWhole books are complete, so that a missing bid means a value of zero */
function createValuation(
  isWhole: boolean,
): (holdings: ReadonlyMap<string, Holding>, data: MarketData) => Micros {
  const worths = new Map<string, Micros>();
  return (holdings, data) => {
    for (const market of data.markets) {
      const held = holdings.get(market.ticker);
      const book = data.books.get(market.ticker);
      if (
        !held ||
        (market.settlementValue === null && !isQuoted(market, book, isWhole ? 'either' : held.side))
      )
        continue;
      const quotes = { market, book, feeRule: feeRuleOf(data, market), knownValue: null };
      worths.set(market.ticker, markPosition(held, quotes).value ?? 0n);
    }
    return [...holdings.keys()].reduce((sum, ticker) => sum + (worths.get(ticker) ?? 0n), 0n);
  };
}

const isQuoted = ({ status }: ListedMarket, book: OrderBook | undefined, side: Side | 'either'): boolean =>
  status === 'active' &&
  !!book &&
  (side === 'either' ? (['yes', 'no'] as const) : [side]).some((each) => book[each].length > 0);

const toPurchase = ({ market, side, probability }: Signal, quote: Quote, at: Date): Purchase => ({
  at,
  ticker: market.ticker,
  eventTicker: market.eventTicker,
  date: market.date,
  side,
  contracts: quote.filledContracts,
  fills: quote.fills,
  cost: -quote.balanceChange,
  fee: quote.fees,
  probability,
  breakEven: quote.breakEven!,
  payout: null,
});

const payoutOf = ({ side, contracts }: Purchase, valueOfYes: Micros): Micros =>
  valueOf(side === 'yes' ? valueOfYes : DOLLAR - valueOfYes, contracts);
