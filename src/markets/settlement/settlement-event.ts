import type { SettlementState } from '../ledger/portfolio-table.js';
import {
  applySettlement,
  applyVoid,
  type Booking,
  type Holding,
  type Postings,
} from '../ledger/positions.js';
import { bracketPays } from '../market/brackets.js';
import { isPlaced, type ListedMarket } from '../market/market.js';
import { DOLLAR, type Micros } from '../market/money.js';

/** What the venue says about a market's end at some time. It may say something else later. */
export interface SettlementEvent {
  state: SettlementState;
  /** What a YES contract pays; null while that is not known, and for a void market. */
  value: Micros | null;
  /** What the market settled by, °F: whole degrees of a report, hundredths of an index, where it is known. */
  temperature: number | null;
}

type FinalEvent = SettlementEvent & ({ state: 'void' } | { state: 'finalized'; value: Micros });

/** Money moves with these; with all others it waits. */
export function isFinal(event: SettlementEvent): event is FinalEvent {
  return event.state === 'void' || (event.state === 'finalized' && event.value !== null);
}

/**
 * The venue's present word about a market's end; undefined while there is none: it is traded, or closed without a report.
 * A market that is finalized without a payout has no event either: what it pays cannot be told.
 */
export function settlementEventOf(market: ListedMarket): SettlementEvent | undefined {
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
const isSameEvent = (before: SettlementEvent, now: SettlementEvent): boolean =>
  before.state === now.state &&
  before.value === now.value &&
  (now.temperature === null || before.temperature === now.temperature);

/** What becomes of what was held when the event pays. */
const pay = (held: Holding, event: FinalEvent): Booking =>
  event.state === 'void' ? applyVoid(held) : applySettlement(held, event.value);

/** A row of `trading_settlements`, oldest first. */
export interface RecordedEvent extends SettlementEvent, Holding {
  n: number;
  /** True if it closed what it names. Several do if contracts turned up after the market had been settled. */
  isClosing: boolean;
}

/** A row to be added, with the ledger entry that goes with it where money moves. */
export interface PlannedEvent extends SettlementEvent, Holding {
  n: number;
  entry: { kind: 'settlement' | 'correction'; postings: Postings } | null;
}

/**
 * What to record of the venue's present word about a market, given what is held and what was recorded before. Pure.
 *
 * Whatever was said before and in whatever order, all that was closed has then been paid by the last event that pays:
 * a later one moves the difference to the one before it. The same word twice plans nothing.
 */
export function planSettlement(
  held: Holding | undefined,
  recorded: readonly RecordedEvent[],
  event: SettlementEvent,
): PlannedEvent[] {
  const planned: PlannedEvent[] = [];
  const add = ({ side, contracts, cost }: Holding, entry: PlannedEvent['entry']) =>
    planned.push({
      ...event,
      side,
      contracts,
      cost,
      n: (recorded.at(-1)?.n ?? 0) + planned.length + 1,
      entry,
    });

  const closed = recorded.filter(({ isClosing }) => isClosing);
  const open = held && held.contracts > 0 ? held : undefined;
  if (isFinal(event)) {
    const before = recorded.findLast((row): row is RecordedEvent & FinalEvent => isFinal(row));
    for (const row of before ? closed : []) {
      const postings = difference(row, before!, event);
      if (postings.cash !== 0n) add(row, { kind: 'correction', postings });
    }
    if (open) add(open, { kind: 'settlement', postings: pay(open, event).postings });
  }
  const about = open ?? closed.at(-1);
  if (planned.length === 0 && about && isNews(recorded.at(-1), event)) add(about, null);
  return planned;
}

/** A report is news only as long as the venue has said nothing itself. */
function isNews(last: RecordedEvent | undefined, event: SettlementEvent): boolean {
  if (!last) return true;
  if (event.state === 'provisional' && last.state !== 'provisional') return false;
  return !isSameEvent(last, event);
}

/** The position is closed and its cost is gone from the books: what changes is cash and what was earned. */
function difference(held: Holding, before: FinalEvent, now: FinalEvent): Postings {
  const cash = pay(held, now).postings.cash - pay(held, before).postings.cash;
  return { cash, positions: 0n, fees: 0n, realised: -cash, capital: 0n };
}
