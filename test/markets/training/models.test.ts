import { pino } from 'pino';
import { describe, expect, it } from 'vitest';
import { createArchive } from '../../../src/markets/training/forecast-archive.js';
import { noNews } from '../../../src/markets/training/news.js';
import { createTrainer } from '../../../src/markets/training/trainer.js';
import { findMix } from '../../../src/markets/learning/fits.js';
import type { DayEnsemble } from '../../../src/markets/weather/weather.js';
import { forecastMixes } from '../../../src/markets/learning/table.js';
import { createCalibrationStore } from '../../../src/markets/snapshot/snapshot.js';
import { dateAfter, first, makePast, type Past } from '../support/forecast-past.js';
import { useDatabase } from '../../support/use.js';

const names = { forecastSource: 'test', marketSource: 'test' };
const log = pino({ level: 'silent' });
const database = useDatabase();

const run: DayEnsemble = {
  kind: 'daily_maximum',
  stationId: 'KNYC',
  date: '2026-07-04',
  modelRunAt: new Date('2026-07-04T06:00:00Z'),
  fetchedAt: new Date('2026-07-04T11:00:00Z'),
  membersF: [80, 82],
};
const at = new Date('2026-07-05T00:00:00Z');

describe('several models in the archive', () => {
  it('stand beside the first one', async () => {
    const archive = createArchive({ db: database.db, ...names, furtherModels: ['other'] });
    const ofModels = async (from = archive) =>
      (await from.asOf(at)).runs.map(({ model, meanF }) => [model, meanF]);
    expect(await archive.addRuns([run])).toBe(1);
    expect(await ofModels()).toEqual([[undefined, 81]]);
    expect(await archive.addRuns([run])).toBe(0);
    expect(await archive.addRuns([{ ...run, model: 'other', membersF: [70] }])).toBe(1);
    expect(await archive.addRuns([{ ...run, model: 'other', membersF: [71] }])).toBe(0);
    expect(await ofModels()).toEqual([
      [undefined, 81],
      ['other', 70],
    ]);
    // For a model with hourly runs, reading the archive returns only the first run of each half day.
    const hourly = ['00', '01', '11', '12', '18', '23'].map((hour) => ({
      ...run,
      date: '2026-07-03',
      model: 'other',
      modelRunAt: new Date(`2026-07-03T${hour}:00:00Z`),
      membersF: [Number(hour)],
    }));
    expect(await archive.addRuns(hourly)).toBe(6);
    expect(await ofModels()).toEqual([
      [undefined, 81],
      ['other', 70],
      ['other', 12],
      ['other', 0],
    ]);
    // This archive is configured without the other model.
    expect(await ofModels(createArchive({ db: database.db, ...names }))).toEqual([[undefined, 81]]);
  });

  it('carry a stated spread, the version and the mark of a window that may miss the extreme', async () => {
    const archive = createArchive({ db: database.db, ...names, furtherModels: ['nbs'] });
    const of = (date: string, more: Partial<DayEnsemble>): DayEnsemble => ({
      ...run,
      ...more,
      model: 'nbs',
      date,
      membersF: [70],
      spreadF: 3,
    });
    const may = new Date('2026-05-04T23:00:00Z');
    await archive.addRuns([
      of('2026-07-05', { version: '6.0', isNearMidnight: true }),
      of('2026-05-05', { modelRunAt: may }),
      of('2026-05-07', { modelRunAt: new Date('2026-05-06T12:00:00Z') }),
    ]);
    const { runs } = await archive.asOf(at);
    const bulletins = runs.filter(({ model }) => model === 'nbs');
    expect(bulletins).toMatchObject([
      { date: '2026-07-05', varianceF: 9, version: '6.0', isNearMidnight: true },
      // The source named no version, so the version known for that date is used.
      { date: '2026-05-07', varianceF: 9, version: '5.0' },
      { date: '2026-05-05', version: '4.3' },
    ]);
  });

  it('have fits and a mix of their own, stored before use and loaded again', async () => {
    const { orm } = database.db;
    const archive = createArchive({ db: database.db, ...names, furtherModels: ['other'] });
    const membersOf = (run: Past['runs'][number]): DayEnsemble => {
      const { model, meanF, varianceF, members: _, ...rest } = run;
      const off = Math.sqrt((varianceF * 11) / 12);
      const spread = Array.from({ length: 12 }, (_, i) => meanF + (i % 2 === 0 ? off : -off));
      return { ...rest, ...(model && { model }), membersF: model ? [meanF] : spread };
    };
    for (const stationId of ['KNYC', 'KMIA']) {
      const truth = { stationId, biasF: 2, errorF: 3, spreadF: 1 };
      const { runs, reports } = makePast(truth, 45);
      const others = makePast({ ...truth, errorF: 1 }, 45, { leadHours: 23 }).runs;
      await archive.addRuns([...runs, ...others.map((each) => ({ ...each, model: 'other' }))].map(membersOf));
      await archive.addReports(reports);
    }
    const now = new Date(`${dateAfter(first, 47)}T12:00:00Z`);
    const makeTrainer = () => {
      const calibration = createCalibrationStore();
      const clock = { now: () => now.getTime() };
      const trainer = createTrainer({
        db: database.db,
        archive,
        sources: names,
        calibration,
        clock,
        log,
      });
      return { calibration, trainer };
    };
    const learned = makeTrainer();
    await learned.trainer.learn(noNews);
    const { fits } = learned.calibration.current;
    // The other model has only the pooled fit.
    expect(fits.fits.filter(({ model }) => model === 'other')).toMatchObject([
      { stationId: null, leadHours: 24 },
    ]);
    const mix = findMix(fits, { kind: 'daily_maximum', leadHours: 24 }, now)!;
    expect(mix.skill['other']!.value).toBeLessThan(0.4);
    expect(await orm.select({ id: forecastMixes.id }).from(forecastMixes)).toEqual([{ id: mix.id }]);
    const loaded = makeTrainer();
    await loaded.trainer.load();
    expect(loaded.calibration.current.fits.mixes).toMatchObject([{ ...mix }]);
    expect(loaded.calibration.current.fits.fits.filter(({ model }) => model === 'other')).toHaveLength(1);
    await loaded.trainer.learn(noNews);
    expect(await orm.select().from(forecastMixes)).toHaveLength(1);
  });
});
