import { describe, expect, it } from 'vitest';
import { bookOfTrades, type RecordedTrade } from '../../../src/tools/backtest/records.js';
import { CENT } from '../../../src/trading/market/money.js';

const MINUTE_MS = 60_000;

/** A trade each minute, from the first on. */
const trades = (...all: [takerSide: 'yes' | 'no', yesPrice: number, contracts: number][]): RecordedTrade[] =>
  all.map(([takerSide, yesPrice, contracts], i) => ({
    atMs: (i + 1) * MINUTE_MS,
    takerSide,
    yesPrice,
    contracts,
  }));
const bookOf = (...all: Parameters<typeof trades>) => bookOfTrades(trades(...all), 0, 10 * MINUTE_MS);
const levels = (...all: [cents: number, contracts: number][]) =>
  all.map(([cents, contracts]) => ({ price: BigInt(cents) * CENT, contracts }));

describe('the book that trades prove', () => {
  it('has what buyers of YES found asked, and buyers of NO found bid', () => {
    expect(bookOf(['yes', 32, 50], ['no', 29, 20], ['yes', 32, 5], ['yes', 31, 7])).toEqual({
      yes: levels([29, 20]),
      no: levels([69, 7], [68, 55]),
    });
  });

  it('has nothing left of a price that a later trade had to go beyond', () => {
    // A buyer who paid 50 found nothing at 30 any more; a seller at 20 found no bid of 28.
    expect(bookOf(['no', 28, 40], ['yes', 30, 100], ['yes', 50, 10], ['no', 20, 5])).toEqual({
      yes: levels([20, 5]),
      no: levels([50, 10]),
    });
  });

  it('knows no trade that comes later, and forgets old ones', () => {
    const all = trades(['yes', 30, 1], ['yes', 30, 2], ['yes', 30, 4]);
    expect(bookOfTrades(all, MINUTE_MS, 2 * MINUTE_MS).no).toEqual(levels([70, 2]));
  });
});
