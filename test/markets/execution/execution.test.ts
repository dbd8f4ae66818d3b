import { eq } from 'drizzle-orm';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { z } from 'zod';
import type { Database } from '../../../src/core/db/client.js';
import { executionMarks } from '../../../src/markets/execution/table.js';
import { tradingSettlements } from '../../../src/markets/ledger/portfolio-table.js';
import type { executionSchema } from '../../../src/markets/execution/schema.js';
import { CENT, DOLLAR } from '../../../src/markets/market/money.js';
import type { WeatherSource } from '../../../src/markets/weather/weather.js';
import { createTestDatabase } from '../../support/database.js';
import { createKey } from '../../support/fixtures.js';
import { makeBook } from '../support/events.js';
import { newBook, openLiveAccount, removeKeys, TICKER as LIVE_TICKER } from '../support/live-account.js';
import {
  startTradingTest,
  useTradingTest,
  createTrader,
  postTrade,
  TICKER,
  usualBook,
  type TradeAnswer,
} from '../support/trade.js';
import { wireTrade } from '../support/fake-venue.js';

const { database, service } = useTradingTest();
let db: Database;
beforeAll(async () => {
  ({ db } = database);
});
afterAll(async () => {
  removeKeys();
});
beforeEach(async () => {
  // Moves the clock past everything that the previous test left pending.
  service.clock.advance(2 * 3_600_000);
  service.markets.prints = [];
  service.markets.error = undefined;
  await service.showBook(usualBook);
});

type Execution = z.output<typeof executionSchema>;

async function read(url: string, secret: string | undefined, query = '') {
  const response = await fetch(`${url}/scores/execution${query}`, {
    headers: secret === undefined ? {} : { authorization: `Bearer ${secret}` },
  });
  const body = (await response.json()) as Execution & Pick<TradeAnswer, 'code' | 'errors'>;
  return { status: response.status, headers: response.headers, body };
}
const readMine = (secret: string | undefined, query?: string) => read(service.url, secret, query);
const marksOf = (orgId: string) =>
  db.orm
    .select()
    .from(executionMarks)
    .where(eq(executionMarks.orgId, orgId))
    .orderBy(executionMarks.at, executionMarks.n);

async function showAfter(seconds: number, book = usualBook) {
  service.clock.advance(seconds * 1000);
  await service.showBook(book);
}
const dearer = makeBook([[46, 10]], [[52, 3]]);
let prints = 0;
const print = (cents: number, secondsAgo: number) =>
  service.markets.prints.push({
    id: `print-${++prints}`,
    ticker: TICKER,
    at: new Date(service.clock.now() - secondsAgo * 1000),
    yesPrice: BigInt(cents) * CENT,
    contracts: 2,
    takerSide: 'yes',
  });

describe('a paper fill', () => {
  it('is marked once, level by level, after a minute', async () => {
    const { orgId, secret } = await createTrader(db);
    await postTrade(service.url, secret, { contracts: 8, limitPrice: '0.46' });
    await showAfter(20, dearer);
    expect(await service.trading.marker.mark()).toBe(0);
    await showAfter(46, dearer);
    print(46, 10);
    expect(await service.trading.marker.mark()).toBe(2);
    expect(await marksOf(orgId)).toMatchObject([
      // No taker bought at 45 cents or less, and the best ask has been 48 since, so the order would have missed the
      // first level.
      {
        n: 1,
        mode: 'paper',
        contracts: 5,
        value: 2_250_000n,
        missed: true,
        after15: null,
        after30: 47n * CENT,
        after60: 47n * CENT,
      },
      { n: 2, contracts: 3, value: 1_380_000n, missed: false, after60: 47n * CENT },
    ]);
    expect(await service.trading.marker.mark()).toBe(0);
  });

  it('waits less than an hour for prints that cannot be read', async () => {
    const { orgId, secret } = await createTrader(db);
    await postTrade(service.url, secret);
    await showAfter(70);
    service.markets.error = new Error('busy');
    await expect(service.trading.marker.mark()).rejects.toThrow('busy');
    expect(await marksOf(orgId)).toEqual([]);
    service.markets.error = undefined;
    expect(await service.trading.marker.mark()).toBe(1);
    const other = await createTrader(db);
    await showAfter(0, makeBook([[42, 10]], [[55, 6]]));
    await postTrade(service.url, other.secret);
    await showAfter(3_600);
    expect(await service.trading.marker.mark()).toBe(0);
  });
});

describe('GET /scores/execution', () => {
  it('sums the gains of the days’ fills, and the share of those that would have missed', async () => {
    const { orgId, secret } = await createTrader(db);
    const today = new Date(service.clock.now()).toISOString().slice(0, 10);
    await postTrade(service.url, secret, { contracts: 8, limitPrice: '0.46' });
    await showAfter(20, dearer);
    await showAfter(46, dearer);
    print(46, 10);
    await service.trading.marker.mark();
    const { status, headers, body } = await readMine(secret);
    expect([status, headers.get('cache-control')]).toEqual([200, 'no-store']);
    expect(body).toMatchObject({
      until: expect.stringMatching(/T00:00:00.000Z$/),
      paperLatencyMs: 0,
      paper: {
        fills: 2,
        contracts: 8,
        fees: '0.1388',
        judged: 2,
        missed: 1,
        missedContracts: 5,
        after: [
          { seconds: 15, fills: 0, move: null },
          // 5 contracts gained two cents each, and 3 gained one.
          { seconds: 30, fills: 2, move: '0.01625' },
          { seconds: 60, fills: 2, move: '0.01625' },
        ],
        // 8 · 0.47 − 3.63 − 0.1388; for the first level alone, 5 · 0.02 − 0.0867.
        afterMinute: { fills: 2, all: '-0.0088', missed: '0.0133' },
        settled: { fills: 0, all: null, missed: null },
      },
      live: { fills: 0 },
      shadow: { count: 0, orders: [], roundTripMs: null },
    });
    await db.orm.insert(tradingSettlements).values({
      orgId,
      mode: 'paper',
      ticker: TICKER,
      n: 1,
      state: 'finalized',
      value: DOLLAR,
      eventTicker: 'KXHIGHNY-26NOV21',
      side: 'yes',
      contracts: 8,
      cost: 3_630_000n,
      cashChange: 8n * DOLLAR,
      at: new Date(service.clock.now()),
    });
    const settled = await readMine(secret, `?from=${today}&to=${today}`);
    expect(settled.body.paper.settled).toEqual({ fills: 2, all: '4.2312', missed: '2.6633' });
    expect((await readMine(secret, '?from=2026-01-01&to=2026-01-31')).body.paper.fills).toBe(0);
  });

  it('covers only the key’s Organization, and shows a test key only paper', async () => {
    const { orgId, secret } = await createTrader(db);
    await postTrade(service.url, secret);
    await showAfter(70);
    await service.trading.marker.mark();
    const other = await createTrader(db);
    expect((await readMine(other.secret)).body.paper.fills).toBe(0);
    const test = await createKey(db, orgId, { scopes: ['trading:read'], livemode: false });
    const { body } = await readMine(test.secret);
    expect([body.paper.fills, body.live, body.shadow]).toEqual([1, null, null]);
  });

  it('counts paper fills near the extreme of the day so far apart', async () => {
    const noon = new Date('2026-11-21T17:00:00Z');
    const day = { kind: 'daily_maximum' as const, stationId: 'KNYC', date: '2026-11-21' };
    const times = {
      modelRunAt: new Date('2026-11-21T06:00:00Z'),
      fetchedAt: new Date('2026-11-21T16:55:00Z'),
    };
    let extremeF = 37;
    const weather: WeatherSource = {
      name: 'test',
      freshMs: 0,
      read: async () => ({
        fetchedAt: noon,
        ensembles: [{ ...day, ...times, membersF: Array.from({ length: 10 }, (_, i) => 38 + i / 2) }],
        observed: [{ ...day, extremeF, observedAt: times.fetchedAt, fetchedAt: times.fetchedAt }],
      }),
    };
    const own = await createTestDatabase();
    const near = await startTradingTest(own.db, { trading: { weather } });
    try {
      near.clock.set(noon.toISOString());
      await near.showBook(usualBook);
      const { secret } = await createTrader(own.db);
      const resting = { timeInForce: 'good_till_cancelled', limitPrice: '0.42', cancelOn: ['stale'] };
      await postTrade(near.url, secret);
      extremeF = 38;
      await near.showBook(makeBook([[42, 10]], [[55, 6]]));
      await postTrade(near.url, secret, { contracts: 2 });
      await postTrade(near.url, secret, { ...resting, contracts: 3 });
      near.clock.advance(1_000);
      near.markets.prints.push({
        id: 'near',
        ticker: TICKER,
        at: new Date(near.clock.now()),
        yesPrice: 42n * CENT,
        contracts: 50,
        takerSide: 'no',
      });
      near.clock.advance(1_000);
      await near.trading.refresher.refresh();
      await near.trading.resting.pass();
      near.clock.advance(70_000);
      expect(await near.trading.marker.mark()).toBe(3);
      const { body } = await read(near.url, secret);
      expect([body.paper.fills, body.paper.contracts]).toEqual([1, 5]);
      expect([body.paperNearExtreme.fills, body.paperNearExtreme.contracts]).toEqual([2, 5]);
    } finally {
      await near.stop();
      await own.remove();
    }
  });

  it.each([
    ['?from=yesterday', '/from'],
    ['?from=2026-02-30', '/from'],
    ['?to=9999-12-31', '/to'],
    ['?to=0000-01-01', '/to'],
    ['?from=2026-11-02&to=2026-11-01', '/from'],
    ['?from=2026-01-01&to=2026-11-01', '/from'],
    ['?limit=0', '/limit'],
    ['?limit=101', '/limit'],
    ['?limit=1e1', '/limit'],
    ["?from=2026-11-01'--", '/from'],
    ['?from=2026-11-01&from=2026-11-02', '/from'],
    ['?mode=live', '/mode'],
  ])('refuses %s and names the field', async (query, pointer) => {
    const { secret } = await createTrader(db);
    const { status, body } = await readMine(secret, query);
    expect([status, body.code]).toEqual([400, 'invalid_request']);
    expect(body.errors![0]!.pointer).toBe(pointer);
    expect((await readMine(undefined, query)).status).toBe(401);
  });
});

describe('a live order', () => {
  it('is recorded beside its shadow paper fill, and both are marked and compared', async () => {
    const own = await createTestDatabase();
    const account = await openLiveAccount(own.db);
    const { venue, service: live, apiKey, organization } = account;
    try {
      // Seven of the ten displayed contracts are gone when the order arrives.
      venue.books.set(LIVE_TICKER, { ...newBook(), no_dollars: [['0.5400', '3.00']] });
      const trade = await account.place({ contracts: 10, limitPrice: 46n * CENT });
      expect(trade.filledContracts).toBe(3);
      const [shadow] = await own.db.orm.select().from(executionMarks);
      // 6 at 45 cents and 4 at 46 cents.
      expect(shadow).toMatchObject({
        orderId: trade.id,
        n: 0,
        mode: 'live',
        contracts: 10,
        value: 4_540_000n,
        markedAt: null,
      });
      live.clock.advance(40_000);
      await live.trading.refresher.refresh();
      live.clock.advance(30_000);
      venue.trades = [
        wireTrade(LIVE_TICKER, { yes_price_dollars: '0.5000', created_time: '2026-07-04T15:00:20Z' }),
      ];
      expect(await live.trading.marker.mark()).toBe(2);
      const { body } = await read(live.url, apiKey.secret, '?from=2026-07-04&to=2026-07-04');
      expect(body.live).toMatchObject({ fills: 1, contracts: 3 });
      expect(body.shadow).toMatchObject({
        count: 1,
        live: { contracts: 3, fees: '0.0522' },
        paper: { contracts: 10 },
        afterMinute: { orders: 1 },
        orders: [
          {
            id: trade.id,
            contracts: 10,
            live: { contracts: 3, averagePrice: '0.4600' },
            paper: { contracts: 10, averagePrice: '0.4540' },
          },
        ],
      });
      const compared = body.shadow!;
      const [order] = compared.orders;
      const [live60, paper60] = [compared.afterMinute.live, compared.afterMinute.paper].map(Number);
      expect(live60).toBeCloseTo(3 * (Number(order!.afterMinute) - 0.46) - 0.0522, 6);
      expect(paper60).toBeCloseTo(10 * (Number(order!.afterMinute) - 0.454) - Number(compared.paper.fees), 6);
      const test = await createKey(own.db, organization.id, { scopes: ['trading:read'], livemode: false });
      expect((await read(live.url, test.secret)).body.shadow).toBeNull();
    } finally {
      await account.stop();
      await own.remove();
    }
  });
});
