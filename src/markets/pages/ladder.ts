import type { DayForecast } from '../learning/forecast.js';
import { asksOf, bidsOf, emptyBook, type Level, type OrderBook, type Side } from '../market/book.js';
import type { MarketEvent } from '../market/event.js';
import { expectedPayout, takesOrders, type ListedMarket, type Market } from '../market/market.js';
import { DOLLAR, type Micros } from '../market/money.js';
import type { Holding } from '../ledger/positions.js';
import { bracketLabel } from '../market/brackets.js';
import type { Signal, SignalReport } from '../signals/signal.js';
import { ticketAddress } from './addresses.js';
import { marketStatusLabels } from './labels.js';
import { formatPrice } from '../../core/pages/format.js';
import { impliedProbabilities, isPassed } from './probabilities.js';
import { addCounts, perContract } from '../market/contracts.js';

interface LadderInput extends Pick<OwnAccount, 'holdings' | 'mayOpen' | 'mayOrder' | 'composed'> {
  event: MarketEvent;
  books: ReadonlyMap<string, OrderBook>;
  day: DayForecast | undefined;
  signals: readonly Signal[];
}

export interface OwnAccount {
  /** Undefined if the account was never opened. */
  cash: Micros | undefined;
  holdings: ReadonlyMap<string, Holding>;
  /** Cities. */
  watched: ReadonlySet<string>;
  /** Purchases rest in the book. */
  isWaiting: boolean;
  /** Empty if the prices are too old. */
  signals: SignalReport;
  areTooOld: boolean;
  /** If false, positions may only be sold. */
  mayOpen: boolean;
  /** By role. */
  mayOrder: boolean;
  composed?: ComposedOrder | undefined;
}

/** In the chosen market's ticket. */
interface ComposedOrder {
  ticker: string;
  href: string;
  /** If typed for a purchase. */
  size: number | undefined;
}

/** From cold to warm. Neighbours that cannot win, and of which nothing is held or offered for NO, are one row. */
export function toLadder(input: LadderInput) {
  type Row = ReturnType<typeof toRows>[number];
  const isFolded = ({ impossible, held, no }: Row) => impossible && !held && no.ask === null;
  const groups: Row[][] = [];
  for (const row of toRows(input)) {
    const before = groups.at(-1);
    if (before && isFolded(row) && isFolded(before[0]!)) before.push(row);
    else groups.push([row]);
  }
  return groups.map((group) => ({ ...group[0]!, folded: group.length > 1 ? group : null }));
}

function toRows({ event, books, day, signals, ...own }: LadderInput) {
  const implied = impliedProbabilities(event);
  return event.markets.map((market) => {
    const { ticker, status } = market;
    const book = books.get(ticker) ?? emptyBook;
    const forecast = day?.probabilities.get(ticker) ?? null;
    const isOpen = status === 'active';
    const impossible = isOpen && day ? impossibilityOf(market, day) : null;
    const quoted = (side: Side) => ({
      ...toQuoted(market, side, asksOf(book, side)[0]?.price, own),
      signal: signals.find((signal) => signal.market.ticker === ticker && signal.side === side),
    });
    return {
      ticker,
      label: bracketLabel(market.bracket),
      href: hrefOf(ticker, own.composed),
      isOpen,
      status: statusOf(market),
      impossible,
      forecast: expectedPayout(market) === null ? forecast : null,
      market: implied.get(ticker) ?? null,
      bid: bidsOf(book, 'yes')[0]?.price,
      volume: market.volume,
      yes: impossible ? { ...quoted('yes'), buyHref: null } : quoted('yes'),
      no: quoted('no'),
      held: toHeld(market, own.holdings.get(ticker), book, own.mayOrder),
    };
  });
}

/** Null if YES can still pay. `measuredF` is null if only the forecast rules YES out. */
function impossibilityOf({ ticker, bracket, kind }: Market, day: DayForecast) {
  if (day.observed && isPassed(bracket, day.observed, kind)) return { measuredF: day.observed.extremeF };
  return day.probabilities.get(ticker) === 0 ? { measuredF: null } : null;
}

/** Null for a market that is open and tradable. */
export function statusOf(market: ListedMarket) {
  const { status, untradable } = market;
  if (status === 'active') return untradable === undefined ? null : { label: 'No orders', tone: 'warn' };
  const value = expectedPayout(market);
  if (value !== null && status !== 'disputed') {
    const outcome = value === DOLLAR ? 'Won' : value === 0n ? 'Lost' : `Pays ${formatPrice(value)}`;
    const label = status === 'finalized' ? outcome : `${outcome}, not final`;
    return { label, tone: value === DOLLAR ? 'good' : '' };
  }
  return marketStatusLabels[status];
}

/** The ticket keeps what the reader has composed. */
export const hrefOf = (ticker: string, composed: ComposedOrder | undefined): string =>
  ticker === composed?.ticker ? composed.href : ticketAddress(ticker, { contracts: composed?.size });

/** By ticker: the keys of the outcomes beside the chosen one, or of the first. */
export function toOutcomeKeys(outcomes: readonly { ticker: string }[], chosen: string | undefined) {
  const at = outcomes.findIndex(({ ticker }) => ticker === chosen);
  return new Map([[outcomes[at - 1]?.ticker, '['] as const, [outcomes[at + 1]?.ticker, ']'] as const]);
}

export const toQuoted = (
  market: ListedMarket,
  side: Side,
  ask: Micros | null | undefined,
  { mayOpen, composed }: Pick<OwnAccount, 'mayOpen' | 'composed'>,
) => ({
  ask: ask ?? null,
  /** Null if nothing is offered or the side can no longer pay. */
  buyHref:
    ask != null && takesOrders(market) && mayOpen
      ? ticketAddress(market.ticker, { side, action: 'buy', contracts: composed?.size })
      : null,
});

function toHeld(market: Market, held: Holding | undefined, book: OrderBook, mayOrder: boolean) {
  if (!held) return null;
  const { side, contracts, cost } = held;
  return {
    text: `${contracts} ${side.toUpperCase()}`,
    averageCost: perContract(cost, contracts),
    /** Null if nobody bids or the member may not order. */
    sellHref:
      mayOrder && takesOrders(market) && bidsOf(book, side).length > 0
        ? ticketAddress(market.ticker, { side, action: 'sell', contracts })
        : null,
  };
}

/**
 * The bids and asks of one side, the best first, with the reader's resting orders. A price leads to the ticket with that
 * limit, if orders are taken.
 */
export function toBookRows(
  book: OrderBook,
  side: Side,
  own: readonly (Level & { isBid: boolean })[],
  toHref: ((price: Micros, isBid: boolean) => string) | null,
) {
  const most = Math.max(
    1,
    ...[...bidsOf(book, side), ...asksOf(book, side)].map(({ contracts }) => contracts),
  );
  const sumAt = (at: Micros, levels: readonly Level[]) =>
    levels.reduce((sum, { price, contracts }) => (price === at ? addCounts(sum, contracts) : sum), 0);
  const [bids = [], asks = []] = [true, false].map((isBid) => {
    const levels = (isBid ? bidsOf : asksOf)(book, side);
    const resting = own.filter((order) => order.isBid === isBid);
    const prices = [...new Set([...levels, ...resting].map(({ price }) => price))];
    prices.sort((a, b) => Number(isBid ? b - a : a - b));
    return prices.map((price) => ({
      price,
      href: toHref?.(price, isBid),
      contracts: sumAt(price, levels),
      own: sumAt(price, resting),
      /** In percent of the widest level. */
      width: ((100 * sumAt(price, levels)) / most).toFixed(1),
    }));
  });
  return Array.from({ length: Math.max(bids.length, asks.length) }, (_, i) => ({
    bid: bids[i],
    ask: asks[i],
  }));
}
