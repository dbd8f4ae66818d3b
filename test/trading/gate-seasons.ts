import type { Bracket } from '../../src/trading/market/brackets.js';
import { normalQuantile } from '../../src/core/statistics/normal.js';
import { probabilityOf } from '../../src/trading/market/distribution.js';
import type { JudgedRecord } from '../../src/trading/scores/judge-gates.js';
import { LEAD_HOURS } from '../../src/trading/signals/leads.js';
import { logScore } from '../../src/trading/scores/score.js';
import { stations } from '../../src/trading/market/stations.js';
import { ladderFrom } from '../fixtures/market.js';

/** Two forecasters of the same days. Each says normal with its deviation around what it believes, which misses the truth. */
export interface Rivals {
  /** °F: of each one's errors. */
  market: number;
  model: number;
  /** What the model says its deviation is; left out: what it is. */
  claimed?: number;
  /** Between the errors of one day and the next. */
  memory?: number;
  /** Between the two's errors of a day. */
  alike?: number;
  /** °F: of a bias that each has on its own and keeps for about a week; it is in neither's deviation. */
  drift?: number;
}

const DAY_MS = 86_400_000;
const start = Date.parse('2026-01-01T00:00:00Z');
export const endOf = (days: number): Date => new Date(start + days * DAY_MS);

export type Random = () => number;

/** Xorshift: another generator than that of the code under test. */
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

/** As many as the rule was judged by. */
export const seasonStations = stations.slice(0, 7);

/** A season of each of their 28 gates: the records of `days` days, each settled when the next has begun. */
export function makeSeasons(
  days: number,
  scoresOf: (random: Random, days: number) => Said[],
  seed: number,
): JudgedRecord[] {
  return seasonStations.flatMap(({ id: station }, i) =>
    LEAD_HOURS.flatMap((leadHours, j) =>
      scoresOf(randomOf(seed * 100 + i * 4 + j + 1), days).map(({ model, market }, day) => ({
        kind: 'daily_maximum' as const,
        station,
        date: endOf(day).toISOString().slice(0, 10),
        leadHours,
        method: 'emos' as const,
        modelLogScore: model,
        marketLogScore: market,
        settledAt: endOf(day + 1),
      })),
    ),
  );
}

/** Log scores of a day. */
interface Said {
  model: number;
  market: number;
}

/** Actual forecasts of an actual ladder: six brackets around what was expected when it was listed. */
export const rivals =
  ({ market, model, claimed = model, memory = 0.3, alike = 0.5, drift = 0 }: Rivals) =>
  (random: Random, days: number): Said[] => {
    const gaussian = () => normalQuantile(random());
    let [a, b] = [gaussian(), gaussian()];
    let [driftA, driftB] = [gaussian() * drift, gaussian() * drift];
    const keep = Math.sqrt(1 - memory ** 2);
    return Array.from({ length: days }, () => {
      const shared = gaussian();
      a = memory * a + keep * (Math.sqrt(alike) * shared + Math.sqrt(1 - alike) * gaussian());
      b = memory * b + keep * (Math.sqrt(alike) * shared + Math.sqrt(1 - alike) * gaussian());
      driftA = 0.85 * driftA + Math.sqrt(1 - 0.85 ** 2) * drift * gaussian();
      driftB = 0.85 * driftB + Math.sqrt(1 - 0.85 ** 2) * drift * gaussian();
      const truth = 70 + 3 * gaussian();
      const brackets = ladderFrom(Math.round(truth + 2 * gaussian()) - 4);
      const won = brackets[winnerAt(brackets, Math.round(truth))]!;
      const scoreOf = (mean: number, deviation: number) =>
        logScore([probabilityOf({ mean, deviation, atLeast: null }, won)], 0);
      return {
        market: scoreOf(truth - market * a - driftA, market),
        model: scoreOf(truth - model * b - driftB, claimed),
      };
    });
  };

const winnerAt = (brackets: readonly Bracket[], temperature: number): number => {
  const lowest = brackets[1]!.floor!;
  return Math.max(0, Math.min(5, Math.floor((temperature - lowest) / 2) + 1));
};

/**
 * A market that is right, and a model that is surer than it of what is likely: it wins a little on most days, and loses
 * much on the others.
 */
export const tooSure =
  (chance: number) =>
  (random: Random, days: number): Said[] =>
    Array.from({ length: days }, () => {
      const winner = random() < chance ? 0 : 1;
      return { market: logScore([chance, 1 - chance], winner), model: logScore([0.9999, 0.0001], winner) };
    });
