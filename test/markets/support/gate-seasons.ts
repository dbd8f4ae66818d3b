import { normalCdf, normalQuantile } from '../../../src/core/statistics/distributions.js';
import type { BracketCost } from '../../../src/markets/learning/table.js';
import type { Bracket } from '../../../src/markets/market/brackets.js';
import { probabilityOf } from '../../../src/markets/market/distribution.js';
import { stations } from '../../../src/markets/market/stations.js';
import { scoreBrackets } from '../../../src/markets/scores/score.js';
import { LEAD_HOURS } from '../../../src/markets/signals/signal.js';
import type { JudgedRecord } from '../../../src/markets/scores/queries.js';
import { ladderFrom } from './market.js';
import { costOf } from './scores-page.js';

/**
 * Two forecasters for the same days. Each issues a normal distribution whose mean differs from the truth by a random
 * error.
 */
export interface Rivals {
  /** Standard deviation of each forecaster's errors, °F. */
  market: number;
  model: number;
  /** The standard deviation that the model states; default: `model`, the true one. */
  claimed?: number;
  /** Correlation between the errors of consecutive days. */
  memory?: number;
  /** Correlation between the two forecasters' errors on the same day. */
  alike?: number;
  /**
   * Standard deviation in °F of each forecaster's own bias, which lasts about a week and which neither forecaster
   * includes in its stated deviation.
   */
  drift?: number;
}

const DAY_MS = 86_400_000;
const start = Date.parse('2026-01-01T00:00:00Z');
export const endOf = (days: number): Date => new Date(start + days * DAY_MS);

/** Consecutive dates and their settlement times, shared by all gates. */
const calendarOf = (days: number) =>
  Array.from({ length: days }, (_, day) => ({
    date: endOf(day).toISOString().slice(0, 10),
    settledAt: endOf(day + 1),
  }));

export type Random = () => number;

/** Xorshift: a different generator from the one in the code under test. */
export function randomOf(seed: number): Random {
  let x = (seed * 2654435761) >>> 0 || 1;
  const next = () => {
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    return ((x >>> 0) + 0.5) / 2 ** 32;
  };
  for (let i = 0; i < 20; i++) next();
  return next;
}

/** The same number of stations as in the evaluation of the gate rule. */
export const seasonStations = stations.slice(0, 7);

/** Both forecasts of a day as outcome probabilities; the market's are its mid prices. */
interface Said {
  brackets: readonly Pick<Bracket, 'floor' | 'cap'>[];
  model: readonly number[];
  market: readonly number[];
  temperatureF: number;
}

export type Season = (random: Random, shared: readonly (() => number)[]) => Said[];

export interface SeasonRecord extends JudgedRecord {
  modelLogScore: number;
  marketLogScore: number | null;
}

/**
 * Records of 28 gates over `days` days, scored as the service scores them. Each record is settled at the end of its
 * day. Cities with the same lead share part of their errors.
 */
export function makeSeasons(days: number, season: Season, seed: number, cost = costOf): SeasonRecord[] {
  const calendar = calendarOf(days);
  return LEAD_HOURS.flatMap((leadHours, j) => {
    const common = Array.from({ length: days }, (_, day) =>
      drawnOnce(randomOf(seed * 7919 + j * 1009 + day + 1)),
    );
    return seasonStations.flatMap(({ id: station }, i) => {
      const shared = common.map((ofDay) => ofDay());
      return season(randomOf(seed * 100 + i * 4 + j + 1), shared).map(
        ({ brackets, model, market, temperatureF }, day) => ({
          kind: 'daily_maximum' as const,
          station,
          ...calendar[day]!,
          leadHours,
          method: 'emos' as const,
          ...scoreBrackets(
            {
              kind: 'daily_maximum',
              brackets: brackets.map(({ floor, cap }, b) => ({
                ticker: `B${b}`,
                floor,
                cap,
                model: model[b]!,
                market: market[b]!,
                cost: cost(market[b]!),
              })),
            },
            temperatureF,
          ),
        }),
      );
    });
  });
}

interface Advantages {
  /** Mean daily advantage over the prices that would be paid, in nats. */
  mean: number;
  deviation: number;
  /** Share of the variance that is common to all cities at one lead. */
  common: number;
}

/** Records of 28 gates with normally distributed advantages that are independent from day to day. */
export function makeAdvantages(days: number, { mean, deviation, common }: Advantages, seed: number) {
  const worst = -1.5;
  const calendar = calendarOf(days);
  return LEAD_HOURS.flatMap((leadHours, j) => {
    const random = randomOf(seed * 100 + j + 1);
    const gaussian = () => normalQuantile(random());
    return Array.from({ length: days }, (_, day) => {
      const shared = gaussian();
      return seasonStations.map(({ id: station }): JudgedRecord => {
        const z = Math.sqrt(common) * shared + Math.sqrt(1 - common) * gaussian();
        return {
          kind: 'daily_maximum',
          station,
          ...calendar[day]!,
          leadHours,
          method: 'emos',
          advantage: Math.max(worst, mean + deviation * z),
          worstAdvantage: worst,
        };
      });
    }).flat();
  });
}

/** Makes all cities draw the same normal numbers. */
function drawnOnce(random: Random): () => () => number {
  const drawn: number[] = [];
  return () => {
    let at = 0;
    return () => (drawn[at++] ??= normalQuantile(random()));
  };
}

/** Share of the error variance that is common to all cities. */
const COMMON = 0.3;

/** Each forecaster gives probabilities for six brackets, which are centred near the truth. */
export const rivals =
  ({ market, model, claimed = model, memory = 0.3, alike = 0.5, drift = 0 }: Rivals): Season =>
  (random, shared) => {
    const own = () => normalQuantile(random());
    let [a, b] = [own(), own()];
    let [driftA, driftB] = [own() * drift, own() * drift];
    const keep = Math.sqrt(1 - memory ** 2);
    return shared.map((common) => {
      const gaussian = () => Math.sqrt(COMMON) * common() + Math.sqrt(1 - COMMON) * own();
      const both = gaussian();
      a = memory * a + keep * (Math.sqrt(alike) * both + Math.sqrt(1 - alike) * gaussian());
      b = memory * b + keep * (Math.sqrt(alike) * both + Math.sqrt(1 - alike) * gaussian());
      driftA = 0.85 * driftA + Math.sqrt(1 - 0.85 ** 2) * drift * own();
      driftB = 0.85 * driftB + Math.sqrt(1 - 0.85 ** 2) * drift * own();
      const truth = 70 + 3 * own();
      const brackets = ladderFrom(Math.round(truth + 2 * own()) - 4);
      const say = (mean: number, deviation: number) =>
        brackets.map((bracket) => probabilityOf({ mean, deviation, atLeast: null }, bracket));
      const prices = say(truth - market * a - driftA, market);
      return {
        brackets,
        market: prices,
        model: say(truth - model * b - driftB, claimed),
        temperatureF: Math.round(truth),
      };
    });
  };

/** Without spread or fee: the price paid is the mid price. */
export const costless = (mid: number): BracketCost => ({ yes: mid, no: 1 - mid });

/**
 * The boundary case of the guarantee: outcomes are drawn from the market's probabilities, tilted toward the model until
 * its expected advantage over the costs is zero.
 */
export const breakingEven =
  (both: Rivals): Season =>
  (random, shared) => {
    const days = rivals(both)(random, shared);
    return shared.map((common, day) => {
      const { brackets, market, model } = days[day]!;
      const advantages = model.map((share, b) => Math.log(Math.max(1e-6, share) / costOf(market[b]!).yes));
      const z = Math.sqrt(COMMON) * common() + Math.sqrt(1 - COMMON) * normalQuantile(random());
      const won = brackets[drawFrom(tiltToZero(market, advantages), normalCdf(z))]!;
      return { brackets, market, model, temperatureF: temperatureIn(won) };
    });
  };

/** Reweights shares by e^(t × advantage) so that the mean advantage gets as close to zero as possible. */
function tiltToZero(shares: readonly number[], advantages: readonly number[]): number[] {
  const tilt = (t: number) => toShares(shares.map((share, i) => share * Math.exp(t * advantages[i]!)));
  let [low, high] = [0, 30];
  for (let i = 0; i < 50; i++) {
    const t = (low + high) / 2;
    const mean = tilt(t).reduce((sum, share, b) => sum + share * advantages[b]!, 0);
    if (mean < 0) low = t;
    else high = t;
  }
  return tilt(low);
}

const temperatureIn = ({ floor, cap }: Pick<Bracket, 'floor' | 'cap'>): number =>
  floor === null ? cap! - 1 : floor + (cap === null ? 1 : 0);

function drawFrom(shares: readonly number[], drawn: number): number {
  let sum = 0;
  const found = shares.findIndex((share) => (sum += share) > drawn);
  return found < 0 ? shares.length - 1 : found;
}

/**
 * A model that uses no weather data and only raises the market's prices to a power. Real prices overrate unlikely
 * outcomes, so sharpening improves them.
 */
export const sharpened =
  (power: number): Season =>
  (random, shared) =>
    shared.map(() => {
      const brackets = ladderFrom(66);
      const right = toShares(brackets.map(() => Math.exp(1.5 * normalQuantile(random()))));
      return {
        brackets,
        model: right,
        market: toShares(right.map((share) => share ** (1 / power))),
        temperatureF: temperatureIn(brackets[drawFrom(right, random())]!),
      };
    });

function toShares(values: readonly number[]): number[] {
  const sum = values.reduce((x, y) => x + y, 0);
  return values.map((value) => value / sum);
}

/** A correct market against an overconfident model, which gains a little on most days and loses a lot on the others. */
export const tooSure =
  (chance: number): Season =>
  (random, shared) =>
    shared.map(() => ({
      brackets: [
        { floor: null, cap: 70 },
        { floor: 69, cap: null },
      ],
      market: [chance, 1 - chance],
      model: [0.9999, 0.0001],
      temperatureF: random() < chance ? 60 : 80,
    }));
