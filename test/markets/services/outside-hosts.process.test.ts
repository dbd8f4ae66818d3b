import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterAll, afterEach, beforeAll, expect, inject, it, vi } from 'vitest';
import { readConfig } from '../../../src/config.js';
import type { Job } from '../../../src/core/db/jobs.js';
import { FREE_FORECASTS, marketsConfig, type TradingConfig } from '../../../src/markets/config.js';
import { readVenueKey } from '../../../src/markets/live/sign.js';
import { createSources } from '../../../src/markets/services/sources.js';
import { bookingJobs, tradingJobs } from '../../../src/markets/services/services.js';
import { checkVenue } from '../../../src/markets/venue/check-venue.js';
import { createKalshiClient } from '../../../src/markets/venue/kalshi-client.js';
import { createVenueBudget } from '../../../src/markets/venue/venue-budget.js';
import { keyFile, member, newBook, removeKeys, TICKER } from '../support/live-account.js';
import { startService } from '../../../src/service.js';
import { createOrganization } from '../../support/fixtures.js';
import { startTestService } from '../../support/service.js';
import { startFakeVenue, wireMarket, type FakeVenue } from '../support/fake-venue.js';
import { startFakeWeather, type FakeWeather } from '../support/forecast-fake-weather.js';
import { useDatabase } from '../../support/use.js';

// This test makes hundreds of requests to servers on this machine.

const database = useDatabase();
let venue: FakeVenue;
/** One server per host, so that the test can tell which hosts are queried. */
let weather: Record<'ensembles' | 'runs' | 'nws' | 'model', FakeWeather>;
beforeAll(async () => {
  venue = await startFakeVenue();
  weather = {
    ensembles: await startFakeWeather(),
    runs: await startFakeWeather(),
    nws: await startFakeWeather(),
    model: await startFakeWeather(),
  };
});
afterEach(() => vi.restoreAllMocks());
afterAll(async () => {
  await venue.stop();
  for (const server of Object.values(weather)) await server.stop();
  removeKeys();
});

/**
 * Records the hosts of all connections of this process, whichever library opens them. Connections that would leave the
 * machine fail.
 */
function watchConnections(): Set<string> {
  const hosts = new Set<string>();
  const connect = Reflect.get(Socket.prototype, 'connect') as (...args: unknown[]) => Socket;
  vi.spyOn(Socket.prototype, 'connect').mockImplementation(function (this: Socket, ...args: unknown[]) {
    // Node's own callers pass the arguments as one array.
    const [options] = (Array.isArray(args[0]) ? args[0] : args) as [{ host?: string; path?: string }];
    const host = options.path ?? options.host ?? 'localhost';
    hosts.add(host);
    if (!/^(127\.0\.0\.1|localhost|\/.*)$/.test(host)) {
      // Deferred, because the caller adds its error listener only after this returns.
      process.nextTick(() => this.destroy(new Error(`a connection to ${host}`)));
      return this;
    }
    return Reflect.apply(connect, this, args);
  });
  return hosts;
}

const urlsIn = (value: unknown): string[] => {
  if (typeof value === 'string') return /^(https?|wss?):/.test(value) ? [value] : [];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(urlsIn) : [];
};

it('no job, backfill or check contacts a default host once all hosts are overridden', async () => {
  const hosts = watchConnections();
  const organization = await createOrganization(database.db);
  venue.exchange.member = member;
  const close = { close_time: '2026-07-05T05:00:00Z' };
  venue.markets = [wireMarket('KXHIGHNY-26JUL04', { floor: 80, cap: 81 }, close)];
  venue.books.set(TICKER, newBook());
  const urls: Record<string, string> = {
    KALSHI_BASE_URL: venue.url,
    KALSHI_WS_URL: venue.url.replace(/^http(.*)\/v2$/, 'ws$1/ws/v2'),
    OPEN_METEO_BASE_URL: weather.ensembles.url,
    OPEN_METEO_HISTORY_BASE_URL: weather.runs.url,
    NWS_BASE_URL: weather.nws.url,
    MESONET_BASE_URL: weather.nws.url,
    MODEL_URL: `${weather.model.url}/forecasts`,
  };
  expect(Object.keys(urls).toSorted()).toEqual(
    marketsConfig.names.filter((name) => name.endsWith('_URL')).toSorted(),
  );
  const service = await startTestService(database.db, {
    env: {
      MARKET_SOURCE: 'kalshi',
      ...urls,
      OPEN_METEO_API_KEY: 'abcDEF123456',
      KALSHI_SERIES: 'KXHIGHNY',
      KALSHI_KEY_ID: member.keyId,
      KALSHI_PRIVATE_KEY_FILE: keyFile('member'),
      LIVE_TRADING: 'on',
      LIVE_TRADING_ORG: organization.slug,
    },
  });
  const { context, trading, clock } = service;
  try {
    clock.set('2026-07-04T15:00:00Z');
    venue.exchange.now = clock.now;
    const config: TradingConfig = context.config.trading;
    expect(urlsIn(config).length).toBeGreaterThanOrEqual(Object.keys(urls).length);
    for (const url of urlsIn(config)) expect(new URL(url).hostname).toBe('127.0.0.1');

    const jobs: Job[] = [...tradingJobs(context, trading), ...bookingJobs(trading)];
    expect(jobs.map(({ name }) => name)).toEqual(
      expect.arrayContaining(['refresh-markets', 'reconcile-live', 'read-climate-reports', 'settle-markets']),
    );
    // Runs the jobs in order, starting with the refresh.
    for (const { run } of jobs) await run();
    expect(trading.snapshots.current?.data.markets.length).toBeGreaterThan(0);
    // The stream connects in the background.
    await expect.poll(() => venue.stream.handshakes.length).toBeGreaterThan(0);

    const { log } = context;
    const signal = new AbortController().signal;
    const key = readVenueKey(config.kalshi, log);
    const budget = createVenueBudget();
    const range = { from: '2026-07-01', to: '2026-07-02' };
    const sources = createSources({ config, key, budget, clock, log });
    await sources.weather.history!.readRuns(range, signal);
    await sources.markets.history!.readSettledDays(range, signal);
    const modelled = { ...config, forecastSource: 'http' as const };
    const model = createSources({ config: modelled, key, budget, clock, log });
    await expect(model.weather.read(signal)).rejects.toThrow(/\/forecasts: status 404/);
    const client = createKalshiClient({ baseUrl: config.kalshi.baseUrl, budget });
    await checkVenue({ client, clock }, () => undefined, signal);
  } finally {
    await service.stop();
  }
  expect([...hosts]).toEqual(['127.0.0.1']);
  const isAsked = (server: FakeWeather, part: string) =>
    server.requests.some(({ path }) => path.startsWith(part));
  expect(isAsked(weather.ensembles, '/v1/ensemble?')).toBe(true);
  expect(isAsked(weather.runs, '/v1/forecast?')).toBe(true);
  expect(isAsked(weather.nws, '/stations/KNYC/observations')).toBe(true);
  expect(isAsked(weather.nws, '/products/types/CLI/locations/')).toBe(true);
  expect(isAsked(weather.model, '/forecasts')).toBe(true);
  for (const part of ['/markets?', '/live_data/weather/', '/portfolio/balance', '/series?'])
    expect(
      venue.requests.some((path) => path.startsWith(`/trade-api/v2${part}`)),
      part,
    ).toBe(true);
});

it('a start on the free service of Open-Meteo queries its host, and says who needs a subscription', async () => {
  const hosts = watchConnections();
  const folder = mkdtempSync(join(tmpdir(), 'gauge-free-'));
  const dataDir = join(folder, 'data');
  cpSync(inject('embeddedTemplate'), dataDir, { recursive: true });
  const lines: string[] = [];
  const log = pino({ level: 'info' }, { write: (line) => lines.push(line) });
  const config = readConfig({
    NODE_ENV: 'test',
    PORT: '0',
    DATA_DIR: dataDir,
    MARKET_SOURCE: 'kalshi',
    KALSHI_BASE_URL: venue.url,
    NWS_BASE_URL: weather.nws.url,
  });
  try {
    const service = await startService(config, { log, accessLog: log });
    await expect.poll(() => [...hosts]).toContain('ensemble-api.open-meteo.com');
    await service.stop();
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  const messages = lines.map((line) => JSON.parse(line) as { level: number; msg: string });
  expect(messages.filter(({ msg }) => msg === FREE_FORECASTS)).toMatchObject([{ level: 30 }]);
});
