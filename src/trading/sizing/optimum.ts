import type { SizedPurchase } from './event.js';
import type { Fund } from './fund.js';
import { solveJoint, type Limit } from './joint.js';
import { inDollars, type Offer } from './offers.js';
import { toLimits, type Rooms } from './rooms.js';

/** The best sizes as real numbers: one of each per offer. */
export interface Optimum {
  contracts: number[];
  /** Share of the fund that would be spent if there were no caps. */
  shares: number[];
  /** Which room is used up, where more would be bought without the caps. */
  limitedBy: SizedPurchase['limitedBy'][];
  gap: number;
}

/** As a share and in contracts: what is smaller is rounding. */
const NEARLY = 1e-6;
const NO_CONTRACTS = 1e-6;

/** First without caps: mostly they hold by themselves, and what Kelly would have is to be said beside what the caps leave of it. */
export function findOptimum(fund: Fund, rooms: Rooms, offers: readonly Offer[]): Optimum {
  const limits = toLimits(rooms, offers, fund);
  const legs = offers.flatMap((offer) => offer.legs);
  const solve = (limits: readonly Limit[]) =>
    solveJoint({
      probabilities: fund.probabilities,
      wealth: fund.wealth,
      legs,
      limits,
    });
  const always = [limits.fund, limits.cash];
  const free = solve(always);
  const caps = [limits.event, ...limits.markets];
  const isWithin = caps.every(({ room, weights }) => used(weights, free.contracts) <= Math.max(0, room));
  const capped = isWithin ? undefined : solve([...always, ...caps]);
  const ofOffer = split(offers);
  const contracts = ofOffer((capped ?? free).contracts);
  const wanted = ofOffer(free.contracts);
  const costs = ofOffer(free.contracts.map((bought, l) => bought * legs[l]!.cost));
  return {
    contracts,
    shares: costs.map((dollars) => dollars / inDollars(fund.whole)),
    limitedBy: offers.map(({ market, depth }, i) => {
      const isCut = capped !== undefined && contracts[i]! < wanted[i]! - NO_CONTRACTS;
      if (isCut && isFull(limits.markets[market]!, capped.contracts)) return 'market';
      if (isCut && isFull(limits.event, capped.contracts)) return 'event';
      if (isFull(limits.cash, (capped ?? free).contracts)) return 'cash';
      return contracts[i]! > depth - NO_CONTRACTS ? 'depth' : null;
    }),
    gap: Math.max(free.gap, capped?.gap ?? 0),
  };
}

/** By what is used of it: the price of a limit that binds one leg alone may be hidden in that leg's own bound. */
const isFull = ({ room, weights }: Limit, contracts: readonly number[]): boolean =>
  used(weights, contracts) >= Math.max(0, room) * (1 - NEARLY);

const used = (weights: readonly number[], contracts: readonly number[]): number =>
  weights.reduce((sum, weight, l) => sum + weight * contracts[l]!, 0);

/** Sums of what is per leg, per offer. */
const split =
  (offers: readonly Offer[]) =>
  (perLeg: readonly number[]): number[] => {
    let at = 0;
    return offers.map(({ legs }) => {
      const own = perLeg.slice(at, (at += legs.length));
      return own.reduce((sum, value) => sum + value, 0);
    });
  };
