import { asc } from 'drizzle-orm';
import { beforeAll, describe, expect, it } from 'vitest';
import { createArchive } from '../../../src/markets/training/forecast-archive.js';
import {
  climateReports,
  ensembleRuns,
  forecastFits,
  sameDayFits,
  forecastRecords,
} from '../../../src/markets/learning/table.js';
import { createSimulatedWeatherSource } from '../../../src/markets/weather/simulated.js';
import { groupEvents } from '../../../src/markets/market/event.js';
import { createSimulatedSource } from '../../../src/markets/venue/simulated.js';
import { createPast, pastParts } from '../../../src/markets/past/past.js';
import { dailyKinds } from '../../../src/markets/market/market.js';
import type { LearnedPast } from '../../../src/markets/past/learned-past.js';
import { recordsDue } from '../../../src/markets/scores/records.js';
import { climateDayOf } from '../../../src/markets/market/climate-day.js';
import { findStation, stations } from '../../../src/markets/market/stations.js';
import { simulateWeather } from '../../../src/markets/venue/simulation/weather.js';
import { calibratedModel } from '../../../src/markets/learning/calibrated.js';
import { useDatabase } from '../../support/use.js';

const names = { marketSource: 'simulated', forecastSource: 'simulated' };
const world = { seed: 'gauge', weather: simulateWeather('gauge') };
const never = new AbortController().signal;
/** The leading cities' maxima (`first`) and minima (`second`). */
const [first, second] = pastParts;
const DAY_MS = 86_400_000;

const now = '2026-11-21T12:30:00Z';
const database = useDatabase();

/** The fits for the first part of the past. Training is deterministic, so the tests share the result. */
let learned: LearnedPast;
beforeAll(async () => {
  learned = await pastAt(now).learn(first!, never);
});

const pastAt = (time: string, days = 4) => {
  const { db } = database;
  const clock = { now: () => Date.parse(time) };
  return createPast({ db, archive: createArchive({ db, ...names }), clock, names, world, days });
};
const rows = () => {
  const { date, station, leadHours } = forecastRecords;
  return database.db.orm.select().from(forecastRecords).orderBy(asc(date), asc(station), asc(leadHours));
};

describe('the past of a simulated world', () => {
  it('is recorded as it would have been then, with fits from data known then, and scored where settled', async () => {
    const made = await pastAt(now).fillRecords(first!, learned, never);
    const records = await rows();
    expect(records).toHaveLength(made);
    // Four days at seven stations and four leads, plus today's leads so far and the 36-hour lead for tomorrow.
    expect(made).toBeGreaterThan(4 * 7 * 4);
    const { orm } = database.db;
    const stored = [...(await orm.select().from(forecastFits)), ...(await orm.select().from(sameDayFits))];
    const fits = new Map(stored.map((fit) => [fit.id, fit]));
    for (const record of records) {
      const station = findStation(record.station)!;
      const { end } = climateDayOf(station, record.date);
      expect(record.recordedAt.getTime()).toBe(end.getTime() - record.leadHours * 3_600_000);
      const fit = fits.get(record.fitId!)!;
      // A day in progress is forecast from earlier days at the same hour, and a later day from its ensembles.
      expect(record.method).toMatch(record.leadHours < 24 ? /^same_day$/ : /^emos/);
      expect(record.stays === null).toBe(record.method !== 'same_day');
      expect(fit.trainedAt <= record.recordedAt && fit.knownThrough <= fit.trainedAt).toBe(true);
      const isFinal = end.getTime() + 9 * 3_600_000 <= Date.parse(now);
      // Before the day begins, the forecast mixes both models of the simulated world, and each model is also scored on
      // its own.
      const mixed = record.models?.map(({ model }) => model) ?? [];
      expect(mixed.includes('main') && mixed.includes('single')).toBe(record.leadHours >= 24);
      const scored = Object.keys(record.modelScores ?? {}).toSorted();
      expect(scored).toEqual(isFinal ? mixed.toSorted() : []);
      expect(record.outcome).toBe(isFinal ? world.weather.report(station, record.date) : null);
      expect(record.modelLogScore === null).toBe(!isFinal);
      if (isFinal) expect(record.settledAt).toEqual(new Date(end.getTime() + 9 * 3_600_000));
    }
  });

  it('matches what the full sources would have given at that time', async () => {
    const record = (await rows()).find(({ leadHours }) => leadHours === 24)!;
    const at = record.recordedAt;
    const clock = { now: () => at.getTime() };
    const data = await createSimulatedSource({ ...world, clock }).read(never);
    const events = groupEvents(data.markets);
    const fits = await learned.fitsAt(at);
    const forecasts = calibratedModel({
      source: 'simulated',
      weather: await createSimulatedWeatherSource({ ...world, clock }).read(never),
      events,
      fits,
      at,
    });
    const due = recordsDue({ ...names, data, events, forecasts, at });
    const same = due.find(({ station, date }) => station === record.station && date === record.date)!;
    const { leadHours, method, modelRunAt, mean, deviation, members, brackets } = record;
    expect(same).toMatchObject({ leadHours, method, modelRunAt, mean, deviation, members, brackets });
  });

  it('is made once, resumes where it stopped, and scores what settled while no instance ran', async () => {
    const before = await rows();
    expect(await pastAt(now).fillRecords(first!, learned, never)).toBe(0);
    expect(await rows()).toEqual(before);

    const { db } = database;
    const fits = await db.orm.$count(forecastFits);
    const later = pastAt('2026-11-22T23:30:00Z');
    const made = await later.fillRecords(first!, await later.learn(first!, never), never);
    const after = await rows();
    expect(made).toBeGreaterThan(0);
    expect(after).toHaveLength(before.length + made);
    for (const record of before) {
      const now = after.find(
        ({ station, date, leadHours }) =>
          station === record.station && date === record.date && leadHours === record.leadHours,
      )!;
      if (record.date <= '2026-11-21') expect(now.outcome, record.date).not.toBeNull();
      expect(now.brackets).toEqual(record.brackets);
    }
    expect(await db.orm.$count(forecastFits)).toBeGreaterThanOrEqual(fits);
  });

  it('comes in parts that cover each kind and station once and do not affect each other', async () => {
    const all = pastParts.flatMap(({ stations, kinds }) =>
      stations.flatMap(({ id }) => kinds.map((kind) => `${kind} ${id}`)),
    );
    expect(new Set(all).size).toBe(all.length);
    expect(all).toHaveLength(dailyKinds.length * stations.length);
    expect(first!.stations.map(({ id }) => id)).toContain('KNYC');
    const before = await rows();
    // The first part is complete up to this earlier time, so only the second part is filled.
    const past = pastAt('2026-11-18T12:30:00Z', 1);
    const made = await past.fillRecords(second!, await past.learn(second!, never), never);
    const after = await rows();
    expect(after).toHaveLength(before.length + made);
    expect(made).toBeGreaterThan(7 * 4);
    const isOfSecond = ({ kind }: { kind: string }) => kind === 'daily_minimum';
    expect(after.filter(isOfSecond)).toHaveLength(made);
    expect(after.filter((row) => !isOfSecond(row))).toEqual(before);
  });

  it('stops when its signal aborts', async () => {
    await database.db.orm.delete(forecastRecords);
    await expect(pastAt(now).fillRecords(first!, learned, AbortSignal.abort())).rejects.toThrow();
    expect(await rows()).toEqual([]);
  });

  it('has only runs and reports that were known', async () => {
    const { db } = database;
    await pastAt(now).fillArchive(first!, never);
    const runs = await db.orm.select().from(ensembleRuns);
    const reports = await db.orm.select().from(climateReports);
    expect(new Set(runs.map(({ date, station }) => `${date} ${station}`)).size).toBeGreaterThan(8 * 7);
    for (const { fetchedAt, modelRunAt } of runs)
      expect(modelRunAt < fetchedAt && fetchedAt <= new Date(now)).toBe(true);
    for (const { knownAt, date, station, temperature } of reports) {
      expect(knownAt <= new Date(now)).toBe(true);
      expect(temperature).toBe(world.weather.report(findStation(station)!, date));
    }
    expect(reports.length).toBeGreaterThanOrEqual(7 * 7);
    await pastAt(new Date(Date.parse(now) + DAY_MS).toISOString()).fillArchive(first!, never);
    expect((await db.orm.select().from(climateReports)).length).toBe(reports.length + 7);
  });
});
