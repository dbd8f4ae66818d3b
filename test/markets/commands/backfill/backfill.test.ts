import { sql } from 'drizzle-orm';
import { pino } from 'pino';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Orm } from '../../../../src/core/db/client.js';
import { backfill, type BackfillOptions } from '../../../../src/markets/commands/backfill-archive.js';
import { createArchive } from '../../../../src/markets/training/forecast-archive.js';
import { findStation, indexAreas, stations } from '../../../../src/markets/market/stations.js';
import { createKalshiClient, UnexpectedAnswerError } from '../../../../src/markets/venue/kalshi-client.js';
import { createKalshiSource } from '../../../../src/markets/venue/kalshi.js';
import { settledLadder, startFakeVenue, type FakeVenue } from '../../support/fake-venue.js';
import { startFakeWeather, type FakeWeather } from '../../support/forecast-fake-weather.js';
import { plentyOfTokens } from '../../support/venue-tokens.js';
import { daysBetween, addDays } from '../../../../src/markets/market/climate-day.js';
import { createOpenMeteoSource } from '../../../../src/markets/weather/open-meteo.js';
import { WeatherUnavailableError } from '../../../../src/markets/weather/read-json.js';
import type { PlaceHistory } from '../../../../src/markets/weather/weather.js';
import { useDatabase } from '../../../support/use.js';

const clock = { now: () => Date.parse('2026-07-05T12:00:00Z') };
const log = pino({ level: 'silent' });
const names = { forecastSource: 'openmeteo', marketSource: 'kalshi' };
/** A range of 40 days, which takes two forecast requests per model and two requests for the only market series. */
const range = { from: '2026-05-01', to: '2026-06-09' };

/** Runs made one and two days ahead for each station's maximum and minimum and for each area's 24 hours. */
const RUNS_A_DAY = 2 * (2 * stations.length + 24 * indexAreas.length);

const database = useDatabase();
let orm: Orm;
let weather: FakeWeather;
let venue: FakeVenue;
beforeAll(async () => {
  orm = database.db.orm;
  weather = await startFakeWeather();
  venue = await startFakeVenue();
});
afterAll(async () => {
  await weather.stop();
  await venue.stop();
});
beforeEach(async () => {
  // Only one of the five requested models has history here.
  const previous: FakeWeather['previous'] = (_station, _ms, _days, model) =>
    model === 'gfs_global' ? 60 : null;
  Object.assign(weather, { previous, fault: undefined, requests: [] });
  Object.assign(venue, { fault: undefined, requests: [] });
  venue.markets = daysBetween(range.from, range.to).flatMap((date) => settledLadder(date));
  await orm.execute(sql`delete from ensemble_runs`);
  await orm.execute(sql`delete from climate_reports`);
});

async function fill(over: Partial<BackfillOptions> = {}) {
  const pauses: number[] = [];
  const steps: string[] = [];
  const urls = { baseUrl: weather.url, historyBaseUrl: weather.url, observations: [] };
  const client = createKalshiClient({ baseUrl: venue.url, budget: plentyOfTokens(), backoffMs: 5 });
  const result = await backfill({
    orm,
    archive: createArchive({ db: { orm }, ...names }),
    weather: createOpenMeteoSource({ ...urls, clock, log }),
    markets: createKalshiSource({ client, series: ['KXHIGHNY'], clock, log }),
    stations: [findStation('KNYC')!],
    range,
    pauses: {
      sleep: (ms, signal) => {
        pauses.push(ms);
        signal.throwIfAborted();
        return Promise.resolve();
      },
      random: () => 0.5,
      note: () => undefined,
    },
    onDays: (done, all, what) => steps.push(`${done} of ${all}: ${what}`),
    stop: new AbortController().signal,
    ...over,
  });
  return { ...result, pauses, steps };
}

/** The days requested from the weather service, which are the same for each model. */
const askedDays = () => {
  const asked = weather.requests.map(({ path }) => {
    const query = new URL(path, 'http://x').searchParams;
    // Requests extend to the next UTC date, on which the last local day ends.
    return `${query.get('start_date')} ${addDays(query.get('end_date')!, -1)}`;
  });
  expect(asked).toHaveLength(5);
  return [...new Set(asked)];
};

describe('filling the past', () => {
  it('requests and stores missing days, so that the next run requests nothing', async () => {
    const first = await fill();
    // Every target has two runs on each of the 40 days, and the only market series has 40 reports.
    expect(first).toMatchObject({
      newRuns: 40 * RUNS_A_DAY,
      newReports: 40,
      problems: [],
      isInterrupted: false,
    });
    expect(first.coverage.stations).toMatchObject([{ forecastDays: 40, runs: 80, reports: 40 }]);
    expect(first.steps).toEqual([
      '31 of 80: forecasts to 2026-05-31',
      '40 of 80: forecasts to 2026-06-09',
      '71 of 80: reports to 2026-05-31',
      '80 of 80: reports to 2026-06-09',
    ]);
    weather.requests = [];
    venue.requests = [];
    expect(await fill()).toMatchObject({ newRuns: 0, newReports: 0, problems: [], steps: [] });
    expect([...weather.requests, ...venue.requests]).toEqual([]);
  });

  it('requests a day again only if it lacks a run from before it began', async () => {
    await fill();
    // Makes it look as if the service had first run at noon on 20 May.
    await orm.execute(sql`
      update ensemble_runs set model_run_at = '2026-05-20T12:00:00Z'
      where date = '2026-05-20' and station = 'KNYC' and model_run_at = '2026-05-20T00:00:00Z'`);
    await orm.execute(sql`
      delete from ensemble_runs where date = '2026-05-20' and station = 'KNYC' and model_run_at < '2026-05-20T00:00:00Z'`);
    weather.requests = [];
    expect(await fill()).toMatchObject({ newRuns: 4, newReports: 0 });
    expect(askedDays()).toEqual(['2026-05-20 2026-05-20']);
  });

  it('stops after the current request when interrupted, and resumes from there', async () => {
    const stop = new AbortController();
    weather.fault = () => {
      stop.abort();
      return false;
    };
    const first = await fill({ stop: stop.signal });
    expect(first).toMatchObject({
      newRuns: 31 * RUNS_A_DAY,
      newReports: 0,
      problems: [],
      isInterrupted: true,
    });
    expect(venue.requests).toEqual([]);
    weather.fault = undefined;
    weather.requests = [];
    expect(await fill()).toMatchObject({ newRuns: 9 * RUNS_A_DAY, newReports: 40, isInterrupted: false });
    expect(askedDays()).toEqual(['2026-06-01 2026-06-09']);
  });

  it('waits as long as a busy service requests, unless interrupted', async () => {
    let refused = 0;
    weather.fault = (_req, res) => {
      if (refused++ > 0) return false;
      res.writeHead(429, { 'retry-after': '7' }).end('{"error":true}');
      return true;
    };
    expect(await fill()).toMatchObject({ newRuns: 40 * RUNS_A_DAY, pauses: [7_000], problems: [] });
    await orm.execute(sql`delete from ensemble_runs`);
    const late = new AbortController();
    weather.fault = (_req, res) => {
      late.abort();
      res.writeHead(429).end('{"error":true}');
      return true;
    };
    const ended = await fill({ stop: late.signal });
    expect(ended).toMatchObject({ newRuns: 0, problems: [], isInterrupted: true, pauses: [60_000] });
  });

  it('gives up on a service that keeps failing, reports it, and still queries the other', async () => {
    let asked = 0;
    weather.fault = (_req, res) => {
      if (asked++ === 0) return false;
      res.writeHead(503).end('maintenance');
      return true;
    };
    const result = await fill();
    // The first request covers one model's first 31 days, which are stored even though every later request fails.
    expect(result).toMatchObject({ newRuns: 31 * RUNS_A_DAY, newReports: 40, isInterrupted: false });
    expect(result.problems).toEqual([
      `The forecasts from 2026-06-01 on could not be fetched: ${weather.url}/v1/forecast: status 503: maintenance.`,
    ]);
    expect(result.pauses).toHaveLength(4);
  });

  it('reports a source without a history', async () => {
    const result = await fill({ weather: { name: 'http' }, markets: { name: 'mine' } });
    expect(result.problems).toEqual([
      'The source http has no history of forecasts.',
      'The source mine has no history of reports.',
    ]);
  });

  describe('of models that other services serve one station at a time', () => {
    const days = { from: '2026-05-01', to: '2026-06-05' };
    const two = ['KNYC', 'KMIA'].map((id) => findStation(id)!);
    let asked: string[] = [];
    let fault: (id: string) => Error | undefined = () => undefined;
    beforeEach(() => {
      asked = [];
      fault = () => undefined;
    });
    const fillPlaces = (over: Partial<BackfillOptions> = {}) => {
      const byPlace: PlaceHistory = {
        model: 'nbs',
        apartMs: 4_000,
        readRuns({ id }, { from, to }) {
          asked.push(`${id} ${from} ${to}`);
          const error = fault(id);
          if (error) return Promise.reject(error);
          const runs = daysBetween(from, to).map((date) => ({
            model: 'nbs',
            kind: 'daily_maximum' as const,
            stationId: id,
            date,
            modelRunAt: new Date(`${date}T01:00:00Z`),
            fetchedAt: new Date(clock.now()),
            membersF: [80],
            spreadF: 2,
          }));
          return Promise.resolve(runs);
        },
      };
      const history = { readRuns: () => Promise.resolve([]), byPlace: [byPlace] };
      const sources = { weather: { name: 'openmeteo', history }, markets: { name: 'mine' } };
      return fill({ range: days, stations: two, ...sources, ...over });
    };

    it('requests one station at a time, at least 4 s apart, and never requests stored data again', async () => {
      const first = await fillPlaces();
      expect(first.newRuns).toBe(72);
      expect(asked).toEqual([
        'KNYC 2026-05-01 2026-05-31',
        'KNYC 2026-06-01 2026-06-05',
        'KMIA 2026-05-01 2026-05-31',
        'KMIA 2026-06-01 2026-06-05',
      ]);
      expect(first.pauses).toEqual([4_000, 4_000, 4_000]);
      expect(first.steps.at(-1)).toMatch(/: forecasts of nbs at KMIA to 2026-06-05$/);
      asked = [];
      expect((await fillPlaces()).newRuns).toBe(0);
      expect(asked).toEqual([]);
    });

    it('queries a throttling service at growing intervals, then stops, and resumes from there', async () => {
      fault = (id) => (id === 'KMIA' ? new WeatherUnavailableError('mos.py', 'slow down') : undefined);
      const first = await fillPlaces();
      expect(first.newRuns).toBe(36);
      expect(first.problems.at(-1)).toBe(
        'The forecasts of nbs at KMIA from 2026-05-01 on could not be fetched: mos.py: slow down.',
      );
      // Increasing backoff pauses, each followed by the usual 4 s between requests.
      expect(first.pauses.slice(2)).toEqual([5_000, 4_000, 10_000, 4_000, 20_000, 4_000, 40_000, 4_000]);
      fault = () => undefined;
      asked = [];
      expect((await fillPlaces()).newRuns).toBe(36);
      expect(asked.every((each) => each.startsWith('KMIA'))).toBe(true);
    });

    it('leaves out a station with broken answers, and stops at once when interrupted', async () => {
      fault = (id) => (id === 'KNYC' ? new UnexpectedAnswerError('mos.py', 'cut off') : undefined);
      expect(await fillPlaces()).toMatchObject({ newRuns: 36 });
      fault = () => undefined;
      const stop = new AbortController();
      const onDays = () => stop.abort();
      expect(await fillPlaces({ stop: stop.signal, onDays })).toMatchObject({
        newRuns: 0,
        isInterrupted: true,
      });
    });
  });
});
