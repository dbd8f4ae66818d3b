import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { checkVenue, isAlarming, venueReportText } from '../../../src/markets/venue/check-venue.js';
import { createKalshiClient } from '../../../src/markets/venue/kalshi-client.js';
import { startFakeVenue, wireMarket, wireSeries, type FakeVenue } from '../support/fake-venue.js';
import { ownScript } from '../../support/own-build.js';
import { plentyOfTokens } from '../support/venue-tokens.js';

const clock = { now: () => Date.parse('2026-09-25T18:00:00Z') };
const open = { close_time: '2026-09-26T06:00:00Z' };
const command = ownScript('src/markets/commands/venue-check');
let venue: FakeVenue;
beforeAll(async () => {
  venue = await startFakeVenue();
  venue.series = ['KXHIGHCHI', 'KXLOWTCHI', 'KXSNOW'].map(wireSeries);
  venue.markets = [
    wireMarket('KXHIGHCHI-26SEP25', { cap: 64 }, open),
    wireMarket('KXHIGHCHI-26SEP25', { floor: 71 }, open),
    wireMarket('KXLOWTCHI-26SEP25', { floor: 58, cap: 59 }, open),
  ];
});
afterAll(() => venue.stop());

const check = () => {
  const client = createKalshiClient({ baseUrl: venue.url, budget: plentyOfTokens(), backoffMs: 5 });
  return checkVenue({ client, clock }, () => undefined, new AbortController().signal);
};

it('counts placed markets by kind', async () => {
  const report = await check();
  expect(report).toMatchObject({ series: 3, seriesWithMarkets: 2, notes: [] });
  expect(report.kinds.slice(0, 2)).toEqual([
    { kind: 'daily_maximum', series: 1, events: 1, markets: 2, placed: 2, places: 1 },
    { kind: 'daily_minimum', series: 1, events: 1, markets: 1, placed: 1, places: 1 },
  ]);
  expect(isAlarming(report)).toBe(false);
  expect(venueReportText(report)).toContain('Everything was read and assigned to a station.');
});

it('fails on markets that cannot be read and names them; an unknown place is not a failure', async () => {
  const [market] = venue.markets;
  const rules = String(market!.rules_primary);
  market!.rules_primary = rules.replace('CLIMDW', 'CLIORD');
  const elsewhere = await check();
  expect(elsewhere.notes).toMatchObject([{ kind: 'unknown_place', name: 'CLIORD', count: 1 }]);
  expect(isAlarming(elsewhere)).toBe(false);
  Object.assign(market!, { rules_primary: rules, status: 'paused' });
  const changed = await check();
  expect(isAlarming(changed)).toBe(true);
  expect(venueReportText(changed)).toContain('unknown_status paused: 1, such as KXHIGHCHI-26SEP25-T64');
  const run = promisify(execFile)(process.execPath, [...command, '--json'], {
    env: { ...process.env, MARKET_SOURCE: 'kalshi', KALSHI_BASE_URL: venue.url },
  });
  // By the real clock, the fixture's open markets are in the past, so they cause no alarm. Without live trading, the
  // command gives no warnings.
  expect(JSON.parse((await run).stdout)).toMatchObject({ series: 3, warnings: [] });
  Object.assign(market!, { status: 'active' });
});

it('reports a venue that cannot be read, and exits with 2', async () => {
  const refused = promisify(execFile)(process.execPath, command, {
    env: { ...process.env, KALSHI_BASE_URL: 'http://127.0.0.1:9/trade-api/v2' },
  });
  await expect(refused).rejects.toMatchObject({
    code: 2,
    stderr: expect.stringContaining('venue:check:') as string,
  });
});

it('warns, without failing, if live trading uses forecasts that are free for non-commercial use only', async () => {
  const run = async (env: Record<string, string>, ...flags: string[]) => {
    const { stdout } = await promisify(execFile)(process.execPath, [...command, ...flags], {
      env: { ...process.env, MARKET_SOURCE: 'kalshi', KALSHI_BASE_URL: venue.url, ...env },
    });
    return stdout;
  };
  const live = {
    LIVE_TRADING: 'on',
    LIVE_TRADING_ORG: 'acme',
    KALSHI_KEY_ID: 'id',
    KALSHI_PRIVATE_KEY_FILE: '/key.pem',
  };
  expect(await run(live)).toMatch(/\nWarning: .*Open-Meteo.*non-commercial.*OPEN_METEO_API_KEY\.\n$/);
  expect(JSON.parse(await run(live, '--json'))).toMatchObject({
    warnings: [expect.stringContaining('OPEN_METEO_API_KEY')],
  });
  const subscribed = { ...live, OPEN_METEO_API_KEY: 'abcDEF123456' };
  expect(JSON.parse(await run(subscribed, '--json'))).toMatchObject({ warnings: [] });
});
