import { applyFill } from '../ledger/positions.js';
import { consume } from '../market/book.js';
import type { EventToSize, MarketToSize } from './event.js';
import { toFund, type Fund } from './fund.js';
import { reachOf, toRooms, type Rooms } from './headroom.js';
import { findOptimum, type Optimum } from './joint.js';
import { MAX_GAP, judgeEvent, openStakeOf, readOffers, type Offer, type Refusal } from './offers.js';
import { isRoundedDown, toWholeContracts } from './whole-contracts.js';

/** The event as it is to be sized when these contracts have been bought. What closing pairs brings is no cash to go by yet. */
function afterPurchases(
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

/** What is known of an event, and how many contracts of each offer to buy. */
interface Sizing {
  offers: readonly Offer[];
  refused: readonly Refusal[];
  fund: Fund;
  rooms: Rooms;
  optimum: Optimum;
  /** Why nothing can be sized. */
  problem: string | undefined;
  contracts: readonly number[];
}

const MAX_ROUNDS = 4;

/**
 * Where rounding has left out more than parts of contracts, the rest may have become worth more: what would be bought if it
 * were asked again is bought at once, until that is nothing.
 */
export function sizeStably(event: EventToSize): Sizing {
  const first = sizeOnce(event);
  let contracts = [...first.contracts];
  let last = first;
  for (let round = 1; round < MAX_ROUNDS && !isSettled(last); round++) {
    last = sizeOnce(afterPurchases(event, first.offers, contracts, first.fund));
    // What has been bought out is no offer any more.
    const more = first.offers.map((offer) => {
      const at = last.offers.findIndex(({ market, side }) => market === offer.market && side === offer.side);
      return last.contracts[at] ?? 0;
    });
    if (more.every((count) => count === 0)) break;
    contracts = contracts.map((count, i) => count + more[i]!);
  }
  return { ...first, contracts };
}

const isSettled = ({ offers, optimum, contracts }: Sizing): boolean =>
  contracts.every((count, i) => count === 0 || offers[i]!.closable === 0) &&
  isRoundedDown(optimum.contracts, contracts);

function sizeOnce(event: EventToSize): Sizing {
  const fund = toFund(event);
  const { offers, refused } = readOffers(event, reachOf(event, fund));
  const rooms = toRooms(event, fund);
  const none = { offers, refused, fund, rooms, optimum: noOptimum(offers), contracts: offers.map(() => 0) };
  const problem = judgeEvent(event, fund);
  if (problem !== undefined) return { ...none, problem };
  const optimum = findOptimum(fund, rooms, offers);
  if (!(optimum.gap <= MAX_GAP)) return { ...none, optimum, problem };
  return {
    ...none,
    optimum,
    problem,
    contracts: toWholeContracts({ offers, fund, rooms }, optimum.contracts),
  };
}

const noOptimum = (offers: readonly Offer[]): Optimum => ({
  contracts: offers.map(() => 0),
  shares: offers.map(() => 0),
  limitedBy: offers.map(() => null),
  gap: 0,
});
