import type { StationForecast } from '../forecast/forecast.js';
import type { Side } from '../market/book.js';
import type { MarketEvent } from '../market/event.js';
import type { MarketData } from '../market/source.js';
import type { Micros } from '../market/money.js';
import type { GateBook } from './gate.js';
import { allAtOnce, type Steps } from '../market/steps.js';
import { worthOf, type SignalAccount } from './account.js';
import { lookAtEvent, type EventCase } from './event-case.js';
import { DAY_CAP, EVENT_CAP, KELLY_SHARE, MARKET_CAP } from './limits.js';
import { toSignal } from './reasons.js';
import type { EventSignals, SignalReport, Suppressed } from './signal.js';
import { sizeEvents, type EventSizes, type Money } from './sizes.js';

interface Situation {
  data: MarketData;
  events: readonly MarketEvent[];
  forecasts: ReadonlyMap<string, StationForecast>;
  gates: GateBook;
  at: Date;
}

/** Sized for nobody in particular, who has the bankroll in cash and holds nothing, or for an account as it stands. */
export type SignalInput = Situation &
  ({ bankroll: Micros; account?: undefined } | { bankroll?: undefined; account: SignalAccount });

/**
 * What the forecasts say about the present order books, for every event of which something can still be traded. Each
 * side of each market has either a signal or the reason why it has none. The markets of an event are sized together.
 */
export function* makeSignalsInSteps(input: SignalInput): Steps<SignalReport> {
  const open = input.events.filter(({ markets }) => markets.some(({ status }) => status === 'active'));
  const cases: EventCase[] = [];
  for (const event of open) {
    cases.push(lookAtEvent(event, input));
    yield;
  }
  const money = moneyOf(input);
  const sizes = yield* sizeEvents(cases, input.events, money, input.data);
  return {
    bankroll: money.bankroll,
    kellyShare: KELLY_SHARE,
    marketCap: MARKET_CAP,
    eventCap: EVENT_CAP,
    dayCap: DAY_CAP,
    sizing: 'joint_event',
    events: cases.map((one) => ofEvent(one, sizes.get(one), money, input.data)),
  };
}

export const makeSignals = (input: SignalInput): SignalReport => allAtOnce(makeSignalsInSteps(input));

const nothingHeld: SignalAccount['holdings'] = new Map();

function moneyOf({ account, bankroll, data }: SignalInput): Money {
  if (!account) return { bankroll, cash: bankroll, holdings: nothingHeld };
  return { ...account, bankroll: account.cash + worthOf(account.holdings, data.markets, data) };
}

const sides: readonly Side[] = ['yes', 'no'];

function ofEvent(
  one: EventCase,
  sizes: EventSizes | undefined,
  money: Money,
  data: MarketData,
): EventSignals {
  const { event, day, gate, problems, withheld } = one;
  const isSaid = day !== undefined && sizes !== undefined && withheld === undefined;
  const signals = isSaid
    ? sizes.purchases.map((purchase) => toSignal({ purchase, sizes, one, day, money, data }))
    : [];
  const isSignal = new Set(signals.map(({ market, side }) => `${market.ticker} ${side}`));
  const reasons = sizes ? reasonsOf(sizes) : new Map<string, string>();
  const held = new Set(isSaid ? [] : sizes?.purchases.map(({ ticker, side }) => `${ticker} ${side}`));
  const suppressed: Suppressed[] = [];
  for (const { ticker } of event.markets)
    for (const side of sides) {
      const key = `${ticker} ${side}`;
      if (isSignal.has(key)) continue;
      const isWithheld = held.has(key);
      const own = problems.get(ticker) ?? reasons.get(key) ?? 'nobody asks';
      suppressed.push({ ticker, side, reason: (isWithheld && withheld) || own, isWithheld });
    }
  return {
    eventTicker: event.eventTicker,
    kind: event.kind,
    stationId: event.station.id,
    date: event.date,
    hour: event.hour,
    method: day?.method ?? null,
    isCalibrated: day?.isCalibrated ?? false,
    gate,
    signals,
    suppressed,
    ...(isSaid ? totalsOf(sizes) : nothing),
  };
}

const nothing = { stake: 0n, worstCase: 0n, growth: 0, gap: 0 };

const totalsOf = ({ stake, worstCase, growth, gap }: EventSizes) => ({ stake, worstCase, growth, gap });

/** Why a side of which something could be bought is none, by ticker and side. */
function reasonsOf({ refused, crowdedOut, scarce }: EventSizes) {
  const reasons = new Map(refused.map(({ ticker, side, reason }) => [`${ticker} ${side}`, reason]));
  const crowded = scarce === 'cash' ? 'the cash' : 'the cap of the day';
  for (const { ticker, side } of crowdedOut)
    reasons.set(`${ticker} ${side}`, `events that bring more growth use up ${crowded}`);
  return reasons;
}
