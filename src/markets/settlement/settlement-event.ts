import type { SettlementState } from '../ledger/portfolio-table.js';
import {
  applySettlement,
  applyVoid,
  type Booking,
  type Holding,
  type Postings,
} from '../ledger/positions.js';
import { bracketPays } from '../market/brackets.js';
import type { ListedMarket, MarketResult } from '../market/market.js';
import { DOLLAR, type Micros } from '../market/money.js';

/** At one point in time. A later result may differ. */
export interface SettlementEvent {
  state: SettlementState;
  /** Per YES contract; null while unknown and for a void market. */
  value: Micros | null;
  /** °F: whole degrees from a report or hundredths from an index; null if unknown. */
  temperature: number | null;
}

type FinalEvent = SettlementEvent & ({ state: 'void' } | { state: 'finalized'; value: Micros });

/** Only final events move money. */
export function isFinal(event: SettlementEvent): event is FinalEvent {
  return event.state === 'void' || (event.state === 'finalized' && event.value !== null);
}

/** Undefined while the market trades or is closed without a report, and if it is finalized without a payout. */
export function settlementEventOf(market: MarketResult): SettlementEvent | undefined {
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

/** When no data arrived: YES gets the last fair price, NO the rest of the dollar. */
export const isFairPrice = (valueOfYes: Micros): boolean => valueOfYes > 0n && valueOfYes < DOLLAR;

export function doubtAbout(market: ListedMarket | MarketResult): string | undefined {
  const { status, settlementValue: value, settledTemperature: temperature } = market;
  if (status !== 'finalized' || market.isVoid) return undefined;
  if (value === null) return 'the market is finalized without a payout: its positions stay open';
  const bracket = 'bracket' in market ? market.bracket : null;
  if (temperature === null || bracket === null) return undefined;
  if (isFairPrice(value)) return 'the market pays a last fair price although a temperature was reported';
  // The venue's payout applies even if it contradicts the rule.
  return value > 0n === bracketPays(bracket, temperature)
    ? undefined
    : 'the payout contradicts the rule of the market for the reported temperature';
}

/** A missing temperature counts as unchanged. */
const isSameEvent = (before: SettlementEvent, now: SettlementEvent): boolean =>
  before.state === now.state &&
  before.value === now.value &&
  (now.temperature === null || before.temperature === now.temperature);

const pay = (held: Holding, event: FinalEvent): Booking =>
  event.state === 'void' ? applyVoid(held) : applySettlement(held, event.value);

export interface RecordedEvent extends SettlementEvent, Holding {
  n: number;
  /** There are several if contracts turned up after the settlement. */
  isClosing: boolean;
}

export interface PlannedEvent extends SettlementEvent, Holding {
  n: number;
  entry: { kind: 'settlement' | 'correction'; postings: Postings } | null;
}

/**
 * Pure. Invariant: afterwards, the last final event has paid everything that was closed, whatever the earlier events
 * and their order. Each later event books its difference from the previous one.
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

/** A provisional report is news only until the venue reports a result, and a result only until it pays. */
function isNews(last: RecordedEvent | undefined, event: SettlementEvent): boolean {
  if (!last) return true;
  if (event.state === 'provisional' && last.state !== 'provisional') return false;
  if (event.state === 'determined' && ['finalized', 'void'].includes(last.state)) return false;
  return !isSameEvent(last, event);
}

/** The position's cost has left the books, so only cash and realised profit change. */
function difference(held: Holding, before: FinalEvent, now: FinalEvent): Postings {
  const cash = pay(held, now).postings.cash - pay(held, before).postings.cash;
  return { cash, positions: 0n, fees: 0n, realised: -cash, capital: 0n };
}
