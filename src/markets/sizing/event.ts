import type { Holding } from '../ledger/positions.js';
import type { OrderBook, Side } from '../market/book.js';
import type { Payout } from '../market/brackets.js';
import { valueOf } from '../market/contracts.js';
import type { FeeRule } from '../market/fees.js';
import { DOLLAR, shareOf, type Micros } from '../market/money.js';
import { exactGrowth, sizeCandidates } from './candidate-order.js';
import { isWon, type Optimum } from './joint.js';
import { reasonAgainst, stakeOf, type Offer, type RefusedOffer } from './offers.js';

function toPurchase(
  offer: Offer,
  contracts: number,
  { shares, limitedBy }: Optimum,
  { index, kellyShare }: { index: number; kellyShare: number },
): SizedPurchase {
  const { ticker, side, asks, probability, closable } = offer;
  const quote = offer.quote(contracts);
  const stake = stakeOf(offer, contracts);
  // Rounded down: a value that is promised must be there.
  const expectedValue = shareOf(valueOf(DOLLAR, contracts), probability) - stake;
  return {
    ticker,
    side,
    price: asks[0]!.price,
    depth: asks[0]!.contracts,
    probability,
    contracts,
    limitPrice: quote.fills.at(-1)!.price,
    closing: Math.min(closable, contracts),
    averagePrice: quote.averagePrice!,
    fee: quote.fees,
    stake,
    breakEven: quote.breakEven!,
    expectedValue,
    fullKelly: shares[index]!,
    fractionalKelly: kellyShare * shares[index]!,
    isHedge: expectedValue < 0n,
    limitedBy: limitedBy[index]!,
  };
}

/** The most that purchases lose in any outcome; what the forecast holds for impossible is none the less counted. */
function worstCaseOf(offers: readonly Offer[], contracts: readonly number[], outcomes: number): Micros {
  let worst: Micros = 0n;
  for (let outcome = 0; outcome < outcomes; outcome++) {
    const loss = offers.reduce((sum, offer, i) => {
      const pays = isWon(offer, outcome) ? contracts[i]! : 0;
      return sum + stakeOf(offer, contracts[i]!) - valueOf(DOLLAR, pays);
    }, 0n);
    if (loss > worst) worst = loss;
  }
  return worst;
}

export interface MarketToSize {
  ticker: string;
  /** That YES pays. */
  probability: number;
  /** The outcomes in which YES pays; left out: the one that has the market's place, as with brackets that exclude each other. */
  pays?: Payout;
  /** Undefined: nothing may be bought here (closed, no book, a crossed one); what is held counts all the same. */
  book: OrderBook | undefined;
  feeRule: FeeRule | undefined;
  held: Holding | undefined;
  /**
   * Cash that has gone into this market less cash that has come out of it, fees included; negative where it has earned. Left out
   * it is what the held contracts have cost by themselves.
   */
  spent?: Micros | undefined;
}

export interface EventToSize {
  /** From cold to warm. */
  markets: readonly MarketToSize[];
  /** The probability of each outcome, of which one comes; they sum to one. Left out: the markets are the outcomes. */
  outcomes?: readonly number[];
  /** What Kelly shares are reckoned from: cash, and what is held elsewhere. Without what is held of this event. */
  bankroll: Micros;
  /** What may be spent at the most. */
  cash: Micros;
  /** Of the Kelly fraction, above 0 and at most 1. */
  kellyShare: number;
  /** The most that is staked on one market and on the whole event, with what is held already. */
  marketRoom: Micros;
  eventRoom: Micros;
}

/** What to buy of one side of a market, at its exact cost. */
export interface SizedPurchase {
  ticker: string;
  side: Side;
  /** The best ask and what stands there. */
  price: Micros;
  depth: number;
  /** That the side pays. */
  probability: number;
  contracts: number;
  /** Of the dearest level that is needed. */
  limitPrice: Micros;
  /** Of the contracts, how many close a pair with the other side that is held: the venue pays a dollar for each at once. */
  closing: number;
  averagePrice: Micros;
  fee: Micros;
  /** Prices and fee, as they will be charged. */
  stake: Micros;
  /** `stake` per contract, in dollars: from which probability on the purchase is worth it by itself. */
  breakEven: number;
  /** By the forecast, less `stake`. Negative for a purchase that pays where the others lose: see `isHedge`. */
  expectedValue: Micros;
  /** Shares of the bankroll that the optimum of the whole event puts here, in full and at `kellyShare`. */
  fullKelly: number;
  fractionalKelly: number;
  /** Worth less than it costs by itself; it is bought for what it takes from the risk of the others. */
  isHedge: boolean;
  /** What kept it smaller than Kelly would have it. */
  limitedBy: 'market' | 'event' | 'cash' | 'depth' | null;
}

export interface SizedEvent {
  /** Ordered by market, from cold to warm, and YES before NO. */
  purchases: readonly SizedPurchase[];
  /** Sides that can be bought and are not, with the reason. */
  refused: readonly { ticker: string; side: Side; reason: string }[];
  stake: Micros;
  /**
   * Expected growth of the logarithm of wealth by what is bought now, exact costs included: of the wealth that `kellyShare`
   * puts at stake. Never below 0.
   */
  growth: number;
  /** The most that what is bought now loses in any outcome, those without probability included; 0 if it cannot lose. */
  worstCase: Micros;
  /** How far the continuous optimum may be from the true one, in growth; from the optimum's own conditions. */
  gap: number;
}

/**
 * What to buy of an event so that wealth grows fastest, all of its markets together.
 *
 * The Kelly share is put at stake as a fund of its own (see `Fund`), which takes the optimum of its wealth as it would without a
 * share, what is held of the event included, and within cash, depth and the caps. That is rounded down to whole contracts, and
 * what is not worth its exact cost to the whole is left out. Once all of it has been bought, asking again gives nothing more;
 * only what closing pairs brings into an empty purse is not spent before it is there.
 */
export function sizeEvent(event: EventToSize): SizedEvent {
  const { kellyShare } = event;
  const { offers, refused, fund, headroom, optimum, problem, contracts } = sizeCandidates(event);
  if (problem !== undefined)
    return { ...nothing, refused: [...refused, ...offers.map((offer) => refuse(offer, problem))] };
  const purchases = offers.flatMap((offer, index) =>
    contracts[index]! > 0 ? [toPurchase(offer, contracts[index]!, optimum, { index, kellyShare })] : [],
  );
  return {
    purchases,
    refused: [
      ...refused,
      ...offers.flatMap((offer, index) =>
        contracts[index]! > 0 ? [] : [refuse(offer, reasonAgainst(offer, index, optimum, headroom))],
      ),
    ],
    stake: purchases.reduce((sum, { stake }) => sum + stake, 0n),
    growth: exactGrowth({ offers, fund, headroom }, contracts),
    worstCase: worstCaseOf(offers, contracts, fund.wealth.length),
    gap: optimum.gap,
  };
}

const nothing = { purchases: [], stake: 0n, growth: 0, worstCase: 0n, gap: 0 };

const refuse = ({ ticker, side }: Offer, reason: string): RefusedOffer => ({ ticker, side, reason });
