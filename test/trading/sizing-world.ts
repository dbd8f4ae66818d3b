import type { Side } from '../../src/trading/market/book.js';
import { CENT, DOLLAR, type Micros } from '../../src/trading/market/money.js';
import { quoteOrder, type Quote } from '../../src/trading/market/quote.js';
import { consume } from '../../src/trading/market/match.js';
import { applyFill } from '../../src/trading/ledger/positions.js';
import type { EventToSize, MarketToSize, SizedEvent, SizedPurchase } from '../../src/trading/sizing/event.js';
import { makeBook, quadratic } from './signals-world.js';

export const dollars = (amount: number): Micros => BigInt(Math.round(amount * 100)) * CENT;

/** What a market's ladder looks like: bids in cents for YES and NO. */
type Bids = [cents: number, contracts: number][];

export function toMarket(
  ticker: string,
  probability: number,
  yes: Bids,
  no: Bids,
  held?: { side: Side; contracts: number; cents: number },
): MarketToSize {
  return {
    ticker,
    probability,
    book: makeBook(yes, no),
    feeRule: quadratic,
    held: held && {
      side: held.side,
      contracts: held.contracts,
      cost: BigInt(held.contracts * held.cents) * CENT,
    },
  };
}

export const toEvent = (markets: MarketToSize[], over: Partial<EventToSize> = {}): EventToSize => ({
  markets,
  bankroll: dollars(1_000),
  cash: dollars(1_000),
  kellyShare: 0.25,
  marketRoom: dollars(1_000),
  eventRoom: dollars(1_000),
  ...over,
});

/** An event of six brackets whose prices are near its probabilities. */
export function randomEvent(
  random: () => number,
  bankroll: number,
  { hasHeld = false, hasCaps = true } = {},
): EventToSize {
  const raw = Array.from({ length: 6 }, () => -Math.log(random()));
  const total = raw.reduce((sum, value) => sum + value, 0);
  const deepest = [6, 300, 100_000][Math.floor(random() * 3)]!;
  const markets = raw.map((value, i) => {
    const middle = Math.round(100 * Math.min(0.95, Math.max(0.05, value / total + (random() - 0.5) * 0.15)));
    const ladder = (best: number): Bids =>
      Array.from({ length: 1 + Math.floor(random() * 6) }, (_, level): [number, number] => [
        best - 2 * level,
        Math.ceil(random() * deepest),
      ]);
    const holds = hasHeld && random() < 0.5;
    const contracts = Math.ceil(random() * bankroll * 0.02);
    const side: Side = random() < 0.5 ? 'yes' : 'no';
    const cents = Math.ceil(random() * 98);
    return toMarket(
      `M${i}`,
      value / total,
      ladder(middle - 1),
      ladder(99 - middle),
      holds ? { side, contracts, cents } : undefined,
    );
  });
  const share = (part: number) => dollars(hasCaps ? part * bankroll : bankroll);
  const all = dollars(bankroll);
  return toEvent(markets, { bankroll: all, cash: all, marketRoom: share(0.05), eventRoom: share(0.1) });
}

const marketOf = ({ markets }: EventToSize, ticker: string): MarketToSize =>
  markets.find((market) => market.ticker === ticker)!;

export function quoteOf(event: EventToSize, { ticker, side, contracts, limitPrice }: SizedPurchase): Quote {
  const { book, feeRule } = marketOf(event, ticker);
  return quoteOrder(book!, feeRule!, {
    side,
    action: 'buy',
    contracts,
    limitPrice,
    timeInForce: 'fill_or_kill',
  });
}

/** The event when all that was asked for has been bought, as an account books it. */
export function buyAll(
  event: EventToSize,
  { purchases }: SizedEvent,
  before: readonly Micros[],
): EventToSize {
  const markets = event.markets.map((market, i): MarketToSize => ({
    ...market,
    spent: market.spent ?? before[i]!,
  }));
  const after = { ...event, markets };
  for (const purchase of purchases) {
    const market = marketOf(after, purchase.ticker);
    const { fills } = quoteOf(after, purchase);
    for (const { price, contracts, fee } of fills) {
      const fill = { side: purchase.side, action: 'buy' as const, price, contracts, fee };
      const { holding, postings } = applyFill(market.held, fill);
      market.held = holding;
      market.spent = market.spent! - postings.cash;
      after.cash += postings.cash;
      after.bankroll += postings.cash;
    }
    market.book = consume(market.book!, { side: purchase.side, action: 'buy' }, fills);
  }
  return after;
}

/** Whole dollars that the event's purchases bring if this market wins, less what they cost. */
export const profitIf = (event: EventToSize, { purchases, stake }: SizedEvent, winner: number): Micros =>
  purchases.reduce((sum, { ticker, side, contracts }) => {
    const isPaid = (ticker === event.markets[winner]!.ticker) === (side === 'yes');
    return isPaid ? sum + BigInt(contracts) * DOLLAR : sum;
  }, -stake);
