import { valueOf } from '../market/contracts.js';
import { DOLLAR, shareOf, type Micros } from '../market/money.js';
import { exactGrowth, sizeCandidates } from './candidate-order.js';
import { isWon } from './joint.js';
import { reasonAgainst, stakeOf, type Offer, type RefusedOffer } from './offers.js';
import type { SizedPurchase, EventToSize, Optimum } from './model.js';

function toPurchase(
  offer: Offer,
  contracts: number,
  { shares, limitedBy }: Optimum,
  { index, kellyShare }: { index: number; kellyShare: number },
): SizedPurchase {
  const { ticker, side, asks, probability, closable } = offer;
  const quote = offer.quote(contracts);
  const stake = stakeOf(offer, contracts);
  // A promised value must never be overstated.
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

/** Includes outcomes that the forecast considers impossible. */
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

export interface SizedEvent {
  /** From cold to warm, YES before NO. */
  purchases: readonly SizedPurchase[];
  refused: readonly RefusedOffer[];
  stake: Micros;
  /** Expected log growth of the wealth at stake, at exact cost. Never negative. */
  growth: number;
  /** Over all outcomes, even with zero probability; 0 if the purchases cannot lose. */
  worstCase: Micros;
  /** That the continuous optimum misses: an upper bound, from the optimality conditions alone. */
  gap: number;
}

/**
 * The Kelly share is a separate fund (`Fund`) that takes its own optimum, given holdings in the event and within cash,
 * depth and the caps. Repeating the call after buying everything yields nothing more, except that proceeds of closed
 * pairs are spent only once they have arrived.
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
