/** The history known at a given time, the fits trained on it, and a snapshot's inputs. */
import type { SnapshotInputs, SnapshotRules } from '../src/markets/snapshot/build-snapshot.js';
import { KnownHistory } from '../src/markets/training/forecast-archive.js';
import { train } from '../src/markets/training/training.js';
import { noFits, type FitBook } from '../src/markets/learning/fits.js';
import { meanAndVariance } from '../src/markets/weather/weather.js';
import { createSimulatedWeatherSource, readWeatherOf } from '../src/markets/weather/simulated.js';
import { createSimulatedSource, readMarketsOf } from '../src/markets/venue/simulated.js';
import { newId } from '../src/core/ids.js';
import { unjudged, type GateBook } from '../src/markets/signals/signal.js';
import { gateKeys } from '../src/markets/scores/gates.js';
import { simulateWeather } from '../src/markets/venue/simulation/weather.js';
import { stationDaysAround, subjectsOf } from '../src/markets/venue/simulation/world.js';
import type { KnownRun } from '../src/markets/learning/queries.js';
import { calibratedModel } from '../src/markets/learning/calibrated.js';

export const SEED = 'gauge';
const DAY_MS = 24 * 60 * 60 * 1000;
const WINDOW_DAYS = 90;

export const weather = simulateWeather(SEED);

export const rules: SnapshotRules = {
  marketSource: 'simulated',
  forecastSource: 'simulated',
  bankroll: 1_000_000_000n,
  model: calibratedModel,
};

/** In the form that training reads. */
export async function historyAt(at: Date): Promise<KnownHistory> {
  const world = { clock: { now: () => at.getTime() }, seed: SEED, weather };
  const range = { from: dateOf(at.getTime() - WINDOW_DAYS * DAY_MS), to: dateOf(at.getTime() + DAY_MS) };
  const { signal } = new AbortController();
  const { history } = createSimulatedWeatherSource(world);
  const [runs, hours] = [await history.readRuns(range, signal), await history.readHours(range, signal)];
  const reports = await createSimulatedSource(world).history.readSettledDays(range, signal);
  return KnownHistory.at(at, { runs: runs.map(withoutMembers), reports, hours });
}

function withoutMembers({
  membersF,
  ...run
}: { membersF: readonly number[] } & Omit<KnownRun, 'members' | 'meanF' | 'varianceF'>): KnownRun {
  const { mean, variance } = meanAndVariance(membersF);
  return { ...run, members: membersF.length, meanF: mean, varianceF: variance };
}

/** @param hours for the fits of days in progress; default: all */
export const trainAnew = (history: KnownHistory, hours?: readonly number[]) =>
  train(history, { previous: noFits, newId: () => newId(history.knownAt.getTime()), hours });

/** Every possible purchase is sized and described. */
export const openGates = (madeAt: Date): GateBook => ({
  madeAt,
  gates: gateKeys().map((key) => ({
    ...key,
    isOpen: true,
    ...unjudged,
    n: 90,
    difference: { mean: -0.3, low: -0.5, high: -0.1 },
    reason: "Open: over 90 settled days the forecast's log score was better than the market's.",
  })),
});

export function inputsAt(at: Date, fits: FitBook): SnapshotInputs {
  const days = stationDaysAround(at);
  return {
    sequence: 1,
    at,
    data: readMarketsOf({ seed: SEED, weather }, subjectsOf(days), at),
    weather: readWeatherOf({ weather }, subjectsOf(days), at),
    calibration: { fits, gates: openGates(at) },
    sources: [],
  };
}

const dateOf = (ms: number): string => new Date(ms).toISOString().slice(0, 10);
