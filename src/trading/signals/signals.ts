import type { DayForecast, StationForecast } from '../forecast/forecast.js';
import type { Side } from '../markets/book.js';
import type { MarketEvent } from '../markets/event.js';
import type { MarketData } from '../markets/source.js';
import type { Micros } from '../money.js';
import { shareOf } from '../sizing/kelly.js';
import { judgeDay, judgeMarket } from './judge.js';
import { EVENT_CAP, KELLY_SHARE, MARKET_CAP } from './limits.js';
import { priceSide, sizePurchase, type Candidate } from './purchase.js';
import { toSignal } from './reasons.js';
import type { EventSignals, Signal, SignalReport, Suppressed } from './signal.js';

export interface SignalInput {
  data: MarketData;
  events: readonly MarketEvent[];
  forecasts: ReadonlyMap<string, StationForecast>;
  bankroll: Micros;
  at: Date;
}

/**
 * What the forecasts say about the present order books, for every event of which something can still be traded. Each
 * side of each market has either a signal or the reason why it has none.
 */
export function makeSignals(input: SignalInput): SignalReport {
  const open = input.events.filter(({ markets }) => markets.some(({ status }) => status === 'active'));
  return {
    bankroll: input.bankroll,
    method: 'raw_ensemble',
    isCalibrated: false,
    kellyShare: KELLY_SHARE,
    marketCap: MARKET_CAP,
    eventCap: EVENT_CAP,
    sizing: 'single_market',
    events: open.map((event) => ofEvent(event, input)),
  };
}

const sides: readonly Side[] = ['yes', 'no'];

function ofEvent(event: MarketEvent, input: SignalInput): EventSignals {
  const { eventTicker, station, date } = event;
  const suppressed: Suppressed[] = [];
  const refuse = (ticker: string, side: Side, reason: string) =>
    void suppressed.push({ ticker, side, reason });
  const day = input.forecasts.get(station.id)?.days.find((day) => day.date === date);
  const problem = judgeDay(event, day, input);
  const candidates: Candidate[] = [];
  for (const market of event.markets)
    for (const side of sides) {
      const reason = problem ?? judgeMarket(market, input);
      const priced = reason === undefined ? priceSide(market, side, day!, input.data) : reason;
      if (typeof priced === 'string') refuse(market.ticker, side, priced);
      else candidates.push(priced);
    }
  const signals = day === undefined ? [] : size(candidates, day, input, refuse);
  return { eventTicker, stationId: station.id, date, signals, suppressed };
}

/** The best come first: what they take of the event's cap is not there for the others. */
function size(
  candidates: readonly Candidate[],
  day: DayForecast,
  { bankroll, data }: SignalInput,
  refuse: (ticker: string, side: Side, reason: string) => void,
): Signal[] {
  const signals: Signal[] = [];
  const marketRoom = shareOf(bankroll, MARKET_CAP);
  let eventRoom = shareOf(bankroll, EVENT_CAP);
  for (const candidate of candidates.toSorted(byEdge)) {
    const maxStake = eventRoom < marketRoom ? eventRoom : marketRoom;
    const sizeWithin = (cap: Micros) =>
      sizePurchase(candidate, { bankroll, kellyShare: KELLY_SHARE, maxStake: cap });
    const sized = sizeWithin(maxStake);
    if (typeof sized === 'string') {
      const isFull = maxStake < marketRoom && typeof sizeWithin(marketRoom) !== 'string';
      const { market, side } = candidate;
      refuse(market.ticker, side, isFull ? 'better signals use up the cap of the event' : sized);
      continue;
    }
    eventRoom -= sized.stake;
    signals.push(toSignal({ candidate, sized, day, data, maxStake }));
  }
  return signals;
}

/** Ties go by ticker, so that the same inputs give the same order. */
const byEdge = (a: Candidate, b: Candidate): number =>
  b.edge - a.edge || (a.market.ticker < b.market.ticker ? -1 : 1);
