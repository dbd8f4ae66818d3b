import { consume } from '../market/match.js';
import { applyFill } from '../ledger/positions.js';
import type { EventToSize, MarketToSize } from './event.js';
import type { Fund } from './fund.js';
import { openStakeOf, type Offer } from './offers.js';

/** The event as it is to be sized when these contracts have been bought. What closing pairs brings is no cash to go by yet. */
export function afterPurchases(
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
