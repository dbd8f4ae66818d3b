import { CENT, DOLLAR, type Micros } from '../market/money.js';
import { nextGaussian, uniform, uniformsOf } from './simulation/random.js';
import { asksOf, toLevels, type Level, type OrderBook } from '../market/book.js';
import type { Market } from '../market/market.js';

/** Books change this often. */
const BOOK_MS = 15_000;
const LEVELS = 5;

/**
 * When an event's books changed last. Each event has a rhythm of its own, so that not everything changes at once; until then
 * all that is said of the event stays the same.
 */
export function bookTimeOf(seed: string, eventTicker: string, at: Date): Date {
  const offsetMs = Math.floor(uniform(seed, eventTicker, 'rhythm') * BOOK_MS);
  return new Date(Math.floor((at.getTime() - offsetMs) / BOOK_MS) * BOOK_MS + offsetMs);
}

/** Bids below and asks above what the crowd believes, thinner and dearer the further away. */
export function makeBook(seed: string, ticker: string, probability: number, changedAt: Date): OrderBook {
  const next = uniformsOf(seed, ticker, changedAt.getTime());
  const mid = probability * 100 + 0.5 * nextGaussian(next);
  const half = 0.6 + 1.2 * next();
  const side = (best: number): Level[] =>
    toLevels(
      Array.from({ length: LEVELS }, (_, i) => ({
        price: BigInt(best - i) * CENT,
        contracts: Math.ceil((20 + 30 * i) * (0.3 + 1.4 * next())),
      })),
    );
  return { yes: side(Math.floor(mid - half)), no: side(Math.floor(100 - mid - half)) };
}

type Prices = Pick<
  Market,
  'yesBid' | 'yesAsk' | 'noBid' | 'noAsk' | 'lastPrice' | 'volume' | 'volume24h' | 'openInterest'
>;

/** What a market says of itself. */
export const pricesOf = (book: OrderBook, probability: number, volume: number): Prices => ({
  yesBid: book.yes[0]?.price ?? null,
  yesAsk: asksOf(book, 'yes')[0]?.price ?? null,
  noBid: book.no[0]?.price ?? null,
  noAsk: asksOf(book, 'no')[0]?.price ?? null,
  lastPrice: volume === 0 ? null : toCents(probability),
  volume,
  volume24h: volume,
  openInterest: Math.floor(volume * 0.6),
});

const toCents = (probability: number): Micros =>
  BigInt(Math.max(1, Math.min(99, Math.round(probability * 100)))) * CENT;

/** Grows from the opening to the close. */
export function volumeOf(
  seed: string,
  ticker: string,
  { openTime, closeTime }: Pick<Market, 'openTime' | 'closeTime'>,
  at: Date,
): number {
  const open = closeTime.getTime() - openTime.getTime();
  const share = Math.max(0, Math.min(1, (at.getTime() - openTime.getTime()) / open));
  return Math.floor((500 + 9_000 * uniform(seed, ticker, 'volume') ** 2) * share ** 1.5);
}

export const linearCents = [{ start: 0n, end: DOLLAR, step: CENT }];
