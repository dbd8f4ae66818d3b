import type { Fund } from './fund.js';
import { isWon } from './joint.js';
import { inDollars, stakeOf, type Offer } from './offers.js';
import { exceededRoom, type Rooms } from './headroom.js';

/** A purchase must add more growth than rounding could. */
const NO_GROWTH = 1e-13;
/** A size that falls short of a whole contract by less was meant to be whole. */
const NEARLY_WHOLE = 1e-7;

interface Sizes {
  offers: readonly Offer[];
  fund: Fund;
  rooms: Rooms;
}

/**
 * Whole contracts near an optimum, one number per offer: rounded down, then made smaller as long as that makes the event as a whole
 * better at its exact cost (each order's is rounded up to $0.0001) or the rooms demand it. Never more than the optimum.
 */
export function toWholeContracts(sizes: Sizes, optimum: readonly number[]): number[] {
  const contracts = optimum.map(roundDown);
  for (;;) {
    const isOver = exceededRoom(sizes.rooms, sizes.offers, contracts, sizes.fund);
    const least = isOver ? -Infinity : exactGrowth(sizes, contracts) + NO_GROWTH;
    const smaller = bestSmaller(sizes, contracts, isOver ?? (() => true), least);
    // Purchases that only make sense together may cost more together, too.
    if (smaller === undefined) return exactGrowth(sizes, contracts) > 0 ? contracts : contracts.map(() => 0);
    contracts[smaller.index] = smaller.contracts;
  }
}

const roundDown = (size: number): number => Math.floor(size + NEARLY_WHOLE);

/** True if only parts of contracts were left out. */
export const isRoundedDown = (optimum: readonly number[], contracts: readonly number[]): boolean =>
  optimum.every((size, i) => roundDown(size) === contracts[i]);

/** The best way to buy one contract less, or nothing, of one offer, if it makes growth larger than `least`. */
function bestSmaller(
  sizes: Sizes,
  contracts: readonly number[],
  isMeant: (offer: Offer) => boolean,
  least: number,
): { index: number; contracts: number } | undefined {
  let [best, most] = [undefined as { index: number; contracts: number } | undefined, least];
  sizes.offers.forEach((offer, index) => {
    const now = contracts[index]!;
    if (now === 0 || !isMeant(offer)) return;
    for (const fewer of new Set([now - 1, 0])) {
      const growth = exactGrowth(sizes, contracts.with(index, fewer));
      if (growth > most || (best === undefined && least === -Infinity))
        [best, most] = [{ index, contracts: fewer }, growth];
    }
  });
  return best;
}

/** Expected growth of the logarithm of the fund by these purchases at their exact cost; −∞ where it could lose everything. */
export function exactGrowth({ offers, fund }: Sizes, contracts: readonly number[]): number {
  const after = [...fund.wealth];
  offers.forEach((offer, i) => {
    const bought = contracts[i]!;
    if (bought === 0) return;
    const stake = inDollars(stakeOf(offer, bought));
    for (let j = 0; j < after.length; j++) after[j]! += (isWon(offer, j) ? bought : 0) - stake;
  });
  return fund.probabilities.reduce(
    (sum, p, j) =>
      p > 0 ? sum + p * (after[j]! > 0 ? Math.log(after[j]! / fund.wealth[j]!) : -Infinity) : sum,
    0,
  );
}
