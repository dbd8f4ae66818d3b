import { inSentence } from '../../core/pages/format.js';
import { HOUR_MS } from '../../core/time.js';
import { forecastOf, type DayForecast, type StationForecast } from '../learning/forecast.js';
import { isCrossed, type OrderBook } from '../market/book.js';
import { areOutcomesKnown, outcomeProbabilities, outcomesOf, type Bracket } from '../market/brackets.js';
import type { MarketEvent } from '../market/event.js';
import { feeRuleOf } from '../market/fees.js';
import { spanOf, targetOf, type Market } from '../market/market.js';
import { MAX_TRADING_AGE_MS, type MarketData } from '../market/source.js';
import {
  gateAt,
  type Gate,
  MAX_FORECAST_AGE_MS,
  MAX_OBSERVATION_AGE_MS,
  MAX_RUN_AGE_MS,
  nothingBought,
  type EventSignals,
  type SignalReport,
  type GateBook,
} from './signal.js';
import type { Micros } from '../market/money.js';

export interface Situation {
  data: MarketData;
  events: readonly MarketEvent[];
  forecasts: ReadonlyMap<string, StationForecast>;
  gates: GateBook;
  at: Date;
}

type Present = Pick<Situation, 'data' | 'at'>;

function problemOfEvent(event: MarketEvent, day: DayForecast | undefined, { data, at }: Present) {
  const age = at.getTime() - data.fetchedAt.getTime();
  if (age > MAX_TRADING_AGE_MS) return `the prices are ${Math.round(age / 1000)} s old`;
  if (!data.isTrading) return 'the exchange is not trading';
  const { markets } = event;
  const { start, end } = spanOf(event.station, event);
  if (at >= end) return event.kind === 'hourly' ? 'the hour is over' : 'the day is over';
  const brackets = markets.map(({ bracket }) => bracket);
  if (!areOutcomesKnown(brackets)) return 'the brackets of the event do not cover every degree exactly once';
  if (day === undefined || day.fetchedAt > at || day.modelRunAt > at) return 'there is no forecast';
  const probabilities = markets.map(({ ticker }) => day.probabilities.get(ticker) ?? Number.NaN);
  return problemOfProbabilities(brackets, probabilities) ?? problemOfAge(day, start, at);
}

/** Forecasts cap the probability of a bracket just below 1. */
const NEARLY_ONE = 1e-6;

/** For thresholds, a higher one must not be likelier than a lower one. */
function problemOfProbabilities(brackets: readonly Bracket[], probabilities: readonly number[]) {
  const total = outcomeProbabilities(outcomesOf(brackets), probabilities).reduce((sum, p) => sum + p, 0);
  return Math.abs(total - 1) < NEARLY_ONE
    ? undefined
    : "the forecast's bracket probabilities are incomplete or do not sum to one";
}

function problemOfAge({ modelRunAt, isRunUnknown, fetchedAt, observed }: DayForecast, start: Date, at: Date) {
  const hoursSince = (time: Date) => `${((at.getTime() - time.getTime()) / HOUR_MS).toFixed(1)} h`;
  const isOlder = (time: Date, ms: number) => at.getTime() - time.getTime() > ms;
  if (isRunUnknown) return "the time of the forecast's run is unknown";
  if (isOlder(modelRunAt, MAX_RUN_AGE_MS)) return `the forecast's run is ${hoursSince(modelRunAt)} old`;
  if (isOlder(fetchedAt, MAX_FORECAST_AGE_MS)) return `the forecast was fetched ${hoursSince(fetchedAt)} ago`;
  if (!isOlder(start, MAX_OBSERVATION_AGE_MS)) return undefined;
  if (observed === null)
    return `the day began ${hoursSince(start)} ago and no report of the station is known`;
  return isOlder(observed.observedAt, MAX_OBSERVATION_AGE_MS)
    ? `the station's last known report is ${hoursSince(observed.observedAt)} old`
    : undefined;
}

function problemOfMarket(market: Market, { data, at }: Present): string | undefined {
  const { ticker, status, closeTime } = market;
  if (status !== 'active' || at >= closeTime) return 'the market is not open';
  if (market.untradable !== undefined) return market.untradable;
  if (!feeRuleOf(data, market)) return 'its fee is not known';
  const book = data.books.get(ticker);
  if (book === undefined) return 'its order book is not known';
  if (data.doubts?.has(ticker)) return 'its order book is in doubt';
  return problemOfBook(book);
}

/** A contract bought at a one-sided price could not be sold again. */
function problemOfBook(book: OrderBook): string | undefined {
  if (book.yes.length === 0 && book.no.length === 0) return 'its order book is empty';
  if (book.yes.length === 0) return 'its order book has only one side: there are no bids for YES';
  if (book.no.length === 0) return 'its order book has only one side: there are no bids for NO';
  return isCrossed(book) ? 'its order book is crossed' : undefined;
}

/** An event's purchases are sized together, so one doubtful book withholds all. */
export function withholdDoubtful(report: SignalReport, doubts: ReadonlyMap<string, Date> | undefined) {
  if (!doubts || doubts.size === 0) return report;
  const isDoubtful = ({ signals }: EventSignals) => signals.some(({ market }) => doubts.has(market.ticker));
  if (!report.events.some(isDoubtful)) return report;
  return {
    ...report,
    events: report.events.map((event) => (isDoubtful(event) ? withhold(event, doubts) : event)),
  };
}

function withhold(event: EventSignals, doubts: ReadonlyMap<string, Date>): EventSignals {
  const held = event.signals.map(({ market: { ticker }, side }) => ({
    ticker,
    side,
    reason: doubts.has(ticker)
      ? 'its order book is in doubt'
      : 'it was sized together with a market whose order book is in doubt',
    isWithheld: true,
  }));
  return { ...event, ...nothingBought, signals: [], suppressed: [...event.suppressed, ...held] };
}

export type EventCase = ReturnType<typeof buildCase>;

export function buildCase(event: MarketEvent, input: Situation & { account?: { cash: Micros } | undefined }) {
  const { markets } = event;
  const day = forecastOf(input.forecasts, event);
  const { end } = spanOf(event.station, event);
  const hoursToEnd = (end.getTime() - input.at.getTime()) / HOUR_MS;
  const gate = gateAt(input.gates, targetOf(event), { hoursToEnd, at: input.at });
  const problem =
    problemOfEvent(event, day, input) ??
    (input.account && input.account.cash <= 0n ? 'there is no cash to buy with' : undefined);
  /** By market ticker. */
  const problems = new Map<string, string>();
  for (const market of markets) {
    const reason = problem ?? problemOfMarket(market, input);
    if (reason !== undefined) problems.set(market.ticker, reason);
  }
  // Undefined if the purchases are signals.
  return { event, day, gate, problem, problems, withheld: day && reasonToWithhold(day, gate) };
}

/** Only calibrated forecasts behind an open gate may trade. */
function reasonToWithhold({ isCalibrated, fallback }: DayForecast, gate: Gate): string | undefined {
  const because = [
    gate.isOpen ? undefined : asClause(gate.reason),
    isCalibrated
      ? undefined
      : `the forecast is not calibrated${fallback === null ? '' : ` (${asClause(fallback)})`}`,
  ].filter((reason) => reason !== undefined);
  return because.length === 0 ? undefined : `withheld: ${because.join('; ')}`;
}

const asClause = (sentence: string): string => inSentence(sentence).replace(/\.$/, '');
