import { createBookLog, type BookLog } from '../../execution/books.js';
import { markFill, WAIT_MS, type MarkableFill } from '../../execution/marker.js';
import { horizons, type PriceMark } from '../../execution/queries.js';
import { isCrossed, asksOf, bidsOf } from '../../market/book.js';
import { sumCounts } from '../../market/contracts.js';
import type { Micros } from '../../market/money.js';
import type { MarketData, Print, PrintsRead } from '../../market/source.js';
import { inDollars } from '../../sizing/offers.js';
import { bookOfTrades, toPrint, type RecordedTrade } from './records.js';

/** What became of prices after a fill, by the rules of the service. */
export interface FillMark extends PriceMark {
  /** Everything that its market printed within a minute of it is known. Without that none is said to have missed. */
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

/** So long after a fill books are looked at: the first reading after its minute says what stood before. */
const FOLLOWED_MS = 2 * WAIT_MS;

/** What is known of fills by what comes after them, one moment after the other. */
export interface LookBack {
  /** Moments from the first fill on, in the order of time. */
  see(at: Date, data: Pick<MarketData, 'books' | 'bookTimes' | 'doubts' | 'fetchedAt'>): void;
  read(prints: PrintsRead): void;
  /** In the order of the fills. */
  marks(): FillMark[];
}

/** @param fills in the order of time */
export function createLookBack(fills: readonly MarkableFill[]): LookBack {
  const known = new Map(
    fills.map(({ ticker }) => [ticker, { reads: [] as PrintsRead[], prints: new Map<string, Print>() }]),
  );
  // Each has the books of its own market and minute.
  const logs = fills.map(() => createBookLog());
  let [first, next] = [0, 0];

  /** All that a market printed from the fill until it is looked back at; undefined if a part of it was not read. */
  function printsAfter({ ticker, at }: MarkableFill): Print[] | undefined {
    const { reads, prints } = known.get(ticker)!;
    let readMs = at.getTime();
    for (const { since, until } of reads.toSorted((a, b) => a.since.getTime() - b.since.getTime()))
      if (since.getTime() <= readMs) readMs = Math.max(readMs, until.getTime());
    if (readMs < at.getTime() + WAIT_MS) return undefined;
    return [...prints.values()].sort((a, b) => a.at.getTime() - b.at.getTime());
  }

  return {
    see(at, data) {
      while (next < fills.length && fills[next]!.at <= at) next++;
      while (first < next && fills[first]!.at.getTime() + FOLLOWED_MS < at.getTime()) first++;
      for (let i = first; i < next; i++) {
        const { ticker } = fills[i]!;
        const book = data.books.get(ticker);
        logs[i]!.add({ ...data, books: new Map(book ? [[ticker, book]] : []) }, at, false);
      }
    },
    read(found) {
      for (const ticker of found.tickers) known.get(ticker)?.reads.push(found);
      for (const print of found.prints) known.get(print.ticker)?.prints.set(print.id, print);
    },
    marks: () => fills.map((fill, i) => markWith(fill, printsAfter(fill), logs[i]!)),
  };
}

/**
 * By recorded trades alone: what stood in the book after a fill is what trades since have proved of it. A market of which no trade
 * is recorded is unknown.
 */
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
        // Where no taker came to the side that the fill was taken from, nothing is proved of what is left of it.
        return isTaken(book, side).length === 0 || isCrossed(book) ? undefined : book;
      },
    },
  );
}

/** A fill of the backtest, and what it brought if its market has settled. */
export interface PaperFill extends MarkableFill {
  /** After fees; null while the market has not settled. */
  profit: Micros | null;
}

export type ExecutionSummary = ReturnType<typeof summariseExecution>;

/** Amounts are in dollars. */
export function summariseExecution(fills: readonly PaperFill[], marks: readonly FillMark[]) {
  const missed = fills.filter((_, i) => marks[i]!.missed === true);
  return {
    fills: fills.length,
    contracts: sumCounts(fills.map(({ contracts }) => contracts)),
    /** Fills of which anything is known from after them; of which everything is known that was printed in the minute. */
    known: marks.filter((mark) => mark.missed !== null || mark.after.some((price) => price !== null)).length,
    withPrints: marks.filter(({ hasPrints }) => hasPrints).length,
    /** Of which it is known whether they would have missed. */
    judged: marks.filter((mark) => mark.missed !== null).length,
    missed: missed.length,
    missedContracts: sumCounts(missed.map(({ contracts }) => contracts)),
    /** Profit after fees of those that would have missed, as far as they have settled. */
    missedProfit: missed.reduce((sum, { profit }) => sum + inDollars(profit ?? 0n), 0),
    /** How far a contract's price had moved in favour of the order on average; null if it is not known of any. */
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
