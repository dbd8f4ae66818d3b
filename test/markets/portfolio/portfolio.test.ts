import { sql } from 'drizzle-orm';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { selectRows } from '../../../src/core/db/sql.js';
import { listOpenPositions } from '../../../src/markets/portfolio/queries.js';
import { createSimulatedWeatherSource } from '../../../src/markets/weather/simulated.js';
import { simulateWeather } from '../../../src/markets/venue/simulation/weather.js';
import { createKey, createOrganization, type TestKey } from '../../support/fixtures.js';
import { bookTrade, MILD, writeWord, COLD, createFixedVenue, WARM } from '../support/portfolio.js';
import { useService } from '../../support/use.js';

const venue = createFixedVenue(() => service.clock);
const weather = createSimulatedWeatherSource({
  clock: { now: () => service.clock.now() },
  seed: 'tests',
  weather: simulateWeather('tests'),
});
const { database, service } = useService({ trading: { markets: venue, weather } });

let orgId: string;
let key: TestKey;
beforeEach(async () => {
  orgId = (await createOrganization(database.db)).id;
  key = await createKey(database.db, orgId, { scopes: ['trading:read'] });
});

async function read(query = '', secret = key.secret) {
  const response = await fetch(`${service.url}/portfolio${query}`, {
    headers: { authorization: `Bearer ${secret}` },
  });
  // oxlint-disable-next-line typescript/no-explicit-any -- what comes is what is tested
  return { status: response.status, headers: response.headers, body: (await response.json()) as any };
}

const now = () => new Date(service.clock.now());
const countRows = async (table: string) =>
  (
    await selectRows<{ n: number }>(
      database.db.orm,
      sql`select count(*)::int as n from ${sql.identifier(table)} where org_id = ${orgId}::uuid`,
    )
  )[0]!.n;

describe('before the first market data', () => {
  it('booked money is shown, marks are null, and the sources say why', async () => {
    await bookTrade(database.db, {
      orgId,
      by: { apiKeyId: key.id },
      at: now(),
      fills: [['0.50', 10, '0.18']],
    });
    const { status, body } = await read();
    expect(status).toBe(200);
    expect(body).toMatchObject({ asOf: null, ageSeconds: null, stale: true, sources: [] });
    // 1000.00 − 5.00 − 0.18
    expect(body.portfolio).toMatchObject({
      cash: '994.8200',
      cost: '5.0000',
      fees: '0.1800',
      realisedPnl: '0.0000',
      deposits: '1000.0000',
      equity: null,
      liquidationValue: null,
      unrealisedPnl: null,
    });
    expect(body.portfolio.positions).toMatchObject([
      {
        ticker: COLD,
        station: 'KNYC',
        city: 'New York',
        date: '2026-11-21',
        averagePrice: '0.5000',
        liquidationValue: null,
        unrealisedPnl: null,
        valuation: 'unknown',
        status: null,
      },
    ]);
  });
});

describe('a paper account', () => {
  beforeAll(() => service.trading.refresher.refresh());

  it('is opened with its play money by the first read, once even under concurrent reads', async () => {
    const looks = await Promise.all(Array.from({ length: 8 }, () => read()));
    for (const { status, body } of looks) {
      expect(status).toBe(200);
      expect(body.portfolio).toMatchObject({
        mode: 'paper',
        cash: '1000.0000',
        equity: '1000.0000',
        deposits: '1000.0000',
        available: '1000.0000',
        positions: [],
        events: [],
        openOrders: [],
      });
    }
    await read();
    expect([await countRows('trading_accounts'), await countRows('ledger_entries')]).toEqual([1, 1]);
  });

  it('marks each position at its present sale value and nets the brackets of a day', async () => {
    const by = { apiKeyId: key.id };
    // 140 YES were bought at 0.60 for 84.00, and 20 of them were sold at 0.70.
    await bookTrade(database.db, { orgId, by, at: now(), fills: [['0.60', 140, '2.36']] });
    await bookTrade(database.db, { orgId, by, at: now(), action: 'sell', fills: [['0.70', 20, '0.30']] });
    // 10 NO of the middle bracket were bought at 0.65.
    const mild = { ticker: MILD, side: 'no' as const };
    await bookTrade(database.db, { orgId, by, at: now(), ...mild, fills: [['0.65', 10, '0.16']] });
    const { body } = await read();
    // Cash: 1000 − 84.00 − 2.36 + 14.00 − 0.30 − 6.50 − 0.16. Realised: 20 × 0.10.
    // COLD: 100 at 0.56 and 20 at 0.55 after fees are 64.9287. MILD: 10 NO at 0.68 are 6.80 − 0.15232 = 6.6476.
    expect(body.portfolio).toMatchObject({
      cash: '920.6800',
      cost: '78.5000',
      liquidationValue: '71.5763',
      equity: '992.2563',
      realisedPnl: '2.0000',
      unrealisedPnl: '-6.9237',
      fees: '2.8200',
      deposits: '1000.0000',
      isCut: false,
    });
    expect(body.portfolio.positions).toMatchObject([
      {
        ticker: COLD,
        label: '59° or below',
        side: 'yes',
        contracts: 120,
        averagePrice: '0.6000',
        cost: '72.0000',
        liquidationValue: '64.9287',
        liquidationFees: '2.0713',
        valuation: 'book',
        unsellableContracts: 0,
        unrealisedPnl: '-7.0713',
        realisedPnl: '2.0000',
        fees: '2.6600',
        status: 'active',
        settlement: null,
      },
      { ticker: MILD, label: '60° to 61°', side: 'no', contracts: 10, liquidationValue: '6.6476' },
    ]);
    const stored = await listOpenPositions(database.db.orm, orgId, 'paper', 10);
    expect(stored.map(({ ticker, label }) => [ticker, label])).toEqual([
      [MILD, '60° to 61°'],
      [COLD, '59° or below'],
    ]);
    // If COLD wins: 120 + 10; if MILD wins: nothing; if WARM wins: 10. Each less the cost of 78.50.
    expect(body.portfolio.events).toEqual([
      {
        eventTicker: 'KXHIGHNY-26NOV21',
        cost: '78.5000',
        worstCase: '-78.5000',
        bestCase: '51.5000',
        outcomes: [
          { ticker: COLD, payout: '130.0000', result: '51.5000' },
          { ticker: MILD, payout: '0.0000', result: '-78.5000' },
          { ticker: WARM, payout: '10.0000', result: '-68.5000' },
        ],
      },
    ]);
    expect(body.sources[0]).toMatchObject({ part: 'markets', name: 'fixed', state: 'ok' });
  });

  it('reports contracts without a bid as unsellable', async () => {
    await bookTrade(database.db, {
      orgId,
      by: { apiKeyId: key.id },
      at: now(),
      ticker: WARM,
      fills: [['0.10', 5, '0.04']],
    });
    const { body } = await read();
    expect(body.portfolio.positions[0]).toMatchObject({
      liquidationValue: '0.0000',
      unsellableContracts: 5,
      unrealisedPnl: '-0.5000',
    });
  });

  it('values an expected result and marks it as expected', async () => {
    await bookTrade(database.db, {
      orgId,
      by: { apiKeyId: key.id },
      at: now(),
      fills: [['0.60', 10, '0.17']],
    });
    venue.states.set(COLD, { status: 'determined', settlementValue: 1_000_000n, settledTemperature: 58 });
    await service.trading.refresher.refresh();
    const { body } = await read();
    expect(body.portfolio.positions[0]).toMatchObject({
      status: 'determined',
      valuation: 'expected',
      liquidationValue: '10.0000',
      unrealisedPnl: '4.0000',
      settlement: { state: 'determined', value: '1.0000', temperature: 58 },
    });
    venue.states.clear();
    await service.trading.refresher.refresh();
  });

  it('values a reported temperature by its outcome before the venue determines it', async () => {
    await bookTrade(database.db, {
      orgId,
      by: { apiKeyId: key.id },
      at: now(),
      fills: [['0.60', 10, '0.17']],
    });
    venue.states.set(COLD, { status: 'closed', settledTemperature: 58 });
    await service.trading.refresher.refresh();
    const { body } = await read();
    expect(body.portfolio.positions[0]).toMatchObject({
      status: 'closed',
      valuation: 'expected',
      liquidationValue: '10.0000',
    });
    venue.states.clear();
    await service.trading.refresher.refresh();
  });

  it('keeps the last recorded result of a market that is no longer listed', async () => {
    const ticker = 'KXHIGHDEN-26NOV19-B44.5';
    const at = now();
    await bookTrade(database.db, {
      orgId,
      by: { apiKeyId: key.id },
      at,
      ticker,
      fills: [['0.20', 10, '0.12']],
    });
    const word = { orgId, at, ticker, temperature: 45, cost: '2.00', contracts: 10 };
    await writeWord(database.db, { ...word, n: 1, state: 'provisional', value: null });
    await writeWord(database.db, { ...word, n: 2, state: 'determined', value: 1_000_000n });
    const { body } = await read();
    expect(body.portfolio.positions[0]).toMatchObject({
      city: 'Denver',
      date: '2026-11-19',
      label: '44° to 45°',
      status: null,
      valuation: 'expected',
      liquidationValue: '10.0000',
      settlement: { state: 'determined', value: '1.0000', temperature: 45 },
    });
  });

  it('shows the age of its marks and keeps them while the venue is down', async () => {
    await service.trading.refresher.refresh();
    const asOf = now().toISOString();
    venue.isDown = true;
    service.clock.advance(31_000);
    await service.trading.refresher.refresh();
    const { body } = await read();
    expect(body).toMatchObject({ asOf, ageSeconds: 31, stale: true });
    expect(body.sources[0]).toMatchObject({ state: 'failing', fetchedAt: asOf });
    expect(JSON.stringify(body.sources)).not.toContain('down');
    venue.isDown = false;
    await service.trading.refresher.refresh();
  });
});

describe('a live account', () => {
  it('is separate from the paper account, is not opened by a read, and lists pending orders', async () => {
    expect((await read('?mode=live')).body.portfolio).toMatchObject({
      mode: 'live',
      cash: '0.0000',
      deposits: '0.0000',
      positions: [],
    });
    expect(await countRows('trading_accounts')).toBe(0);
    const id = await bookTrade(database.db, {
      orgId,
      by: { apiKeyId: key.id },
      at: now(),
      mode: 'live',
      contracts: 10,
      status: 'pending',
      reserved: '9.97',
    });
    const { body } = await read('?mode=live');
    expect(body.portfolio).toMatchObject({
      reserved: '9.9700',
      available: '-9.9700',
      openOrderCount: 1,
      openOrders: [{ id, ticker: COLD, side: 'yes', action: 'buy', contracts: 10, reserved: '9.9700' }],
    });
    expect((await read()).body.portfolio).toMatchObject({ openOrders: [], cash: '1000.0000' });
  });
});

describe('GET /portfolio', () => {
  it('is that of the key’s Organization', async () => {
    await bookTrade(database.db, {
      orgId,
      by: { apiKeyId: key.id },
      at: now(),
      fills: [['0.60', 10, '0.17']],
    });
    const stranger = await createKey(database.db, (await createOrganization(database.db)).id, {
      scopes: ['trading:read'],
    });
    expect((await read('', stranger.secret)).body.portfolio.positions).toEqual([]);
  });

  it.each(['?mode=test', '?mode=', '?mode=paper&mode=live', '?mode=%00', '?station=KNYC'])(
    'refuses %s',
    async (query) => {
      const { status, body } = await read(query);
      expect([status, body.code]).toEqual([400, 'invalid_request']);
    },
  );

  it('reveals nothing about the query to an invalid key', async () => {
    const revoked = await createKey(database.db, orgId, { scopes: ['trading:read'], revokedAt: new Date(0) });
    expect((await read('?mode=test', revoked.secret)).body.code).toBe('key_revoked');
  });

  it('returns the remaining rate limit and forbids caching', async () => {
    const { headers } = await read();
    expect(headers.get('ratelimit')).toMatch(/^"trading"; r=\d+; t=\d+$/);
    expect(headers.get('cache-control')).toBe('no-store');
  });
});
