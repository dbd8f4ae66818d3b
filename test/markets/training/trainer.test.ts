import { eq, inArray } from 'drizzle-orm';
import { beforeAll, describe, expect, it } from 'vitest';
import { pino } from 'pino';
import { createArchive } from '../../../src/markets/training/forecast-archive.js';
import { noNews } from '../../../src/markets/training/news.js';
import { createTrainer } from '../../../src/markets/training/trainer.js';
import { createCalibrationStore } from '../../../src/markets/snapshot/snapshot.js';
import { extremeHoursOf } from '../../../src/markets/learning/extreme-hours.js';
import { noFits } from '../../../src/markets/learning/fits.js';
import { createSimulatedWeatherSource } from '../../../src/markets/weather/simulated.js';
import { forecastFits } from '../../../src/markets/learning/table.js';
import { DAY_MS } from '../../../src/core/time.js';
import { targetKey, targetOf } from '../../../src/markets/market/market.js';
import { createSimulatedSource } from '../../../src/markets/venue/simulated.js';
import { simulateWeather } from '../../../src/markets/venue/simulation/weather.js';
import { everything, leadingStations } from '../../../src/markets/venue/simulation/world.js';
import { first, makePast } from '../support/forecast-past.js';
import { createTestDatabase } from '../../support/database.js';
import { startTestService } from '../../support/service.js';
import { useService } from '../../support/use.js';

const { database, service } = useService(() => ({ trading: { selection } }));

/** The seven leading cities, four of which have an area with hourly markets. */
const selection = { ...everything, stations: leadingStations };
/**
 * Two models, each with maxima and minima for yesterday, today and tomorrow, and with the 13 hourly targets of the next
 * 24 hours in each area.
 */
const RUNS = 2 * (7 * 3 * 2 + 4 * 13);
const never = new AbortController().signal;
beforeAll(async () => {
  service.clock.set('2026-11-21T12:00:00Z');
});

const days = () => {
  const { forecasts } = service.trading.snapshots.current!;
  return [...forecasts.values()].flatMap((forecast) => forecast.days);
};
const listFits = () => database.db.orm.select().from(forecastFits);

describe('the trainer', () => {
  it('records the current snapshot once', async () => {
    const { refresher, learn } = service.trading;
    const { archive } = service.trading.local!;
    await refresher.refresh();
    await learn();
    const at = new Date(service.clock.now());
    const known = await archive.asOf(at);
    expect(known.runs).toHaveLength(RUNS);
    // Yesterday is reported and final if it ended at least nine hours ago.
    const reported = [...known.reports];
    const snapshot = service.trading.snapshots.current!;
    const final = snapshot.events.filter(({ markets }) => markets[0]!.status === 'finalized');
    expect(reported.map(targetKey).sort()).toEqual(final.map((event) => targetKey(targetOf(event))).sort());
    for (const { knownAt } of reported) expect(knownAt).toEqual(snapshot.asOf);
    service.clock.advance(60_000);
    await refresher.refresh();
    const { changes } = archive;
    await learn();
    expect(archive.changes).toBe(changes);
    expect((await archive.asOf(new Date(service.clock.now()))).runs).toHaveLength(RUNS);
    expect(days().every(({ method }) => method === 'raw_ensemble')).toBe(true);
  });

  it('records news but postpones training while the archive is being filled', async () => {
    const { db } = database;
    const archive = createArchive({ db, forecastSource: 'waiting', marketSource: 'waiting' });
    const sources = { forecastSource: 'waiting', marketSource: 'waiting' };
    const calibration = createCalibrationStore();
    const log = pino({ level: 'silent' });
    let isFilling = true;
    const trainer = createTrainer({
      db,
      archive,
      sources,
      calibration,
      clock: service.clock,
      log,
      isFilling: () => isFilling,
    });
    const at = new Date(service.clock.now());
    const report = {
      kind: 'daily_maximum',
      stationId: 'KNYC',
      date: '2026-11-20',
      temperatureF: 50,
    } as const;
    await trainer.learn({ ...noNews, reports: [{ ...report, knownAt: at }] });
    expect([...(await archive.asOf(at)).reports]).toHaveLength(1);
    expect(calibration.current.fits.madeAt).toBeNull();
    isFilling = false;
    await trainer.learn(noNews);
    expect(calibration.current.fits.madeAt).toEqual(at);
  });

  it("knows the hours of a station's extremes before its first training", async () => {
    const { db } = database;
    const sources = { forecastSource: 'restarted', marketSource: 'restarted' };
    const archive = createArchive({ db, ...sources });
    const start = Date.parse('2026-10-10T05:00:00Z');
    const hours = Array.from({ length: 30 * 24 }, (_, i) => ({
      stationId: 'KNYC',
      date: new Date(start + Math.floor(i / 24) * DAY_MS).toISOString().slice(0, 10),
      hour: i % 24,
      temperatureF: 60 - Math.abs((i % 24) - 13),
      highestF: null,
      lowestF: null,
      observedAt: new Date(start + i * 3_600_000),
      fetchedAt: new Date(start + i * 3_600_000),
    }));
    await archive.addHours(hours);
    const calibration = createCalibrationStore();
    const log = pino({ level: 'silent' });
    await createTrainer({ db, archive, sources, calibration, clock: service.clock, log }).load();
    const extremes = calibration.current.fits.hours!.extremes;
    expect(extremeHoursOf(extremes, { kind: 'daily_maximum', stationId: 'KNYC' })).toMatchObject({
      from: 12,
      to: 14,
      days: 30,
    });
    expect(calibration.current.fits.madeAt).toBeNull();
  });

  it('learns from new data, stores each fit with its data, and uses it for forecasts', async () => {
    const { refresher, learn, calibration } = service.trading;
    const { archive } = service.trading.local!;
    const world = { clock: service.clock, seed: 'gauge', weather: simulateWeather('gauge') };
    // The history covers only maxima; for minima and hours, only current data is known.
    const selection = { stations: leadingStations, kinds: ['daily_maximum' as const] };
    const weather = createSimulatedWeatherSource(world, selection);
    const markets = createSimulatedSource(world, selection);
    for (const range of [
      { from: '2026-10-16', to: '2026-10-31' },
      { from: '2026-11-01', to: '2026-11-20' },
    ]) {
      await archive.addRuns(await weather.history.readRuns(range, never));
      await archive.addReports(await markets.history.readSettledDays(range, never));
    }
    await learn();
    const { fits } = calibration.current;
    expect(fits.madeAt).toEqual(new Date(service.clock.now()));
    // Pooled fits of both models, at the leads of their runs for today and tomorrow.
    expect(fits.fits.every(({ stationId }) => stationId === null)).toBe(true);
    expect(new Set(fits.fits.map(({ model, leadHours }) => `${model} ${leadHours}`)).size).toBeGreaterThan(4);
    expect(fits.fits.every(({ knownThrough, trainedAt }) => knownThrough <= trainedAt)).toBe(true);
    const rows = await listFits();
    expect(rows.map(({ id }) => id).sort()).toEqual(fits.fits.map(({ id }) => id).sort());
    for (const { n, training, trainedAt } of rows) {
      expect(training).toHaveLength(n);
      for (const { knownAt, fetchedAt } of training)
        expect([knownAt <= trainedAt.toISOString(), fetchedAt <= trainedAt.toISOString()]).toEqual([
          true,
          true,
        ]);
    }
    await refresher.refresh();
    const corrected = days().filter(({ method }) => method === 'emos_pooled');
    expect(corrected.length).toBeGreaterThan(14);
    expect(corrected.every(({ isCalibrated, fallback, fit }) => isCalibrated && !fallback && fit)).toBe(true);
  });

  it('does not repeat a fit for the same training set', async () => {
    const before = service.trading.calibration.current.fits.fits;
    service.clock.advance(3_600_000);
    await service.trading.learn();
    expect(service.trading.calibration.current.fits.fits).toEqual(before);
    expect(await listFits()).toHaveLength(before.length);
  });

  it('starts with the newest stored fits unchanged', async () => {
    const other = await startTestService(database.db, { trading: { selection } });
    other.clock.set('2026-11-21T14:00:00Z');
    await other.trading.background.load();
    const byId = (a: { id: string }, b: { id: string }) => (a.id < b.id ? -1 : 1);
    const fits = [...service.trading.calibration.current.fits.fits].sort(byId);
    expect([...other.trading.calibration.current.fits.fits].sort(byId)).toEqual(fits);
    await other.trading.learn();
    expect(await listFits()).toHaveLength(fits.length);
    await other.stop();
  });

  it('loads nothing too old to use', async () => {
    const later = await startTestService(database.db, { trading: { selection } });
    later.clock.set('2026-11-28T12:01:01Z');
    await later.trading.background.load();
    expect(later.trading.calibration.current.fits.madeAt).toBeNull();
    await later.stop();
  });

  it('loads the fits that existed then, and nothing made later', async () => {
    const [stored] = await listFits();
    const id = '019b8d9a-6400-7000-8000-000000000999';
    const later = { ...stored!, id, trainedAt: new Date('2026-11-21T16:00:00Z') };
    await database.db.orm.insert(forecastFits).values(later);
    const other = await startTestService(database.db, { trading: { selection } });
    const loadedAt = async (time: string) => {
      other.clock.set(time);
      other.trading.calibration.replace({ fits: noFits });
      await other.trading.background.load();
      return other.trading.calibration.current.fits.fits.map((fit) => fit.id);
    };
    const before = await loadedAt('2026-11-21T15:59:59Z');
    expect([before.includes(id), before.includes(stored!.id)]).toEqual([false, true]);
    const after = await loadedAt('2026-11-21T16:00:00Z');
    expect([after.includes(id), after.includes(stored!.id)]).toEqual([true, false]);
    expect(await loadedAt('2026-11-21T11:59:59Z')).toEqual([]);
    await other.stop();
    await database.db.orm.delete(forecastFits).where(eq(forecastFits.id, id));
  });

  it('loads the fit from the most days of those made at the same time', async () => {
    const [stored] = await listFits();
    const ids = ['019b8d9a-6400-7000-8000-000000000997', '019b8d9a-6400-7000-8000-000000000998'];
    const parts = [stored!.n + 60, stored!.n - 1].map((n, i) => ({ ...stored!, id: ids[i]!, n }));
    await database.db.orm.insert(forecastFits).values(parts);
    const other = await startTestService(database.db, { trading: { selection } });
    other.clock.set('2026-11-21T14:00:00Z');
    other.trading.calibration.replace({ fits: noFits });
    await other.trading.background.load();
    const loaded = new Set(other.trading.calibration.current.fits.fits.map(({ id }) => id));
    expect([stored!.id, ...ids].filter((id) => loaded.has(id))).toEqual([ids[0]]);
    await other.stop();
    await database.db.orm.delete(forecastFits).where(inArray(forecastFits.id, ids));
  });

  it('deletes data older than 400 days, and the inputs of seasonal fits after two years', async () => {
    const { background } = service.trading;
    const { archive } = service.trading.local!;
    const dates = async (isMain: boolean) => {
      const { runs } = await archive.asOf(new Date('2026-11-21T12:00:00Z'));
      return runs
        .filter(({ kind, model }) => (model === undefined && kind !== 'hourly') === isMain)
        .map(({ date }) => date)
        .toSorted();
    };
    expect((await dates(false))[0]! < '2026-11-21').toBe(true);
    const [first] = await dates(true);
    // Each clean-up deletes a bounded number of rows, so clearing a month of old rows takes several.
    for (const now of ['2027-12-05', '2027-12-26'])
      for (let turn = 0; turn < 3; turn++) {
        service.clock.set(`${now}T12:00:00Z`);
        await background.cleanUp();
      }
    expect((await dates(false))[0]! >= '2026-11-21').toBe(true);
    expect((await dates(true))[0]).toBe(first);
    expect(await listFits()).not.toHaveLength(0);
    service.clock.set('2027-12-27T12:00:00Z');
    await background.cleanUp();
    expect(await listFits()).toHaveLength(0);
    service.clock.set('2028-11-30T12:00:00Z');
    for (let turn = 0; turn < 3; turn++) await background.cleanUp();
    expect((await dates(true))[0]).toBe('2026-11-21');
  });

  it('stops learning when the service stops', async () => {
    const ending = await startTestService(database.db, { trading: { selection } });
    ending.clock.set('2026-11-21T12:00:00Z');
    await ending.trading.refresher.refresh();
    const learning = ending.trading.learn();
    await ending.stop();
    await learning;
    expect(ending.trading.calibration.current.fits.madeAt).toBeNull();
  });
});

describe('a station with a long history', () => {
  it('learns its own seasons, stores and loads them, and averages them in', async () => {
    const own = await createTestDatabase();
    const started = await startTestService(own.db, { trading: { selection } });
    started.clock.set('2026-11-21T12:00:00Z');
    const { learn, background, calibration, refresher, snapshots } = started.trading;
    const { archive } = started.trading.local!;
    const yesterday = (Date.parse('2026-11-20') - Date.parse(first)) / DAY_MS;
    const past = makePast({ stationId: 'KNYC', biasF: 1, errorF: 2, spreadF: 1 }, 560, {
      from: yesterday - 560,
    });
    // Makes the past roughly as cold as the simulated November.
    const colder = (temperatureF: number) => temperatureF - 22;
    await archive.addRuns(past.runs.map((run) => ({ ...run, membersF: [colder(run.meanF)] })));
    await archive.addReports(
      past.reports.map((report) => ({ ...report, temperatureF: colder(report.temperatureF) })),
    );
    await learn();
    const seasonal = calibration.current.fits.fits.filter(({ stationId }) => stationId === 'KNYC');
    expect(seasonal.length).toBeGreaterThan(0);
    expect(seasonal.every(({ kind, n }) => kind === 'daily_maximum' && n >= 548)).toBe(true);
    const rows = await own.db.orm.select().from(forecastFits).where(eq(forecastFits.station, 'KNYC'));
    expect(rows.map(({ id }) => id).toSorted()).toEqual(seasonal.map(({ id }) => id).toSorted());
    // The archive keeps years of data as known at the time, so fits do not store a copy.
    expect(rows.every(({ training }) => training.length === 0)).toBe(true);
    await refresher.refresh();
    const days = snapshots.current!.forecasts.get('KNYC')!.days;
    const maxima = days.filter(({ kind, seasonalFit }) => kind === 'daily_maximum' && seasonalFit);
    expect(maxima.length).toBeGreaterThan(0);
    expect(maxima.every(({ shape }) => shape === 'logistic')).toBe(true);
    expect(days.some(({ kind, seasonalFit }) => kind === 'daily_minimum' && seasonalFit)).toBe(false);
    // Seasonal fits remain when other fits are replaced, and after a restart.
    started.clock.advance(DAY_MS);
    await refresher.refresh();
    await learn();
    const kept = calibration.current.fits.fits.filter(({ stationId }) => stationId === 'KNYC');
    expect(kept.map(({ id }) => id).toSorted()).toEqual(seasonal.map(({ id }) => id).toSorted());
    calibration.replace({ fits: noFits });
    await background.load();
    expect(calibration.current.fits.fits).toEqual(expect.arrayContaining(seasonal));
    await started.stop();
    await own.remove();
  });
});
