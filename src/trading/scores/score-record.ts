import type { Bracket } from '../market/brackets.js';
import { outcomeAt, outcomeProbabilities, outcomesOf } from '../market/outcomes.js';
import { atMostOf, atMostOfMembers, degreeCrps, type AtMost } from './crps.js';
import type { TemperatureKind } from '../market/market.js';
import { atMostOfMarket } from './implied.js';
import type { ForecastRecord } from './records.js';
import { logScore, rankedProbabilityScore } from './score.js';

/** What a record is worth; null where a part of it is not there. */
export interface Scores {
  modelLogScore: number;
  modelRps: number;
  marketLogScore: number | null;
  marketRps: number | null;
  modelCrps: number | null;
  rawCrps: number | null;
  climateCrps: number | null;
  marketCrps: number | null;
  pitLow: number | null;
  pitHigh: number | null;
}

export type ScorableRecord = Pick<
  ForecastRecord,
  | 'kind'
  | 'brackets'
  | 'mean'
  | 'deviation'
  | 'atLeast'
  | 'atMost'
  | 'members'
  | 'climateMean'
  | 'climateDeviation'
>;

/** Scores a record by the reported temperature: by outcomes, as the market is traded, and by degrees. */
export const scoreRecord = (record: ScorableRecord, temperatureF: number): Scores => ({
  ...scoreBrackets(record, temperatureF),
  ...scoreDegrees(record, temperatureF),
});

/** By what the markets tell apart alone: all that gates are judged by. */
export function scoreBrackets(record: Pick<ScorableRecord, 'kind' | 'brackets'>, temperatureF: number) {
  const { outcome: winner, model, market } = outcomeOf(record, temperatureF);
  return {
    modelLogScore: logScore(model, winner),
    modelRps: rankedProbabilityScore(model, winner),
    marketLogScore: market && logScore(market, winner),
    marketRps: market && rankedProbabilityScore(market, winner),
  };
}

/** What came, and what model and market gave to each outcome; null where the market has no price. */
export function outcomeOf(
  { kind, brackets }: Pick<ScorableRecord, 'kind' | 'brackets'>,
  temperatureF: number,
) {
  const all = brackets.map((bracket) => bracketOf(bracket, kind));
  const outcomes = outcomesOf(all);
  const prices = pricesOf(brackets);
  return {
    outcome: outcomeAt(all, temperatureF),
    model: outcomeProbabilities(
      outcomes,
      brackets.map(({ model }) => model),
    ),
    market: prices && outcomeProbabilities(outcomes, prices),
  };
}

/** By whole degrees (tenths of hours), all by the same sum. A record from before members were written down does not say enough for it. */
function scoreDegrees(record: ScorableRecord, temperatureF: number) {
  const { kind, members, mean, deviation, atLeast, atMost, climateMean, climateDeviation } = record;
  if (members === null)
    return {
      modelCrps: null,
      rawCrps: null,
      climateCrps: null,
      marketCrps: null,
      pitLow: null,
      pitHigh: null,
    };
  const step = stepOf(kind);
  const crps = (atMost: AtMost) => degreeCrps(atMost, temperatureF, step);
  const model = atMostOf({ mean, deviation, atLeast, atMost }, step);
  const market = impliedOf(record);
  const climate =
    climateMean === null || climateDeviation === null
      ? null
      : atMostOf({ mean: climateMean, deviation: climateDeviation, atLeast: null }, step);
  return {
    modelCrps: crps(model),
    rawCrps: crps(atMostOfMembers(members, step)),
    climateCrps: climate && crps(climate),
    marketCrps: market && crps(market),
    pitLow: model(temperatureF - step),
    pitHigh: model(temperatureF),
  };
}

function impliedOf({ kind, brackets, atLeast, atMost }: ScorableRecord) {
  const prices = pricesOf(brackets);
  if (!prices) return null;
  const outcomes = outcomesOf(brackets.map((bracket) => bracketOf(bracket, kind)));
  const probabilities = outcomeProbabilities(outcomes, prices);
  const shares = outcomes.ranges.map((range, i) => ({ ...range, probability: probabilities[i]! }));
  return atMostOfMarket(shares, { atLeast, atMost, step: outcomes.step });
}

/** What the market gave each bracket; null unless all have a price. */
function pricesOf(brackets: ForecastRecord['brackets']): number[] | null {
  const prices = brackets.map(({ market }) => market);
  return prices.every((price) => price !== null) ? prices : null;
}

/** °F: what is told apart of a report or of an index. */
const stepOf = (kind: TemperatureKind): 1 | 0.01 => (kind === 'hourly' ? 0.01 : 1);

export function bracketOf(
  { floor, cap }: { floor: number | null; cap: number | null },
  kind: TemperatureKind,
): Bracket {
  const rounding = kind === 'hourly' ? { step: stepOf(kind) } : {};
  if (floor === null) return { kind: 'less', floor, cap: cap!, ...rounding };
  return cap === null
    ? { kind: 'greater', floor, cap, ...rounding }
    : { kind: 'between', floor, cap, ...rounding };
}
