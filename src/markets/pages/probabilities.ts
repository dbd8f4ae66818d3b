import type { ObservedExtreme } from '../weather/weather.js';
import type { DayForecast } from '../learning/forecast.js';
import { probabilityWithin, sureDegree } from '../market/distribution.js';
import type { MarketEvent } from '../market/event.js';
import type { Market, TemperatureKind } from '../market/market.js';
import { DOLLAR } from '../market/money.js';
import { areThresholds, bracketRange, type Bracket, type DegreeRange } from '../market/brackets.js';

/** By ticker. Thresholds are not normalised, because several can pay. Null without quotes. */
export function impliedProbabilities({ markets }: MarketEvent): ReadonlyMap<string, number | null> {
  const areSeveral = areThresholds(markets.map(({ bracket }) => bracket));
  const mids = areSeveral ? midsOfThresholds(markets) : markets.map(midOf);
  const sum = mids.reduce<number>((total, mid) => total + (mid ?? 0), 0);
  // The prices cannot be normalised unless every bracket has one.
  const isOneOf = !areSeveral && mids.every((mid) => mid !== null);
  const scale = isOneOf && sum > 0 ? 1 / sum : 1;
  return new Map(markets.map(({ ticker }, i) => [ticker, mids[i] == null ? null : mids[i] * scale]));
}

/** A higher threshold is never likelier, so its bid is a bid for all below it, and its ask an ask for all above it. */
function midsOfThresholds(markets: readonly Market[]): (number | null)[] {
  const bids = markets.map(({ status, yesBid }) => Number((status === 'active' && yesBid) || 0n));
  const asks = markets.map(({ status, yesAsk }) => Number((status === 'active' && yesAsk) || DOLLAR));
  const mid = (i: number) => (Math.max(...bids.slice(i)) + Math.min(...asks.slice(0, i + 1))) / 2;
  return markets.map((market, i) => (midOf(market) === null ? null : mid(i) / Number(DOLLAR)));
}

function midOf({ status, yesBid, yesAsk }: Market): number | null {
  if (status !== 'active' || (yesBid === null && yesAsk === null)) return null;
  return Number((yesBid ?? 0n) + (yesAsk ?? DOLLAR)) / 2 / Number(DOLLAR);
}

type Observed = Pick<ObservedExtreme, 'extremeF'> | null;

/** A maximum can only rise, a minimum only fall. Null means no bound. */
export function possibleDegrees(observed: Observed, kind: TemperatureKind): DegreeRange {
  const none = { lowest: null, highest: null };
  if (observed === null || kind === 'hourly') return none;
  return kind === 'daily_maximum'
    ? { ...none, lowest: sureDegree(observed.extremeF) }
    : // Rounds ties up, so that the bound always holds.
      { ...none, highest: Math.floor(observed.extremeF + 0.5) };
}

/** YES can no longer win. */
export function isPassed(bracket: Bracket, observed: Observed, kind: TemperatureKind): boolean {
  const possible = possibleDegrees(observed, kind);
  const { lowest, highest } = bracketRange(bracket);
  return (
    (possible.lowest !== null && highest !== null && highest < possible.lowest) ||
    (possible.highest !== null && lowest !== null && lowest > possible.highest)
  );
}

export interface Degree {
  /** °F as reported; for an hour, all hundredths from this degree to the next. */
  temperature: number;
  probability: number;
  /** The highest market whose YES pays at this degree; null below all thresholds. */
  ticker: string | null;
}

/** In standard deviations. */
const REACH = 3.2;
const MAX_DEGREES = 60;

/**
 * From cold to warm. Each bracket keeps its probability, spread over its degrees in the shape of the forecast's
 * distribution. Empty if a market boundary splits a degree.
 */
export function degreesOf(day: DayForecast, event: MarketEvent): Degree[] {
  const isKnown = day.distribution.deviation === 0;
  const meanF = isKnown ? day.meanF : day.distribution.mean;
  const deviationF = Math.max(isKnown ? day.deviationF : day.distribution.deviation, 1e-6);
  const parts = partsOf(day, event);
  const ends = parts.flatMap(({ lowest, highest }) => [lowest, highest].filter((end) => end !== null));
  if (!ends.every(Number.isInteger)) return [];
  const possible = possibleDegrees(day.observed, event.kind);
  // A distant bound, such as a morning temperature, would squeeze the chart.
  if (possible.lowest !== null && possible.lowest > meanF) ends.push(possible.lowest);
  if (possible.highest !== null && possible.highest < meanF) ends.push(possible.highest);
  const from = Math.max(
    Math.min(...ends, Math.floor(meanF - REACH * deviationF)),
    Math.round(meanF) - MAX_DEGREES / 2,
  );
  const to = Math.min(
    Math.max(...ends, Math.ceil(meanF + REACH * deviationF)),
    Math.round(meanF) + MAX_DEGREES / 2,
  );
  const isHour = event.kind === 'hourly';
  const shape = (t: number) =>
    probabilityWithin(day.distribution, {
      lowest: t,
      highest: isHour ? t + 0.99 : t,
      step: isHour ? 0.01 : 1,
    });
  return parts.flatMap(({ ticker, lowest, highest, probability }) => {
    const first = Math.max(lowest ?? from, from);
    const count = Math.min(highest ?? to, to) - first + 1;
    if (count < 1) return [];
    const temperatures = Array.from({ length: count }, (_, i) => first + i);
    // A finished day's distribution may contradict its probabilities; then all degrees count equally.
    const shapes = [temperatures.map(shape), temperatures.map(() => 1)];
    const weights = shapes.find((weights) => sumOf(weights) > 1e-300)!;
    const scale = probability / sumOf(weights);
    return temperatures.map((temperature, k) => ({ temperature, ticker, probability: weights[k]! * scale }));
  });
}

interface Part extends DegreeRange {
  ticker: string | null;
  probability: number;
}

/** From cold to warm, in whole degrees, both ends included. */
function partsOf({ probabilities }: DayForecast, { markets }: MarketEvent): Part[] {
  const given = (ticker: string) => probabilities.get(ticker) ?? 0;
  if (!areThresholds(markets.map(({ bracket }) => bracket)))
    return markets.map(({ ticker, bracket }) => ({
      ticker,
      ...bracketRange(bracket),
      probability: given(ticker),
    }));
  const first = markets[0]!;
  const lowestOf = ({ bracket }: Market) => bracketRange(bracket).lowest!;
  return [
    { ticker: null, lowest: null, highest: lowestOf(first) - 1, probability: 1 - given(first.ticker) },
    ...markets.map((market, i): Part => {
      const next = markets[i + 1];
      return {
        ticker: market.ticker,
        lowest: lowestOf(market),
        highest: next ? lowestOf(next) - 1 : null,
        probability: Math.max(0, given(market.ticker) - (next ? given(next.ticker) : 0)),
      };
    }),
  ];
}

const sumOf = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0);

/** °F; null if unknown. */
export function expectedOf(day: DayForecast, event: MarketEvent): number | null {
  if (event.kind === 'hourly') return day.observed?.extremeF ?? day.meanF;
  const degrees = degreesOf(day, event);
  const sum = sumOf(degrees.map(({ probability }) => probability));
  if (sum <= 0) return null;
  return sumOf(degrees.map(({ temperature, probability }) => temperature * probability)) / sum;
}
