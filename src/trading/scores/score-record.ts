import { bracketPays, bracketRange, type Bracket } from '../settlement/brackets.js';
import { atMostOf, atMostOfMembers, wholeDegreeCrps } from './crps.js';
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
  'brackets' | 'mean' | 'deviation' | 'atLeast' | 'members' | 'climateMean' | 'climateDeviation'
>;

/** The place of the bracket that a temperature is in. */
export const winnerOf = (brackets: ForecastRecord['brackets'], temperatureF: number): number =>
  brackets.findIndex((bracket) => bracketPays(bracketOf(bracket), temperatureF));

/** Scores a record by the reported temperature: by brackets, as the market is traded, and by degrees. */
export const scoreRecord = (record: ScorableRecord, temperatureF: number): Scores => ({
  ...scoreBrackets(record, temperatureF),
  ...scoreDegrees(record, temperatureF),
});

/** By brackets alone: all that gates are judged by. */
export function scoreBrackets({ brackets }: Pick<ScorableRecord, 'brackets'>, temperatureF: number) {
  const winner = winnerOf(brackets, temperatureF);
  const model = brackets.map((bracket) => bracket.model);
  const market = pricesOf(brackets);
  return {
    modelLogScore: logScore(model, winner),
    modelRps: rankedProbabilityScore(model, winner),
    marketLogScore: market && logScore(market, winner),
    marketRps: market && rankedProbabilityScore(market, winner),
  };
}

/** By whole degrees, all by the same sum. A record from before members were written down does not say enough for it. */
function scoreDegrees(record: ScorableRecord, temperatureF: number) {
  const { members, mean, deviation, atLeast, climateMean, climateDeviation } = record;
  if (members === null)
    return {
      modelCrps: null,
      rawCrps: null,
      climateCrps: null,
      marketCrps: null,
      pitLow: null,
      pitHigh: null,
    };
  const model = atMostOf({ mean, deviation, atLeast });
  const market = impliedOf(record);
  const climate =
    climateMean === null || climateDeviation === null
      ? null
      : atMostOf({ mean: climateMean, deviation: climateDeviation, atLeast: null });
  return {
    modelCrps: wholeDegreeCrps(model, temperatureF),
    rawCrps: wholeDegreeCrps(atMostOfMembers(members), temperatureF),
    climateCrps: climate && wholeDegreeCrps(climate, temperatureF),
    marketCrps: market && wholeDegreeCrps(market, temperatureF),
    pitLow: model(temperatureF - 1),
    pitHigh: model(temperatureF),
  };
}

function impliedOf({ brackets, atLeast }: ScorableRecord) {
  const prices = pricesOf(brackets);
  if (!prices) return null;
  const shares = brackets.map((bracket, i) => ({
    ...bracketRange(bracketOf(bracket)),
    probability: prices[i]!,
  }));
  return atMostOfMarket(shares, atLeast);
}

/** What the market gave each bracket; null unless all have a price. */
function pricesOf(brackets: ForecastRecord['brackets']): number[] | null {
  const prices = brackets.map(({ market }) => market);
  return prices.every((price) => price !== null) ? prices : null;
}

export function bracketOf({ floor, cap }: { floor: number | null; cap: number | null }): Bracket {
  if (floor === null) return { kind: 'less', floor, cap: cap! };
  return cap === null ? { kind: 'greater', floor, cap } : { kind: 'between', floor, cap };
}
