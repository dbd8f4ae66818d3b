import type { DayForecast } from '../forecast/forecast.js';
import { asksOf, type Level, type OrderBook, type Side } from '../markets/book.js';
import type { Market } from '../markets/market.js';
import type { MarketData } from '../markets/source.js';
import { DOLLAR, type Micros } from '../money.js';
import { quoteOrder } from '../orders/quote.js';
import type { FeeRule } from '../sizing/fees.js';
import { allInCost, kellyFraction, walkLevels, type StakeRule } from '../sizing/kelly.js';

/** A side that is worth more than its best ask and fee, not yet sized. */
export interface Candidate {
  market: Market;
  side: Side;
  book: OrderBook;
  feeRule: FeeRule;
  asks: readonly Level[];
  price: Micros;
  depth: number;
  probability: number;
  /** Of one contract at the best ask, after its fee. */
  edge: number;
  fullKelly: number;
}

/** A candidate, or why the side is none. */
export function priceSide(
  market: Market,
  side: Side,
  day: DayForecast,
  { books, feeRules }: MarketData,
): Candidate | string {
  const book = books.get(market.ticker)!;
  const feeRule = feeRules.get(market.seriesTicker)!;
  const asks = asksOf(book, side);
  const [best] = asks;
  if (best === undefined) return 'nobody asks';
  const yes = day.probabilities.get(market.ticker)!;
  const probability = side === 'yes' ? yes : Math.max(0, 1 - yes);
  const cost = allInCost(feeRule, best.price);
  const edge = probability - cost;
  if (!(edge > 0)) return `edge ${signed(edge)} after fee`;
  return {
    market,
    side,
    book,
    feeRule,
    asks,
    price: best.price,
    depth: best.contracts,
    probability,
    edge,
    fullKelly: kellyFraction(probability, cost),
  };
}

const signed = (edge: number): string => `${edge < 0 ? '−' : '+'}${Math.abs(edge).toFixed(3)}`;

export interface Sized {
  contracts: number;
  limitPrice: Micros;
  averagePrice: Micros;
  fee: Micros;
  stake: Micros;
  breakEven: number;
  expectedValue: Micros;
  /** A cap stood in the way of a larger stake. */
  isCapped: boolean;
}

/** How much to buy at its exact cost, or why nothing is. */
export function sizePurchase(candidate: Candidate, rule: StakeRule): Sized | string {
  const { asks, book, feeRule, probability, side } = candidate;
  const walked = walkLevels(asks, probability, feeRule, rule);
  if (!walked) return 'its stake does not pay for one contract';
  const { limitPrice, budget } = walked;
  // The balance changes in whole cents, so the exact cost may be a cent above the walked one: a contract less makes room.
  for (let { contracts } = walked; contracts > 0; contracts--) {
    const quote = quoteOrder(book, feeRule, {
      side,
      action: 'buy',
      contracts,
      limitPrice,
      timeInForce: 'fill_or_kill',
    });
    const stake = -quote.balanceChange;
    if (quote.filledContracts !== contracts || stake > budget) continue;
    const expectedValue = expectedPayout(probability, contracts) - stake;
    if (expectedValue <= 0n) return 'the whole fee of so few contracts costs more than they are worth';
    const last = quote.fills.at(-1)!;
    return {
      contracts,
      limitPrice: last.price,
      averagePrice: quote.averagePrice!,
      fee: quote.fees,
      stake,
      breakEven: quote.breakEven!,
      expectedValue,
      isCapped: budget === rule.maxStake,
    };
  }
  return 'its stake does not pay for one contract';
}

/** Rounded down: a value that is promised must be there. */
const expectedPayout = (probability: number, contracts: number): Micros =>
  (BigInt(contracts) * DOLLAR * BigInt(Math.floor(probability * 1e9))) / 1_000_000_000n;
