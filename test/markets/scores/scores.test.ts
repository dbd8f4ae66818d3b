import { eq } from 'drizzle-orm';
import { pino } from 'pino';
import { describe, expect, it } from 'vitest';
import { forecastRecords, signalGates } from '../../../src/markets/learning/table.js';
import { DOLLAR } from '../../../src/markets/market/money.js';
import { recordForecasts, scoreForecasts } from '../../../src/markets/scores/keeper.js';
import { insertRecords } from '../../../src/markets/scores/queries.js';
import { recordsDue, type RecordInputs } from '../../../src/markets/scores/records.js';
import type { ScoresAnswer } from '../../../src/markets/scores/schema.js';
import { bracketPays } from '../../../src/markets/market/brackets.js';
import { createArchive } from '../../../src/markets/training/forecast-archive.js';
import type { GateBook } from '../../../src/markets/signals/signal.js';
import { gateKeys, readGates } from '../../../src/markets/scores/gates.js';
import { createJudge } from '../../../src/markets/scores/judge.js';
import { readScores } from '../../../src/markets/scores/report.js';
import { findStation } from '../../../src/markets/market/stations.js';
import { everything } from '../../../src/markets/venue/simulation/world.js';
import { startTestService } from '../../support/service.js';
import { makeData, makeForecasts, makeEvent, makeBook } from '../support/events.js';
import { useService } from '../../support/use.js';

const stations = [findStation('KDEN')!, findStation('KMIA')!];
const { database, service } = useService({ trading: { selection: { ...everything, stations } } });

const sources = { marketSource: 'simulated', forecastSource: 'simulated' };
const date = '2026-07-04';
const dayBefore = '2026-07-03';
const chances = [0.05, 0.1, 0.6, 0.15, 0.07, 0.03];
/** Mid prices of 0.05, 0.10, 0.50, 0.20, 0.10 and 0.05, which sum to one. */
const books = [5, 10, 50, 20, 10, 5].map((cents) => makeBook([[cents - 1, 5]], [[99 - cents, 5]]));

function sceneAt(time: string, probabilities = chances, day = date): RecordInputs {
  const at = new Date(time);
  const event = makeEvent({ date: day, lowest: 68 });
  return {
    marketSource: 'simulated',
    forecastSource: 'simulated',
    data: makeData(event, books, at),
    events: [event],
    forecasts: makeForecasts(event, probabilities, { at, method: 'emos', isCalibrated: true }),
    at,
  };
}

function settledScene(time: string, temperature: number, day = date): RecordInputs {
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

const metric = async (name: string): Promise<number> =>
  (await service.context.metrics.registry.getSingleMetric(name)!.get()).values[0]!.value;

describe('GET /scores', () => {
  it('is empty before anything settles', async () => {
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
      crps: null,
    });
    expect(stations).toHaveLength(24);
    expect(records).toEqual([]);
  });

  it('compares model and market once the venue has settled the day, and counts each record once', async () => {
    const { db } = database;
    await recordForecasts(db, sceneAt('2026-07-04T05:00:10Z'));
    // Recording the same time again, here or on another instance, changes nothing.
    await recordForecasts(db, sceneAt('2026-07-04T05:01:10Z', [0.9, 0.02, 0.02, 0.02, 0.02, 0.02]));
    await recordForecasts(db, sceneAt('2026-07-04T17:00:10Z', [0.1, 0.1, 0.1, 0.5, 0.1, 0.1]));
    expect((await read()).overall).toMatchObject({ n: 0, waiting: 2, model: null });

    const settled = settledScene('2026-07-05T14:00:00Z', 71);
    expect(await scoreForecasts(db, settled)).toBe(2);
    expect(await scoreForecasts(db, settled)).toBe(0);

    const { overall, leads, stations, records } = await read('?station=knyc');
    expect(overall).toMatchObject({ n: 2, waiting: 0, withoutMarket: 0, since: date });
    // The model scores −ln 0.6 and −ln 0.1; the market scores −ln 0.5 twice.
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

  it('answers for a single lead', async () => {
    const { overall, leads, stations, records } = await read('?lead=12');
    expect(overall).toMatchObject({ n: 1, waiting: 0 });
    expect(overall.model!.logScore).toBeCloseTo(2.302585093, 9);
    expect(leads.map(({ leadHours }) => leadHours)).toEqual([12]);
    expect(stations).toHaveLength(24);
    for (const station of stations) expect(station.leads.map(({ leadHours }) => leadHours)).toEqual([12]);
    expect(records.map(({ leadHours }) => leadHours)).toEqual([12]);
    expect((await read('?lead=36&station=KNYC')).overall).toMatchObject({ n: 0, model: null });
  });

  it('shows how often forecasts came true, market by market', async () => {
    const { model, market } = (await read()).diagnostics.reliability;
    const counts = (bins: typeof model) => bins.map(({ n, frequency }) => [n, frequency]);
    const none = [0, null];
    // By bin: 0.05, 0.07 and 0.03; 0.15 and six times 0.1, one of which won; 0.5; 0.6, which won.
    expect(counts(model)).toEqual([[3, 0], [7, 1 / 7], none, none, none, [1, 0], [1, 1], none, none, none]);
    expect(model[1]!.meanProbability).toBeCloseTo(0.75 / 7, 12);
    // The prices 0.05, 0.10, 0.50, 0.20, 0.10 and 0.05, twice each; the third bracket won both times.
    expect(counts(market).slice(0, 6)).toEqual([[4, 0], [4, 0], [2, 0], none, none, [2, 1]]);
    // Two markets at 0.05, twice each, count as two trials: P(0) = 0.9025 and P(≤ 1) = 0.9975.
    expect(market[0]!.expected).toEqual({ low: 0, high: 0.5 });
  });

  it('has the CRPS of records with enough data', async () => {
    const { overall, diagnostics, records } = await read();
    // All four scores can only be compared for records that include a climatology, and these do not.
    expect(overall.crps).toBeNull();
    expect(diagnostics.crps).toEqual([]);
    expect(records[0]!.model.crps).toBeGreaterThan(0);
    expect(records[0]!.market!.crps).toBeGreaterThan(0);
  });

  it('leaves forecasts without a market out of the means, and counts them', async () => {
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

  it('keeps uncalibrated forecasts apart', async () => {
    const { db } = database;
    const raw = { ...sceneAt('2026-07-02T05:00:10Z', chances, '2026-07-02') };
    const [event] = raw.events;
    await recordForecasts(db, { ...raw, forecasts: makeForecasts(event!, chances, { at: raw.at }) });
    await scoreForecasts(db, settledScene('2026-07-03T14:00:00Z', 71, '2026-07-02'));
    const { overall, uncalibrated, records } = await read();
    expect(overall).toMatchObject({ n: 2 });
    expect(uncalibrated).toMatchObject({ n: 1, withoutMarket: 0, since: '2026-07-02' });
    expect(uncalibrated.model!.logScore).toBeCloseTo(0.5108256238, 9);
    expect(records.at(-1)).toMatchObject({ date: '2026-07-02', method: 'raw_ensemble' });
  });

  it('forgets records from more than 90 days ago', async () => {
    service.clock.set('2026-10-03T12:00:00Z');
    expect((await read()).overall).toMatchObject({ n: 0, withoutMarket: 0 });
  });

  it.each([
    ['a station that no series settles on', '?station=KJFK', 404, 'unknown_station'],
    ['a NUL', '?station=%00', 400, 'invalid_request'],
    ['a station of a thousand letters', `?station=${'K'.repeat(1_000)}`, 400, 'invalid_request'],
    ['two stations', '?station=KNYC&station=KAUS', 400, 'invalid_request'],
    ['a parameter that does not exist', '?method=emos', 400, 'invalid_request'],
    ['a lead at which nothing is recorded', '?lead=18', 400, 'invalid_request'],
    ['a lead in another notation', '?lead=24.0', 400, 'invalid_request'],
    ['two leads', '?lead=24&lead=12', 400, 'invalid_request'],
    ['an SQL statement as the lead', '?lead=24;drop%20table%20forecast_records', 400, 'invalid_request'],
  ])('refuses %s', async (_what, query, status, code) => {
    const response = await fetch(`${service.url}/scores${query}`);
    expect(response.status).toBe(status);
    expect(await response.json()).toMatchObject({ code });
  });

  it('needs no credential, is computed once for simultaneous requests, and keeps its ETag until something settles', async () => {
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
    expect((await read()).asOf).toBe(new Date(service.clock.now()).toISOString());
  });
});

describe('a record', () => {
  const day = (back: number) => new Date(Date.parse('2026-08-20T00:00:00Z') - back * 86_400_000);
  const report = (back: number, temperatureF: number, knownAt: Date) => ({
    kind: 'daily_maximum' as const,
    stationId: 'KNYC',
    date: day(back).toISOString().slice(0, 10),
    temperatureF,
    knownAt,
  });
  const archiveOf = (marketSource: string) =>
    createArchive({ db: database.db, marketSource, forecastSource: 'simulated' });
  const recordAt = async (time: string, forecastSource: string) => {
    const scene = { ...sceneAt(time, chances, '2026-08-20'), forecastSource };
    await recordForecasts(database.db, scene);
    await recordForecasts(database.db, scene);
    return database.db.orm
      .select()
      .from(forecastRecords)
      .where(eq(forecastRecords.forecastSource, forecastSource));
  };

  it('has the climate of the last 30 days as known at the time', async () => {
    await archiveOf('simulated').addReports([
      // Ten known reports, alternating between 80 and 82.
      ...Array.from({ length: 10 }, (_, i) => report(i + 2, i % 2 === 0 ? 80 : 82, day(i))),
      // A correction and a report that arrived later, and a report that is too old.
      report(3, 120, new Date('2026-08-20T05:00:11Z')),
      report(1, 120, new Date('2026-08-20T05:00:11Z')),
      report(40, 120, day(38)),
    ]);
    await archiveOf('kalshi').addReports([report(15, 120, day(14))]);
    const [record] = await recordAt('2026-08-20T05:00:10Z', 'climate');
    expect(record).toMatchObject({ station: 'KNYC', climateMean: 81 });
    // Ten squared deviations of 1 each, divided by nine.
    expect(record!.climateDeviation).toBeCloseTo(Math.sqrt(10 / 9), 12);
    expect(record).toMatchObject({
      fitId: null,
      atLeast: null,
      members: Array.from({ length: 31 }, () => 71.3),
    });

    await scoreForecasts(database.db, {
      ...settledScene('2026-08-21T14:00:00Z', 71, '2026-08-20'),
      forecastSource: 'climate',
    });
    const [scored] = await recordAt('2026-08-20T05:00:10Z', 'climate');
    expect(scored!.rawCrps).toBe(0);
    expect(scored!.climateCrps).toBeGreaterThan(8);
    expect(scored).toMatchObject({ climateMean: 81, recordedAt: new Date('2026-08-20T05:00:10Z') });
  });

  it('has no climate with fewer than ten known days', async () => {
    // One day earlier, the tenth report was not yet known.
    const scene = sceneAt('2026-08-19T05:00:10Z', chances, '2026-08-19');
    await recordForecasts(database.db, { ...scene, forecastSource: 'too few' });
    const [record] = await database.db.orm
      .select()
      .from(forecastRecords)
      .where(eq(forecastRecords.forecastSource, 'too few'));
    expect(record).toMatchObject({ climateMean: null, climateDeviation: null });
  });

  it('is compared day by day once all four CRPS exist', async () => {
    const deps = {
      db: database.db,
      clock: { now: () => Date.parse('2026-08-22T00:00:00Z') },
      sources: { marketSource: 'simulated', forecastSource: 'climate' },
      calibration: service.trading.calibration,
    };
    const { overall, diagnostics } = await readScores(deps, {
      kind: 'daily_maximum',
      station: 'KNYC',
      leadHours: 24,
    });
    expect(overall.crps).toMatchObject({ n: 1, raw: 0 });
    expect(diagnostics.crps).toEqual([{ date: '2026-08-20', ...overall.crps }]);
    expect(
      (await readScores(deps, { kind: 'daily_maximum', station: 'KNYC', leadHours: 6 })).overall.crps,
    ).toBeNull();
  });
});

describe('the gates', () => {
  const dayMs = 86_400_000;
  const start = Date.parse('2026-09-01T00:00:00Z');
  /** New York's records at the 24-hour lead, settled 30 hours after the start of each day. */
  const settled = (days: number, over: Partial<typeof forecastRecords.$inferInsert>) =>
    Array.from({ length: days }, (_, i) => ({
      ...recordsDue(sceneAt('2026-07-04T05:00:00Z'))[0]!,
      date: new Date(start + i * dayMs).toISOString().slice(0, 10),
      recordedAt: new Date(start + i * dayMs),
      outcome: 71,
      settledAt: new Date(start + i * dayMs + 30 * 3_600_000),
      modelLogScore: 0.6,
      marketLogScore: 1,
      advantage: 0.4 - 0.1 * Math.sin(i * i),
      worstAdvantage: -2,
      ...over,
    }));
  const gateOf = ({ gates }: GateBook) =>
    gates.find(({ stationId, leadHours }) => stationId === 'KNYC' && leadHours === 24)!;

  it('are closed, with that reason, until first judged', async () => {
    service.clock.set('2026-10-20T12:00:00Z');
    const { stations, gatesJudgedAt } = await read();
    expect(gatesJudgedAt).toBeNull();
    expect(stations.flatMap(({ leads }) => leads.map(({ gate }) => gate.isOpen))).toEqual(
      Array.from({ length: 24 * 4 }, () => false),
    );
    expect(stations[0]!.leads[0]!.gate.reason).toBe('The scores have not been computed yet.');
  });

  it('open where the forecast was ahead in calibrated records of the same sources', async () => {
    const { orm } = database.db;
    await orm.delete(forecastRecords);
    await orm
      .insert(forecastRecords)
      .values([
        ...settled(45, { method: 'emos' }),
        ...settled(45, { method: 'raw_ensemble', leadHours: 12 }),
        ...settled(45, { method: 'emos', leadHours: 24, advantage: -2, forecastSource: 'another' }),
        ...settled(45, { method: 'emos', leadHours: 24, advantage: -2, marketSource: 'another' }),
        ...settled(45, { method: 'emos', leadHours: 36, advantage: null, worstAdvantage: null }),
      ]);
    await service.trading.background.judge();
    const { gates } = service.trading.calibration.current;
    expect(gateOf(gates)).toMatchObject({ isOpen: true, n: 45 });
    expect(gates.gates.filter(({ isOpen }) => isOpen)).toHaveLength(1);
    expect(gates.gates.filter(({ n }) => n > 0)).toHaveLength(1);

    const { stations, gatesJudgedAt, gateRule } = await read('?station=KNYC&lead=24');
    expect(gatesJudgedAt).toBe('2026-10-20T12:00:30.000Z');
    const { gate } = stations[0]!.leads[0]!;
    expect(gate).toMatchObject({ isOpen: true, n: 45 });
    expect(gate.difference!.high).toBeLessThan(0);
    expect(gate.difference!.mean).toBeCloseTo(gateOf(gates).difference!.mean, 12);
    expect(gate.evidence).toBe(gateOf(gates).evidence);
    expect(gateRule).toMatchObject({ falseShare: 0.1, minimumDays: 30, errorRates: { equal: 0.2 } });
    expect(await metric('gauge_open_gates')).toBe(1);
  });

  it('at an earlier time only use what had settled then', async () => {
    // Each day settles 30 hours after its start.
    const at = (days: number, ms = 0) => readGates(database.db, sources, new Date(start + days * dayMs + ms));
    expect(gateOf(await at(30.25, -1))).toMatchObject({ isOpen: false, n: 29 });
    expect(gateOf(await at(30.25))).toMatchObject({ isOpen: true, n: 30 });
    expect(gateOf(await at(500))).toMatchObject({ isOpen: false, n: 0 });
  });
});

describe('the keeper', () => {
  it('records forecasts from the snapshot, only at their due times', async () => {
    await database.db.orm.delete(forecastRecords);
    // At 19:00Z, two of Denver's days have 12 and 36 hours to go. It is 2 pm in Miami, so the forecasts for 3 pm, 5 pm
    // and 8 pm are due.
    service.clock.set('2026-11-21T19:01:00Z');
    await service.trading.refresher.refresh();
    await service.trading.scores.record();
    await service.trading.scores.record();
    const rows = await database.db.orm.select().from(forecastRecords);
    expect(
      rows.map(({ station, kind, hour, leadHours }) => `${station} ${kind} ${hour} ${leadHours}`).sort(),
    ).toEqual([
      'INDEX-MIAMI hourly 15 1',
      'INDEX-MIAMI hourly 17 3',
      'INDEX-MIAMI hourly 20 6',
      'KDEN daily_maximum 0 12',
      'KDEN daily_maximum 0 36',
      'KDEN daily_minimum 0 12',
      'KDEN daily_minimum 0 36',
    ]);
    service.clock.set('2026-11-21T19:06:00Z');
    await service.trading.refresher.refresh();
    await service.trading.scores.record();
    expect(await database.db.orm.$count(forecastRecords)).toBe(rows.length);
    await service.trading.scores.score();
    expect((await read()).uncalibrated).toMatchObject({ n: 0, waiting: 2 });
  });

  it('reports changed gates only once the past is filled in', async () => {
    const { trading, clock } = service;
    await database.db.orm.delete(signalGates);
    const stored: number[] = [];
    const count = async () => stored.push(await database.db.orm.$count(signalGates));
    const judge = createJudge({
      db: database.db,
      calibration: trading.calibration,
      sources,
      clock,
      log: pino({ level: 'silent' }),
      past: {
        async fillIn({ recorded }) {
          await recorded();
          await count();
          return 1;
        },
      },
    });
    await judge.fillPast();
    await count();
    expect(stored).toEqual([0, gateKeys().length]);
  });

  it('stops filling in when the service stops', async () => {
    await database.db.orm.delete(forecastRecords);
    const ending = await startTestService(database.db);
    ending.clock.set('2026-11-21T12:00:00Z');
    const filling = ending.trading.background.fillPast();
    await ending.stop();
    await filling;
    expect(await database.db.orm.$count(forecastRecords)).toBeLessThan(100);
  });
});
