import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Clock } from '../../src/clock.js';
import { rawEnsemble } from '../../src/trading/forecast/raw-ensemble.js';
import { createSimulatedWeatherSource } from '../../src/trading/forecast/simulated.js';
import { createSimulatedSource } from '../../src/trading/markets/simulated.js';
import { fillPast } from '../../src/trading/scores/backfill.js';
import { simulateWeather } from '../../src/trading/simulation/weather.js';
import { forecastRecords } from '../../src/trading/forecast/table.js';
import { DOLLAR } from '../../src/trading/money.js';
import { recordForecasts, scoreForecasts } from '../../src/trading/scores/keeper.js';
import { insertRecords } from '../../src/trading/scores/queries.js';
import { recordsDue, type Scene } from '../../src/trading/scores/records.js';
import type { ScoresAnswer } from '../../src/trading/scores/schema.js';
import { bracketPays } from '../../src/trading/settlement/brackets.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { startTestService, type TestService } from '../support/service.js';
import { makeBook, makeData, makeEvent, makeForecasts } from './signals-world.js';

let database: TestDatabase;
let service: TestService;
const never = new AbortController().signal;
beforeAll(async () => {
  database = await createTestDatabase();
  service = await startTestService(database.db);
});
afterAll(async () => {
  await service.stop();
  await database.remove();
});

const date = '2026-07-04';
const dayBefore = '2026-07-03';
const chances = [0.05, 0.1, 0.6, 0.15, 0.07, 0.03];
/** Middles of 0.05, 0.10, 0.50, 0.20, 0.10, 0.05: they sum to one. */
const books = [5, 10, 50, 20, 10, 5].map((cents) => makeBook([[cents - 1, 5]], [[99 - cents, 5]]));

function sceneAt(time: string, probabilities = chances, day = date): Scene {
  const at = new Date(time);
  const event = makeEvent({ date: day, lowest: 68 });
  return {
    marketSource: 'simulated',
    forecastSource: 'simulated',
    data: makeData(event, books, at),
    events: [event],
    forecasts: makeForecasts(event, probabilities, { at }),
    at,
  };
}

function settledScene(time: string, temperature: number, day = date): Scene {
  const scene = sceneAt(time, chances, day);
  const [event] = scene.events;
  const markets = event!.markets.map((market) => ({
    ...market,
    status: 'finalized' as const,
    settledTemperature: temperature,
    settlementValue: bracketPays(market.bracket, temperature) ? DOLLAR : 0n,
  }));
  return { ...scene, events: [{ ...event!, markets }] };
}

async function read(query = ''): Promise<ScoresAnswer> {
  service.clock.advance(30_000);
  const response = await fetch(`${service.url}/scores${query}`);
  expect(response.status).toBe(200);
  return (await response.json()) as ScoresAnswer;
}

describe('GET /scores', () => {
  it('says that there is nothing while nothing has settled', async () => {
    service.clock.set('2026-07-04T18:00:00Z');
    const { overall, stations, records } = await read();
    expect(overall).toEqual({
      n: 0,
      waiting: 0,
      withoutMarket: 0,
      since: null,
      model: null,
      market: null,
      difference: null,
    });
    expect(stations).toHaveLength(7);
    expect(records).toEqual([]);
  });

  it('compares model and market once the venue is done with the day, and counts each record once', async () => {
    const { db } = database;
    await recordForecasts(db, sceneAt('2026-07-04T05:00:10Z'));
    // A second look at the same moment, by this instance or another, changes nothing.
    await recordForecasts(db, sceneAt('2026-07-04T05:01:10Z', [0.9, 0.02, 0.02, 0.02, 0.02, 0.02]));
    await recordForecasts(db, sceneAt('2026-07-04T17:00:10Z', [0.1, 0.1, 0.1, 0.5, 0.1, 0.1]));
    expect((await read()).overall).toMatchObject({ n: 0, waiting: 2, model: null });

    const settled = settledScene('2026-07-05T14:00:00Z', 71);
    expect(await scoreForecasts(db, settled)).toBe(2);
    expect(await scoreForecasts(db, settled)).toBe(0);

    const { overall, leads, stations, records } = await read('?station=knyc');
    expect(overall).toMatchObject({ n: 2, waiting: 0, withoutMarket: 0, since: date });
    // −ln 0.6 and −ln 0.1 against −ln 0.5 twice.
    expect(overall.model!.logScore).toBeCloseTo((0.5108256238 + 2.302585093) / 2, 9);
    expect(overall.market!.logScore).toBeCloseTo(0.6931471806, 9);
    expect(overall.difference!.logScore).toBeCloseTo((0.5108256238 + 2.302585093) / 2 - 0.6931471806, 9);
    // (0.05² + 0.15² + 0.25² + 0.10² + 0.03²) / 5 = 0.01968 and (0.1² + 0.2² + 0.7² + 0.2² + 0.1²) / 5 = 0.118.
    expect(overall.model!.rps).toBeCloseTo((0.01968 + 0.118) / 2, 9);
    // (0.05² + 0.15² + 0.35² + 0.15² + 0.05²) / 5.
    expect(overall.market!.rps).toBeCloseTo(0.0345, 9);
    expect(leads.map(({ leadHours, n }) => [leadHours, n])).toEqual([
      [36, 0],
      [24, 1],
      [12, 1],
      [6, 0],
    ]);
    expect(leads[1]!.model!.logScore).toBeCloseTo(0.5108256238, 9);
    expect(stations.map(({ station, overall: { n } }) => [station, n])).toEqual([['KNYC', 2]]);
    expect(records).toHaveLength(2);
    expect(records[1]).toMatchObject({
      station: 'KNYC',
      date,
      leadHours: 24,
      recordedAt: '2026-07-04T05:00:10.000Z',
      temperatureF: 71,
      model: { probability: 0.6 },
    });
    expect(records[1]!.market!.probability).toBeCloseTo(0.5, 12);
    expect((await read('?station=KAUS')).overall).toMatchObject({ n: 0, model: null });
  });

  it('leaves forecasts out of the means that had no market to compare with, and says how many', async () => {
    const [record] = recordsDue(sceneAt('2026-07-03T05:00:00Z', chances, dayBefore));
    const unpriced = record!.brackets.map((bracket) => ({ ...bracket, market: null }));
    await insertRecords(database.db.orm, [{ ...record!, brackets: unpriced }]);
    await scoreForecasts(database.db, settledScene('2026-07-04T14:00:00Z', 71, dayBefore));
    const { overall, records } = await read();
    expect(overall).toMatchObject({ n: 2, withoutMarket: 1, since: date });
    expect(records.find((r) => r.date === dayBefore)).toMatchObject({
      market: null,
      model: { probability: 0.6 },
    });
  });

  it('keeps the scores of other sources apart', async () => {
    const [record] = recordsDue(sceneAt('2026-07-04T05:00:00Z'));
    await insertRecords(database.db.orm, [
      { ...record!, marketSource: 'kalshi', forecastSource: 'openmeteo' },
    ]);
    expect((await read()).overall).toMatchObject({ n: 2, waiting: 0 });
  });

  it('forgets what is more than 90 days ago', async () => {
    service.clock.set('2026-10-03T12:00:00Z');
    expect((await read()).overall).toMatchObject({ n: 0, withoutMarket: 0 });
  });

  it.each([
    ['a station that no series settles on', '?station=KJFK', 404, 'unknown_station'],
    ['a NUL', '?station=%00', 400, 'invalid_request'],
    ['a station of a thousand letters', `?station=${'K'.repeat(1_000)}`, 400, 'invalid_request'],
    ['two stations', '?station=KNYC&station=KAUS', 400, 'invalid_request'],
    ['a parameter that does not exist', '?lead=24', 400, 'invalid_request'],
  ])('refuses %s', async (_what, query, status, code) => {
    const response = await fetch(`${service.url}/scores${query}`);
    expect(response.status).toBe(status);
    expect(await response.json()).toMatchObject({ code });
  });

  it('needs no credential and is made once for many that ask at the same time, with an ETag that lasts until something settles', async () => {
    service.clock.advance(60_000);
    const answers = await Promise.all(Array.from({ length: 20 }, () => fetch(`${service.url}/scores`)));
    const bodies = await Promise.all(answers.map((answer) => answer.text()));
    expect(new Set(bodies).size).toBe(1);
    const etag = answers[0]!.headers.get('etag')!;
    service.clock.advance(60_000);
    const unchanged = await fetch(`${service.url}/scores`, {
      headers: { 'if-none-match': etag, 'cache-control': 'max-age=0' },
    });
    expect(unchanged.status).toBe(304);
  });
});

describe('the keeper', () => {
  it('fills in the last days of an invented world by asking it, and a second time changes nothing', async () => {
    const { db } = database;
    await db.orm.delete(forecastRecords);
    service.clock.set('2026-11-21T12:00:00Z');
    const weather = simulateWeather('gauge');
    const sourcesAt = (clock: Clock) => ({
      markets: createSimulatedSource({ clock, seed: 'gauge', weather }),
      weather: createSimulatedWeatherSource({ clock, seed: 'gauge', weather }),
    });
    const fill = () =>
      fillPast({ db, clock: service.clock, sourcesAt, model: rawEnsemble, days: 4, pauseMs: 0 }, never);
    await fill();
    const { overall, leads, stations } = await read();
    // The days that began in the last four and have settled: three of seven stations at four leads.
    expect(overall.n + overall.withoutMarket).toBeGreaterThanOrEqual(3 * 7 * 4 - 14);
    expect(overall.n).toBeGreaterThan(0.9 * (overall.n + overall.withoutMarket));
    for (const { n } of stations.map(({ overall }) => overall)) expect(n).toBeGreaterThan(6);
    // Nobody knows less in the afternoon than two days before.
    expect(leads[3]!.market!.logScore).toBeLessThan(leads[0]!.market!.logScore);

    const rows = () => {
      const { date, station, leadHours } = forecastRecords;
      return db.orm.select().from(forecastRecords).orderBy(date, station, leadHours);
    };
    const before = await rows();
    for (const { recordedAt, modelRunAt } of before) expect(modelRunAt < recordedAt).toBe(true);
    await fill();
    expect(await rows()).toEqual(before);
  });

  it('writes down the present from the snapshot, and only then', async () => {
    await database.db.orm.delete(forecastRecords);
    // The climate day of Denver ends at 07:00Z: 12 hours before it is 19:00Z, and 36 hours before the next day's end.
    service.clock.set('2026-11-21T19:01:00Z');
    await service.trading.refresher.refresh();
    await service.trading.scores.record();
    await service.trading.scores.record();
    const rows = await database.db.orm.select().from(forecastRecords).orderBy(forecastRecords.leadHours);
    expect(rows.map(({ station, leadHours }) => [station, leadHours])).toEqual([
      ['KDEN', 12],
      ['KDEN', 36],
    ]);
    service.clock.set('2026-11-21T19:06:00Z');
    await service.trading.refresher.refresh();
    await service.trading.scores.record();
    expect(await database.db.orm.$count(forecastRecords)).toBe(2);
    await service.trading.scores.score();
    expect((await read()).overall).toMatchObject({ n: 0, waiting: 2 });
  });

  it('stops filling in when the service stops', async () => {
    await database.db.orm.delete(forecastRecords);
    const ending = await startTestService(database.db);
    ending.clock.set('2026-11-21T12:00:00Z');
    const filling = ending.trading.scores.backfill();
    await ending.stop();
    await filling;
    expect(await database.db.orm.$count(forecastRecords)).toBeLessThan(100);
  });
});
