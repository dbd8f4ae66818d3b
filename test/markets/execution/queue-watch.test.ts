import { asc, eq } from 'drizzle-orm';
import { afterAll, beforeAll, beforeEach, expect, it, vi } from 'vitest';
import { newId } from '../../../src/core/ids.js';
import { queuePositions } from '../../../src/markets/ledger/orders-table.js';
import { CENT, parseDollars } from '../../../src/markets/market/money.js';
import type { Trade } from '../../../src/markets/orders/order.js';
import { readQueueCorrection } from '../../../src/markets/orders/queries.js';
import { readQueueErrors } from '../../../src/markets/execution/queries.js';
import { isEmbedded } from '../../support/database.js';
import { addMember, Browser, createUser } from '../../support/accounts.js';
import { createOrganization } from '../../support/fixtures.js';
import { newBook, openLiveAccount, removeKeys, TICKER, type LiveAccount } from '../support/live-account.js';
import { wireTrade } from '../support/fake-venue.js';
import { useDatabase } from '../../support/use.js';

const database = useDatabase();
let account: LiveAccount;
beforeAll(async () => {
  account = await openLiveAccount(database.db, { withStream: true });
});
afterAll(async () => {
  await account.stop();
  removeKeys();
});
beforeEach(async () => {
  for (const order of account.venue.exchange.orders)
    if (order.status === 'resting') Object.assign(order, { status: 'canceled', remaining: 0 });
  for (const [price, contracts] of newBook().yes_dollars) await show(price, Number(contracts));
  account.venue.trades = [];
  account.service.clock.advance(60_000);
  await account.live.watchResting();
  await account.live.reconcile();
  await account.service.trading.refresher.refresh();
});

/** Sets the number of contracts in the venue's book at a price and streams the change. */
async function show(price: string, contracts: number): Promise<void> {
  const { books, stream } = account.venue;
  const [, shown = 0] = books.get(TICKER)!.yes_dollars!.find(([level]) => level === price) ?? [];
  stream.change(TICKER, 'yes', price, String(contracts - Number(shown)));
  const isShown = () => {
    const level = account.service.trading.snapshots
      .current!.data.books.get(TICKER)!
      .yes.find((one) => one.price === parseDollars(price));
    return level?.contracts === contracts;
  };
  await vi.waitUntil(isShown, { timeout: 600_000, interval: 5 });
}

/** Places an order that rests in the venue's book. */
async function restAt(cents: number, contracts = 10): Promise<Trade> {
  const trade = await account.rest({ limitPrice: BigInt(cents) * CENT, contracts });
  const price = `0.${cents}00`;
  const [, shown] = account.venue.books.get(TICKER)!.yes_dollars!.find(([level]) => level === price)!;
  await show(price, Number(shown) + contracts);
  return trade;
}
const atVenue = ({ venueOrderId }: Trade) =>
  account.venue.exchange.orders.find(({ order_id: id }) => id === venueOrderId)!;
const placesOf = async ({ id }: Trade) => {
  const rows = await database.db.orm
    .select()
    .from(queuePositions)
    .where(eq(queuePositions.orderId, id))
    .orderBy(asc(queuePositions.at));
  return rows.map(({ venueAhead, paperAhead }) => [venueAhead, paperAhead]);
};
async function readAfter(seconds: number): Promise<void> {
  account.service.clock.advance(seconds * 1000);
  await account.service.trading.queueWatch!.read();
}
/** Simulates a sale of YES into the bids at a price. */
async function sellTo(cents: number, contracts: number): Promise<void> {
  const trade = wireTrade(TICKER, {
    count_fp: contracts.toFixed(2),
    yes_price_dollars: `0.${cents}00`,
    taker_side: 'no',
    taker_outcome_side: 'no',
    taker_book_side: 'ask',
    created_time: new Date(account.service.clock.now()).toISOString(),
  });
  const { books } = account.venue;
  const before = structuredClone(books.get(TICKER)!);
  account.print('ask', cents, contracts);
  const [price, left] = books.get(TICKER)!.yes_dollars!.find(([level]) => level === `0.${cents}00`)!;
  books.set(TICKER, before);
  await show(price, Number(left));
  account.venue.trades.unshift(trade);
  account.venue.stream.tell('trade', { ...trade, market_ticker: TICKER });
}
const countReads = () =>
  account.venue.requests.filter((one) => one.includes('/queue_positions?market_tickers=')).length;

it('records the queue place by the venue and by the paper queue once a minute if either has changed', async () => {
  const trade = await restAt(42);
  expect(await placesOf(trade)).toEqual([[null, 30]]);
  await readAfter(10);
  expect(await placesOf(trade)).toEqual([
    [null, 30],
    [30, 30],
  ]);
  atVenue(trade).ahead = 24.5;
  const reads = countReads();
  await readAfter(10);
  expect(countReads()).toBe(reads);
  await readAfter(60);
  await readAfter(60);
  expect(countReads()).toBe(reads + 2);
  expect(await placesOf(trade)).toEqual([
    [null, 30],
    [30, 30],
    [24.5, 30],
  ]);
});

it.runIf(isEmbedded)('counts better prices as ahead of an order', async () => {
  const trade = await restAt(40);
  await readAfter(10);
  expect(await placesOf(trade)).toEqual([
    [null, 80],
    [80, 80],
  ]);
});

it.runIf(isEmbedded)('reads again after a trade at the price of an order, and at no other', async () => {
  const trade = await restAt(42);
  await readAfter(10);
  const follows = () =>
    account.venue.stream.commands.some(({ params }) => (params.channels as string[])?.includes('trade'));
  await vi.waitUntil(follows, { timeout: 600_000 });
  const reads = countReads();
  account.service.clock.advance(2_000);
  await sellTo(42, 12);
  await vi.waitUntil(async () => (await placesOf(trade)).length === 3, { timeout: 600_000, interval: 20 });
  expect((await placesOf(trade)).at(-1)).toEqual([18, 18]);
  account.venue.stream.tell('trade', { market_ticker: TICKER, yes_price_dollars: '0.5000' });
  await new Promise((resolve) => setTimeout(resolve, 1_200));
  expect(countReads()).toBe(reads + 1);
});

it.runIf(isEmbedded)('reads and records nothing while the instance must not answer', async () => {
  const trade = await restAt(42);
  await readAfter(10);
  const reads = countReads();
  const { lifecycle } = account.service.context;
  lifecycle.refusal = { code: 'unavailable', detail: 'This version of Gauge is too old for the database.' };
  try {
    account.service.clock.advance(2_000);
    await sellTo(42, 12);
    await new Promise((resolve) => setTimeout(resolve, 1_200));
    await readAfter(60);
    expect([countReads(), await placesOf(trade)]).toEqual([
      reads,
      [
        [null, 30],
        [30, 30],
      ],
    ]);
  } finally {
    lifecycle.refusal = undefined;
  }
  await readAfter(60);
  expect((await placesOf(trade)).at(-1)).toEqual([18, 18]);
});

it.runIf(isEmbedded)('counts the account’s own earlier order once', async () => {
  const first = await restAt(42, 5);
  const later = await restAt(42, 5);
  await readAfter(10);
  account.service.clock.advance(2_000);
  await sellTo(42, 32);
  await readAfter(60);
  expect((await placesOf(first)).at(-1)![1]).toBe(0);
  expect((await placesOf(later)).at(-1)![1]).toBe(3);
});

it('shows the place on the order’s page and compares it in the report', async () => {
  const trade = await restAt(42);
  await readAfter(10);
  atVenue(trade).ahead = 20;
  await readAfter(60);
  const { url } = account.service;
  const member = await createUser(database.db);
  await addMember(database.db, account.organization.id, member.id, 'member');
  const browser = new Browser(url);
  await browser.signIn(member.email);
  const { text } = await browser.get(`/dashboard/portfolio/orders/${trade.id}`, { accept: 'text/html' });
  expect(text.replaceAll(/<[^>]*>|\s+/g, ' ').replaceAll(/ +/g, ' ')).toMatch(
    /Queue 20 ahead of it according to the venue, since .*; the paper queue would have 30/,
  );
  expect(text).toContain('data-live="0.5"');
  const day = new Date(account.service.clock.now()).toISOString().slice(0, 10);
  const response = await fetch(`${url}/scores/execution?from=${day}&to=${day}`, {
    headers: { authorization: `Bearer ${account.apiKey.secret}` },
  });
  const { queue } = (await response.json()) as { queue: { orders: number; p90Error: number } };
  expect(queue).toMatchObject({ correction: { factor: 1 } });
  expect(queue.orders).toBeGreaterThan(0);
  expect(queue.p90Error).toBeGreaterThan(0);
});

it('corrects the queue of new paper orders after thirty live orders, but only for that Organization', async () => {
  const orgId = account.organization.id;
  const { orm } = database.db;
  const now = new Date(account.service.clock.now());
  await orm.delete(queuePositions);
  const teach = async (gap: number) => {
    const [orderId, at] = [newId(now.getTime()), now.getTime() - 60_000];
    const printsSeen = { at: now.toISOString(), counted: {}, atPrice: 50 };
    await orm.insert(queuePositions).values(
      [null, 50 + gap, 0].map((venueAhead, i) => ({
        orgId,
        orderId,
        at: new Date(at + i),
        venueAhead,
        paperAhead: 50,
        printsSeen,
      })),
    );
  };
  for (let i = 0; i < 29; i++) await teach(i < 14 ? 5 : 10);
  expect(await readQueueCorrection(orm, orgId, now)).toEqual({ orders: 29, factor: 1 });
  for (let i = 0; i < 2; i++) await teach(10);
  expect(await readQueueCorrection(orm, orgId, now)).toEqual({ orders: 31, factor: 1.2 });
  const other = await createOrganization(database.db);
  expect(await readQueueCorrection(orm, other.id, now)).toEqual({ orders: 0, factor: 1 });
  const paper = await account.rest({ mode: 'paper', limitPrice: 42n * CENT });
  expect(paper.queueAhead).toBe(36);
  const day = { from: new Date(now.getTime() - 3_600_000), until: new Date(now.getTime() + 3_600_000) };
  expect(await readQueueErrors(orm, { orgId, ...day })).toEqual({
    orders: 31,
    places: 62,
    medianError: 30,
    p90Error: 50,
  });
});
