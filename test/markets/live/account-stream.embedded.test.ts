import { setTimeout as sleep } from 'node:timers/promises';
import { sql } from 'drizzle-orm';
import { afterAll, beforeAll, beforeEach, expect, it, vi } from 'vitest';
import { selectRows } from '../../../src/core/db/sql.js';
import { CENT } from '../../../src/markets/market/money.js';
import {
  expectSameCash,
  newBook,
  openLiveAccount,
  removeKeys,
  TICKER,
  type LiveAccount,
} from '../support/live-account.js';
import { useDatabase } from '../../support/use.js';

const database = useDatabase();
let account: LiveAccount;
beforeAll(async () => {
  account = await openLiveAccount(database.db, { withStream: true });
  await subscribed();
});
afterAll(async () => {
  await account.stop();
  removeKeys();
});
beforeEach(async () => {
  account.venue.stream.fault = undefined;
  account.venue.books.set(TICKER, newBook());
  await account.service.trading.refresher.refresh();
  await booksKnown();
});

const privateChannels = () =>
  account.venue.stream.commands.filter(
    ({ cmd, params }) => cmd === 'subscribe' && (params.channels as string[]).includes('fill'),
  );
const subscribed = (times = 1) =>
  vi.waitUntil(() => privateChannels().length >= times, { timeout: 600_000, interval: 5 });
const filled = (id: string, contracts: number) =>
  vi.waitUntil(async () => (await account.find(id)).filledContracts === contracts, {
    timeout: 600_000,
    interval: 2,
  });
/** Waits until the book is no longer in doubt: a disconnect also cuts the order-book stream. */
const booksKnown = () =>
  vi.waitUntil(() => !account.service.trading.snapshots.current!.data.doubts?.has(TICKER), {
    timeout: 600_000,
    interval: 5,
  });
const countReads = () => account.venue.requests.filter((one) => /portfolio\/(orders|fills)/.test(one)).length;
/** Waits longer than the service takes to gather and retry messages. */
const settle = () => sleep(150);

it('books a fill as soon as the venue reports it, without a poll', async () => {
  const trade = await account.rest();
  account.print('ask', 43, 4);
  await filled(trade.id, 4);
  account.print('ask', 43, 6);
  await filled(trade.id, 10);
  expect((await account.find(trade.id)).status).toBe('filled');
  await settle();
  await expectSameCash(account);
});

it('books a cancellation by the venue at once', async () => {
  const trade = await account.rest();
  const order = account.venue.exchange.orders.at(-1)!;
  Object.assign(order, { status: 'canceled', remaining: 0 });
  account.venue.stream.tell('user_orders', {
    order_id: order.order_id,
    client_order_id: order.client_order_id,
    fill_count_fp: '0.00',
    remaining_count_fp: '0.00',
    last_update_reason: 'SettlementBoundsCancel',
  });
  await vi.waitUntil(async () => (await account.find(trade.id)).status === 'cancelled', { timeout: 600_000 });
});

it('reads nothing for messages about booked orders or other people’s orders', async () => {
  const trade = await account.rest();
  account.print('ask', 43, 10);
  await filled(trade.id, 10);
  await settle();
  const before = countReads();
  const { stream, exchange } = account.venue;
  const [fill, order] = [exchange.fills.at(-1)!, exchange.orders.at(-1)!];
  const shown = { order_id: order.order_id, client_order_id: order.client_order_id };
  stream.tell('fill', { ...shown, trade_id: fill.fill_id });
  stream.tell('fill', { order_id: 'somebody', trade_id: 'unknown' });
  stream.tell('user_orders', { ...shown, fill_count_fp: '10.00', remaining_count_fp: '0.00' });
  await settle();
  expect(countReads()).toBe(before);
});

it('looks up all resting orders after a message that it cannot read', async () => {
  const trade = await account.rest();
  const { stream, exchange } = account.venue;
  const { tell } = exchange;
  exchange.tell = (channel, msg) => stream.tell(channel, { ...msg, order_id: 7 });
  account.print('ask', 43, 10);
  await filled(trade.id, 10);
  exchange.tell = tell;
});

it('ignores messages that name no order', async () => {
  const { stream } = account.venue;
  const trade = await account.rest();
  for (const msg of [{}, { order_id: 7, trade_id: null }, { order_id: 'x'.repeat(300), trade_id: 'y' }]) {
    stream.tell('fill', msg);
    stream.tell('user_orders', msg);
  }
  stream.say({ type: 'fill' }, false);
  account.print('ask', 43, 10);
  await filled(trade.id, 10);
});

it('looks up many orders with one list of the resting ones', async () => {
  const trades = [];
  for (let i = 0; i < 8; i++) trades.push(await account.rest({ contracts: 2 }));
  await settle();
  const from = account.venue.requests.length;
  account.print('ask', 43, 16);
  for (const { id } of trades) await filled(id, 2);
  const lists = account.venue.requests.slice(from).filter((one) => one.includes('status=resting'));
  expect(lists.length).toBeGreaterThan(0);
  await expectSameCash(account);
});

it('looks again while the venue’s lists lag behind its message', async () => {
  const trade = await account.rest();
  const { exchange } = account.venue;
  exchange.stale = { orders: structuredClone(exchange.orders), looks: 1 };
  account.print('ask', 43, 10);
  await filled(trade.id, 10);
});

it('reads what it missed after a disconnect', async () => {
  const trade = await account.rest();
  const times = privateChannels().length;
  const { stream } = account.venue;
  stream.fault = () => undefined;
  account.print('ask', 43, 10);
  await settle();
  expect((await account.find(trade.id)).filledContracts).toBe(0);
  stream.fault = undefined;
  stream.disconnect();
  await subscribed(times + 1);
  await filled(trade.id, 10);
});

it('reconnects after an error, and reads on', async () => {
  const times = privateChannels().length;
  account.venue.stream.say({ type: 'error', msg: { code: 25, msg: 'Subscription buffer overflow' } }, false);
  await subscribed(times + 1);
  await booksKnown();
  const trade = await account.rest({ limitPrice: 43n * CENT });
  account.print('ask', 43, 10);
  await filled(trade.id, 10);
});

it('books nothing and holds no lease while the instance must not answer, and catches up afterwards', async () => {
  const trade = await account.rest();
  const { lifecycle } = account.service.context;
  const times = privateChannels().length;
  await database.db.orm.execute(sql`delete from job_leases`);
  lifecycle.refusal = { code: 'clock_off', detail: "This instance's clock is 90 s behind the database's." };
  try {
    account.print('ask', 43, 10);
    // After a connection opens, all resting orders are looked up.
    account.venue.stream.disconnect();
    await subscribed(times + 1);
    await settle();
    const reads = countReads();
    await account.live.watchResting();
    await account.live.reconcile();
    expect(countReads()).toBe(reads);
    expect((await account.find(trade.id)).filledContracts).toBe(0);
    expect(await selectRows(database.db.orm, sql`select name from job_leases`)).toEqual([]);
    expect(() => account.live.assertOpen()).toThrow(
      'Live trading is closed: the version or the clock of this instance is wrong.',
    );
  } finally {
    lifecycle.refusal = undefined;
  }
  account.live.assertOpen();
  await account.live.watchResting();
  await filled(trade.id, 10);
  await expectSameCash(account);
});
