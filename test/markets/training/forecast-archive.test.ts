import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { KnownHistory, createArchive, type Archive } from '../../../src/markets/training/forecast-archive.js';
import { train } from '../../../src/markets/training/training.js';
import { noFits } from '../../../src/markets/learning/fits.js';
import type { DayEnsemble } from '../../../src/markets/weather/weather.js';
import { climateReports, ensembleRuns } from '../../../src/markets/learning/table.js';
import type { SettledDay } from '../../../src/markets/market/source.js';
import { gaussian } from '../../../src/markets/venue/simulation/random.js';
import { isEmbedded } from '../../support/database.js';
import { dateAfter, first, makePast } from '../support/forecast-past.js';
import type { KnownRun } from '../../../src/markets/learning/queries.js';
import { useDatabase } from '../../support/use.js';

const database = useDatabase();
let archive: Archive;
const names = { forecastSource: 'some weather', marketSource: 'some venue' };
beforeAll(async () => {
  archive = createArchive({ db: database.db, ...names });
});
beforeEach(async () => {
  await database.db.orm.delete(ensembleRuns);
  await database.db.orm.delete(climateReports);
});

// New York's climate day ends at 05:00Z on the next date.
const date = '2026-07-04';
const run = (over: Partial<DayEnsemble> = {}): DayEnsemble => ({
  kind: 'daily_maximum',
  stationId: 'KNYC',
  date,
  modelRunAt: new Date('2026-07-04T00:00:00Z'),
  fetchedAt: new Date('2026-07-04T05:00:00Z'),
  membersF: [69, 71, 73],
  ...over,
});

const report = (over: Partial<SettledDay> = {}): SettledDay => ({
  kind: 'daily_maximum',
  stationId: 'KNYC',
  date,
  temperatureF: 71,
  knownAt: new Date('2026-07-05T14:00:00Z'),
  ...over,
});

const later = new Date('2026-07-06T00:00:00Z');

describe('the archive', () => {
  it('stores a run once, as it first arrived', async () => {
    expect(await archive.addRuns([run()])).toBe(1);
    const again = run({ fetchedAt: new Date('2026-07-04T06:00:00Z'), membersF: [1, 2, 3] });
    expect(await archive.addRuns([again, run({ stationId: 'KDEN' })])).toBe(1);
    const { runs } = await archive.asOf(later);
    // The squares of −2, 0 and 2 sum to 8, so the sample variance is 8/2.
    expect(runs).toEqual([
      {
        kind: 'daily_maximum',
        stationId: 'KNYC',
        date,
        modelRunAt: new Date('2026-07-04T00:00:00Z'),
        fetchedAt: new Date('2026-07-04T05:00:00Z'),
        members: 3,
        meanF: 71,
        varianceF: 4,
      },
      { ...runs[1]!, stationId: 'KDEN' },
    ]);
  });

  it('keeps maxima, minima and hours apart, hours to the hundredth', async () => {
    const hour = { kind: 'hourly' as const, stationId: 'INDEX-NYC' };
    const runs = [
      run(),
      run({ kind: 'daily_minimum', membersF: [50, 52] }),
      run({ ...hour, hour: 0, membersF: [60] }),
      run({ ...hour, hour: 9, membersF: [61] }),
    ];
    const reports = [
      report(),
      report({ kind: 'daily_minimum', temperatureF: 51 }),
      report({ ...hour, hour: 0, temperatureF: 60.07 }),
      report({ ...hour, hour: 9, temperatureF: 61.5 }),
    ];
    // Local midnight, 04:00Z, is an hour before the previous climate day ends. A run that starts at that time is not a
    // forecast of hour 0.
    expect(
      await archive.addRuns([
        ...runs,
        run({ ...hour, hour: 0, modelRunAt: new Date('2026-07-04T04:00:00Z') }),
      ]),
    ).toBe(4);
    expect(await archive.addRuns(runs)).toBe(0);
    expect(await archive.addReports(reports)).toBe(4);
    expect(await archive.addReports(reports)).toBe(0);
    const known = await archive.asOf(later);
    expect(known.runs.map(({ kind, hour, meanF }) => [kind, hour, meanF])).toEqual([
      ['daily_maximum', undefined, 71],
      ['daily_minimum', undefined, 51],
      ['hourly', expect.any(Number), expect.any(Number)],
      ['hourly', expect.any(Number), expect.any(Number)],
    ]);
    for (const each of reports) expect(known.reportOf(each)).toEqual(each);
    expect(known.reportOf({ ...reports[3]!, hour: 10 })).toBeUndefined();
  });

  it('accepts thousands of runs at once, twice, with one member or many', async () => {
    const runs = Array.from({ length: 1_500 }, (_, i) =>
      run({
        date: new Date(Date.UTC(2026, 5, 1 + Math.floor(i / 50))).toISOString().slice(0, 10),
        modelRunAt: new Date(Date.UTC(2026, 4, 30) + (i % 50) * 60_000),
        fetchedAt: new Date('2026-05-30T12:00:00Z'),
        membersF: i % 2 ? [70] : Array.from({ length: 31 }, (_, k) => 70 + k / 7),
      }),
    );
    expect(await archive.addRuns([...runs, ...runs])).toBe(1_500);
    expect(await archive.addRuns(runs)).toBe(0);
    const known = (await archive.asOf(later)).runs;
    expect(known).toHaveLength(1_500);
    expect(new Set(known.map(({ members }) => members))).toEqual(new Set([1, 31]));
    expect(known.find(({ members }) => members === 1)).toMatchObject({ meanF: 70, varianceF: 0 });
  });

  it.each([
    ['a member that is not a number', { membersF: [70, Number.NaN] }],
    ['an impossible member', { membersF: [70, 451] }],
    ['no members', { membersF: [] }],
    ['an unknown station', { stationId: 'KJFK' }],
    ['a start after the end of the day', { modelRunAt: new Date('2026-07-05T05:00:00Z') }],
  ])('leaves out a run with %s', async (_what, over) => {
    expect(await archive.addRuns([run(over)])).toBe(0);
  });

  it('preserves what was known before a correction', async () => {
    const correction = report({ temperatureF: 72, knownAt: new Date('2026-07-05T20:00:00Z') });
    expect(await archive.addReports([report()])).toBe(1);
    expect(await archive.addReports([report({ knownAt: new Date('2026-07-05T15:00:00Z') })])).toBe(0);
    expect(await archive.addReports([correction, correction])).toBe(1);
    const seen = async (time: string) =>
      (await archive.asOf(new Date(time))).reportOf({ kind: 'daily_maximum', stationId: 'KNYC', date })
        ?.temperatureF;
    expect(await seen('2026-07-05T13:59:59.999Z')).toBeUndefined();
    expect(await seen('2026-07-05T14:00:00Z')).toBe(71);
    expect(await seen('2026-07-05T19:59:59.999Z')).toBe(71);
    expect(await seen('2026-07-05T20:00:00Z')).toBe(72);
  });

  it('does not know a run before it was fetched', async () => {
    await archive.addRuns([run()]);
    const count = async (time: string) => (await archive.asOf(new Date(time))).runs.length;
    expect(await count('2026-07-04T04:59:59.999Z')).toBe(0);
    expect(await count('2026-07-04T05:00:00Z')).toBe(1);
  });

  it('does not know a run before it started, whatever else claims otherwise', async () => {
    await archive.addRuns([run({ fetchedAt: new Date('2026-07-03T20:00:00Z') })]);
    expect((await archive.asOf(new Date('2026-07-03T23:00:00Z'))).runs).toEqual([]);
  });

  it('reads the last 90 days of one pair of sources', async () => {
    await archive.addRuns([run()]);
    await archive.addReports([report()]);
    const counts = async (reader: Archive, time: string) => {
      const known = await reader.asOf(new Date(time));
      return [known.runs.length, [...known.reports].length];
    };
    expect(await counts(archive, '2026-10-02T12:00:00Z')).toEqual([1, 1]);
    expect(await counts(archive, '2026-10-03T12:00:00Z')).toEqual([0, 0]);
    const others = { forecastSource: 'another', marketSource: 'another' };
    expect(await counts(createArchive({ db: database.db, ...others }), '2026-07-06T00:00:00Z')).toEqual([
      0, 0,
    ]);
  });

  it('thins a long past to one run per half day, as known at a time, and returns nothing for a short one', async () => {
    const at = new Date(`${dateAfter(first, 600)}T00:00:00Z`);
    const { runs, reports } = makePast({ stationId: 'KNYC', biasF: 0, errorF: 1, spreadF: 1 }, 600);
    const asEnsemble = (known: KnownRun, laterMs = 0): DayEnsemble => ({
      ...known,
      modelRunAt: new Date(known.modelRunAt.getTime() + laterMs),
      membersF: [known.meanF],
    });
    // 05:00Z is in the first half of the day. A run one hour later is in the same half, so it adds nothing.
    await archive.addRuns(runs.flatMap((known) => [asEnsemble(known), asEnsemble(known, 3_600_000)]));
    await archive.addRuns(runs.map((known) => ({ ...asEnsemble(known), model: 'other' })));
    await archive.addReports(reports);
    const wanted = { kind: 'daily_maximum' as const, stationId: 'KNYC', days: 700, least: 590 };
    const known = (await archive.longAsOf(at, wanted))!;
    const inTime = runs.filter(({ fetchedAt }) => fetchedAt <= at);
    expect(known.runs.map(({ date }) => date).toSorted()).toEqual(inTime.map(({ date }) => date));
    expect(
      known.runs.every(({ model, modelRunAt }) => model === undefined && modelRunAt.getUTCHours() === 5),
    ).toBe(true);
    expect([...known.reports]).toHaveLength(reports.filter(({ knownAt }) => knownAt <= at).length);
    expect((await archive.longAsOf(at, { ...wanted, days: 100, least: 50 }))!.runs.length).toBeLessThan(101);
    expect(await archive.longAsOf(at, { ...wanted, least: 601 })).toBeUndefined();
    expect(await archive.longAsOf(at, { ...wanted, kind: 'daily_minimum' })).toBeUndefined();
    expect(await archive.longAsOf(at, { ...wanted, stationId: 'KMIA' })).toBeUndefined();
  });

  it('deletes data older than a given day', async () => {
    await archive.addRuns([run(), run({ date: '2026-07-05' })]);
    await archive.addReports([report(), report({ date: '2026-07-05' })]);
    await archive.deleteBefore('2026-07-05', '2026-07-05');
    const known = await archive.asOf(later);
    expect(known.runs.map((found) => found.date)).toEqual(['2026-07-05']);
    expect(
      [...(await archive.asOf(new Date('2026-07-07T00:00:00Z'))).reports].map((found) => found.date),
    ).toEqual(['2026-07-05']);
  });
});

describe.runIf(isEmbedded)('past knowledge', () => {
  /** The decision time. `drawTime` draws times around it, some of them exactly at it. */
  const at = new Date('2026-07-04T12:00:00Z');
  const drawTime = (...name: (string | number)[]) =>
    new Date(at.getTime() + Math.round(4 * gaussian(...name, 'hours')) * 3_600_000);
  const runs = Array.from({ length: 300 }, (_, i) =>
    run({
      stationId: i % 2 ? 'KNYC' : 'KLAX',
      date: `2026-07-0${4 + (i % 3)}`,
      modelRunAt: new Date(drawTime(i, 'run').getTime() + i),
      fetchedAt: drawTime(i, 'fetched'),
    }),
  );
  const reports = Array.from({ length: 200 }, (_, i) =>
    report({
      date: `2026-06-${10 + (i % 10)}`,
      temperatureF: 70 + i,
      knownAt: new Date(drawTime(i, 'known').getTime() + (i % 7)),
    }),
  );

  it('is the same in the database as by definition, at any time', async () => {
    await archive.addRuns(runs);
    await archive.addReports(reports);
    const rows = runs.map(({ kind, stationId, date, modelRunAt, fetchedAt }): KnownRun => ({
      kind,
      stationId,
      date,
      modelRunAt,
      fetchedAt,
      members: 3,
      meanF: 71,
      varianceF: 4,
    }));
    for (const hours of [-20, -8, -4, -2, -1, 0, 1, 2, 4, 8, 20]) {
      const time = new Date(at.getTime() + hours * 3_600_000);
      const found = await archive.asOf(time);
      const expected = KnownHistory.at(time, { runs: rows, reports });
      const byRun = (a: KnownRun, b: KnownRun) => a.modelRunAt.getTime() - b.modelRunAt.getTime();
      expect([...found.runs].sort(byRun)).toEqual([...expected.runs].sort(byRun));
      const byDate = (a: SettledDay, b: SettledDay) => (a.date < b.date ? -1 : 1);
      expect([...found.reports].sort(byDate)).toEqual([...expected.reports].sort(byDate));
    }
  });

  it('teaches a fit nothing that came after the decision', async () => {
    const past = makePast({ stationId: 'KNYC', biasF: 2, errorF: 2, spreadF: 1 }, 31);
    const decidedAt = new Date(`${dateAfter(first, 33)}T12:00:00Z`);
    const late = new Date(decidedAt.getTime() + 1);
    const ensembles = past.runs.map(({ members, meanF, ...each }) => ({
      ...each,
      kind: 'daily_maximum' as const,
      membersF: Array.from({ length: members }, (_, i) => meanF + (i - members / 2) / 5),
    }));
    let worlds = 0;
    async function coefficients(someRuns: DayEnsemble[], someReports: SettledDay[]) {
      const world = createArchive({
        db: database.db,
        forecastSource: `weather ${++worlds}`,
        marketSource: `venue ${worlds}`,
      });
      await world.addRuns(someRuns);
      await world.addReports(someReports);
      const history = await world.asOf(decidedAt);
      return train(history, { previous: noFits, newId: () => 'a fit' }).book.fits.map(
        (fit) => fit.coefficients,
      );
    }
    const all = await coefficients(ensembles, past.reports);
    expect(all).toHaveLength(1);
    for (const i of [0, 15, 30]) {
      const lateRun = ensembles.map((each, k) => (k === i ? { ...each, fetchedAt: late } : each));
      const lateReport = past.reports.map((each, k) => (k === i ? { ...each, knownAt: late } : each));
      const fewerRuns = await coefficients(ensembles.toSpliced(i, 1), past.reports);
      expect(await coefficients(lateRun, past.reports)).toEqual(fewerRuns);
      expect(await coefficients(ensembles, lateReport)).toEqual(fewerRuns);
      expect(fewerRuns).not.toEqual(all);
    }
  });
});
