import { beforeAll, describe, expect, it } from 'vitest';
import { calibratedModel } from '../../../src/markets/learning/calibrated.js';
import { noFits } from '../../../src/markets/learning/fits.js';
import { dateOf } from '../../../src/markets/market/climate-day.js';
import { groupEvents } from '../../../src/markets/market/event.js';
import { findStation } from '../../../src/markets/market/stations.js';
import { createPast } from '../../../src/markets/past/past.js';
import { judgeGates } from '../../../src/markets/scores/gates.js';
import type { JudgedRecord } from '../../../src/markets/scores/queries.js';
import { PAST_DAYS } from '../../../src/markets/scores/records.js';
import { scoreBrackets } from '../../../src/markets/scores/score.js';
import type { GateBook, Signal } from '../../../src/markets/signals/signal.js';
import { makeSignals } from '../../../src/markets/signals/signals.js';
import { forecasterIn } from '../../../src/markets/services/sources.js';
import { KnownHistory } from '../../../src/markets/training/forecast-archive.js';
import { trainInSteps } from '../../../src/markets/training/training.js';
import { createSimulatedSource, readMarketsOf } from '../../../src/markets/venue/simulated.js';
import { simulateWeather } from '../../../src/markets/venue/simulation/weather.js';
import { subjectsAround } from '../../../src/markets/venue/simulation/world.js';
import { createSimulatedWeatherSource, readWeatherOf } from '../../../src/markets/weather/simulated.js';
import { allAtOnce } from '../../../src/core/steps.js';

const [HOUR_MS, DAY_MS] = [3_600_000, 86_400_000];
const never = new AbortController().signal;
const world = { seed: 'gauge', weather: simulateWeather('gauge') };
const midnightMs = Date.parse('2026-11-29T00:00:00Z');
const clock = { now: () => midnightMs };
const part = {
  stations: ['KLAX', 'KSFO', 'KSAN', 'KPHL', 'KMIA'].map((id) => findStation(id)!),
  kinds: ['daily_maximum' as const],
  share: 1,
};

/** The gates that the invented records open, as a first start finds them. */
async function readPastGates(): Promise<GateBook> {
  const past = createPast({
    db: undefined as never,
    archive: undefined as never,
    clock,
    names: { marketSource: 'simulated', forecastSource: 'simulated' },
    world,
    days: PAST_DAYS,
  });
  const records: JudgedRecord[] = [];
  for await (const recalled of past.recall(part, await past.learn(part, never), never))
    for (const { record, report } of recalled) {
      const { kind, station, date, leadHours, method } = record;
      const scored = report && scoreBrackets(record, report.temperatureF);
      const { advantage = null, worstAdvantage = null } = scored ?? {};
      const settledAt = report?.knownAt ?? null;
      records.push({ kind, station, date, leadHours, method, advantage, worstAdvantage, settledAt });
    }
  return judgeGates(records, new Date(midnightMs));
}

/** For every hour of the day, as the running service trains them. */
async function train() {
  const range = { from: dateOf(midnightMs - 90 * DAY_MS), to: dateOf(midnightMs) };
  const weather = createSimulatedWeatherSource({ ...world, clock }, part).history;
  const markets = createSimulatedSource({ ...world, clock }, part).history;
  const history = KnownHistory.at(new Date(midnightMs), {
    runs: (await weather.readRuns(range, never)).map((run) => ({
      ...run,
      members: run.membersF.length,
      meanF: run.membersF.reduce((sum, member) => sum + member, 0) / run.membersF.length,
      varianceF: 0,
    })),
    reports: await markets.readSettledDays(range, never),
    hours: await weather.readHours(range, never),
  });
  let ids = 0;
  return allAtOnce(trainInSteps(history, { previous: noFits, newId: () => `fit ${ids++}` })).book;
}

describe('the demo', () => {
  let gates: GateBook;
  const hours: { leadHours: number; signal: Signal }[][] = [];
  beforeAll(async () => {
    gates = await readPastGates();
    const fits = await train();
    const traded = { ...world, forecast: forecasterIn(world, () => fits) };
    for (let hour = 0; hour < 24; hour++) {
      const at = new Date(midnightMs + hour * HOUR_MS + HOUR_MS / 3);
      const subjects = subjectsAround(at, part);
      const data = readMarketsOf(traded, subjects, at);
      const events = groupEvents(data.markets);
      const weather = readWeatherOf(world, subjects, at);
      const forecasts = calibratedModel({ source: 'simulated', weather, events, fits, at });
      const report = makeSignals({ data, events, forecasts, gates, at, bankroll: 10_000_000_000n });
      hours.push(
        report.events.flatMap(({ signals, gate: { leadHours } }) =>
          signals.map((signal) => ({ leadHours, signal })),
        ),
      );
    }
  });

  it('has signals at every hour of the day, at night from gates of a short lead', () => {
    const without = hours.flatMap((signals, hour) => (signals.length === 0 ? [hour] : []));
    expect(without).toEqual([]);
    const open = gates.gates.filter(({ isOpen }) => isOpen);
    expect(open.filter(({ leadHours }) => leadHours === 12).length).toBeGreaterThanOrEqual(2);
    // Markets of the next day open at 14:00 UTC.
    for (const signals of hours.slice(8, 14))
      expect(signals.every(({ leadHours }) => leadHours === 12)).toBe(true);
  });

  it('finds edges of a few cents, never more than a professional believes', () => {
    const edges = hours
      .flat()
      .filter(({ signal }) => !signal.isHedge)
      .map(({ signal }) => signal.edge)
      .sort((a, b) => a - b);
    const at = (share: number) => edges[Math.floor(share * (edges.length - 1))]!;
    expect(at(0.5)).toBeGreaterThan(0.02);
    expect(at(0.5)).toBeLessThan(0.04);
    expect(at(1)).toBeLessThan(0.12);
  });
});
