import { applyFill } from '../ledger/positions.js';
import { consume } from '../market/book.js';
import { exceededHeadroom, reachOf, toFund, toHeadroom } from './fund.js';
import { findOptimum, isWon } from './joint.js';
import {
  MAX_GAP,
  inDollars,
  problemOfSizing,
  openStakeOf,
  readOffers,
  stakeOf,
  type Offer,
} from './offers.js';
import type { EventToSize, MarketToSize, Fund, Headroom, Optimum } from './model.js';

/** A smaller growth is rounding error. */
const NO_GROWTH = 1e-13;
/** Counts as whole. */
const NEARLY_WHOLE = 1e-7;

interface Sizes {
  offers: readonly Offer[];
  fund: Fund;
  headroom: Headroom;
}

/**
 * Rounds down, then reduces while that improves the whole event at exact cost (each order rounds up to
 * $0.0001) or while a limit is exceeded. Then only opening contracts shrink: without the cash of closing pairs, the
 * others would have to shrink as well.
 */
function toWholeContracts(sizes: Sizes, optimum: readonly number[]): number[] {
  const contracts = optimum.map(roundDown);
  for (;;) {
    const isOver = exceededHeadroom(sizes.headroom, sizes.offers, contracts, sizes.fund);
    const least = isOver ? -Infinity : exactGrowth(sizes, contracts) + NO_GROWTH;
    const isMeant = (offer: Offer, now: number) => !isOver || (isOver(offer) && now > offer.closable);
    const smaller = bestSmaller(sizes, contracts, isMeant, least);
    // Purchases that gain only in combination may cost more than they gain.
    if (smaller === undefined) return exactGrowth(sizes, contracts) > 0 ? contracts : contracts.map(() => 0);
    contracts[smaller.index] = smaller.contracts;
  }
}

const roundDown = (size: number): number => Math.floor(size + NEARLY_WHOLE);

/**
 * By one contract, by all opening contracts or, if there are only closing ones, to zero. Undefined without growth above
 * `least`; −∞ accepts any reduction.
 */
function bestSmaller(
  sizes: Sizes,
  contracts: readonly number[],
  isMeant: (offer: Offer, now: number) => boolean,
  least: number,
): { index: number; contracts: number } | undefined {
  let [best, most] = [undefined as { index: number; contracts: number } | undefined, least];
  sizes.offers.forEach((offer, index) => {
    const now = contracts[index]!;
    if (now === 0 || !isMeant(offer, now)) return;
    // Opening contracts are removed before closing ones.
    const none = now > offer.closable ? Math.floor(offer.closable) : 0;
    for (const fewer of new Set([now - 1, none])) {
      const growth = exactGrowth(sizes, contracts.with(index, fewer));
      if (growth > most || (best === undefined && least === -Infinity))
        [best, most] = [{ index, contracts: fewer }, growth];
    }
  });
  return best;
}

/** Log growth at exact cost; −∞ if the fund could lose everything. */
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

/** Proceeds from closing pairs do not count as cash yet. */
function withPurchases(
  event: EventToSize,
  offers: readonly Offer[],
  contracts: readonly number[],
  { spent }: Fund,
): EventToSize {
  let { cash, bankroll } = event;
  const markets = event.markets.map((market, i): MarketToSize => ({ ...market, spent: spent[i]! }));
  offers.forEach((offer, i) => {
    if (contracts[i] === 0) return;
    const { side, market } = offer;
    const { fills } = offer.quote(contracts[i]!);
    let { held, spent: paid } = markets[market]!;
    for (const { price, contracts, fee } of fills) {
      const { holding, postings } = applyFill(held, { side, action: 'buy', price, contracts, fee });
      held = holding;
      paid = paid! - postings.cash;
    }
    bankroll += markets[market]!.spent! - paid!;
    cash -= openStakeOf(offer, contracts[i]!);
    const book = consume(markets[market]!.book!, { side, action: 'buy' }, fills);
    markets[market] = { ...markets[market]!, held, spent: paid, book };
  });
  return { ...event, markets, cash, bankroll };
}

type Sizing = ReturnType<typeof sizeOnce>;

const MAX_ROUNDS = 4;

/** Rounding some purchases down may make others worth more. */
export function sizeCandidates(event: EventToSize): Sizing {
  const first = sizeOnce(event);
  let contracts = [...first.contracts];
  let last = first;
  for (let round = 1; round < MAX_ROUNDS && !isSettled(last); round++) {
    last = sizeOnce(withPurchases(event, first.offers, contracts, first.fund));
    // Offers bought in full are missing from the repeated sizing.
    const more = first.offers.map((offer) => {
      const at = last.offers.findIndex(({ market, side }) => market === offer.market && side === offer.side);
      return last.contracts[at] ?? 0;
    });
    if (more.every((count) => count === 0)) break;
    contracts = contracts.map((count, i) => count + more[i]!);
  }
  return { ...first, contracts };
}

/** Nothing closes a pair, and rounding removed only fractions. */
const isSettled = ({ offers, optimum, contracts }: Sizing): boolean =>
  contracts.every((count, i) => count === 0 || offers[i]!.closable === 0) &&
  optimum.contracts.every((size, i) => roundDown(size) === contracts[i]);

function sizeOnce(event: EventToSize) {
  const fund = toFund(event);
  const { offers, refused } = readOffers(event, reachOf(event, fund));
  const headroom = toHeadroom(event, fund);
  const problem = problemOfSizing(event, fund);
  const optimum = problem === undefined ? findOptimum(fund, headroom, offers) : noOptimum(offers);
  const contracts =
    problem === undefined && optimum.gap <= MAX_GAP
      ? toWholeContracts({ offers, fund, headroom }, optimum.contracts)
      : offers.map(() => 0);
  return { offers, refused, fund, headroom, optimum, problem, contracts };
}

const noOptimum = (offers: readonly Offer[]): Optimum => ({
  contracts: offers.map(() => 0),
  shares: offers.map(() => 0),
  limitedBy: offers.map(() => null),
  gap: 0,
});
