import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { byService, change } from '../../../src/accounts/audit/audit.js';
import { tradingSwitches } from '../../../src/markets/ledger/risk-table.js';
import { findLiveAccount } from '../../../src/markets/live/queries.js';
import type { Trade } from '../../../src/markets/orders/order.js';
import { toTradeJson } from '../../../src/markets/orders/trade.js';
import {
  answering,
  cut,
  disturb,
  expectSameCash,
  isChange,
  newBook,
  openLiveAccount,
  removeKeys,
  restingTerms,
  TICKER,
  tooLate,
  type LiveAccount,
} from '../support/live-account.js';
import type { FakeOrder } from '../support/fake-exchange.js';
import { useDatabase } from '../../support/use.js';

const database = useDatabase();
let account: LiveAccount;
let before: { cash: bigint; orders: number };
beforeAll(async () => {
  account = await openLiveAccount(database.db);
  const hasGroup = async () => {
    await account.live.reconcile();
    return (await findLiveAccount(database.db.orm, account.organization.id))?.orderGroupId;
  };
  await vi.waitUntil(hasGroup, { timeout: 600_000 });
});
afterAll(async () => {
  await account.stop();
  removeKeys();
});
beforeEach(async () => {
  account.venue.fault = account.venue.answerFault = undefined;
  account.venue.books.set(TICKER, newBook());
  Object.assign(account.venue.exchange, { received: [], stale: undefined, showsHolds: true, fillsLag: 0 });
  for (const order of account.venue.exchange.orders)
    if (order.status === 'resting') Object.assign(order, { status: 'canceled', remaining: 0 });
  await account.service.trading.refresher.refresh();
  await account.live.reconcile();
  before = { cash: (await account.books()).cash, orders: account.venue.exchange.orders.length };
});

const setSwitch = (ownState: 'halt' | 'open') =>
  change(account.service.context, byService, (tx) =>
    tx
      .insert(tradingSwitches)
      .values({ orgId: account.organization.id, ownState, ownAt: new Date() })
      .onConflictDoUpdate({ target: tradingSwitches.orgId, set: { ownState } }),
  );

const atVenue = ({ venueOrderId }: Trade): FakeOrder =>
  account.venue.exchange.orders.find(({ order_id: id }) => id === venueOrderId)!;

function countRequests(): (pattern: RegExp) => number {
  const from = account.venue.requests.length;
  return (pattern) => account.venue.requests.slice(from).filter((one) => pattern.test(one)).length;
}

/** Checks the invariants that hold after every test: fills are booked once, and both sides agree exactly. */
async function expectConsistent({ cost, reserved = 0n }: { cost: bigint; reserved?: bigint }): Promise<void> {
  await account.live.reconcile();
  const books = await expectSameCash(account);
  expect({ cash: books.cash, reserved: books.reserved, pending: books.pending }).toEqual({
    cash: before.cash - cost,
    reserved,
    pending: 0,
  });
  const resting = account.venue.exchange.orders.filter(({ status }) => status === 'resting');
  expect(resting).toHaveLength(books.resting);
  expect(account.live.report).toMatchObject({
    state: 'open',
    reason: null,
    differences: [],
    restingOrders: books.resting,
  });
}

/** Cash reserved for 10 contracts at 0.43 plus the taker fee: 4.30 + 0.171570, rounded up to the next $0.0001. */
const RESERVED = 4_471_600n;

/** Cancels an order that a test left in the book. */
async function clear(trade: Trade): Promise<void> {
  expect((await account.withdraw(trade)).status).toMatch(/cancelled|filled/);
}

describe('a live order that rests', () => {
  it('is sent as resting, reserves its cash, and agrees with the venue while it rests', async () => {
    const expiresAt = new Date(account.service.clock.now() + 3_600_500);
    const trade = await account.rest({
      timeInForce: 'good_till_time',
      rest: { expiresAt, postOnly: true, cancelOn: ['stale'] },
    });
    expect(trade).toMatchObject({ status: 'resting', reason: null, filledContracts: 0, finishedAt: null });
    expect(account.venue.exchange.received).toEqual([
      {
        ticker: TICKER,
        client_order_id: trade.clientOrderId,
        side: 'bid',
        count: '10.00',
        price: '0.4300',
        time_in_force: 'good_till_canceled',
        self_trade_prevention_type: 'taker_at_cross',
        exchange_index: 0,
        expiration_time: Math.floor(expiresAt.getTime() / 1000),
        post_only: true,
        order_group_id: [...account.venue.exchange.groups.keys()].at(-1),
      },
    ]);
    await expectConsistent({ cost: 0n, reserved: RESERVED });
    // Both sides also agree if the venue's balance does not deduct holds.
    account.venue.exchange.showsHolds = false;
    await expectConsistent({ cost: 0n, reserved: RESERVED });
    account.service.clock.advance(3_601_000);
    await account.live.watchResting();
    expect(await account.find(trade.id)).toMatchObject({
      status: 'cancelled',
      reason: 'The order expired before it was filled completely.',
    });
    await expectConsistent({ cost: 0n });
  });

  it('fills bit by bit: each fill is booked once and lowers the reserve', async () => {
    const trade = await account.rest();
    expect(account.print('ask', 43, 4)).toBe(4);
    await account.live.watchResting();
    expect(await account.find(trade.id)).toMatchObject({ status: 'resting', filledContracts: 4, fees: 0n });
    // 6 at 0.43 plus a fee of 0.102942.
    await expectConsistent({ cost: 1_720_000n, reserved: 2_683_000n });
    const asked = countRequests();
    await account.live.watchResting();
    expect(asked(/portfolio/)).toBe(1);
    account.print('ask', 42, 6);
    await Promise.all([account.live.watchResting(), account.live.reconcile()]);
    const filled = await account.find(trade.id);
    expect(filled).toMatchObject({ status: 'filled', filledContracts: 10, reason: null });
    expect(filled.fills.map(({ contracts, price }) => [contracts, price])).toEqual([
      [4, 430_000n],
      [6, 430_000n],
    ]);
    await expectConsistent({ cost: 4_300_000n });
    // Without resting orders, the service does not query the venue.
    const idle = countRequests();
    await account.live.watchResting();
    expect(idle(/portfolio/)).toBe(0);
  });

  it('takes what is within its limit at once, and leaves the rest in the book', async () => {
    const trade = await account.rest({ limitPrice: 450_000n });
    expect(trade).toMatchObject({ status: 'resting', filledContracts: 6, fees: 104_000n });
    // 4 at 0.45 plus a fee of 0.0693.
    await expectConsistent({ cost: 2_804_000n, reserved: 1_869_300n });
    account.print('ask', 40, 4);
    await account.live.watchResting();
    expect(await account.find(trade.id)).toMatchObject({ status: 'filled', fees: 104_000n });
    await expectConsistent({ cost: 2_804_000n + 1_800_000n });
  });

  it('is rejected if it is post-only and would trade because the book has changed', async () => {
    account.venue.books.set(TICKER, { yes_dollars: [], no_dollars: [['0.4000', '5.00']] });
    await account.service.trading.refresher.refresh();
    account.venue.books.set(TICKER, newBook());
    const trade = await account.rest({
      limitPrice: 450_000n,
      rest: { ...restingTerms.rest, postOnly: true },
    });
    expect(trade).toMatchObject({ status: 'rejected', reason: 'invalid_order: post only cross' });
    await expectConsistent({ cost: 0n });
  });

  it('sells held contracts, which cannot be sold twice', async () => {
    await account.place();
    const sale = { action: 'sell', contracts: 10, limitPrice: 440_000n } as const;
    const trade = await account.rest(sale);
    expect(trade).toMatchObject({ status: 'resting' });
    // The venue does not support `reduce_only` for resting orders.
    expect(account.venue.exchange.received.at(-1)).not.toHaveProperty('reduce_only');
    const held = account.venue.exchange.positions.get(TICKER)!;
    await expect(account.rest({ ...sale, contracts: held - 9 })).rejects.toMatchObject({
      code: 'insufficient_position',
    });
    account.print('bid', 44, 10);
    await account.live.watchResting();
    expect(await account.find(trade.id)).toMatchObject({ status: 'filled', balanceChange: 4_400_000n });
    await expectConsistent({ cost: 4_713_600n - 4_400_000n });
  });

  it('counts as filled after a decrease once the smaller rest has filled', async () => {
    const trade = await account.rest();
    account.print('ask', 43, 3);
    const less = await account.withdraw(trade, 2);
    expect(less).toMatchObject({ status: 'resting', contracts: 5, filledContracts: 3 });
    // 2 at 0.43 plus a fee of 0.034314.
    await expectConsistent({ cost: 1_290_000n, reserved: 894_400n });
    // Repeating the request changes nothing.
    expect(await account.withdraw(less, 2)).toMatchObject({ status: 'resting', contracts: 5 });
    account.print('ask', 43, 20);
    await account.live.watchResting();
    expect(await account.find(trade.id)).toMatchObject({
      status: 'filled',
      contracts: 5,
      filledContracts: 5,
    });
    await expectConsistent({ cost: 2_150_000n });
  });

  it('follows the venue if somebody changes it there by hand', async () => {
    const [first, second] = [await account.rest(), await account.rest({ limitPrice: 420_000n })];
    atVenue(first).remaining = 7;
    Object.assign(atVenue(second), { remaining: 0, status: 'canceled' });
    // 7 at 0.43 plus a fee of 0.120099.
    await expectConsistent({ cost: 0n, reserved: 3_130_100n });
    expect(await account.find(first.id)).toMatchObject({ status: 'resting', contracts: 7 });
    expect(await account.find(second.id)).toMatchObject({
      status: 'cancelled',
      reason: 'the rest was taken out of the book at the venue',
    });
    await clear(await account.find(first.id));
  });

  it('stays unchanged if the venue contradicts itself, and trading closes', async () => {
    const trade = await account.rest();
    atVenue(trade).remaining = 0;
    await account.live.watchResting();
    await account.live.reconcile();
    expect(await account.find(trade.id)).toMatchObject({ status: 'resting', contracts: 10 });
    expect(account.live.report).toMatchObject({ state: 'closed', differences: [{ kind: 'order' }] });
    atVenue(trade).remaining = 10;
    await expectConsistent({ cost: 0n, reserved: RESERVED });
    await clear(trade);
  });

  it('causes no difference while it fills between two reads', async () => {
    const trade = await account.rest();
    account.venue.answerFault = (_req, _res, path) => {
      if (path === '/portfolio/balance') account.print('ask', 43, 1);
      return false;
    };
    await account.live.reconcile();
    expect(account.live.report).toMatchObject({ state: 'open', differences: [] });
    account.venue.answerFault = undefined;
    const { filled } = atVenue(trade);
    expect((await account.find(trade.id)).filledContracts).toBe(filled);
    await clear(trade);
    await expectConsistent({ cost: BigInt(filled) * 430_000n });
  });

  it('is left at the venue when the service stops', async () => {
    const trade = await account.rest();
    const next = await account.start();
    await next.trading.live!.reconcile();
    await next.trading.live!.stop();
    expect(atVenue(trade).status).toBe('resting');
    await clear(trade);
  });
});

describe('a resting order whose answer is lost is looked up and never sent again:', () => {
  it.each([
    ['the connection is cut', cut],
    ['the answer comes after the time-out', tooLate],
    ['the answer is an HTML page', answering(200, '<html>')],
    ['the answer is a 500', answering(500, { code: 'x' })],
    ['a gateway times out', answering(504, '<html>')],
    ['the venue reports that it exists already', answering(409, { error: { code: 'order_already_exists' } })],
  ])('%s', async (_name, fault) => {
    disturb(account, 'after', fault);
    const trade = await account.rest();
    expect(trade).toMatchObject({ status: 'resting', venueOrderId: expect.any(String) });
    expect(account.arrived()).toHaveLength(1);
    await expectConsistent({ cost: 0n, reserved: RESERVED });
    await clear(trade);
    await expectConsistent({ cost: 0n });
  });

  it.each([
    ['the connection is cut first', cut],
    ['the venue answers 503', answering(503, 'down')],
  ])('%s, and it never reached the book', async (_name, fault) => {
    disturb(account, 'before', fault);
    const trade = await account.rest();
    expect(trade.status).toBe('pending');
    account.service.clock.advance(61_000);
    await expectConsistent({ cost: 0n });
    expect(await account.find(trade.id)).toMatchObject({
      status: 'cancelled',
      reason: 'never reached the venue',
    });
  });

  it('it arrives after all lookups have ended, and rests', async () => {
    disturb(account, 'before', tooLate);
    const trade = await account.rest();
    await expect.poll(() => account.arrived().length).toBe(1);
    await account.live.reconcile();
    const found = await account.find(trade.id);
    expect(found.status).toBe('resting');
    await expectConsistent({ cost: 0n, reserved: RESERVED });
    await clear(found);
  });

  it('it reaches the venue twice, and rests once', async () => {
    const trade = await account.rest();
    const createdAt = new Date(account.service.clock.now());
    const again = await account.live.send({ ...trade, createdAt, feeRule: undefined as never });
    expect(again).toMatchObject({ kind: 'resting', venueOrderId: trade.venueOrderId, contracts: 10 });
    account.venue.exchange.received.pop();
    await clear(trade);
    await expectConsistent({ cost: 0n });
  });

  it('the venue answers 429, and it is rejected', async () => {
    disturb(account, 'before', answering(429, { error: 'too many requests' }));
    expect(await account.rest()).toMatchObject({ status: 'rejected', reason: 'too_many_requests' });
    await expectConsistent({ cost: 0n });
  });

  it('its fills are listed late', async () => {
    account.venue.exchange.fillsLag = 10;
    const trade = await account.rest({ limitPrice: 450_000n });
    expect(trade).toMatchObject({ status: 'resting', filledContracts: 0 });
    account.venue.exchange.fillsLag = 0;
    await account.live.watchResting();
    expect(await account.find(trade.id)).toMatchObject({ status: 'resting', filledContracts: 6 });
    await clear(trade);
    await expectConsistent({ cost: 2_804_000n });
  });
});

const ways = [
  ['cancelled', 0, { status: 'cancelled', contracts: 10 }],
  ['decreased', 4, { status: 'resting', contracts: 4 }],
] as const;

describe.each(ways)('an order being %s', (way, remaining, ended) => {
  const left = way === 'decreased' ? { cost: 0n, reserved: 1_788_700n } : { cost: 0n };

  it.each([
    ['the connection is cut', cut],
    ['the answer comes after the time-out', tooLate],
    ['the answer is an HTML page', answering(200, '<html>')],
    ['the answer is a 500', answering(500, { code: 'x' })],
    ['a gateway times out', answering(504, '<html>')],
    ['the venue does not know the order', answering(404, { error: { code: 'order_not_found' } })],
    ['the answer is a conflict', answering(409, { error: { code: 'conflict' } })],
    ['the answer is a 429', answering(429, '<html>')],
  ])('ends as requested whatever the answer: %s', async (_name, fault) => {
    const trade = await account.rest();
    disturb(account, 'after', fault);
    expect(await account.withdraw(trade, remaining)).toMatchObject(ended);
    await expectConsistent(left);
    if (remaining > 0) await clear(trade);
  });

  it.each([
    ['the connection is cut first', cut],
    ['the venue answers 503', answering(503, 'down')],
    ['the answer is an HTML page', answering(200, '<html>')],
    ['the venue answers 429', answering(429, { error: 'too many requests' })],
    ['the request arrives after the time-out', tooLate],
  ])('has its request repeated: %s', async (_name, fault) => {
    const trade = await account.rest();
    disturb(account, 'before', fault);
    expect(await account.withdraw(trade, remaining)).toMatchObject(ended);
    await expectConsistent(left);
    if (remaining > 0) await clear(trade);
  });

  it('stays open with that reason while the venue cannot be read', async () => {
    const trade = await account.rest();
    account.venue.fault = (req, res, path) => isChange(req, path) && answering(503, 'down')(req, res);
    expect(await account.withdraw(trade, remaining)).toMatchObject({
      status: 'resting',
      contracts: 10,
      reason: expect.stringMatching(/is not confirmed: the venue answered 503/),
    });
    account.venue.fault = undefined;
    await expectConsistent({ cost: 0n, reserved: RESERVED });
    expect(await account.withdraw(trade, remaining)).toMatchObject(ended);
    if (remaining > 0) await clear(trade);
    await expectConsistent({ cost: 0n });
  });

  it('stays open while the market refuses the request, which is sent once', async () => {
    const trade = await account.rest();
    account.venue.fault = (req, res, path) =>
      isChange(req, path) && answering(400, { error: { code: 'market_inactive' } })(req, res);
    const asked = countRequests();
    expect(await account.withdraw(trade, remaining)).toMatchObject({
      status: 'resting',
      reason: expect.stringMatching(/is not confirmed: market_inactive/),
    });
    expect(asked(/events\/orders/)).toBe(1);
    account.venue.fault = undefined;
    await clear(trade);
  });

  it('stays open until the venue’s list, which may lag, shows it', async () => {
    const trade = await account.rest();
    account.venue.exchange.stale = { orders: structuredClone(account.venue.exchange.orders), looks: 2 };
    const asked = countRequests();
    expect(await account.withdraw(trade, remaining)).toMatchObject(ended);
    expect(asked(/events\/orders/)).toBe(1);
    const second = await account.rest({ limitPrice: 410_000n });
    account.venue.exchange.stale = { orders: structuredClone(account.venue.exchange.orders), looks: 3 };
    expect(await account.withdraw(second, remaining)).toMatchObject({
      status: 'resting',
      reason: expect.stringMatching(/still shows the order as it was/),
    });
    await account.live.watchResting();
    expect(await account.find(second.id)).toMatchObject(ended);
    if (remaining > 0) for (const one of [trade, second]) await clear(one);
    await expectConsistent({ cost: 0n });
  });

  it.each([
    ['a retired endpoint', 'before', answering(410, { error: { code: 'deprecated_v1_order_endpoint' } })],
    [
      'an error with status 200',
      'before',
      answering(200, { error: { code: 'deprecated_v1_order_endpoint' } }),
    ],
    ['a renamed field', 'after', answering(200, { id: 'x', reduced_by: '10.00' })],
    ['another order', 'after', answering(200, { order_id: 'x', ts_ms: 1 })],
  ] as const)('closes trading on an unexpected answer: %s', async (_name, when, fault) => {
    const trade = await account.rest();
    disturb(account, when, fault);
    const asked = countRequests();
    const changed = await account.withdraw(trade, remaining);
    expect(changed).toMatchObject(when === 'after' ? ended : { status: 'resting', contracts: 10 });
    expect(asked(/events\/orders/)).toBe(1);
    expect(() => account.live.assertOpen()).toThrow(
      /Live trading is closed: the venue's answer to a (cancellation|decrease)/,
    );
    await account.live.reconcile();
    expect(account.live.report).toMatchObject({ state: 'closed', differences: [] });
    // Resting orders can still be cancelled.
    await clear(changed);
    const source = { actor: 'operator', at: new Date(), ip: undefined, requestId: undefined };
    await account.live.accept(source, byService);
    await expectConsistent({ cost: 0n });
  });
});

describe('a fill that crosses a cancellation or a decrease', () => {
  it.each([
    ['completely', 10, 'filled', 4_300_000n],
    ['in part', 4, 'partially_filled', 1_720_000n],
  ] as const)('is booked once, as the venue reports it (%s)', async (_name, contracts, status, cost) => {
    for (const fault of [undefined, cut, tooLate]) {
      const trade = await account.rest();
      account.venue.fault = (req, _res, path) => {
        if (isChange(req, path) && atVenue(trade).filled === 0) account.print('ask', 43, contracts);
        return false;
      };
      if (fault) disturb(account, 'after', fault);
      const ended = await account.withdraw(trade);
      expect(ended).toMatchObject({ status, filledContracts: contracts, balanceChange: -cost });
      account.venue.fault = undefined;
      await account.live.watchResting();
      expect(toTradeJson(await account.find(trade.id))).toEqual(toTradeJson(ended));
    }
    await expectConsistent({ cost: 3n * cost });
  });

  it('can leave fewer contracts than the decrease asked for', async () => {
    const trade = await account.rest();
    account.venue.fault = (req, _res, path) => {
      if (isChange(req, path) && atVenue(trade).filled === 0) account.print('ask', 43, 8);
      return false;
    };
    expect(await account.withdraw(trade, 5)).toMatchObject({
      status: 'resting',
      contracts: 10,
      filledContracts: 8,
    });
    account.venue.fault = undefined;
    await clear(trade);
    await expectConsistent({ cost: 3_440_000n });
  });

  it('has one outcome for all concurrent callers', async () => {
    const next = await account.start();
    await next.trading.live!.reconcile();
    const trade = await account.rest();
    account.venue.fault = (req, _res, path) => {
      if (isChange(req, path) && atVenue(trade).filled === 0) account.print('ask', 43, 4);
      return false;
    };
    const ends = await Promise.all([
      account.withdraw(trade),
      account.withdraw(trade, 0, next),
      account.withdraw(trade, 3),
      account.live.watchResting(),
      next.trading.live!.watchResting(),
      account.live.reconcile(),
    ]);
    account.venue.fault = undefined;
    const ended = await account.find(trade.id);
    expect(ended).toMatchObject({
      status: 'partially_filled',
      filledContracts: 4,
      fills: [{ contracts: 4 }],
    });
    expect(ends[0]).toMatchObject({ status: 'partially_filled', filledContracts: 4 });
    await expectConsistent({ cost: 1_720_000n });
    await next.stop();
  });
});

describe('a restart', () => {
  it('between sending and the answer finds the order in the book', async () => {
    const trade = await account.persist({ ...restingTerms });
    await account.live.send({ ...trade, feeRule: undefined as never });
    account.print('ask', 43, 3);
    account.service.clock.advance(61_000);
    await account.live.reconcile();
    const found = await account.find(trade.id);
    expect(found).toMatchObject({ status: 'resting', filledContracts: 3 });
    await expectConsistent({ cost: 1_290_000n, reserved: 3_130_100n });
    await clear(found);
  });

  it('between a cancellation and its answer finds the order ended', async () => {
    const trade = await account.rest();
    const next = await account.start();
    await next.trading.live!.reconcile();
    let stopped: Promise<void> | undefined;
    account.venue.answerFault = (req, _res, path) => {
      if (!isChange(req, path)) return false;
      account.venue.answerFault = undefined;
      stopped = next.trading.live!.stop();
      return cut(req, _res);
    };
    const outcome = await next.trading.live!.cancel({
      ...trade,
      feeRule: { type: 'quadratic', multiplier: 1_000_000n },
    });
    expect(outcome).toMatchObject({ kind: 'unknown', reason: expect.stringMatching(/service is stopping/) });
    await stopped;
    expect((await account.find(trade.id)).status).toBe('resting');
    await account.live.watchResting();
    expect((await account.find(trade.id)).status).toBe('cancelled');
    await expectConsistent({ cost: 0n });
  });
});

describe('the Organization of a resting live order', () => {
  it('cancels it once, however often it asks, and learns of a crossing fill', async () => {
    const trade = await account.rest();
    account.print('ask', 43, 4);
    const asked = countRequests();
    const ends = await Promise.all([account.cancel(trade), account.cancel(trade)]);
    for (const end of ends)
      expect(end).toMatchObject({
        status: 'partially_filled',
        filledContracts: 4,
        reason: 'Cancelled on request.',
      });
    expect(asked(/events\/orders/)).toBeLessThanOrEqual(2);
    expect(await account.cancel(trade)).toEqual(ends[0]);
    await expectConsistent({ cost: 1_720_000n });
  });

  it('learns that a cancellation is unconfirmed, and the service repeats it', async () => {
    const trade = await account.rest();
    account.venue.fault = (req, res, path) => isChange(req, path) && answering(503, 'down')(req, res);
    expect(await account.cancel(trade)).toMatchObject({
      status: 'resting',
      reason: expect.stringMatching(/not confirmed/),
    });
    expect(await account.books()).toMatchObject({ reserved: RESERVED });
    account.venue.fault = undefined;
    await account.service.trading.resting.pass();
    expect(await account.find(trade.id)).toMatchObject({
      status: 'cancelled',
      reason: 'Cancelled on request.',
    });
    await expectConsistent({ cost: 0n });
  });

  it('decreases it, never to more than the venue has left', async () => {
    const trade = await account.rest();
    account.print('ask', 43, 8);
    expect(await account.decrease(trade, 5)).toMatchObject({
      status: 'resting',
      contracts: 10,
      filledContracts: 8,
    });
    expect(await account.decrease(trade, 1)).toMatchObject({ status: 'resting', contracts: 9 });
    await expect(account.decrease(trade, 2)).rejects.toMatchObject({ code: 'invalid_request' });
    expect(await account.decrease(trade, 0)).toMatchObject({
      status: 'partially_filled',
      filledContracts: 8,
    });
    await expectConsistent({ cost: 3_440_000n });
  });

  it('halts its trading, which cancels all its orders with one request', async () => {
    const trades = [await account.rest(), await account.rest({ limitPrice: 420_000n })];
    account.print('ask', 43, 4);
    await setSwitch('halt');
    const asked = countRequests();
    await account.service.trading.resting.pass();
    const reason = expect.stringMatching(/^Cancelled: the .* is at halt/) as string;
    expect(await Promise.all(trades.map(({ id }) => account.find(id)))).toMatchObject([
      { status: 'partially_filled', filledContracts: 4, reason },
      { status: 'cancelled', reason },
    ]);
    expect([asked(/order_groups/), asked(/events\/orders/)]).toEqual([1, 0]);
    await setSwitch('open');
    await expectConsistent({ cost: 1_720_000n });
  });

  it('halts its trading while the venue is down, and the cancellation is repeated until it succeeds', async () => {
    const trades = [await account.rest(), await account.rest({ limitPrice: 420_000n })];
    account.venue.fault = (req, res) => req.method !== 'GET' && answering(503, 'down')(req, res);
    await setSwitch('halt');
    await account.service.trading.resting.pass();
    for (const { id } of trades) expect((await account.find(id)).status).toBe('resting');
    account.venue.fault = undefined;
    await account.service.trading.resting.pass();
    for (const { id } of trades) expect((await account.find(id)).status).toBe('cancelled');
    await setSwitch('open');
    await expectConsistent({ cost: 0n });
  });

  it('has it cancelled by its own condition when the data are stale', async () => {
    const rest = { ...restingTerms.rest, cancelOn: ['stale'] as const };
    const [stays, goes] = [await account.rest(), await account.rest({ limitPrice: 420_000n, rest })];
    account.service.clock.advance(61_000);
    const { resting } = account.service.trading;
    // Without fresh data, the first pass only offers the work to other instances.
    await resting.pass();
    await resting.pass();
    expect(await account.find(stays.id)).toMatchObject({ status: 'resting' });
    expect(await account.find(goes.id)).toMatchObject({
      status: 'cancelled',
      reason: expect.stringMatching(/^Cancelled automatically: /),
    });
    await clear(stays);
    await expectConsistent({ cost: 0n });
  });
});

describe('all resting orders', () => {
  const groups = () => [...account.venue.exchange.groups.keys()];

  it('are cancelled with one request, and later orders join a new group', async () => {
    const trades = [await account.rest(), await account.rest({ limitPrice: 420_000n })];
    const foreign = { ...atVenue(trades[0]!), order_id: 'by-hand', client_order_id: '', group: undefined };
    account.venue.exchange.orders.push(foreign);
    account.print('ask', 43, 4);
    const { group } = atVenue(trades[0]!);
    const asked = countRequests();
    await account.live.cancelAll(account.organization.id);
    expect(asked(/order_groups/)).toBe(1);
    expect(asked(/events\/orders/)).toBe(0);
    const [first, second] = await Promise.all(trades.map(({ id }) => account.find(id)));
    expect(first).toMatchObject({ status: 'partially_filled', filledContracts: 4 });
    expect(second).toMatchObject({ status: 'cancelled' });
    expect(foreign.status).toBe('resting');
    account.venue.exchange.orders.pop();
    await expectConsistent({ cost: 1_720_000n });
    expect(groups()).not.toContain(group);
    const next = await account.rest();
    expect(groups()).toContain(atVenue(next).group);
    await clear(next);
  });

  it('stay if that request is lost, and can be cancelled one by one', async () => {
    const trade = await account.rest();
    account.venue.fault = (req, res, path) =>
      path.startsWith('/portfolio/order_groups') && req.method !== 'GET' && cut(req, res);
    await account.live.cancelAll(account.organization.id);
    expect((await account.find(trade.id)).status).toBe('resting');
    await clear(trade);
    // If creating a group fails, orders are sent without one.
    await account.live.reconcile();
    const next = await account.rest();
    expect(atVenue(next).group).toBeUndefined();
    account.venue.fault = undefined;
    await clear(next);
    await expectConsistent({ cost: 0n });
  });

  it('join a new group once the venue no longer knows theirs', async () => {
    account.venue.exchange.groups.clear();
    expect((await account.rest()).status).toBe('rejected');
    await account.live.reconcile();
    const trade = await account.rest();
    expect(groups()).toContain(atVenue(trade).group);
    await clear(trade);
  });
});

describe('an unexpected order in the book', () => {
  it('is cancelled if it was given up as lost and arrived after all', async () => {
    const trade = await account.persist({ ...restingTerms });
    account.service.clock.advance(61_000);
    await account.live.reconcile();
    expect((await account.find(trade.id)).status).toBe('cancelled');
    await account.live.send({
      ...trade,
      createdAt: new Date(account.service.clock.now()),
      feeRule: undefined as never,
    });
    account.print('ask', 43, 2);
    await expectConsistent({ cost: 860_000n });
    expect(account.venue.exchange.orders.at(-1)!.status).toBe('canceled');
    expect(await account.find(trade.id)).toMatchObject({ status: 'partially_filled', filledContracts: 2 });
  });

  it('is left alone if others placed it, and its cash is not a difference', async () => {
    const mine = await account.rest();
    const exchange = account.venue.exchange;
    const byHand = { ...atVenue(mine), order_id: 'by-hand', client_order_id: '', price: 30 };
    exchange.orders.push(byHand);
    await account.live.reconcile();
    expect(account.live.report).toMatchObject({
      state: 'open',
      foreign: { orders: [{ venueOrderId: 'by-hand', status: 'resting' }] },
    });
    await account.withdraw(mine);
    await account.live.reconcile();
    expect(account.live.report.state).toBe('open');
    expect(byHand.status).toBe('resting');
    // Missing cash that no order explains is reported.
    exchange.balanceCents -= 5_000;
    await account.live.reconcile();
    expect(account.live.report).toMatchObject({ state: 'closed', differences: [{ kind: 'cash' }] });
    exchange.balanceCents += 5_000;
    exchange.orders.pop();
    await expectConsistent({ cost: 0n });
  });
});

describe('an order that the venue has lost', () => {
  it('closes trading, and ends once an operator accepts the difference', async () => {
    const trade = await account.rest();
    const { exchange } = account.venue;
    exchange.orders = exchange.orders.filter((order) => order !== atVenue(trade));
    await account.live.reconcile();
    expect(account.live.report).toMatchObject({
      state: 'closed',
      differences: [{ kind: 'order', ours: 'resting, 0.00 filled', venues: 'not listed' }],
    });
    const source = { actor: 'operator', at: new Date(), ip: undefined, requestId: undefined };
    await account.live.accept(source, byService);
    expect(await account.find(trade.id)).toMatchObject({
      status: 'cancelled',
      reason: 'the venue no longer knows it',
    });
    await expectConsistent({ cost: 0n });
  });
});

describe('an order with its own account', () => {
  let shared: LiveAccount;
  beforeAll(async () => {
    shared = account;
    account = await openLiveAccount(database.db);
  });
  afterAll(async () => {
    await account.stop();
    account = shared;
  });

  it('is compared and filled after resting for more than a day', async () => {
    const trade = await account.rest();
    account.service.clock.advance(3 * 24 * 60 * 60 * 1000);
    account.venue.exchange.archiveBefore = account.service.clock.now() - 60_000;
    account.venue.exchange.fillsArchivedBefore = 0;
    await expectConsistent({ cost: 0n, reserved: RESERVED });
    account.print('ask', 43, 10);
    await account.live.watchResting();
    expect((await account.find(trade.id)).status).toBe('filled');
    await expectConsistent({ cost: 4_300_000n });
  });
});
