import { sql } from 'drizzle-orm';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { readConfig } from '../../../src/config.js';
import type { Database } from '../../../src/core/db/client.js';
import { selectRows } from '../../../src/core/db/sql.js';
import { AppError } from '../../../src/core/errors.js';
import type { Market } from '../../../src/markets/market/market.js';
import { CENT, DOLLAR } from '../../../src/markets/market/money.js';
import type { LiveExecutor, LiveOrder, VenueFill, VenueOutcome } from '../../../src/markets/orders/order.js';
import { recordOutcome } from '../../../src/markets/orders/record-outcome.js';
import { createKey } from '../../support/fixtures.js';
import { createListener, readWebhookMessages } from '../../support/webhook-messages.js';
import { useTradingTest, createTrader, postTrade } from '../support/trade.js';

const SLUG = 'the-live-one';
const live: LiveExecutor & { sent: LiveOrder[]; outcome: VenueOutcome | Error; isOpen: boolean } = {
  sent: [],
  outcome: { kind: 'rejected', reason: 'not set' },
  isOpen: true,
  assertOpen() {
    if (!this.isOpen) throw new AppError('unavailable', 'not compared yet', { retryAfterSeconds: 5 });
  },
  async send(order) {
    this.sent.push(order);
    // The order must be durable before it is sent.
    expect(await statusOf(order.id)).toBe('pending');
    if (this.outcome instanceof Error) throw this.outcome;
    return this.outcome;
  },
  cancel: () => Promise.reject(new Error('nothing rests')),
  decrease: () => Promise.reject(new Error('nothing rests')),
  cancelAll: () => Promise.resolve(),
};

// A server that is allowed to trade live; only the venue is fake.
const config = readConfig({ NODE_ENV: 'test', LIMIT_TRADING_PER_MINUTE: '1000000' });
const { database, service } = useTradingTest({
  context: { config: { ...config, trading: { ...config.trading, liveOrg: SLUG } } },
  trading: { live },
});
let db: Database;
let trader: { orgId: string; secret: string };
beforeAll(async () => {
  ({ db } = database);
  trader = await createTrader(db, { slug: SLUG });
});
beforeEach(async () => {
  live.sent = [];
  live.isOpen = true;
  for (const table of [
    'trading_orders',
    'trading_fills',
    'trading_positions',
    'ledger_entries',
    'trading_accounts',
    'paper_books',
  ])
    await db.orm.execute(sql`delete from ${sql.identifier(table)}`);
  await openAccount(100n * DOLLAR);
});

async function openAccount(cash: bigint): Promise<void> {
  const { orgId } = trader;
  await db.orm.execute(
    sql`insert into trading_accounts (org_id, mode, cash, opened_at) values (${orgId}, 'live', ${String(cash)}::bigint, now())`,
  );
  await db.orm.execute(
    sql`insert into ledger_entries (org_id, id, mode, kind, at, cash, positions, fees, realised, capital)
    values (${orgId}, ${crypto.randomUUID()}, 'live', 'adjustment', now(), ${String(cash)}::bigint, 0, 0, 0, -${String(cash)}::bigint)`,
  );
}

const statusOf = async (id: string) =>
  (await selectRows<{ status: string }>(db.orm, sql`select status from trading_orders where id = ${id}`))[0]
    ?.status;

const readBooks = async () =>
  (
    await selectRows<Record<string, string>>(
      db.orm,
      sql`select cash::text, (select sum(cash)::text from ledger_entries where org_id = a.org_id and mode = 'live') as ledger,
        (select sum(reserved)::text from trading_orders where org_id = a.org_id) as reserved,
        (select count(*)::text from trading_fills where org_id = a.org_id) as fills,
        (select side || ' ' || contracts || ' ' || cost from trading_positions where org_id = a.org_id) as held
      from trading_accounts a where mode = 'live'`,
    )
  )[0]!;

const fill = (n: number, price: number, contracts: number): VenueFill => ({
  venueFillId: `fill-${n}`,
  price: BigInt(price) * CENT,
  contracts,
  fee: 12_300n,
  filledAt: new Date('2026-11-21T12:00:00Z'),
});

const done = (fills: VenueFill[]): VenueOutcome => ({
  kind: 'done',
  venueOrderId: 'v-1',
  fills,
  reason: null,
});

const trade = (change: Record<string, unknown> = {}, headers: Record<string, string> = {}) =>
  postTrade(service.url, trader.secret, { mode: 'live', ...change }, headers);
const record = (id: string, outcome: VenueOutcome) =>
  recordOutcome(db.orm, trader.orgId, id, outcome, new Date(service.clock.now()));

describe('a live order', () => {
  it('is refused and never sent in a market with an uncertain subject; a paper order is accepted', async () => {
    const problem = 'the rules name no station';
    service.markets.change = {
      station: null,
      bracket: null,
      label: 'Rain',
      problem,
    } as unknown as Partial<Market>;
    await service.trading.refresher.refresh();
    try {
      const answer = await trade();
      expect([answer.status, answer.code]).toEqual([403, 'live_trading_disabled']);
      expect(answer.detail).toContain(problem);
      expect(live.sent).toEqual([]);
      expect(await selectRows(db.orm, sql`select id from trading_orders`)).toEqual([]);
      expect((await postTrade(service.url, trader.secret, { mode: 'paper' })).status).toBe(201);
    } finally {
      service.markets.change = {};
      await service.trading.refresher.refresh();
    }
  });

  it('is stored, sent once, and booked as the venue reports', async () => {
    live.outcome = done([fill(1, 45, 3), fill(2, 44, 2)]);
    const headers = { 'idempotency-key': 'live-1' };
    const answer = await trade({}, headers);
    expect(answer.status).toBe(201);
    expect(answer.trade).toMatchObject({
      mode: 'live',
      status: 'filled',
      venueOrderId: 'v-1',
      filledContracts: 5,
      averagePrice: '0.4460',
      fees: '0.0246',
      // 3 · 0.45 + 2 · 0.44 = 2.23
      total: '-2.2546',
    });
    expect(live.sent).toMatchObject([
      { clientOrderId: answer.trade!.clientOrderId, contracts: 5, side: 'yes', limitPrice: 45n * CENT },
    ]);
    const again = await trade({}, headers);
    expect([again.status, again.trade]).toEqual([200, answer.trade]);
    expect(live.sent).toHaveLength(1);
    expect(await readBooks()).toEqual({
      cash: '97745400',
      ledger: '97745400',
      reserved: '0',
      fills: '2',
      held: 'yes 5.00 2230000',
    });
  });

  it('keeps its cash reserved while its outcome is unknown, and is never sent again', async () => {
    live.outcome = new Error('no answer');
    const headers = { 'idempotency-key': 'lost' };
    const { trade: lost } = await trade({}, headers);
    expect(lost).toMatchObject({ status: 'pending', filledContracts: 0, finishedAt: null });
    expect((await trade({}, headers)).trade).toEqual(lost);
    expect(live.sent).toHaveLength(1);
    // 5 · 0.45 + 0.086625, rounded up to the next $0.0001.
    expect(await readBooks()).toMatchObject({ cash: '100000000', reserved: '2336700' });
    const found = await record(lost!.id, done([fill(1, 45, 5)]));
    expect(found.status).toBe('filled');
    expect(await readBooks()).toMatchObject({ cash: '97737700', reserved: '0', held: 'yes 5.00 2250000' });
  });

  it('cannot spend cash that a pending order reserves, nor sell contracts that a pending order sells', async () => {
    live.outcome = { kind: 'unknown', reason: 'no answer' };
    await db.orm.execute(sql`update trading_accounts set cash = 4000000 where mode = 'live'`);
    const { trade: unknown } = await trade();
    expect(unknown!.status).toBe('pending');
    const refused = await trade();
    expect([refused.code, refused.detail]).toEqual([
      'insufficient_funds',
      'The order can cost $2.3367 at its limit price, including the fee. $1.6633 is available.',
    ]);
    // The lost order's outcome is unknown, so its market is closed to other orders.
    const closed = await trade({ contracts: 1 });
    expect([closed.status, closed.code]).toEqual([503, 'unavailable']);
    expect(closed.detail).toMatch(
      /^No order is sent now: the outcome of an earlier order in \S+ has been unknown since \d{4}-/,
    );
    await record(unknown!.id, { kind: 'rejected', reason: 'refused' });
    live.outcome = done([fill(9, 45, 1)]);
    await trade({ contracts: 1 });
    live.outcome = { kind: 'unknown', reason: 'no answer' };
    const sale = { action: 'sell', contracts: 1, limitPrice: '0.42' };
    expect((await trade(sale)).trade!.status).toBe('pending');
    const twice = await trade(sale);
    expect(twice.code).toBe('insufficient_position');
    expect(twice.detail).toMatch(/0 are held, besides 1 reserved for open orders\.$/);
  });

  it('requires a reconciled account, the live Organization, a live key and an open venue', async () => {
    const { secret } = await createTrader(db);
    expect((await postTrade(service.url, secret, { mode: 'live' })).code).toBe('live_trading_disabled');
    const { secret: testKey } = await createKey(db, trader.orgId, {
      scopes: ['trading:write'],
      livemode: false,
    });
    expect((await postTrade(service.url, testKey, { mode: 'live' })).code).toBe('live_trading_disabled');
    live.isOpen = false;
    expect((await trade()).code).toBe('unavailable');
    live.isOpen = true;
    await db.orm.execute(sql`delete from trading_accounts`);
    expect((await trade()).code).toBe('unavailable');
    expect(live.sent).toEqual([]);
  });

  it('shares idempotency keys with paper orders', async () => {
    const headers = { 'idempotency-key': 'shared' };
    expect(await trade({ mode: 'paper' }, headers)).toMatchObject({ status: 201 });
    expect((await trade({}, headers)).code).toBe('idempotency_conflict');
    live.outcome = done([]);
    const both = await Promise.all(
      ['paper', 'live'].map((mode) =>
        trade({ mode, contracts: 1, limitPrice: '0.46' }, { 'idempotency-key': 'both' }),
      ),
    );
    expect(both.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([201, 409]);
  });
});

describe('the outcome of a live order', () => {
  const lose = async () => {
    live.outcome = { kind: 'unknown', reason: 'no answer' };
    return (await trade()).trade!.id;
  };

  it('is booked once, however often and however concurrently it is reported', async () => {
    for (const livemode of [true, false]) await createListener(db, trader.orgId, { livemode });
    const id = await lose();
    const outcome = done([fill(1, 45, 2), fill(2, 44, 1), fill(2, 44, 1)]);
    const told = await Promise.all(Array.from({ length: 5 }, () => record(id, outcome)));
    for (const found of told) expect(found).toMatchObject({ status: 'partially_filled', filledContracts: 3 });
    expect(await readBooks()).toMatchObject({ fills: '2', cash: '98635400', held: 'yes 3.00 1340000' });
    const messages = (await readWebhookMessages(db, trader.orgId)).filter(({ data }) => data.tradeId === id);
    expect(messages).toMatchObject([
      { livemode: true, type: 'trade.filled', data: { mode: 'live', fills: [{ n: 1 }, { n: 2 }] } },
    ]);
  });

  it('stays final, but a fill that is reported later is booked', async () => {
    const id = await lose();
    expect((await record(id, done([fill(1, 45, 2)]))).status).toBe('partially_filled');
    expect((await record(id, { kind: 'unknown', reason: 'later' })).status).toBe('partially_filled');
    expect((await record(id, { kind: 'rejected', reason: 'later' })).status).toBe('partially_filled');
    const late = await record(id, done([fill(1, 45, 2), fill(2, 45, 3)]));
    expect(late).toMatchObject({ status: 'filled', filledContracts: 5 });
    expect(late.fills.map(({ n }) => n)).toEqual([1, 2]);
  });

  it('releases the cash of an order that was rejected or filled nothing', async () => {
    const rejected = await record(await lose(), { kind: 'rejected', reason: 'no' });
    expect(rejected).toMatchObject({ status: 'rejected', reason: 'no' });
    const nothing = await record(await lose(), {
      kind: 'done',
      venueOrderId: null,
      fills: [],
      reason: 'gone',
    });
    expect(nothing).toMatchObject({ status: 'cancelled', reason: 'gone', venueOrderId: null });
    expect(await readBooks()).toMatchObject({ reserved: '0', cash: '100000000' });
  });

  it('is refused, with nothing written, if it contradicts the order', async () => {
    const id = await lose();
    await expect(record(id, done([fill(1, 45, 6)]))).rejects.toThrow(RangeError);
    await expect(record(crypto.randomUUID(), done([]))).rejects.toThrow(RangeError);
    expect(await statusOf(id)).toBe('pending');
    expect(await readBooks()).toMatchObject({ fills: '0', reserved: '2336700' });
  });
});
