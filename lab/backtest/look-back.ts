import { createBookLog, type BookLog } from '../../src/markets/execution/books.js';
import { markFill, WAIT_MS, type MarkableFill } from '../../src/markets/execution/marker.js';
import { horizons, type PriceMark } from '../../src/markets/execution/queries.js';
import { isCrossed, asksOf, bidsOf } from '../../src/markets/market/book.js';
import { sumCounts } from '../../src/markets/market/contracts.js';
import type { Micros } from '../../src/markets/market/money.js';
import type { MarketData, Print, PrintsRead } from '../../src/markets/market/source.js';
import { inDollars } from '../../src/markets/sizing/offers.js';
import { bookOfTrades, toPrint, type RecordedTrade } from './records.js';

export interface FillMark extends PriceMark {
  /** For the minute after the fill. If false, `missed` is null. */
  hasPrints: boolean;
}

const markWith = (
  fill: MarkableFill,
  prints: readonly Print[] | undefined,
  books: Pick<BookLog, 'bookAt'>,
): FillMark => {
  const { missed, after } = markFill(fill, prints, books);
  const hasPrints = prints !== undefined;
  return { missed: hasPrints ? missed : null, after, hasPrints };
};

/** The first reading after the judged minute shows the book as it was when the minute ended. */
const FOLLOWED_MS = 2 * WAIT_MS;

/** @param fills in chronological order */
export function createLookBack(fills: readonly MarkableFill[]) {
  const known = new Map(
    fills.map(({ ticker }) => [ticker, { reads: [] as PrintsRead[], prints: new Map<string, Print>() }]),
  );
  const logs = fills.map(() => createBookLog());
  let [first, next] = [0, 0];

  /** Undefined if any part of the minute after the fill was not read. */
  function printsAfter({ ticker, at }: MarkableFill): Print[] | undefined {
    const { reads, prints } = known.get(ticker)!;
    let readMs = at.getTime();
    for (const { since, until } of reads.toSorted((a, b) => a.since.getTime() - b.since.getTime()))
      if (since.getTime() <= readMs) readMs = Math.max(readMs, until.getTime());
    if (readMs < at.getTime() + WAIT_MS) return undefined;
    return [...prints.values()].sort((a, b) => a.at.getTime() - b.at.getTime());
  }

  return {
    /** In chronological order, the first no later than the first fill. */
    see(at: Date, data: Pick<MarketData, 'books' | 'bookTimes' | 'doubts' | 'fetchedAt'>): void {
      while (next < fills.length && fills[next]!.at <= at) next++;
      while (first < next && fills[first]!.at.getTime() + FOLLOWED_MS < at.getTime()) first++;
      for (let i = first; i < next; i++) {
        const { ticker } = fills[i]!;
        const book = data.books.get(ticker);
        logs[i]!.add({ ...data, books: new Map(book ? [[ticker, book]] : []) }, at, false);
      }
    },
    read(found: PrintsRead): void {
      for (const ticker of found.tickers) known.get(ticker)?.reads.push(found);
      for (const print of found.prints) known.get(print.ticker)?.prints.set(print.id, print);
    },
    /** In the order of the fills. */
    marks: (): FillMark[] => fills.map((fill, i) => markWith(fill, printsAfter(fill), logs[i]!)),
  };
}

/** Fills in markets without recorded trades are not judged. */
export function markByTrades(
  fill: MarkableFill,
  trades: ReadonlyMap<string, readonly RecordedTrade[]>,
): FillMark {
  const { ticker, side, action } = fill;
  const recorded = trades.get(ticker);
  const isTaken = action === 'buy' ? asksOf : bidsOf;
  return markWith(
    fill,
    recorded?.map((trade, i) => toPrint(ticker, trade, i)),
    {
      bookAt(_, since, at) {
        const book = bookOfTrades(recorded ?? [], since.getTime(), at.getTime());
        // If nobody traded on the fill's side, nothing proves the depth that remained there.
        return isTaken(book, side).length === 0 || isCrossed(book) ? undefined : book;
      },
    },
  );
}

export interface PaperFill extends MarkableFill {
  /** After fees; null until the market settles. */
  profit: Micros | null;
}

export type ExecutionSummary = ReturnType<typeof summariseExecution>;

/** Amounts are in dollars. */
export function summariseExecution(fills: readonly PaperFill[], marks: readonly FillMark[]) {
  const missed = fills.filter((_, i) => marks[i]!.missed === true);
  return {
    fills: fills.length,
    contracts: sumCounts(fills.map(({ contracts }) => contracts)),
    /** `known`: with any later data. `withPrints`: with all prints of the next minute. */
    known: marks.filter((mark) => mark.missed !== null || mark.after.some((price) => price !== null)).length,
    withPrints: marks.filter(({ hasPrints }) => hasPrints).length,
    judged: marks.filter((mark) => mark.missed !== null).length,
    missed: missed.length,
    missedContracts: sumCounts(missed.map(({ contracts }) => contracts)),
    /** After fees: settled fills that would have been missed. */
    missedProfit: missed.reduce((sum, { profit }) => sum + inDollars(profit ?? 0n), 0),
    /** Per contract in the order's favor; null if unknown for all fills. */
    after: horizons.map((seconds, horizon) => {
      const known = fills.flatMap(({ price, contracts, action }, i) => {
        const later = marks[i]!.after[horizon] ?? null;
        if (later === null) return [];
        return [{ contracts, gain: inDollars(action === 'buy' ? later - price : price - later) * contracts }];
      });
      const contracts = sumCounts(known.map((one) => one.contracts));
      const gain = known.reduce((sum, one) => sum + one.gain, 0);
      return { seconds, fills: known.length, move: contracts === 0 ? null : gain / contracts };
    }),
  };
}
