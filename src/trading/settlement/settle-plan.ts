import type { Holding, Postings } from '../ledger/positions.js';
import { isFinal, isSameWord, pay, type FinalWord, type Word } from './settle-word.js';

/** A row of `trading_settlements`, oldest first. */
export interface RecordedWord extends Word, Holding {
  n: number;
  /** True if it closed what it names. Several do if contracts turned up after the market had been settled. */
  isClosing: boolean;
}

/** A row to be added, with the ledger entry that goes with it where money moves. */
export interface PlannedWord extends Word, Holding {
  n: number;
  entry: { kind: 'settlement' | 'correction'; postings: Postings } | null;
}

/**
 * What to record of the venue's present word about a market, given what is held and what was recorded before. Pure.
 *
 * Whatever was said before and in whatever order, all that was closed has then been paid by the last word that pays:
 * a later one moves the difference to the one before it. The same word twice plans nothing.
 */
export function planSettlement(
  held: Holding | undefined,
  recorded: readonly RecordedWord[],
  word: Word,
): PlannedWord[] {
  const planned: PlannedWord[] = [];
  const add = ({ side, contracts, cost }: Holding, entry: PlannedWord['entry']) =>
    planned.push({
      ...word,
      side,
      contracts,
      cost,
      n: (recorded.at(-1)?.n ?? 0) + planned.length + 1,
      entry,
    });

  const closed = recorded.filter(({ isClosing }) => isClosing);
  const open = held && held.contracts > 0 ? held : undefined;
  if (isFinal(word)) {
    const before = recorded.findLast((row): row is RecordedWord & FinalWord => isFinal(row));
    for (const row of before ? closed : []) {
      const postings = difference(row, before!, word);
      if (postings.cash !== 0n) add(row, { kind: 'correction', postings });
    }
    if (open) add(open, { kind: 'settlement', postings: pay(open, word).postings });
  }
  const about = open ?? closed.at(-1);
  if (planned.length === 0 && about && isNews(recorded.at(-1), word)) add(about, null);
  return planned;
}

/** A report is news only as long as the venue has said nothing itself. */
function isNews(last: RecordedWord | undefined, word: Word): boolean {
  if (!last) return true;
  if (word.state === 'provisional' && last.state !== 'provisional') return false;
  return !isSameWord(last, word);
}

/** The position is closed and its cost is gone from the books: what changes is cash and what was earned. */
function difference(held: Holding, before: FinalWord, now: FinalWord): Postings {
  const cash = pay(held, now).postings.cash - pay(held, before).postings.cash;
  return { cash, positions: 0n, fees: 0n, realised: -cash, capital: 0n };
}
