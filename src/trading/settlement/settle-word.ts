import { isPlaced, type ListedMarket } from '../market/market.js';
import { DOLLAR, type Micros } from '../market/money.js';
import { applySettlement, applyVoid, type Booking, type Holding } from '../ledger/positions.js';
import type { SettlementState } from '../ledger/portfolio-table.js';
import { bracketPays } from '../market/brackets.js';

/** What the venue says about a market's end at some time. It may say something else later. */
export interface Word {
  state: SettlementState;
  /** What a YES contract pays; null while nobody knows, and for a void market. */
  value: Micros | null;
  /** What the market settled by, °F: whole degrees of a report, hundredths of an index, where it is known. */
  temperature: number | null;
}

/** A word that pays. */
export type FinalWord = Word & ({ state: 'void' } | { state: 'finalized'; value: Micros });

/** Money moves with these; with all others it waits. */
export function isFinal(word: Word): word is FinalWord {
  return word.state === 'void' || (word.state === 'finalized' && word.value !== null);
}

/**
 * The venue's present word about a market's end; undefined while there is none: it is traded, or closed without a report.
 * A market that is finalized without a payout has no word either: nobody can tell what it pays.
 */
export function wordOf(market: ListedMarket): Word | undefined {
  const { status, settlementValue: value, settledTemperature: temperature } = market;
  switch (status) {
    case 'closed':
      return temperature === null ? undefined : { state: 'provisional', value: null, temperature };
    case 'determined':
    case 'disputed':
    case 'amended':
      return { state: status, value, temperature };
    case 'finalized':
      if (market.isVoid) return { state: 'void', value: null, temperature };
      return value === null ? undefined : { state: 'finalized', value, temperature };
    default:
      return undefined;
  }
}

/** True for a payout that is of neither side: what the venue took for fair where no data came, paid to YES, the rest to NO. */
export const isFairPrice = (valueOfYes: Micros): boolean => valueOfYes > 0n && valueOfYes < DOLLAR;

/** Why a person should look at a market's end, if there is a reason. */
export function doubtAbout(market: ListedMarket): string | undefined {
  const { status, settlementValue: value, settledTemperature: temperature } = market;
  if (status !== 'finalized' || market.isVoid) return undefined;
  if (value === null) return 'the market is finalized without a payout: its positions stay open';
  if (temperature === null || !isPlaced(market)) return undefined;
  if (isFairPrice(value)) return 'the market is paid at a last fair price although a temperature is reported';
  // The venue's word is what pays, also where it contradicts the rule.
  return value > 0n === bracketPays(market.bracket, temperature)
    ? undefined
    : 'the payout of the market is not what its rule says of the reported temperature';
}

/** True if the venue says nothing new. A temperature that it does not repeat has not changed. */
export const isSameWord = (before: Word, now: Word): boolean =>
  before.state === now.state &&
  before.value === now.value &&
  (now.temperature === null || before.temperature === now.temperature);

/** What becomes of what was held when the word pays. */
export const pay = (held: Holding, word: FinalWord): Booking =>
  word.state === 'void' ? applyVoid(held) : applySettlement(held, word.value);
