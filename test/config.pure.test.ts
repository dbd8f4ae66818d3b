import { readFileSync } from 'node:fs';
import { parseEnv } from 'node:util';
import express from 'express';
import { describe, expect, it } from 'vitest';
import { singleSignOnConfig } from '../src/accounts/identity/single-sign-on/config.js';
import { ConfigError, unreadableCredentials } from '../src/core/config.js';
import { readConfig } from '../src/config.js';
import { products } from '../src/products.js';

function problemsOf(env: Record<string, string | undefined>): string[] {
  try {
    readConfig(env);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return error.message.split('\n').slice(1);
  }
  return [];
}

const sessionKey = 'a-key-of-sixteen-or-more';
const production = {
  NODE_ENV: 'production',
  SESSION_KEYS: sessionKey,
  SECRET_KEYS: sessionKey,
  TRUST_PROXY: '1',
  PUBLIC_URL: 'https://gauge.example.com',
};

describe('the configuration', () => {
  it('needs no settings to try the service, which then listens only on this machine', () => {
    expect(readConfig({})).toEqual({
      production: false,
      hasMarkets: true,
      firstMarketAccess: 'trade',
      port: 3000,
      host: '127.0.0.1',
      healthPort: undefined,
      keepAliveMs: 65_000,
      databaseUrl: undefined,
      migrationDatabaseUrl: undefined,
      dataDir: './data',
      redisUrl: undefined,
      sessionKeys: undefined,
      secretKeys: ['a key for trying gauge'],
      secrets: [],
      webhooksAllowPrivate: false,
      webhooksUseProxy: false,
      auditExport: undefined,
      operatorTokens: [],
      metricsToken: undefined,
      publicUrl: undefined,
      portalOrigins: [],
      mail: undefined,
      singleSignOn: undefined,
      trustProxy: false,
      logLevel: 'info',
      corsOrigins: [],
      trading: {
        marketSource: 'simulated',
        kalshi: {
          baseUrl: 'https://external-api.kalshi.com/trade-api/v2',
          wsUrl: 'wss://external-api-ws.kalshi.com/trade-api/ws/v2',
          keyId: undefined,
          privateKeyFile: undefined,
          series: undefined,
        },
        forecastSource: 'simulated',
        openMeteoBaseUrl: 'https://ensemble-api.open-meteo.com',
        openMeteoHistoryBaseUrl: 'https://previous-runs-api.open-meteo.com',
        openMeteoApiKey: undefined,
        hasFreeForecasts: false,
        modelUrl: undefined,
        hasStationForecasts: true,
        mesonetBaseUrl: 'https://mesonet.agron.iastate.edu',
        nwsBaseUrl: 'https://api.weather.gov',
        paperCash: 1_000_000_000n,
        paperLatencyMs: 250,
        tapeFile: undefined,
        liveOrg: undefined,
        refreshSeconds: 30,
      },
      limits: {
        usagePerMinute: 600,
        entitlementsPerMinute: 1200,
        keyChangesPerHour: 10,
        servicePerMinute: 6_000,
        readsPerMinute: 600,
        tradingPerMinute: 600,
        documentsPerMinute: 300,
        dashboardPerMinute: 300,
        connections: {
          connections: 10_000,
          connectionsPerAddress: 4_000,
          bufferedBytes: 64 * 1024 * 1024,
        },
      },
    });
  });

  it.each([
    [{ NODE_ENV: 'development' }, true],
    [{ NODE_ENV: 'development', MARKETS: 'off' }, false],
    [{ MARKETS: 'off', MARKET_SOURCE: 'kalshi' }, false],
    [{}, false],
    [{ MARKETS: 'on' }, true],
    [{ MARKET_SOURCE: 'simulated' }, true],
    [{ MARKET_SOURCE: '' }, false],
  ])('has markets if %j asks for them', (env, hasMarkets) => {
    expect(readConfig({ ...production, ...env }).hasMarkets).toBe(hasMarkets);
  });

  it.each(['production', 'development'])('listens only on this machine by default: %s', (NODE_ENV) => {
    expect(readConfig({ ...production, NODE_ENV }).host).toBe('127.0.0.1');
    expect(readConfig({ ...production, NODE_ENV, HOST: '0.0.0.0' }).host).toBe('0.0.0.0');
  });

  it('accepts every variable', () => {
    const config = readConfig({
      NODE_ENV: 'production',
      PORT: '8080',
      HEALTH_PORT: '8081',
      KEEP_ALIVE_SECONDS: '620',
      HOST: '::1',
      DATABASE_URL: 'postgresql://gauge:secret@db:5432/gauge?sslmode=require',
      MIGRATION_DATABASE_URL: 'postgresql://owner:secret@db:5432/gauge?sslmode=require',
      DATA_DIR: '/var/lib/gauge',
      REDIS_URL: 'rediss://:secret@redis:6380/1',
      SESSION_KEYS: `newest-${sessionKey}, older-${sessionKey}`,
      SECRET_KEYS: `newest-${sessionKey}`,
      AUDIT_EXPORT: 'https://heads.example.com/gauge',
      AUDIT_EXPORT_SCHEDULE: '0 0 * * * *',
      OPERATOR_TOKEN: 'x'.repeat(32),
      OPERATOR_TOKENS: `billing:${'b'.repeat(32)}, billing:o:${'c'.repeat(32)}`,
      METRICS_TOKEN: 'y'.repeat(32),
      PUBLIC_URL: 'https://gauge.example.com',
      PORTAL_ORIGINS: 'https://app.example.com, http://localhost:5173',
      SMTP_URL: 'smtps://robot%40example.com:p%2Fw@mail.example.com:465',
      MAIL_FROM: 'Gauge, Inc. <gauge@example.com>',
      TRUST_PROXY: '2',
      LOG_LEVEL: 'warn',
      CORS_ORIGINS: 'https://app.example.com, http://localhost:5173',
      MARKETS: 'on',
      MARKET_SOURCE: 'kalshi',
      KALSHI_BASE_URL: 'https://external-api.demo.kalshi.co/trade-api/v2/',
      KALSHI_KEY_ID: 'key-id',
      KALSHI_PRIVATE_KEY_FILE: '/secrets/kalshi.pem',
      KALSHI_SERIES: 'KXHIGHNY, KXHIGHMIA',
      FORECAST_SOURCE: 'openmeteo',
      OPEN_METEO_BASE_URL: 'https://weather.example.com/',
      OPEN_METEO_HISTORY_BASE_URL: 'https://runs.example.com/',
      OPEN_METEO_API_KEY: 'key-of-a-subscription',
      MODEL_URL: 'https://model.example.com/highs?key=1',
      NWS_BASE_URL: 'https://nws.example.com',
      MESONET_BASE_URL: 'https://mesonet.example.com/',
      STATION_FORECASTS: 'off',
      PAPER_CASH: '250.5',
      PAPER_LATENCY_MS: '0',
      TAPE_FILE: '/tapes/markets.tape.gz',
      LIVE_TRADING: 'on',
      LIVE_TRADING_ORG: 'acme',
      REFRESH_SECONDS: '15',
      LIMIT_USAGE_PER_MINUTE: '1',
      LIMIT_ENTITLEMENTS_PER_MINUTE: '2',
      LIMIT_KEY_CHANGES_PER_HOUR: '3',
      LIMIT_SERVICE_PER_MINUTE: '10',
      LIMIT_READS_PER_MINUTE: '4',
      LIMIT_TRADING_PER_MINUTE: '5',
      LIMIT_DOCUMENTS_PER_MINUTE: '6',
      LIMIT_DASHBOARD_PER_MINUTE: '7',
      LIMIT_CONNECTIONS: '8',
      LIMIT_CONNECTIONS_PER_ADDRESS: '9',
      LIMIT_BUFFERED_MB: '10',
      DEDUPE_HORIZON_MONTHS: '13',
      WEBHOOK_ALLOW_PRIVATE: 'on',
      WEBHOOK_PROXY: 'on',
      HTTP_PROXY: 'http://proxy.example.com:3128',
      HTTPS_PROXY: 'https://proxy.example.com:3128',
      NO_PROXY: '*',
      STRIPE_API_KEY: 'rk_test_0123456789',
    });
    expect(config).toEqual({
      production: true,
      hasMarkets: true,
      firstMarketAccess: 'none',
      port: 8080,
      healthPort: 8081,
      keepAliveMs: 620_000,
      host: '::1',
      databaseUrl: 'postgresql://gauge:secret@db:5432/gauge?sslmode=require',
      migrationDatabaseUrl: 'postgresql://owner:secret@db:5432/gauge?sslmode=require',
      dataDir: '/var/lib/gauge',
      redisUrl: 'rediss://:secret@redis:6380/1',
      sessionKeys: [`newest-${sessionKey}`, `older-${sessionKey}`],
      secretKeys: [`newest-${sessionKey}`],
      secrets: [
        `newest-${sessionKey}`,
        `older-${sessionKey}`,
        'x'.repeat(32),
        `billing:${'b'.repeat(32)}`,
        'b'.repeat(32),
        `billing:o:${'c'.repeat(32)}`,
        `o:${'c'.repeat(32)}`,
        'y'.repeat(32),
        'key-of-a-subscription',
        'rk_test_0123456789',
      ],
      stripe: { key: 'rk_test_0123456789', livemode: false, url: 'https://api.stripe.com' },
      webhooksAllowPrivate: true,
      webhooksUseProxy: true,
      auditExport: { target: 'https://heads.example.com/gauge', schedule: '0 0 * * * *' },
      operatorTokens: [
        { actor: 'operator', token: 'x'.repeat(32) },
        { actor: 'operator:billing', token: 'b'.repeat(32) },
        { actor: 'operator:billing', token: `o:${'c'.repeat(32)}` },
      ],
      metricsToken: 'y'.repeat(32),
      publicUrl: 'https://gauge.example.com',
      portalOrigins: ['https://app.example.com', 'http://localhost:5173'],
      mail: {
        host: 'mail.example.com',
        port: 465,
        tls: 'implicit',
        auth: { user: 'robot@example.com', pass: 'p/w' },
        from: { name: 'Gauge, Inc.', address: 'gauge@example.com' },
        origin: 'https://gauge.example.com',
        secretKeys: [`newest-${sessionKey}`],
      },
      trustProxy: 2,
      logLevel: 'warn',
      dedupeHorizonMonths: 13,
      corsOrigins: ['https://app.example.com', 'http://localhost:5173'],
      trading: {
        marketSource: 'kalshi',
        kalshi: {
          baseUrl: 'https://external-api.demo.kalshi.co/trade-api/v2',
          wsUrl: 'wss://external-api-ws.demo.kalshi.co/trade-api/ws/v2',
          keyId: 'key-id',
          privateKeyFile: '/secrets/kalshi.pem',
          series: ['KXHIGHNY', 'KXHIGHMIA'],
        },
        forecastSource: 'openmeteo',
        openMeteoBaseUrl: 'https://weather.example.com',
        openMeteoHistoryBaseUrl: 'https://runs.example.com',
        openMeteoApiKey: 'key-of-a-subscription',
        hasFreeForecasts: false,
        modelUrl: 'https://model.example.com/highs?key=1',
        hasStationForecasts: false,
        mesonetBaseUrl: 'https://mesonet.example.com',
        nwsBaseUrl: 'https://nws.example.com',
        paperCash: 250_500_000n,
        paperLatencyMs: 0,
        tapeFile: '/tapes/markets.tape.gz',
        liveOrg: 'acme',
        refreshSeconds: 15,
      },
      limits: {
        usagePerMinute: 1,
        entitlementsPerMinute: 2,
        keyChangesPerHour: 3,
        servicePerMinute: 10,
        readsPerMinute: 4,
        tradingPerMinute: 5,
        documentsPerMinute: 6,
        dashboardPerMinute: 7,
        connections: { connections: 8, connectionsPerAddress: Infinity, bufferedBytes: 10 * 1024 * 1024 },
      },
    });
  });

  it('lists every problem at once, by the name of its variable', () => {
    const problems = problemsOf({
      NODE_ENV: 'prod',
      PORT: 'http',
      DATABASE_URL: 'mysql://db/gauge',
      REDIS_URL: 'redis',
      SESSION_KEYS: 'one,,two',
      OPERATOR_TOKEN: 'x'.repeat(31),
      TRUST_PROXY: 'yes',
      LOG_LEVEL: 'loud',
      LIMIT_USAGE_PER_MINUTE: '0',
      LIMIT_ENTITLEMENTS_PER_MINUTE: '1.5',
      LIMIT_KEY_CHANGES_PER_HOUR: '-1',
    });
    expect(problems.map((line) => line.replace(/^ {2}- (\w+): .+$/, '$1'))).toEqual([
      'NODE_ENV',
      'PORT',
      'DATABASE_URL',
      'REDIS_URL',
      'SESSION_KEYS',
      'OPERATOR_TOKEN',
      'TRUST_PROXY',
      'LOG_LEVEL',
      'LIMIT_KEY_CHANGES_PER_HOUR',
      'LIMIT_USAGE_PER_MINUTE',
      'LIMIT_ENTITLEMENTS_PER_MINUTE',
    ]);
    expect(problems).toContain('  - OPERATOR_TOKEN: must have at least 32 characters');
    expect(problems).toContain('  - REDIS_URL: must be a URL like redis://host:6379');
  });

  it('limits the connections of an address only if they are the client’s own', () => {
    const limitOf = (env: Record<string, string>) =>
      readConfig({ LIMIT_CONNECTIONS_PER_ADDRESS: '9', ...env }).limits.connections.connectionsPerAddress;
    expect([limitOf({}), limitOf({ TRUST_PROXY: 'false' }), limitOf({ TRUST_PROXY: '0' })]).toEqual([
      9, 9, 9,
    ]);
    expect([limitOf({ TRUST_PROXY: '1' }), limitOf({ TRUST_PROXY: 'loopback' })]).toEqual([
      Infinity,
      Infinity,
    ]);
  });

  it.each([
    [{ MARKET_SOURCE: 'polymarket' }, 'MARKET_SOURCE'],
    [{ KALSHI_SERIES: 'KXHIGHNY,not a series' }, 'KALSHI_SERIES'],
    [{ KALSHI_KEY_ID: 'id' }, 'KALSHI_KEY_ID, KALSHI_PRIVATE_KEY_FILE'],
    [{ CORS_ORIGINS: '*' }, 'CORS_ORIGINS'],
    [{ CORS_ORIGINS: 'https://app.example.com/' }, 'CORS_ORIGINS'],
    [{ CORS_ORIGINS: 'null' }, 'CORS_ORIGINS'],
    [{ OPERATOR_TOKENS: 'x'.repeat(40) }, 'OPERATOR_TOKENS'],
    [{ OPERATOR_TOKENS: 'billing:short' }, 'OPERATOR_TOKENS'],
    [{ AUDIT_EXPORT: 'http://heads.example.com/' }, 'AUDIT_EXPORT'],
    [{ HEALTH_PORT: '70000' }, 'HEALTH_PORT'],
    [{ KEEP_ALIVE_SECONDS: '0' }, 'KEEP_ALIVE_SECONDS'],
    [{ AUDIT_EXPORT_SCHEDULE: 'daily' }, 'AUDIT_EXPORT_SCHEDULE'],
    [{ STRIPE_API_KEY: 'pk_live_0123456789' }, 'STRIPE_API_KEY'],
    [{ STRIPE_URL: 'stripe' }, 'STRIPE_URL'],
    [{ PAPER_CASH: '-5' }, 'PAPER_CASH'],
    [{ PAPER_CASH: '10.005' }, 'PAPER_CASH'],
    [{ PAPER_LATENCY_MS: '-1' }, 'PAPER_LATENCY_MS'],
    [{ PAPER_LATENCY_MS: '10001' }, 'PAPER_LATENCY_MS'],
    [{ MARKETS: 'maybe' }, 'MARKETS'],
    [{ REFRESH_SECONDS: '45' }, 'REFRESH_SECONDS'],
    [{ REFRESH_SECONDS: '120' }, 'REFRESH_SECONDS'],
    [{ MARKET_SOURCE: 'kalshi', FORECAST_SOURCE: 'simulated' }, 'FORECAST_SOURCE'],
    [{ FORECAST_SOURCE: 'openmeteo' }, 'FORECAST_SOURCE'],
    [{ FORECAST_SOURCE: 'http' }, 'MODEL_URL'],
    [{ MARKET_SOURCE: 'kalshi', FORECAST_SOURCE: 'http', MODEL_URL: '' }, 'MODEL_URL'],
    [{ FORECAST_SOURCE: 'http', MODEL_URL: 'ftp://model' }, 'MODEL_URL'],
  ])('refuses %j', (env, name) => {
    const problems = problemsOf(env);
    expect(problems.map((line) => line.slice(4).split(': ')[0])).toEqual([name]);
  });

  it('never combines a forecast of the simulated world with real markets, whatever is omitted', () => {
    expect(readConfig({ MARKET_SOURCE: 'kalshi' }).trading.forecastSource).toBe('openmeteo');
    expect(readConfig({}).trading.forecastSource).toBe('simulated');
  });

  it('allows a custom model for either world', () => {
    const env = { FORECAST_SOURCE: 'http', MODEL_URL: 'http://127.0.0.1:8080/' };
    for (const MARKET_SOURCE of ['simulated', 'kalshi'])
      expect(readConfig({ ...env, MARKET_SOURCE }).trading).toMatchObject({
        forecastSource: 'http',
        modelUrl: 'http://127.0.0.1:8080/',
      });
  });

  it('live trading requires real markets, an Organization, a key of the venue and the switch', () => {
    const env = {
      MARKET_SOURCE: 'kalshi',
      KALSHI_KEY_ID: 'id',
      KALSHI_PRIVATE_KEY_FILE: '/key.pem',
      LIVE_TRADING: 'on',
      LIVE_TRADING_ORG: 'acme',
    };
    expect(readConfig(env).trading.liveOrg).toBe('acme');
    expect(readConfig({ ...env, LIVE_TRADING: 'off' }).trading.liveOrg).toBeUndefined();
    expect(problemsOf({ LIVE_TRADING: 'on' })).toHaveLength(3);
    for (const name of ['MARKET_SOURCE', 'KALSHI_KEY_ID', 'KALSHI_PRIVATE_KEY_FILE', 'LIVE_TRADING_ORG'])
      expect(problemsOf({ ...env, [name]: '' }).join(' ')).toContain(name);
  });

  it('the key of an Open-Meteo subscription selects its hosts, and the free hosts are refused beside it', () => {
    const real = { MARKET_SOURCE: 'kalshi' };
    const subscribed = { ...real, OPEN_METEO_API_KEY: 'abcDEF123456' };
    expect(readConfig(real).trading.hasFreeForecasts).toBe(true);
    expect(readConfig(subscribed).trading).toMatchObject({
      openMeteoBaseUrl: 'https://customer-ensemble-api.open-meteo.com',
      openMeteoHistoryBaseUrl: 'https://customer-previous-runs-api.open-meteo.com',
      openMeteoApiKey: 'abcDEF123456',
      hasFreeForecasts: false,
    });
    const own = { OPEN_METEO_BASE_URL: 'http://127.0.0.1:8080' };
    // One of the two hosts still belongs to the free service.
    expect(readConfig({ ...real, ...own }).trading.hasFreeForecasts).toBe(true);
    const all = { ...own, OPEN_METEO_HISTORY_BASE_URL: 'http://127.0.0.1:8081' };
    expect(readConfig({ ...real, ...all }).trading.hasFreeForecasts).toBe(false);
    expect(readConfig({ ...subscribed, ...all }).trading).toMatchObject({
      openMeteoBaseUrl: 'http://127.0.0.1:8080',
      openMeteoHistoryBaseUrl: 'http://127.0.0.1:8081',
      openMeteoApiKey: 'abcDEF123456',
    });
    expect(
      problemsOf({ ...subscribed, OPEN_METEO_BASE_URL: 'https://ensemble-api.open-meteo.com/' }),
    ).toEqual([
      '  - OPEN_METEO_BASE_URL: must be left out, or https://customer-ensemble-api.open-meteo.com, if OPEN_METEO_API_KEY is set, because the free host accepts no key',
    ]);
    for (const key of ['short', 'a key of words', '"abcDEF123456"'])
      expect(problemsOf({ OPEN_METEO_API_KEY: key }).join()).toMatch(/^ {2}- OPEN_METEO_API_KEY: must be/);
  });

  it('counts an empty variable as unset', () => {
    const names = ['PORT', 'HOST', 'DATABASE_URL', 'DATA_DIR', 'REDIS_URL', 'SESSION_KEYS', 'OPERATOR_TOKEN'];
    const more = ['TRUST_PROXY', 'LOG_LEVEL', 'LIMIT_USAGE_PER_MINUTE', 'NODE_ENV'];
    const empty = Object.fromEntries([...names, ...more].map((name, i) => [name, i % 2 === 0 ? '' : ' ']));
    expect(readConfig(empty)).toEqual(readConfig({}));
  });

  it.each(['', ' ', undefined])('production has no default for session keys (SESSION_KEYS=%j)', (value) => {
    const env = {
      ...production,
      SESSION_KEYS: undefined,
      ...(value === undefined ? {} : { SESSION_KEYS: value }),
    };
    expect(problemsOf(env)).toEqual([
      '  - SESSION_KEYS: is required in production. Generate one with: openssl rand -hex 32',
    ]);
  });

  it('production refuses a short session key, even as an older one', () => {
    const problem = '  - SESSION_KEYS: each key must have at least 16 characters in production';
    expect(problemsOf({ ...production, SESSION_KEYS: `${sessionKey},short` })).toEqual([problem]);
    expect(problemsOf({ ...production, SECRET_KEYS: 'short' })).toEqual([
      problem.replace('SESSION', 'SECRET'),
    ]);
    expect(problemsOf({ SESSION_KEYS: 'short' })).toEqual([]);
  });

  it('reports what production lacks together with all other problems', () => {
    const problems = problemsOf({ NODE_ENV: 'production', PORT: '70000' });
    expect(problems.map((problem) => problem.split(':')[0])).toEqual([
      '  - PORT',
      '  - SESSION_KEYS',
      '  - SECRET_KEYS',
      '  - TRUST_PROXY',
      '  - PUBLIC_URL',
    ]);
  });

  it('production accepts `0` as the number of proxies', () => {
    expect(readConfig({ ...production, TRUST_PROXY: '0' }).trustProxy).toBe(0);
  });

  it.each([
    { PUBLIC_URL: 'http://gauge.example.com' },
    { KALSHI_BASE_URL: 'http://venue.example.com' },
    { OPEN_METEO_BASE_URL: 'http://192.0.2.7' },
    { OPEN_METEO_HISTORY_BASE_URL: 'http://weather' },
    { NWS_BASE_URL: 'http://127.0.0.1.example.com' },
    { MESONET_BASE_URL: 'http://mesonet' },
    { MODEL_URL: 'http://model.example.com/highs', FORECAST_SOURCE: 'http' },
    { DATABASE_URL: 'postgres://gauge:secret@db.example.com/gauge' },
    { DATABASE_URL: 'postgres://gauge:secret@10.0.0.7/gauge?sslmode=no-verify' },
    { MIGRATION_DATABASE_URL: 'postgres://owner:secret@db.example.com/gauge?sslmode=prefer' },
    { REDIS_URL: 'redis://:secret@cache.example.com:6379' },
    { REDIS_URL: 'rediss://cache.example.com:6379' },
  ])('production never sends plain text to another machine: %j', (env) => {
    const problems = problemsOf({ ...production, ...env });
    expect(problems).toHaveLength(1);
    expect(problems[0]).toMatch(new RegExp(`^ {2}- ${Object.keys(env)[0]!}: must (be|have) `));
    expect(problems[0]).not.toContain('secret');
    if (!('PUBLIC_URL' in env)) expect(problemsOf(env)).toEqual([]);
  });

  it.each([
    { PUBLIC_URL: 'http://localhost:3000' },
    { MODEL_URL: 'http://127.0.0.1:8080/forecasts' },
    { NWS_BASE_URL: 'http://[::1]:8080' },
    { DATABASE_URL: 'postgres://gauge:secret@postgres:5432/gauge' },
    { DATABASE_URL: 'postgres://gauge:secret@db.example.com/gauge?sslmode=verify-full' },
    { REDIS_URL: 'redis://:secret@redis:6379' },
    { SENTRY_URL: 'http://not.ours.example.com' },
  ])('production accepts what stays on the machine or is encrypted: %j', (env) => {
    expect(problemsOf({ ...production, ...env })).toEqual([]);
  });

  it.each(['http', '-1', '65536', '80.5', '0x50', '1e3', ' 80', '99999999999'])('refuses PORT=%j', (PORT) => {
    expect(problemsOf({ PORT })).toHaveLength(1);
  });

  it.each([
    { DATABASE_URL: 'not a url' },
    { DATABASE_URL: 'http://db:5432/gauge' },
    { DATABASE_URL: 'db:5432' },
    { REDIS_URL: 'localhost:6379' },
    { REDIS_URL: 'http://redis:6379' },
  ])('refuses %j without repeating it, because it may contain a password', (env) => {
    const [problem, ...others] = problemsOf(env);
    expect(others).toEqual([]);
    expect(problem).toMatch(/^ {2}- (DATABASE_URL|REDIS_URL): must be a URL like (postgres|redis):/);
    expect(problem).not.toContain(Object.values(env)[0]);
  });

  it.each([
    ['true', 1],
    ['false', false],
    ['0', 0],
    ['2', 2],
    ['loopback, 10.0.0.0/8, fd00::/8, 192.0.2.1', 'loopback, 10.0.0.0/8, fd00::/8, 192.0.2.1'],
  ])('converts TRUST_PROXY=%s to a value that Express accepts', (value, expected) => {
    const { trustProxy } = readConfig({ TRUST_PROXY: value });
    expect(trustProxy).toBe(expected);
    expect(() => express().set('trust proxy', trustProxy)).not.toThrow();
  });

  it.each([
    'yes',
    '0.0.0.0/0',
    '10.0.0.0/33',
    '10.0.0',
    'loopback,',
    '::1/129',
    '10.0.0.0/8/8',
    'proxy.example',
  ])('refuses TRUST_PROXY=%s', (TRUST_PROXY) => {
    expect(problemsOf({ TRUST_PROXY })).toHaveLength(1);
  });

  it.each([
    ['DATABASE_URL', 'postgres'],
    ['MIGRATION_DATABASE_URL', 'postgres'],
    ['REDIS_URL', 'redis'],
    ['SMTP_URL', 'smtps'],
  ])(
    'an unencoded percent sign in %s is reported with the correct notation and does not crash',
    (name, scheme) => {
      const withPassword = (password: string) =>
        problemsOf({
          PUBLIC_URL: 'https://gauge.example.com',
          MAIL_FROM: 'gauge@example.com',
          [name]: `${scheme}://gauge:${password}@localhost:5432`,
        });
      expect(withPassword('100%sure')).toEqual([`  - ${name}: ${unreadableCredentials}`]);
      expect(withPassword('caf%E9')).toHaveLength(1);
      expect(withPassword('100%25sure')).toEqual([]);
    },
  );

  it.each(['__proto__', '<script>', '☃'])('a hostile value (%s) is reported and does not crash', (value) => {
    expect(problemsOf({ PORT: value, REDIS_URL: value, LOG_LEVEL: value, TRUST_PROXY: value })).toHaveLength(
      4,
    );
  });
});

describe('.env.example', () => {
  const read = (path: string) => readFileSync(new URL(`../${path}`, import.meta.url), 'utf8');
  const shell = [...read('src/config.ts').matchAll(/^ {2}([A-Z][A-Z_]+): /gm)].map(([, name]) => name!);
  const known = [...shell, ...singleSignOnConfig.names, ...products.flatMap(({ config }) => config.names)];
  const example = read('.env.example');
  const ofCompose = [
    'POSTGRES_PASSWORD',
    'POSTGRES_OWNER_PASSWORD',
    'POSTGRES_APP_PASSWORD',
    'REDIS_PASSWORD',
    'POSTGRES_IMAGE',
    'REDIS_IMAGE',
  ];

  it('describes every variable and no other', () => {
    const described = [...example.matchAll(/^(?:# )?([A-Z][A-Z_]+)=/gm)].map(([, name]) => name!);
    expect(known.length).toBeGreaterThan(10);
    expect(described.toSorted()).toEqual([...known, ...ofCompose].toSorted());
  });

  it('changes nothing if copied unchanged, and is a valid configuration with every line uncommented', () => {
    const copied = parseEnv(example);
    expect(readConfig({ ...copied })).toEqual(readConfig({}));
    const inForce = parseEnv(example.replaceAll(/^# (?=[A-Z][A-Z_]+=)/gm, ''));
    const secrets = { ...production, OPERATOR_TOKEN: 'x'.repeat(32) };
    expect(problemsOf({ ...inForce, ...secrets })).toEqual([]);
  });

  it('docker compose passes on every variable or sets it itself', () => {
    const app = /\n {2}app:\n([\s\S]+?)\n {2}migrate:\n/.exec(read('docker-compose.yml'))![1]!;
    const passed = [...app.matchAll(/^ {6}([A-Z][A-Z_]+): /gm)].map(([, name]) => name!);
    const ofOthers = new Set(['DATA_DIR', 'MIGRATION_DATABASE_URL']);
    expect(passed.toSorted()).toEqual(known.filter((name) => !ofOthers.has(name)).toSorted());
  });
});

describe('single sign-on', () => {
  const oidc = {
    OIDC_ISSUER: 'https://login.example.com/realm',
    OIDC_CLIENT_ID: 'gauge',
    OIDC_CLIENT_SECRET: 'secret-of-the-client',
  };

  it('has a name, scopes, and roles by a claim', () => {
    expect(readConfig(oidc).singleSignOn).toEqual({
      issuer: oidc.OIDC_ISSUER,
      clientId: 'gauge',
      clientSecret: 'secret-of-the-client',
      name: 'login.example.com',
      scopes: 'openid email profile',
      roles: undefined,
      trustsAddresses: false,
      ownersWhenDown: false,
    });
    const roles = { OIDC_ROLES_CLAIM: 'groups', OIDC_ROLES: 'a=b=acme:admin, users=acme:member' };
    expect(readConfig({ ...oidc, ...roles }).singleSignOn!.roles).toEqual({
      claim: 'groups',
      grants: [
        { value: 'a=b', organization: 'acme', role: 'admin' },
        { value: 'users', organization: 'acme', role: 'member' },
      ],
    });
    expect(readConfig(oidc).secrets).toContain('secret-of-the-client');
  });

  it.each([
    [{ OIDC_CLIENT_SECRET: undefined }, 'OIDC_CLIENT_SECRET: is required with OIDC_ISSUER'],
    [{ OIDC_ISSUER: 'http://login.example.com' }, 'OIDC_ISSUER: must be an https URL'],
    [{ OIDC_ISSUER: 'https://login.example.com?x=1' }, 'OIDC_ISSUER: must be an https URL'],
    [{ OIDC_SCOPES: 'email' }, 'OIDC_SCOPES: must be scopes'],
    [{ OIDC_ROLES: 'users=acme:member' }, 'OIDC_ROLES_CLAIM: is required with OIDC_ROLES'],
    [{ OIDC_ROLES: 'users=acme:king', OIDC_ROLES_CLAIM: 'groups' }, 'OIDC_ROLES: must be value'],
    [{ OIDC_TRUST_ADDRESSES: 'yes' }, 'OIDC_TRUST_ADDRESSES: '],
    [{ OIDC_OWNERS_WHEN_DOWN: 'yes' }, 'OIDC_OWNERS_WHEN_DOWN: '],
  ])('refuses %j', (wrong, problem) => {
    expect(problemsOf({ ...oidc, ...wrong })).toEqual([expect.stringContaining(problem)]);
  });

  it('refuses its other settings without an issuer', () => {
    expect(problemsOf({ OIDC_NAME: 'Example' })).toEqual([
      expect.stringContaining('OIDC_NAME: needs OIDC_ISSUER'),
    ]);
  });
});

describe('mail', () => {
  const mail = { SMTP_URL: 'smtps://mail.example.com', MAIL_FROM: 'g@example.com' };

  it.each([
    ['smtps://mail.example.com', 'implicit'],
    ['smtp://mail.example.com:587', 'starttls'],
    ['smtp://192.0.2.1:25', 'starttls'],
    ['smtp://[2001:db8::1]:25', 'starttls'],
    ['smtp://127.0.0.1:1025', 'none'],
    ['smtp://localhost:25', 'none'],
    ['smtp://[::1]:25', 'none'],
    ['smtp://postfix:25', 'none'],
    ['smtps://postfix:465', 'implicit'],
  ])('goes to %s with TLS: %s', (SMTP_URL, tls) => {
    expect(readConfig({ ...production, ...mail, SMTP_URL }).mail).toMatchObject({ tls });
    const PUBLIC_URL = 'http://localhost:3000';
    expect(readConfig({ ...mail, SMTP_URL, PUBLIC_URL }).mail).toMatchObject({ tls });
  });

  it('requires a sender address and a base address for its links', () => {
    expect(problemsOf({ SMTP_URL: mail.SMTP_URL })).toEqual([
      expect.stringContaining('MAIL_FROM: is required with SMTP_URL'),
      expect.stringContaining('PUBLIC_URL: is required with SMTP_URL'),
    ]);
    expect(problemsOf({ ...production, SMTP_URL: mail.SMTP_URL })).toHaveLength(1);
  });

  it.each([
    { SMTP_URL: 'https://mail.example.com' },
    { SMTP_URL: 'mail.example.com:25' },
    { SMTP_URL: 'smtp://' },
    { SMTP_URL: 'smtps://mail.example.com?tls.rejectUnauthorized=false' },
    { SMTP_URL: 'smtps://mail.example.com/path' },
    { MAIL_FROM: 'gauge' },
    { MAIL_FROM: 'a@example.com, b@example.com' },
    { MAIL_FROM: 'Gauge\r\nBcc: x@example.com <g@example.com>' },
    { MAIL_FROM: 'Gauge <g@example.com' },
  ])('is refused as %j', (env) => {
    expect(problemsOf({ ...production, ...mail, ...env })).toEqual([
      expect.stringContaining(Object.keys(env)[0]!),
    ]);
  });
});
