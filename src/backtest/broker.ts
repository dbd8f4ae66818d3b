import type { OrderBook, Side } from '../trading/market/book.js';
import type { ListedMarket } from '../trading/market/market.js';
import type { MarketData } from '../trading/market/source.js';
import { DOLLAR, type Micros } from '../trading/market/money.js';
import { addTaken, bookHash, withoutTaken, type Taken } from '../trading/orders/paper-book.js';
import { quoteOrder } from '../trading/market/quote.js';
import {
  applyFill,
  applySettlement,
  applyVoid,
  type Booking,
  type Holding,
  type Postings,
} from '../trading/ledger/positions.js';
import { worthOf } from '../trading/signals/account.js';
import type { Signal } from '../trading/signals/signal.js';
import { valueOf } from '../trading/market/contracts.js';
import { feeRuleOf } from '../trading/market/fee-rules.js';

/** A purchase that was filled, and how it came out. */
export interface Purchase {
  at: Date;
  ticker: string;
  eventTicker: string;
  date: string;
  side: Side;
  contracts: number;
  /** Price and fee, as charged. */
  cost: Micros;
  fee: Micros;
  /** That the side pays, by the forecast; and what was paid for that in dollars a contract, fee included. */
  probability: number;
  breakEven: number;
  /** What it paid: null while the market has not settled. */
  payout: Micros | null;
}

/**
 * An account on paper by the same arithmetic as that of the service: books are walked level by level, what was taken
 * stays taken until a book changes, fees are charged as the venue does, and every booking's postings sum to nothing.
 */
export interface Broker {
  readonly cash: Micros;
  readonly holdings: ReadonlyMap<string, Holding>;
  readonly purchases: readonly Purchase[];
  /** The books without what was taken from them. */
  see(data: MarketData): MarketData;
  /** Buys what of a signal can be had. */
  buy(signal: Signal, data: MarketData, at: Date): void;
  /** Books what the venue has finally said. */
  settle(markets: readonly ListedMarket[]): void;
  /** Cash, and what the positions would bring if they were sold now. */
  equity(data: MarketData): Micros;
}

/** @throws Error if the books do not balance: that is a bug, and no result */
export function createBroker(start: Micros): Broker {
  const balance: Postings = { cash: start, positions: 0n, fees: 0n, realised: 0n, capital: -start };
  const holdings = new Map<string, Holding>();
  const taken = new Map<string, { hash: string; levels: Taken }>();
  const purchases: Purchase[] = [];
  const unsettled = new Map<string, Purchase[]>();

  function book(ticker: string, { holding, postings }: Booking): void {
    for (const account of Object.keys(balance) as (keyof Postings)[]) balance[account] += postings[account];
    const sum = Object.values(balance).reduce((total: Micros, amount: Micros) => total + amount, 0n);
    if (sum !== 0n || balance.cash < 0n) throw new Error(`the books do not balance after ${ticker}`);
    if (holding.contracts > 0) holdings.set(ticker, holding);
    else holdings.delete(ticker);
  }

  function bookOf(ticker: string, shown: OrderBook): OrderBook {
    const found = taken.get(ticker);
    return found?.hash === bookHash(shown) ? withoutTaken(shown, found.levels) : shown;
  }

  return {
    get cash() {
      return balance.cash;
    },
    holdings,
    purchases,
    see(data) {
      if (taken.size === 0) return data;
      const books = new Map([...data.books].map(([ticker, shown]) => [ticker, bookOf(ticker, shown)]));
      return { ...data, books };
    },
    buy(signal, data, at) {
      const { market, side, contracts, limitPrice, probability } = signal;
      const shown = data.books.get(market.ticker)!;
      const order = {
        side,
        action: 'buy',
        contracts,
        limitPrice,
        timeInForce: 'immediate_or_cancel',
      } as const;
      const quote = quoteOrder(bookOf(market.ticker, shown), feeRuleOf(data, market)!, order);
      const cost = -quote.balanceChange;
      if (quote.filledContracts === 0 || cost > balance.cash) return;
      for (const { price, contracts: filled, fee } of quote.fills)
        book(
          market.ticker,
          applyFill(holdings.get(market.ticker), { side, action: 'buy', price, contracts: filled, fee }),
        );
      const hash = bookHash(shown);
      const before = taken.get(market.ticker);
      const levels = addTaken(before?.hash === hash ? before.levels : [], order, quote.fills);
      taken.set(market.ticker, { hash, levels });
      const { ticker, eventTicker, date } = market;
      const purchase: Purchase = {
        at,
        ticker,
        eventTicker,
        date,
        side,
        contracts: quote.filledContracts,
        cost,
        fee: quote.fees,
        probability,
        breakEven: quote.breakEven!,
        payout: null,
      };
      purchases.push(purchase);
      unsettled.set(ticker, [...(unsettled.get(ticker) ?? []), purchase]);
    },
    settle(markets) {
      for (const { ticker, status, settlementValue, isVoid } of markets) {
        if (status !== 'finalized' || (settlementValue === null && !isVoid)) continue;
        const held = holdings.get(ticker);
        if (held) book(ticker, isVoid ? applyVoid(held) : applySettlement(held, settlementValue!));
        for (const purchase of unsettled.get(ticker) ?? [])
          purchase.payout = isVoid ? purchase.cost - purchase.fee : payoutOf(purchase, settlementValue!);
        unsettled.delete(ticker);
      }
    },
    equity: (data) => balance.cash + worthOf(holdings, data.markets, data),
  };
}

const payoutOf = ({ side, contracts }: Purchase, valueOfYes: Micros): Micros =>
  valueOf(side === 'yes' ? valueOfYes : DOLLAR - valueOfYes, contracts);
