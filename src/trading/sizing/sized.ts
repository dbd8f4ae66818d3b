import { DOLLAR, type Micros } from '../market/money.js';
import type { SizedPurchase } from './event.js';
import { isWon } from './joint.js';
import { stakeOf, type Offer } from './offers.js';
import type { Optimum } from './optimum.js';
import { valueOf } from '../market/contracts.js';

/** A purchase with its exact cost. */
export function toPurchase(
  offer: Offer,
  contracts: number,
  { shares, limitedBy }: Optimum,
  { index, kellyShare }: { index: number; kellyShare: number },
): SizedPurchase {
  const { ticker, side, asks, probability, closable } = offer;
  const quote = offer.quote(contracts);
  const stake = stakeOf(offer, contracts);
  const expectedValue = expectedPayout(probability, contracts) - stake;
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

/** Rounded down: a value that is promised must be there. */
const expectedPayout = (probability: number, contracts: number): Micros =>
  (valueOf(DOLLAR, contracts) * BigInt(Math.floor(probability * 1e9))) / 1_000_000_000n;

/** The most that purchases lose in any outcome; what the forecast holds for impossible is none the less counted. */
export function worstCaseOf(
  offers: readonly Offer[],
  contracts: readonly number[],
  outcomes: number,
): Micros {
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
