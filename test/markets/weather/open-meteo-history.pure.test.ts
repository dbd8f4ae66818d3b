import { pino } from 'pino';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createOpenMeteoSource } from '../../../src/markets/weather/open-meteo.js';
import { WeatherUnavailableError } from '../../../src/markets/weather/read-json.js';
import { UnexpectedAnswerError } from '../../../src/markets/venue/kalshi-client.js';
import { climateDayOf, hourOf } from '../../../src/markets/market/climate-day.js';
import { findPlace, findStation } from '../../../src/markets/market/stations.js';
import { startFakeWeather, type FakeWeather } from '../support/forecast-fake-weather.js';

const HOUR_MS = 3_600_000;
const now = Date.parse('2026-07-05T12:00:00Z');
const signal = new AbortController().signal;
let fake: FakeWeather;
beforeAll(async () => {
  fake = await startFakeWeather();
});
afterAll(() => fake.stop());
beforeEach(() => {
  Object.assign(fake, { previous: () => 60, spoil: undefined, fault: undefined, requests: [] });
});

const readAll = (from: string, to: string) =>
  createOpenMeteoSource({
    baseUrl: 'http://unused.invalid',
    historyBaseUrl: fake.url,
    observations: [],
    clock: { now: () => now },
    log: pino({ level: 'silent' }),
  }).history!.readRuns({ from, to }, signal);

const readRuns = async (from: string, to: string) =>
  (await readAll(from, to)).filter(({ model }) => model === undefined);

describe('past forecasts', () => {
  it('are the highest hour of the climate day in standard time, one and two days ahead, as ensembles of one', async () => {
    // New York's 3 July lasts from 05:00Z to 05:00Z on the 4th. The hotter hours on either side of it do not count.
    fake.previous = (station, ms, days) => {
      const time = new Date(ms).toISOString().slice(5, 13);
      if (time === '07-03T04' || time === '07-04T05') return 110;
      return station === 'KNYC' && time === '07-04T04' ? 80 + days : 60;
    };
    const runs = (await readRuns('2026-07-03', '2026-07-03')).filter(({ stationId }) => stationId === 'KNYC');
    expect(runs.filter(({ kind }) => kind === 'daily_minimum').map(({ membersF }) => membersF)).toEqual([
      [60],
      [60],
    ]);
    expect(runs.filter(({ kind }) => kind === 'daily_maximum')).toEqual([
      {
        kind: 'daily_maximum',
        stationId: 'KNYC',
        date: '2026-07-03',
        // The day's last hour is 04:00Z on the 4th. The newest run at least a day older is from 00:00Z on the 3rd.
        modelRunAt: new Date('2026-07-03T00:00:00Z'),
        fetchedAt: new Date(now),
        membersF: [81],
      },
      {
        kind: 'daily_maximum',
        stationId: 'KNYC',
        date: '2026-07-03',
        modelRunAt: new Date('2026-07-02T00:00:00Z'),
        fetchedAt: new Date(now),
        membersF: [82],
      },
    ]);
  });

  it('carry the time of the newest run that any of their hours can come from, and no newer one', async () => {
    const runs = await readRuns('2026-06-01', '2026-07-01');
    // Maxima and minima of 24 stations and every hour of four areas, one and two days ahead.
    expect(runs).toHaveLength((24 * 2 + 4 * 24) * 31 * 2);
    const hours = runs.filter(({ kind }) => kind === 'hourly');
    for (const [i, { stationId, date, hour, modelRunAt }] of hours.entries()) {
      const ms = hourOf(findPlace(stationId)!, date, hour!).getTime() - ((i % 2) + 1) * 24 * HOUR_MS;
      expect(modelRunAt.getTime()).toBe(Math.floor(ms / (6 * HOUR_MS)) * 6 * HOUR_MS);
    }
    runs.splice(0, runs.length, ...runs.filter(({ kind }) => kind !== 'hourly'));
    for (let i = 0; i < runs.length; i += 2) {
      const [newer, older] = runs.slice(i, i + 2);
      expect(older!.kind).toBe(newer!.kind);
      const { start } = climateDayOf(findStation(newer!.stationId)!, newer!.date);
      const ofDay = Array.from({ length: 24 }, (_, hour) => start.getTime() + hour * HOUR_MS);
      for (const [days, run] of [newer!, older!].entries()) {
        // Each hour comes from the newest 00, 06, 12 or 18Z run that is at least one or two days older.
        const made = ofDay.map(
          (ms) => Math.floor((ms - (days + 1) * 24 * HOUR_MS) / (6 * HOUR_MS)) * 6 * HOUR_MS,
        );
        expect(run.modelRunAt.getTime()).toBe(Math.max(...made));
      }
      // The one-day-ahead forecast was made before the day began.
      expect(newer!.modelRunAt.getTime()).toBeLessThan(start.getTime());
    }
  });

  it('come from each model alone, for all stations in one request, and never from the reassembled archive', async () => {
    await readRuns('2026-06-01', '2026-07-01');
    expect(fake.requests).toHaveLength(5);
    const query = new URL(fake.requests[0]!.path, 'http://x').searchParams;
    expect(query.get('hourly')).toBe('temperature_2m_previous_day1,temperature_2m_previous_day2');
    expect(query.get('models')).toBe('gfs_global');
    expect([query.get('start_date'), query.get('end_date')]).toEqual(['2026-06-01', '2026-07-02']);
    expect(query.get('latitude')!.split(',')).toHaveLength(28);
    const models = fake.requests.map(({ path }) => new URL(path, 'http://x').searchParams.get('models'));
    expect(models).toEqual([
      'gfs_global',
      'ecmwf_ifs025',
      'ncep_hrrr_conus',
      'ncep_nbm_conus',
      'icon_global',
    ]);
  });

  it.each([400, 503])(
    'include every model with history; a model that answers %d does not affect the others',
    async (status) => {
      fake.previous = (_station, _ms, _days, model) => (model === 'ncep_nbm_conus' ? null : 60);
      fake.fault = (req, res) => req.url!.includes('ecmwf') && (res.writeHead(status).end('{}'), true);
      const runs = await readAll('2026-06-01', '2026-06-01');
      expect(new Set(runs.map(({ model }) => model))).toEqual(new Set([undefined, 'hrrr', 'icon']));
      // This model runs hourly, and the last hour of New York's day is 04:00Z on the next date.
      expect(runs.find(({ model }) => model === 'hrrr')).toMatchObject({
        stationId: 'KNYC',
        modelRunAt: new Date('2026-06-01T04:00:00Z'),
      });
      // After a 429 the service may refuse the other models too, so all are retried together.
      fake.fault = (req, res) => req.url!.includes('ecmwf') && (res.writeHead(429).end(), true);
      await expect(readAll('2026-06-01', '2026-06-01')).rejects.toBeInstanceOf(WeatherUnavailableError);
    },
  );

  it('omit a day that lacks an hour or is not over', async () => {
    const gap = Date.parse('2026-07-03T12:00:00Z');
    fake.previous = (station, ms, days) => (station === 'KNYC' && ms === gap && days === 1 ? null : 60);
    const runs = (await readRuns('2026-07-02', '2026-07-05')).filter(
      ({ stationId, kind }) => stationId === 'KNYC' && kind === 'daily_maximum',
    );
    // 4 July ended at 05:00Z on the 5th; 5 July has not ended.
    expect(runs.map(({ date, modelRunAt }) => `${date} ${modelRunAt.toISOString().slice(5, 10)}`)).toEqual([
      '2026-07-02 07-02',
      '2026-07-02 07-01',
      '2026-07-03 07-02',
      '2026-07-04 07-04',
      '2026-07-04 07-03',
    ]);
  });

  it('are not requested for days before the archive began', async () => {
    expect(await readRuns('2020-01-01', '2020-01-31')).toEqual([]);
    expect(fake.requests).toEqual([]);
    await readRuns('2021-03-15', '2021-04-10');
    expect(fake.requests[0]!.path).toContain('start_date=2021-04-01');
  });

  it.each<[string, (places: Record<string, unknown>[]) => unknown]>([
    ['fewer places', (places) => places.slice(1)],
    ['places in another order', (places) => places.toReversed()],
    ['another time zone', (places) => places.map((place) => ({ ...place, utc_offset_seconds: 7_200 }))],
    [
      'only one of the series',
      (places) =>
        places.map((place) => ({
          ...place,
          hourly: { ...(place.hourly as object), temperature_2m_previous_day2: undefined },
        })),
    ],
    [
      'fewer values than hours',
      (places) =>
        places.map((place) => ({
          ...place,
          hourly: { ...(place.hourly as object), temperature_2m_previous_day1: [60] },
        })),
    ],
  ])('are rejected when the answer has %s', async (_what, spoil) => {
    fake.spoil = spoil;
    await expect(readRuns('2026-07-01', '2026-07-02')).rejects.toBeInstanceOf(UnexpectedAnswerError);
  });

  it('leave out a place with a fault, and say how long a busy service asks to be left alone', async () => {
    fake.spoil = (places) =>
      places.map((place, i) =>
        i === 2
          ? {
              ...place,
              hourly: { ...(place.hourly as object), temperature_2m_previous_day1: [60, '61'] },
            }
          : place,
      );
    const found = new Set((await readRuns('2026-07-01', '2026-07-01')).map(({ stationId }) => stationId));
    expect(found.size).toBe(27);
    expect(found).not.toContain('KMIA');
    fake.fault = (_req, res) => {
      res.writeHead(429).end('{"error":true,"reason":"Minutely API request limit exceeded."}');
      return true;
    };
    const busy = await readRuns('2026-07-01', '2026-07-01').catch((error: unknown) => error);
    expect(busy).toBeInstanceOf(WeatherUnavailableError);
    expect(busy).toMatchObject({ retryAfterMs: 60_000 });
    expect((busy as Error).message).toContain('Minutely API request limit exceeded.');
  });
});
