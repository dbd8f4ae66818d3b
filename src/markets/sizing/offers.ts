import { createRecall } from '../../core/collections.js';
import {
  asksOf,
  isCrossed,
  quoteOrder,
  type Level,
  type OrderBook,
  type Quote,
  type Side,
} from '../market/book.js';
import type { Payout } from '../market/brackets.js';
import { subtractCounts, sumCounts } from '../market/contracts.js';
import { isSupported, allInCost, type FeeRule } from '../market/fees.js';
import { DOLLAR, type Micros } from '../market/money.js';
import type { EventToSize, MarketToSize, Fund, Headroom, Optimum, Leg } from './model.js';

export const payoutOf = (markets: EventToSize['markets'], index: number): Payout =>
  markets[index]!.pays ?? { from: index, to: index };

export const outcomesOf = (event: Pick<EventToSize, 'markets' | 'outcomes'>): readonly number[] =>
  event.outcomes ?? event.markets.map(({ probability }) => probability);

/** In growth, between accepted sizes and the true optimum. */
export const MAX_GAP = 1e-9;
const NO_CONTRACTS = 1e-6;
/** Per offer; sizing asks for far fewer. */
const MAX_QUOTES = 10_000;

/** Undefined if something can be sized. */
export function problemOfSizing(event: EventToSize, { whole, wealth }: Fund): string | undefined {
  const { kellyShare } = event;
  const probabilities = outcomesOf(event);
  const total = probabilities.reduce((sum, p) => sum + p, 0);
  if (!probabilities.every((p) => p >= 0) || !(Math.abs(total - 1) < 1e-6))
    return 'the probabilities of the event do not sum to one';
  if (!(kellyShare > 0 && kellyShare <= 1)) return 'the Kelly share is not between 0 and 1';
  if (whole <= 0n) return 'there is no bankroll';
  if (Math.min(...wealth) < 0.000_001 * Math.max(...wealth))
    return 'the holdings in the event exceed the share of the bankroll that may be lost on it';
  return undefined;
}

export function reasonAgainst(offer: Offer, index: number, optimum: Optimum, headroom: Headroom): string {
  const wanted = optimum.contracts[index]!;
  if (!(optimum.gap <= MAX_GAP)) return 'its optimal size could not be certified';
  if (wanted >= 1 - 1e-7) return 'its exact fee exceeds its benefit';
  if (wanted > NO_CONTRACTS) return 'its stake is less than one contract costs';
  if (!(offer.edge > 0))
    return `after the fee it costs ${(-100 * offer.edge).toFixed(1)} points more than it is worth`;
  if (headroom.markets[offer.market]! <= 0n) return 'the cap of the market is used up';
  if (headroom.event <= 0n) return 'the cap of the event is used up';
  if (headroom.cash <= 0n || headroom.fund <= 0n) return 'there is no cash left';
  const limit = optimum.limitedBy[index];
  if (limit === 'market' || limit === 'event') return `better purchases use up the cap of the ${limit}`;
  if (limit === 'cash') return 'better purchases use up the cash';
  return "it is not worth its cost beside the event's other purchases";
}

export interface Offer {
  ticker: string;
  market: number;
  pays: Payout;
  side: Side;
  asks: readonly Level[];
  depth: number;
  probability: number;
  /** One contract at the best ask after its unrounded fee. */
  edge: number;
  /** The first contracts bought here close pairs. */
  closable: number;
  /** At exact cost, within the depth of the book. */
  quote: (contracts: number) => Quote;
  /** From the cheapest up, split where the pairs end. */
  legs: readonly OfferLeg[];
}

interface OfferLeg extends Leg {
  market: number;
  isClosing: boolean;
}

export interface RefusedOffer {
  ticker: string;
  side: Side;
  reason: string;
}

export const sides: readonly Side[] = ['yes', 'no'];

/**
 * From cold to warm, YES before NO. Markets without a book are skipped.
 * @param spendable dollars; further levels are omitted
 */
export function readOffers({ markets }: EventToSize, spendable: number) {
  const offers: Offer[] = [];
  const refused: RefusedOffer[] = [];
  markets.forEach((given, market) => {
    const { ticker, book, feeRule } = given;
    if (book === undefined) return;
    const pays = payoutOf(markets, market);
    for (const side of sides) {
      const asks = asksOf(book, side);
      if (!isSupported(feeRule)) refused.push({ ticker, side, reason: 'its fee is not known' });
      else if (isCrossed(book)) refused.push({ ticker, side, reason: 'its order book is crossed' });
      else if (asks.length === 0) refused.push({ ticker, side, reason: 'there are no asks' });
      else offers.push(toOffer(given, { market, pays, side, asks, book, feeRule, spendable }));
    }
  });
  return { offers, refused };
}

interface Reading {
  market: number;
  pays: Payout;
  side: Side;
  asks: readonly Level[];
  book: OrderBook;
  feeRule: FeeRule;
  spendable: number;
}

function toOffer({ ticker, probability: yes, held }: MarketToSize, reading: Reading): Offer {
  const { market, pays, side, asks, book, feeRule } = reading;
  const probability = side === 'yes' ? yes : Math.max(0, 1 - yes);
  const closable = held !== undefined && held.side !== side ? held.contracts : 0;
  const limitPrice = asks.at(-1)!.price;
  const recall = createRecall<Quote>(MAX_QUOTES);
  const quote = (contracts: number): Quote =>
    recall(contracts, () =>
      quoteOrder(book, feeRule, { side, action: 'buy', contracts, limitPrice, timeInForce: 'fill_or_kill' }),
    );
  return {
    ticker,
    market,
    pays,
    side,
    asks,
    depth: sumCounts(asks.map(({ contracts }) => contracts)),
    probability,
    edge: probability - allInCost(feeRule, asks[0]!.price),
    closable,
    quote,
    legs: toLegs(reading, closable),
  };
}

function toLegs({ market, pays, side, asks, feeRule, spendable }: Reading, closable: number): OfferLeg[] {
  const legs: OfferLeg[] = [];
  let [open, left] = [closable, spendable];
  for (const { price, contracts } of asks) {
    const closing = Math.min(open, contracts);
    const opening = subtractCounts(contracts, closing);
    const cost = allInCost(feeRule, price);
    if (closing > 0) legs.push({ market, pays, side, cost, contracts: closing, isClosing: true });
    if (opening > 0) legs.push({ market, pays, side, cost, contracts: opening, isClosing: false });
    open = subtractCounts(open, closing);
    left -= opening * cost;
    if (left < 0) break;
  }
  return legs;
}

export const stakeOf = (offer: Offer, contracts: number): Micros =>
  contracts === 0 ? 0n : -offer.quote(contracts).balanceChange;

/** Contracts that close a pair cost nothing here: the pair pays out a dollar immediately. */
export const openStakeOf = (offer: Offer, contracts: number): Micros =>
  contracts <= offer.closable ? 0n : stakeOf(offer, contracts) - stakeOf(offer, offer.closable);

export const inDollars = (micros: Micros): number => Number(micros) / Number(DOLLAR);
