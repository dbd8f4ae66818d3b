import type { DayForecast, ObservedExtreme } from '../forecast/forecast.js';
import { probabilityOf, sureDegree } from '../forecast/distribution.js';
import type { MarketEvent } from '../markets/event.js';
import type { Market } from '../markets/market.js';
import { DOLLAR } from '../money.js';
import { bracketRange, type Bracket } from '../settlement/brackets.js';

/**
 * What the market itself holds to be probable, by ticker: the middle between bid and ask, over the whole event made to sum
 * to one. Null where nobody bids or asks.
 */
export function impliedProbabilities({ markets }: MarketEvent): ReadonlyMap<string, number | null> {
  const mids = markets.map(midOf);
  const sum = mids.reduce<number>((total, mid) => total + (mid ?? 0), 0);
  // With a part of the ladder missing there is nothing to sum up to.
  const scale = mids.every((mid) => mid !== null) && sum > 0 ? 1 / sum : 1;
  return new Map(markets.map(({ ticker }, i) => [ticker, mids[i] == null ? null : mids[i] * scale]));
}

function midOf({ status, yesBid, yesAsk }: Market): number | null {
  if (status !== 'active' || (yesBid === null && yesAsk === null)) return null;
  return Number((yesBid ?? 0n) + (yesAsk ?? DOLLAR)) / 2 / Number(DOLLAR);
}

/** The whole degree that the report cannot be below any more; null while nothing was observed. */
export const lowestPossible = (observed: Pick<ObservedExtreme, 'extremeF'> | null): number | null =>
  observed === null ? null : sureDegree(observed.extremeF);

/** True if what was observed has gone beyond the bracket: its YES cannot win any more. */
export function isPassed(bracket: Bracket, observed: Pick<ObservedExtreme, 'extremeF'> | null): boolean {
  const [lowest, { highest }] = [lowestPossible(observed), bracketRange(bracket)];
  return lowest !== null && highest !== null && highest < lowest;
}

export interface Degree {
  /** Whole °F, as the report has them. */
  temperature: number;
  probability: number;
  /** The market whose YES it pays. */
  ticker: string;
}

/** Beyond this many standard deviations nothing can be seen in a drawing. */
const REACH = 3.2;
/** What a page draws at the most. */
const MAX_DEGREES = 60;

/**
 * The distribution over the whole degrees that a report can say, from cold to warm: the probability of each bracket as the
 * forecast has it, within the bracket in the shape of the forecast's normal distribution.
 */
export function degreesOf(day: DayForecast, { markets }: MarketEvent): Degree[] {
  const { meanF, deviationF, probabilities } = day;
  const ends = markets.flatMap(({ bracket }) => {
    const { lowest, highest } = bracketRange(bracket);
    return [lowest, highest].filter((end) => end !== null);
  });
  const possible = lowestPossible(day.observed);
  // What was measured in the morning is far below, and would only make the rest small.
  if (possible !== null && possible > meanF) ends.push(possible);
  const from = Math.max(
    Math.min(...ends, Math.floor(meanF - REACH * deviationF)),
    Math.round(meanF) - MAX_DEGREES / 2,
  );
  const to = Math.min(
    Math.max(...ends, Math.ceil(meanF + REACH * deviationF)),
    Math.round(meanF) + MAX_DEGREES / 2,
  );
  return markets.flatMap(({ ticker, bracket }) => {
    const { lowest, highest } = bracketRange(bracket);
    const first = Math.max(lowest ?? from, from);
    const count = Math.min(highest ?? to, to) - first + 1;
    if (count < 1) return [];
    const temperatures = Array.from({ length: count }, (_, i) => first + i);
    const probability = probabilities.get(ticker) ?? 0;
    const weigh = (atLeast: number | null) => (t: number) =>
      probabilityOf({ mean: meanF, deviation: deviationF, atLeast }, { kind: 'between', floor: t, cap: t });
    // A forecast may say otherwise than its normal distribution, of a day that is over for example: then each degree counts the same.
    const shapes = [
      temperatures.map(weigh(possible)),
      temperatures.map(weigh(null)),
      temperatures.map(() => 1),
    ];
    const weights = shapes.find((shape) => sumOf(shape) > 1e-12)!;
    const scale = probability / sumOf(weights);
    return temperatures.map((temperature, k) => ({ temperature, ticker, probability: weights[k]! * scale }));
  });
}

const sumOf = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0);

/** The mean of a distribution over whole degrees; null for none. */
export function expectedMaximum(degrees: readonly Degree[]): number | null {
  const sum = degrees.reduce((total, { probability }) => total + probability, 0);
  if (sum <= 0) return null;
  return degrees.reduce((total, { temperature, probability }) => total + temperature * probability, 0) / sum;
}
