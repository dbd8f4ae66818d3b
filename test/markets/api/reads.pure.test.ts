import { once } from 'node:events';
import { createServer, request, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readConfig } from '../../../src/config.js';
import type { Database } from '../../../src/core/db/client.js';
import { toBookStateJson, toMarketJson, toSignalsJson } from '../../../src/markets/api/market-json.js';
import type { Signal } from '../../../src/markets/signals/signal.js';
import type { HourFit } from '../../../src/markets/learning/running-day.js';
import { findStation } from '../../../src/markets/market/stations.js';
import { toForecastJson } from '../../../src/markets/api/forecast-json.js';
import { forecastSchema, stationListSchema } from '../../../src/markets/api/forecast-schema.js';
import { marketListSchema } from '../../../src/markets/api/schema.js';
import { signalListSchema } from '../../../src/markets/api/signal-schema.js';
import { createStationBulletins } from '../../../src/markets/weather/station-bulletins.js';
import { UnexpectedAnswerError } from '../../../src/markets/venue/kalshi-client.js';
import { connectionRefused, failingDatabase } from '../../openapi/support/failing-database.js';
import { calibrated, makeEvent, makeForecasts } from '../support/events.js';
import { startTestService, type TestService } from '../../support/service.js';
import {
  makeBooks,
  makeMarkets,
  members,
  ScriptedMarkets,
  ScriptedWeather,
} from '../support/scripted-sources.js';

/** Market data must be readable without the database, so the database is always down here. */
const noDatabase = failingDatabase({} as Database, connectionRefused());
const NOW = '2026-01-31T12:00:00.000Z';
const origin = 'https://app.example.com';

interface World {
  service: TestService;
  markets: ScriptedMarkets;
  weather: ScriptedWeather;
}

async function startWorld(env: Record<string, string> = {}): Promise<World> {
  const [markets, weather] = [new ScriptedMarkets(), new ScriptedWeather()];
  const service = await startTestService(noDatabase, {
    env: { CORS_ORIGINS: origin, ...env },
    trading: { markets, weather },
  });
  service.clock.set(NOW);
  markets.clock = weather.clock = service.clock;
  return { service, markets, weather };
}

interface Answer {
  status: number;
  headers: IncomingHttpHeaders;
  bytes: Buffer;
}

function ask(
  { service }: World,
  path: string,
  headers: Record<string, string> = {},
  method = 'GET',
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    request(`${service.url}${path}`, { method, headers, agent: false }, (res) => {
      const chunks: Buffer[] = [];
      res.on('data', (chunk: Buffer) => chunks.push(chunk));
      res.on('end', () =>
        resolve({ status: res.statusCode!, headers: res.headers, bytes: Buffer.concat(chunks) }),
      );
    })
      .on('error', reject)
      .end();
  });
}

const json = ({ bytes }: Answer) => JSON.parse(bytes.toString()) as Record<string, unknown>;
const read = async (world: World, path: string) => json(await ask(world, path));
const tickers = (body: Record<string, unknown>) =>
  (body.markets as { ticker: string }[]).map(({ ticker }) => ticker);
const codeOf = async (world: World, path: string, headers = {}) => {
  const answer = await ask(world, path, headers);
  return [answer.status, json(answer).code];
};

let world: World;
beforeAll(async () => {
  world = await startWorld();
  await world.service.trading.refresher.refresh();
});
afterAll(() => world.service.stop());

const source = (part: string, name: string) => ({
  part,
  name,
  state: 'ok',
  fetchedAt: NOW,
  failingSince: null,
  notes: [],
});
const fresh = {
  asOf: NOW,
  sources: [source('markets', 'scripted'), source('forecasts', 'scripted weather')],
  ageSeconds: 0,
  stale: false,
};

describe('GET /markets', () => {
  it('has exactly the fields of the contract', async () => {
    const body = await read(world, '/markets?station=KNYC');
    expect(body).toEqual({
      markets: [
        {
          ticker: 'KXHIGHNY-26JAN31-T40',
          eventTicker: 'KXHIGHNY-26JAN31',
          seriesTicker: 'KXHIGHNY',
          kind: 'daily_maximum',
          station: 'KNYC',
          city: 'New York',
          measure: 'daily_maximum_temperature',
          date: '2026-01-31',
          hour: null,
          bracket: { kind: 'less', floor: null, cap: 40, unit: 'fahrenheit', label: '39° or below' },
          label: '39° or below',
          problem: null,
          settlement: { source: 'The Weather Company', station: 'KNYC', rulesText: '' },
          status: 'active',
          untradable: null,
          yesBid: '0.4000',
          yesAsk: '0.4300',
          noBid: '0.5700',
          noAsk: '0.6000',
          yesBidSize: 12,
          yesAskSize: 7,
          lastPrice: '0.4100',
          volume: 1200,
          volume24h: 300,
          openInterest: 720,
          openTime: '2026-01-30T05:00:00.000Z',
          closeTime: '2026-02-01T05:00:00.000Z',
          tickSize: '0.0100',
          url: '/dashboard/markets?station=KNYC&date=2026-01-31',
          bookState: 'whole',
          bookAsOf: null,
        },
      ],
      ...fresh,
    });
    expect(marketListSchema.parse(body)).toEqual(body);
  });

  it('has null for missing bids, and the finest step without a price', async () => {
    const [market] = (await read(world, '/markets?status=finalized')).markets as Record<string, unknown>[];
    expect(market).toMatchObject({ yesBid: null, yesAsk: null, noBid: null, noAsk: null, lastPrice: null });
    expect(market).toMatchObject({ yesBidSize: 0, yesAskSize: 0, tickSize: '0.0010' });
  });

  it('lists markets that are not finalized, or those with the requested status and station', async () => {
    const [newYork, settled, denver] = [
      'KXHIGHNY-26JAN31-T40',
      'KXHIGHNY-26JAN31-T39',
      'KXHIGHDEN-26JAN31-B50.5',
    ];
    const found = async (query: string) => tickers(await read(world, `/markets${query}`));
    expect(await found('')).toEqual([newYork, denver]);
    expect(await found('?status=finalized')).toEqual([settled]);
    expect(await found('?status=closed')).toEqual([denver]);
    expect(await found('?station=kden')).toEqual([denver]);
    expect(await found('?station=KNYC&status=closed')).toEqual([]);
    expect(await found('?station=KMIA')).toEqual([]);
  });

  it('refuses unknown values in any encoding', async () => {
    expect(await codeOf(world, '/markets?station=KJFK')).toEqual([404, 'unknown_station']);
    for (const query of [
      'status=open',
      'status=',
      'status=active&status=closed',
      'station=KNYC&station=KDEN',
      'station=',
      'station=K%00YC',
      `station=${'K'.repeat(10_000)}`,
      'station[]=KNYC',
      'other=1',
      '__proto__=1',
    ])
      expect(await codeOf(world, `/markets?${query}`), query.slice(0, 40)).toEqual([400, 'invalid_request']);
  });

  it('answers the same with and without a credential or session cookie', async () => {
    const headers = { authorization: 'Bearer org_live_none', cookie: 'gauge_session=any' };
    expect((await ask(world, '/markets', headers)).status).toBe(200);
  });

  it('shows the rest of the limit, and is never cached by proxies', async () => {
    const { headers } = await ask(world, '/markets');
    expect(headers).toMatchObject({
      'content-type': 'application/json; charset=utf-8',
      'cache-control': 'no-store',
      vary: 'Accept-Encoding, Origin',
      'ratelimit-policy': '"reads"; q=1000000; w=60',
    });
    expect(headers.ratelimit).toMatch(/^"reads"; r=\d+; t=\d+$/);
    expect(headers['x-content-type-options']).toBe('nosniff');
  });
});

describe('all encodings', () => {
  const decoders = { br: brotliDecompressSync, gzip: gunzipSync, identity: (bytes: Buffer) => bytes };

  it.each(['/markets', '/signals', '/forecast/KNYC', '/stations'])(
    'of %s have the same content',
    async (path) => {
      const plain = await ask(world, path);
      expect(plain.headers['content-encoding']).toBeUndefined();
      for (const encoding of ['br', 'gzip', 'identity'] as const) {
        const answer = await ask(world, path, { 'accept-encoding': `${encoding}, *;q=0.1` });
        expect(answer.headers['content-encoding']).toBe(encoding === 'identity' ? undefined : encoding);
        expect(answer.headers['content-length']).toBe(String(answer.bytes.length));
        expect(answer.headers.etag).toBe(plain.headers.etag);
        expect(decoders[encoding](answer.bytes).toString()).toBe(plain.bytes.toString());
      }
    },
  );
});

describe('conditional reads', () => {
  it.each(['/markets', '/markets?station=KNYC', '/signals', '/forecast/KNYC', '/stations'])(
    'of %s answer 304 for a matching ETag',
    async (path) => {
      const { etag } = (await ask(world, path)).headers;
      for (const sent of [etag!, etag!.replace('W/', ''), `"other", ${etag}`, '*']) {
        const answer = await ask(world, path, { 'if-none-match': sent });
        expect([answer.status, answer.bytes.length, answer.headers.etag]).toEqual([304, 0, etag]);
      }
      const asFetchDoes = { 'if-none-match': etag!, 'cache-control': 'no-cache' };
      expect((await ask(world, path, asFetchDoes)).status).toBe(304);
      expect((await ask(world, path, { 'if-none-match': '"other"' })).status).toBe(200);
    },
  );

  it('answer HEAD with the same headers and no body', async () => {
    const whole = await ask(world, '/markets');
    const head = await ask(world, '/markets', {}, 'HEAD');
    expect([head.status, head.bytes.length]).toEqual([200, 0]);
    expect(head.headers['content-length']).toBe(String(whole.bytes.length));
    expect(head.headers.etag).toBe(whole.headers.etag);
  });

  it('distinguish different answers', async () => {
    const paths = [
      '/markets',
      '/markets?station=KNYC',
      '/signals',
      '/signals?bankroll=1',
      '/forecast/KNYC',
      '/stations',
    ];
    const tags = await Promise.all(paths.map(async (path) => (await ask(world, path)).headers.etag));
    expect(new Set(tags).size).toBe(paths.length);
  });
});

describe('GET /forecast/:station', () => {
  it('has the distribution, brackets, observations and inputs of each day', async () => {
    const body = await read(world, '/forecast/knyc');
    expect(forecastSchema.parse(body)).toEqual(body);
    expect(body).toMatchObject({
      station: 'KNYC',
      city: 'New York',
      unit: 'fahrenheit',
      source: 'scripted weather',
      ...fresh,
      forecastAgeSeconds: 0,
    });
    const [day] = body.days as Record<string, unknown>[];
    expect(day).toMatchObject({
      date: '2026-01-31',
      eventTicker: 'KXHIGHNY-26JAN31',
      meanF: 40,
      method: 'raw_ensemble',
      isCalibrated: false,
      modelRunAt: '2026-01-31T06:00:00.000Z',
      fetchedAt: NOW,
      membersF: members,
      models: [
        { model: 'main', weight: 1, meanF: 40, members: members.length, fetchedAt: NOW, reason: null },
      ],
      observedMaximum: { temperatureF: 36.5, observedAt: '2026-01-31T11:51:00.000Z', fetchedAt: NOW },
      isReported: false,
      hourlyMeanF: null,
      running: {
        hour: null,
        observedAt: '2026-01-31T11:51:00.000Z',
        reachedF: 36,
        fit: null,
        fallback: 'no hour of the day has been reported yet',
      },
    });
    const brackets = day!.brackets as { ticker: string; label: string; probability: number }[];
    expect(brackets.map(({ label }) => label)).toEqual(['39° or below', '40° or above']);
    expect(brackets.reduce((sum, { probability }) => sum + probability, 0)).toBeCloseTo(1, 9);
  });

  it('lists each model with run, mean, deviation and weight, and why a model is missing', () => {
    const event = makeEvent({ date: '2026-01-31', lowest: 68 });
    const at = new Date(NOW);
    const part = {
      modelRunAt: at,
      fetchedAt: at,
      membersF: [70],
      rawMeanF: 70,
      meanF: 71,
      deviationF: 2,
      shape: 'logistic' as const,
    };
    const models = [
      { ...part, model: 'main', weight: 0.25, reason: null },
      { ...part, model: 'hrrr', weight: 0.75, reason: null },
      { ...part, model: 'nbm', weight: 0, reason: 'no fit exists yet' },
    ];
    const days = makeForecasts(event, [0, 0, 1, 0, 0, 0], { at, models }).get('KNYC');
    const [day] = toForecastJson(
      { station: findStation('KNYC')!, days, hours: undefined, notes: [], feed: null },
      new Map(),
    ).days;
    expect(day!.models.map(({ model, weight, reason }) => [model, weight, reason])).toEqual([
      ['main', 0.25, null],
      ['hrrr', 0.75, null],
      ['nbm', 0, 'no fit exists yet'],
    ]);
    expect(day!.models[1]).toEqual({
      model: 'hrrr',
      weight: 0.75,
      meanF: 71,
      standardDeviationF: 2,
      rawMeanF: 70,
      members: 1,
      modelRunAt: NOW,
      fetchedAt: NOW,
      reason: null,
    });
  });

  it('shows what was known of a day in progress, when, and which fit continued it', () => {
    const event = { ...makeEvent({ date: '2026-01-31', lowest: 68 }), kind: 'daily_minimum' as const };
    const at = new Date(NOW);
    const fit = {
      ...calibrated.fit,
      hour: 6,
      hurdle: null,
      coefficients: { a: 0.4, b: 0.9, g0: 0.1 },
      stationBiasF: { KNYC: -1.25 },
      stationExtremeBiasF: { KNYC: 0.5 },
    } as unknown as HourFit;
    const curveF = Array.from({ length: 24 }, (_, hour) => 60 + hour);
    const days = makeForecasts(event, [0, 0.12, 0.88, 0, 0, 0], {
      at,
      method: 'same_day',
      curveF,
      distribution: { mean: 70, deviation: 1, atLeast: null, atMost: 71, stays: 0.88, shape: 'logistic' },
      running: {
        hour: 6,
        stays: 0.88,
        fit: { ...fit, kind: 'daily_minimum' },
        fallback: null,
        dayAheadShare: 0.4,
      },
      observed: {
        kind: 'daily_minimum',
        stationId: 'KNYC',
        date: event.date,
        extremeF: 70.7,
        observedAt: at,
        fetchedAt: at,
      },
    }).get('KNYC');
    const station = findStation('KNYC')!;
    const [minimum] = toForecastJson(
      { station, days, hours: undefined, notes: [], feed: null },
      new Map(),
    ).minima;
    expect(minimum).toMatchObject({
      method: 'same_day',
      hourlyMeanF: curveF,
      running: {
        hour: 6,
        observedAt: NOW,
        reachedF: 71,
        peakedProbability: 0.88,
        fallback: null,
        dayAheadShare: 0.4,
        // Fits for minima use negated temperatures; the response restores the signs of the biases.
        fit: {
          id: calibrated.fit.id,
          hour: 6,
          n: 58,
          stationBiasF: 1.25,
          stationExtremeBiasF: -0.5,
          trainingCrps: 1.3,
          rawCrps: 1.7,
        },
      },
    });
    expect(forecastSchema.shape.minima.element.parse(minimum)).toEqual(minimum);
  });

  it('distinguishes an unknown station from one without a forecast', async () => {
    expect(await codeOf(world, '/forecast/KJFK')).toEqual([404, 'unknown_station']);
    expect(await codeOf(world, '/forecast/%01')).toEqual([404, 'unknown_station']);
    expect(await codeOf(world, `/forecast/${'K'.repeat(10_000)}`)).toEqual([404, 'unknown_station']);
    expect(await codeOf(world, '/forecast/KMIA')).toEqual([503, 'market_data_unavailable']);
    expect(await codeOf(world, '/forecast/KNYC?x=1')).toEqual([400, 'invalid_request']);
    expect(await codeOf(world, '/forecast/%E0%A4%A')).toEqual([400, 'invalid_request']);
  });
});

describe('GET /signals', () => {
  it('shows the inputs of sizes for the requested bankroll', async () => {
    const body = await read(world, '/signals');
    expect(signalListSchema.parse(body)).toEqual(body);
    expect(body).toMatchObject({ bankroll: '1000.0000', sizing: 'joint_event', dayCap: 0.2, ...fresh });
    expect(await read(world, '/signals?bankroll=2500.5')).toMatchObject({ bankroll: '2500.5000', ...fresh });
    expect(await read(world, '/signals?bankroll=999999999.99')).toMatchObject({ bankroll: '999999999.9900' });
  });

  it('limits sizing for other bankrolls to a tenth of the reads', async () => {
    const limited = await startWorld({ LIMIT_READS_PER_MINUTE: '20' });
    await limited.service.trading.refresher.refresh();
    for (const bankroll of [1, 2])
      expect(await read(limited, `/signals?bankroll=${bankroll}`)).toMatchObject({
        bankroll: `${bankroll}.0000`,
      });
    expect(await codeOf(limited, '/signals?bankroll=3')).toEqual([429, 'rate_limited']);
    expect(await read(limited, '/signals')).toMatchObject({ bankroll: '1000.0000' });
    limited.service.clock.advance(60_000);
    expect(await read(limited, '/signals?bankroll=3')).toMatchObject({ bankroll: '3.0000' });
  });

  it('refuses an invalid bankroll', async () => {
    for (const bankroll of [
      '0',
      '0.00',
      '-1',
      '1e3',
      '1000000000',
      '1.001',
      '',
      'NaN',
      '%00',
      '9'.repeat(10_000),
      '1&bankroll=2',
    ])
      expect(await codeOf(world, `/signals?bankroll=${bankroll}`), bankroll).toEqual([
        400,
        'invalid_request',
      ]);
  });
});

describe('a signal', () => {
  it('has its market, prices as decimal strings and probabilities as numbers', () => {
    const [market] = makeMarkets();
    const signal: Signal = {
      market: market!,
      side: 'yes',
      price: 430_000n,
      depth: 7,
      probability: 0.6,
      breakEven: 0.4471,
      edge: 0.1529,
      fullKelly: 0.2765,
      fractionalKelly: 0.0691,
      contracts: 7,
      limitPrice: 430_000n,
      averagePrice: 430_000n,
      fee: 120_000n,
      stake: 3_130_000n,
      expectedValue: 1_070_000n,
      worstCase: 3_130_000n,
      rest: {
        price: 410_000n,
        contractsAhead: 0,
        breakEven: 0.41,
        edge: 0.19,
        worthMoreAbove: 0.8,
        problem: null,
      },
      isHedge: false,
      limitedBy: 'depth',
      closing: 0,
      reasons: ['the forecast is warmer'],
      expiresAt: new Date('2026-01-31T12:01:00Z'),
    };
    const suppressed = [
      { ticker: 'KXHIGHNY-26JAN31-T39', side: 'no' as const, reason: 'there are no asks', isWithheld: false },
    ];
    const gate = {
      kind: 'daily_maximum' as const,
      stationId: 'KNYC',
      leadHours: 12,
      isOpen: true,
      n: 62,
      dropped: 1,
      evidence: 412,
      needed: 280,
      difference: { mean: -0.08, low: -0.15, high: -0.01 },
      reason: 'Over 62 days at this lead the forecast was ahead of the market.',
    };
    const event = {
      eventTicker: market!.eventTicker,
      kind: 'daily_maximum' as const,
      stationId: 'KNYC',
      date: '2026-01-31',
      method: 'emos' as const,
      isCalibrated: true,
      gate,
      stake: 3_130_000n,
      worstCase: 3_130_000n,
      growth: 0.0009,
      gap: 1e-12,
    };
    const written = toSignalsJson(
      {
        bankroll: 1_000_000_000n,
        kellyShare: 0.25,
        marketCap: 0.05,
        eventCap: 0.1,
        dayCap: 0.2,
        sizing: 'joint_event',
        events: [
          { ...event, signals: [signal], suppressed },
          {
            ...event,
            gate: { ...gate, isOpen: false, difference: null },
            method: null,
            signals: [],
            suppressed: [],
          },
        ],
      },
      () => ({
        ...toMarketJson(market!, makeBooks().get(market!.ticker)!, 'kalshi'),
        ...toBookStateJson({}, market!.ticker),
      }),
    );
    const body = { ...written, ...fresh };
    expect(signalListSchema.parse(body)).toEqual(body);
    expect(body).toMatchObject({
      bankroll: '1000.0000',
      signals: [
        {
          market: { ticker: 'KXHIGHNY-26JAN31-T40', url: 'https://kalshi.com/markets/kxhighny' },
          side: 'yes',
          price: '0.4300',
          stake: '3.1300',
          expectedValue: '1.0700',
          worstCase: '3.1300',
          rest: { price: '0.4100', contractsAhead: 0, edge: 0.19, worthMoreAbove: 0.8, problem: null },
          probability: 0.6,
          isHedge: false,
          limitedBy: 'depth',
          expiresAt: '2026-01-31T12:01:00.000Z',
        },
      ],
      events: [
        {
          station: 'KNYC',
          city: 'New York',
          method: 'emos',
          isCalibrated: true,
          gate: {
            state: 'open',
            leadHours: 12,
            n: 62,
            difference: -0.08,
            interval: { low: -0.15, high: -0.01 },
            reason: gate.reason,
          },
          signals: 1,
          stake: '3.1300',
          worstCase: '3.1300',
          growth: 0.0009,
          suppressed,
        },
        { method: null, gate: { state: 'closed', difference: null, interval: null }, signals: 0 },
      ],
    });
  });
});

describe('GET /stations', () => {
  it('lists where the series settle, with the evidence', async () => {
    const body = await read(world, '/stations');
    expect(stationListSchema.parse(body)).toEqual(body);
    const list = body.stations as Record<string, unknown>[];
    expect(list).toHaveLength(24);
    expect(list.slice(0, 3).map(({ id }) => id)).toEqual(['KNYC', 'KMDW', 'KMIA']);
    expect(list[0]).toMatchObject({
      report: 'CLINYC',
      series: 'KXHIGHNY',
      minimumSeries: 'KXLOWTNYC',
      evidence: { matched: 251, compared: 252 },
      crossCheck: { maximum: null, minimum: null },
      standardOffsetHours: -5,
    });
    expect(body.areas).toMatchObject([
      { id: 'INDEX-MIAMI', indexId: 'miami', calibration: null, latest: null },
      { id: 'INDEX-NYC' },
      { id: 'INDEX-CHICAGO' },
      { id: 'INDEX-LA-COASTAL' },
    ]);
    expect(list[1]).toMatchObject({ city: 'Chicago', name: 'Midway Airport', evidence: null });
  });
});

describe('reads from other sites', () => {
  const preflight = (path: string, from: string) =>
    ask(
      world,
      path,
      {
        origin: from,
        'access-control-request-method': 'GET',
        'access-control-request-headers': 'if-none-match',
      },
      'OPTIONS',
    );

  it('are allowed for configured origins, which see the relevant headers', async () => {
    for (const path of ['/markets', '/signals', '/forecast/KNYC', '/stations', '/forecast/KJFK']) {
      const { headers } = await ask(world, path, { origin });
      expect(headers['access-control-allow-origin']).toBe(origin);
      expect(headers['access-control-allow-credentials']).toBeUndefined();
      expect(headers['access-control-expose-headers']).toBe(
        'ETag,RateLimit,RateLimit-Policy,Retry-After,X-Request-Id',
      );
      expect(headers.vary).toContain('Origin');
    }
    const allowed = await preflight('/markets', origin);
    expect(allowed.status).toBe(204);
    expect(allowed.headers).toMatchObject({
      'access-control-allow-origin': origin,
      'access-control-allow-methods': 'GET,HEAD',
      'access-control-max-age': '3600',
    });
    expect(allowed.headers['access-control-allow-headers']).toContain('If-None-Match');
  });

  it('are refused for all other origins', async () => {
    for (const other of [
      'https://evil.example',
      'null',
      `${origin}.evil.example`,
      'http://app.example.com',
    ]) {
      expect(
        (await ask(world, '/markets', { origin: other })).headers['access-control-allow-origin'],
      ).toBeUndefined();
      expect((await preflight('/markets', other)).headers['access-control-allow-origin']).toBeUndefined();
    }
  });

  it('do not extend to any other route', async () => {
    for (const path of [
      '/api/usage/events',
      '/trade',
      '/portfolio',
      '/trades',
      '/login',
      '/operator/products/x',
      '/healthz',
    ])
      for (const answer of [await ask(world, path, { origin }), await preflight(path, origin)])
        expect(answer.headers['access-control-allow-origin'], path).toBeUndefined();
  });
});

describe('unknown paths below the reads', () => {
  it('answer 404, and other methods 405, as problem JSON', async () => {
    for (const path of ['/markets/x', '/forecast', '/stations/KNYC', '/stream/x'])
      expect(await codeOf(world, path)).toEqual([404, 'not_found']);
    const posted = await ask(world, '/markets', {}, 'POST');
    expect([posted.status, json(posted).code]).toEqual([405, 'method_not_allowed']);
    expect(posted.headers.allow).toBe('GET, HEAD');
    expect(posted.headers['content-type']).toMatch(/^application\/problem\+json/);
  });
});

describe('the limit per address', () => {
  it('refuses further reads, and gives the seconds until the next', async () => {
    const limited = await startWorld({ LIMIT_READS_PER_MINUTE: '3' });
    await limited.service.trading.refresher.refresh();
    expect(readConfig({}).limits.readsPerMinute).toBe(600);
    for (const path of ['/markets', '/stations', '/signals'])
      expect((await ask(limited, path)).status).toBe(200);
    limited.service.clock.advance(20_000);
    const refused = await ask(limited, '/markets', { origin });
    expect([refused.status, json(refused).code]).toEqual([429, 'rate_limited']);
    expect(refused.headers).toMatchObject({
      'retry-after': '40',
      ratelimit: '"reads"; r=0; t=40',
      'access-control-allow-origin': origin,
    });
    expect((await ask(limited, '/healthz')).status).toBe(200);
    limited.service.clock.advance(40_000);
    expect((await ask(limited, '/markets')).status).toBe(200);
    await limited.service.stop();
  });

  it('counts a customer’s IPv6 network as one address', async () => {
    const limited = await startWorld({ LIMIT_READS_PER_MINUTE: '1', TRUST_PROXY: '1' });
    const from = async (address: string) =>
      (await ask(limited, '/stations', { 'x-forwarded-for': address })).status;
    expect(await from('2001:db8:0:1::1')).toBe(200);
    expect(await from('2001:db8:0:1:ffff::2')).toBe(429);
    expect(await from('2001:db8:0:2::1')).toBe(200);
    await limited.service.stop();
  });
});

describe('freshness', () => {
  it('updates every second on shared bytes, and turns stale after 30 seconds', async () => {
    const own = await startWorld();
    await own.service.trading.refresher.refresh();
    const first = await ask(own, '/markets', { 'accept-encoding': 'br' });
    for (const [ms, ageSeconds, stale] of [
      [999, 0, false],
      [28_001, 29, false],
      [1_000, 30, false],
      [1, 30, true],
      [999, 31, true],
    ] as const) {
      own.service.clock.advance(ms);
      for (const path of ['/markets', '/signals', '/forecast/KNYC'])
        expect(await read(own, path)).toMatchObject({ asOf: NOW, ageSeconds, stale });
    }
    // A client that revalidates an earlier copy learns that the data is stale.
    const changed = await ask(own, '/markets', { 'if-none-match': first.headers.etag! });
    expect(changed.status).toBe(200);
    expect((await ask(own, '/markets', { 'if-none-match': changed.headers.etag! })).status).toBe(304);
    await own.service.stop();
  });

  it('keeps the last good part of a failing source, reports it, and recovers when the source answers', async () => {
    const own = await startWorld();
    const { refresher } = own.service.trading;
    await refresher.refresh();
    const { etag } = (await ask(own, '/markets')).headers;
    own.markets.behaviour = new UnexpectedAnswerError('/markets', 'secret.internal.host: no JSON');
    own.service.clock.advance(31_000);
    await refresher.refresh();
    const kept = await ask(own, '/markets', { 'if-none-match': etag! });
    expect(kept.status).toBe(200);
    expect(kept.bytes.toString()).not.toContain('secret');
    expect(json(kept)).toMatchObject({
      asOf: NOW,
      ageSeconds: 31,
      stale: true,
      sources: [
        { part: 'markets', state: 'unexpected', fetchedAt: NOW, failingSince: '2026-01-31T12:00:31.000Z' },
        { part: 'forecasts', state: 'ok', fetchedAt: '2026-01-31T12:00:31.000Z', failingSince: null },
      ],
    });
    expect(tickers(json(kept))).toHaveLength(2);
    own.markets.behaviour = 'answer';
    await refresher.refresh();
    expect(await read(own, '/markets')).toMatchObject({
      ageSeconds: 0,
      stale: false,
      sources: [{ state: 'ok', failingSince: null }, { state: 'ok' }],
    });
    await own.service.stop();
  });

  it('says on /forecast why a model is left out, and forecasts with the others', async () => {
    const own = await startWorld();
    const { clock, trading } = own.service;
    const mesonet = createServer((_req, res) => void res.end('Service overloaded')).listen(0, '127.0.0.1');
    await once(mesonet, 'listening');
    const baseUrl = `http://127.0.0.1:${(mesonet.address() as AddressInfo).port}`;
    const bulletins = createStationBulletins({ baseUrl, clock });
    own.weather.notes = (await bulletins.read(AbortSignal.timeout(10_000))).notes;
    mesonet.close();
    await trading.refresher.refresh();
    const { days, sources } = await read(own, '/forecast/KNYC');
    expect(days).toMatchObject([{ date: '2026-01-31', models: [{ model: 'main', weight: 1 }] }]);
    expect(sources).toMatchObject([
      {},
      {
        notes: [
          {
            kind: 'missing_model',
            name: 'nbs',
            example: expect.stringContaining('Service overloaded') as string,
          },
        ],
      },
    ]);
    await own.service.stop();
  });

  it("names a station's doubtful reports on its own /forecast", async () => {
    const own = await startWorld();
    const note = { kind: 'doubtful_report' as const, count: 1, example: '2026-01-31T14:51Z: 93.9 °F' };
    own.weather.notes = [
      { ...note, name: 'KNYC' },
      { ...note, name: 'KMIA' },
    ];
    await own.service.trading.refresher.refresh();
    expect((await read(own, '/forecast/KNYC'))['notes']).toEqual([{ ...note, name: 'KNYC' }]);
    await own.service.stop();
  });

  it('is 503 with Retry-After until the first load, except for stations', async () => {
    const own = await startWorld();
    own.markets.behaviour = new Error('down');
    await own.service.trading.refresher.refresh();
    for (const path of ['/markets', '/signals', '/forecast/KNYC']) {
      const answer = await ask(own, path);
      expect([answer.status, json(answer).code, answer.headers['retry-after']]).toEqual([
        503,
        'market_data_unavailable',
        '5',
      ]);
    }
    expect((await ask(own, '/stations')).status).toBe(200);
    expect((await ask(own, '/readyz')).status).toBe(503);
    await own.service.stop();
  });

  it('never waits for a source', async () => {
    const own = await startWorld();
    await own.service.trading.refresher.refresh();
    own.markets.behaviour = 'hang';
    void own.service.trading.refresher.refresh();
    expect((await ask(own, '/markets')).status).toBe(200);
    await own.service.stop();
  });
});

describe('a serialised snapshot', () => {
  it('serves all readers the same bytes until the next refresh', async () => {
    const own = await startWorld();
    const { refresher } = own.service.trading;
    await refresher.refresh();
    const [a, b] = [await ask(own, '/markets'), await ask(own, '/markets')];
    expect(a.bytes.equals(b.bytes)).toBe(true);
    own.service.clock.advance(30_000);
    await refresher.refresh();
    const c = await ask(own, '/markets');
    expect(c.headers.etag).not.toBe(a.headers.etag);
    expect(json(c)).toMatchObject({ asOf: '2026-01-31T12:00:30.000Z', ageSeconds: 0 });
    await own.service.stop();
  });
});
