import type { IncomingMessage } from 'node:http';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { isEmbedded } from '../../support/database.js';
import {
  answering,
  cut,
  expectSameCash,
  type LiveAccount,
  newBook,
  TICKER,
  removeKeys,
  openLiveAccount,
  tooLate,
} from '../support/live-account.js';
import { byService } from '../../../src/accounts/audit/audit.js';
import { useDatabase } from '../../support/use.js';

const database = useDatabase();
let account: LiveAccount;
let before: { cash: bigint; orders: number };
beforeAll(async () => {
  account = await openLiveAccount(database.db);
});
afterAll(async () => {
  await account.stop();
  removeKeys();
});
beforeEach(async () => {
  // An order costs the same at any balance, so most tests share one account.
  account.venue.fault = account.venue.answerFault = undefined;
  account.venue.books.set(TICKER, newBook());
  account.venue.exchange.received = [];
  await account.service.trading.refresher.refresh();
  before = { cash: (await account.books()).cash, orders: account.venue.exchange.orders.length };
});

const isOrder = (req: IncomingMessage, path: string) =>
  req.method === 'POST' && path === '/portfolio/events/orders';
/** Cost of 6 contracts at 0.45 and 4 at 0.46, plus $0.1736 of fees: 2.70 + 1.84 + 0.1736. */
const COST = 4_713_600n;

/**
 * Checks the invariants that hold after every test: the expected number of orders at the venue, nothing reserved, and
 * both sides in exact agreement.
 */
async function expectConsistent({ orders, cost }: { orders: number; cost: bigint }): Promise<void> {
  await account.live.reconcile();
  expect(account.venue.exchange.orders.length - before.orders).toBe(orders);
  const { cash, reserved, pending } = await expectSameCash(account);
  expect({ cash, reserved, pending }).toEqual({ cash: before.cash - cost, reserved: 0n, pending: 0 });
  expect(account.live.report).toMatchObject({ state: 'open', reason: null, differences: [] });
}

async function expectReadsGoOn(): Promise<void> {
  await account.service.trading.refresher.refresh();
  expect(account.service.trading.snapshots.current!.sources[0]).toMatchObject({ state: 'ok' });
}

describe('a live order', () => {
  it('is sent once, signed, and booked with exactly the venue’s fills and fees', async () => {
    const trade = await account.place();
    expect(trade).toMatchObject({
      status: 'filled',
      filledContracts: 10,
      fees: 173_600n,
      balanceChange: -COST,
    });
    expect(trade.fills.map(({ price, contracts, fee }) => [price, contracts, fee])).toEqual([
      [450_000n, 6, 104_000n],
      [460_000n, 4, 69_600n],
    ]);
    expect(trade.venueOrderId).toBe(account.venue.exchange.orders.at(-1)!.order_id);
    expect(account.venue.exchange.received).toEqual([
      {
        ticker: TICKER,
        client_order_id: trade.clientOrderId,
        side: 'bid',
        count: '10.00',
        price: '0.4700',
        time_in_force: 'immediate_or_cancel',
        self_trade_prevention_type: 'taker_at_cross',
        exchange_index: 0,
      },
    ]);
    await expectConsistent({ orders: 1, cost: COST });
  });

  it('takes what is within its limit and cancels the rest', async () => {
    const trade = await account.place({ limitPrice: 450_000n });
    expect(trade).toMatchObject({ status: 'partially_filled', filledContracts: 6 });
    // The service still checks the order against the old book, but the venue's book is empty now.
    account.venue.books.set(TICKER, { yes_dollars: [], no_dollars: [] });
    const none = await account.place({ limitPrice: 460_000n });
    expect(none).toMatchObject({ status: 'cancelled', filledContracts: 0 });
    // 6 × 0.45 + 0.10395
    await expectConsistent({ orders: 2, cost: 2_804_000n });
  });

  it('is killed if it cannot fill completely, which is not an error', async () => {
    const trade = await account.place({ limitPrice: 450_000n, timeInForce: 'fill_or_kill' });
    expect(trade).toMatchObject({ status: 'cancelled', filledContracts: 0 });
    await expectConsistent({ orders: 0, cost: 0n });
  });
});

describe('an order whose answer is lost is looked up and never sent again:', () => {
  it.each([
    ['carried out, then the connection is cut', cut],
    ['carried out, with the answer after the time-out', tooLate],
    ['carried out, with an HTML page as the answer', answering(200, '<html>')],
    ['carried out, with a 500 as the answer', answering(500, { code: 'x' })],
    ['carried out, with a gateway time-out', answering(504, '<html>')],
    [
      'carried out, with a conflict as if sent twice',
      answering(409, { error: { code: 'order_already_exists' } }),
    ],
  ])('%s', async (_name, fault) => {
    account.venue.answerFault = (req, res, path) => isOrder(req, path) && fault(req, res);
    const trade = await account.place();
    expect(trade).toMatchObject({ status: 'filled', filledContracts: 10, balanceChange: -COST });
    await expectReadsGoOn();
    await expectConsistent({ orders: 1, cost: COST });
    expect(account.arrived()).toHaveLength(1);
  });

  it('its cash stays reserved until the venue can be read and the order is booked', async () => {
    account.venue.answerFault = cut;
    const trade = await account.place();
    // 10 × 0.47 plus a fee of 0.17437.
    expect(trade).toMatchObject({ status: 'pending', filledContracts: 0 });
    expect(await account.books()).toMatchObject({ cash: before.cash, reserved: 4_874_400n, pending: 1 });
    await account.live.reconcile();
    expect((await account.find(trade.id)).status).toBe('pending');
    account.venue.answerFault = undefined;
    await expectConsistent({ orders: 1, cost: COST });
    expect((await account.find(trade.id)).status).toBe('filled');
    expect(account.arrived()).toHaveLength(1);
  });

  it.each([
    ['the connection is cut', cut],
    [
      'the request times out',
      async (...request: Parameters<typeof cut>) => (await tooLate(...request)) || cut(...request),
    ],
    ['the venue answers 503', answering(503, 'down')],
  ])('%s before it is carried out', async (_name, fault) => {
    account.venue.fault = (req, res, path) => isOrder(req, path) && fault(req, res);
    const trade = await account.place();
    expect(trade.status).toBe('pending');
    account.venue.fault = undefined;
    await expectReadsGoOn();
    // The order might still arrive, so its absence at the venue proves nothing yet.
    account.service.clock.advance(59_000);
    await account.live.reconcile();
    expect(await account.books()).toMatchObject({ reserved: 4_874_400n, pending: 1 });
    account.service.clock.advance(2_000);
    await expectConsistent({ orders: 0, cost: 0n });
    expect(await account.find(trade.id)).toMatchObject({
      status: 'cancelled',
      reason: 'never reached the venue',
    });
  });

  it('no other order of its market is sent until its outcome is known', async () => {
    account.venue.fault = (req, res, path) => isOrder(req, path) && cut(req, res);
    const lost = await account.place();
    account.venue.fault = undefined;
    expect(lost.status).toBe('pending');
    await expect(account.place()).rejects.toMatchObject({
      code: 'unavailable',
      message: expect.stringContaining('unknown since') as string,
    });
    expect(account.arrived()).toEqual([]);
    account.service.clock.advance(61_000);
    await account.live.reconcile();
    await account.service.trading.refresher.refresh();
    expect((await account.place()).status).toBe('filled');
    await expectConsistent({ orders: 1, cost: COST });
  });

  it('orders placed together in one market are sent one after the other', async () => {
    let [atOnce, most] = [0, 0];
    account.venue.fault = async (req, _res, path) => {
      if (!isOrder(req, path)) return false;
      most = Math.max(most, ++atOnce);
      await new Promise((resolve) => setTimeout(resolve, 20));
      atOnce--;
      return false;
    };
    const trades = await Promise.all([1, 2, 3].map(() => account.place({ contracts: 1 })));
    expect(trades.map(({ status }) => status)).toEqual(['filled', 'filled', 'filled']);
    expect(most).toBe(1);
    // Three orders for 1 contract at 0.45, each with $0.0174 of fees.
    await expectConsistent({ orders: 3, cost: 1_402_200n });
  });

  it('it is booked even if it is carried out after it was given up as lost', async () => {
    const trade = await account.persist();
    account.service.clock.advance(61_000);
    await account.live.reconcile();
    expect((await account.find(trade.id)).status).toBe('cancelled');
    await account.live.send({
      ...trade,
      createdAt: new Date(account.service.clock.now()),
      feeRule: undefined as never,
    });
    await expectConsistent({ orders: 1, cost: COST });
    expect((await account.find(trade.id)).status).toBe('filled');
  });
});

describe.runIf(isEmbedded)('an order that the venue refuses is rejected at once, with the reason:', () => {
  it.each([
    [
      'insufficient balance',
      400,
      { error: { code: 'insufficient_balance', message: 'm' } },
      {},
      'insufficient_balance: m',
    ],
    ['a closed market', 409, { error: { code: 'market_closed' } }, {}, 'market_closed'],
    ['too many requests', 429, { error: 'too many requests' }, {}, 'too_many_requests'],
    ['too many requests, with Retry-After', 429, '<html>', { 'retry-after': '1' }, 'too_many_requests'],
  ])('%s', async (_name, status, body, headers, reason) => {
    account.venue.fault = (req, res, path) =>
      isOrder(req, path) && answering(status, body, headers)(req, res);
    const trade = await account.place();
    // After a 409, the service looks up the order before it treats the order as rejected.
    expect(trade).toMatchObject(
      status === 409 ? { status: 'rejected', reason } : { status: 'rejected', reason, filledContracts: 0 },
    );
    account.venue.fault = undefined;
    await expectReadsGoOn();
    await expectConsistent({ orders: 0, cost: 0n });
  });

  it('an order that has waited longer than the send limit is not sent', async () => {
    const trade = await account.persist();
    account.service.clock.advance(11_000);
    const outcome = await account.live.send({ ...trade, feeRule: undefined as never });
    expect(outcome).toMatchObject({ kind: 'rejected', reason: expect.stringMatching(/^not sent/) });
    expect(account.arrived()).toEqual([]);
    account.service.clock.advance(61_000);
    await expectConsistent({ orders: 0, cost: 0n });
  });
});

describe.runIf(isEmbedded)('an unexpected venue answer closes trading until an operator accepts it:', () => {
  it.each([
    ['a retired endpoint', 'before', answering(410, { error: { code: 'deprecated_v1_order_endpoint' } })],
    [
      'an error with status 200',
      'before',
      answering(200, { error: { code: 'deprecated_v1_order_endpoint' } }),
    ],
    ['a renamed field', 'after', answering(201, { order_id: 'x', filled: '10.00', remaining_count: '0.00' })],
  ] as const)('%s', async (_name, when, answer) => {
    account.venue[when === 'before' ? 'fault' : 'answerFault'] = (req, res, path) =>
      isOrder(req, path) && answer(req, res);
    const trade = await account.place();
    expect(trade.status).toBe(when === 'before' ? 'pending' : 'filled');
    expect(() => account.live.assertOpen()).toThrow(/Live trading is closed: the venue's answer to an order/);
    account.service.clock.advance(61_000);
    await account.live.reconcile();
    await expectReadsGoOn();
    // Both sides agree again, but no operator has accepted the venue's numbers.
    expect(account.live.report).toMatchObject({ state: 'closed', differences: [], pendingOrders: 0 });
    const second = await account.start();
    await second.trading.live!.reconcile();
    expect(second.trading.live!.report.state).toBe('closed');
    account.venue.fault = account.venue.answerFault = undefined;
    const source = { actor: 'operator', at: new Date(), ip: undefined, requestId: undefined };
    await account.live.accept(source, byService);
    await second.trading.live!.reconcile();
    expect(second.trading.live!.report.state).toBe('open');
    await expectConsistent(when === 'before' ? { orders: 0, cost: 0n } : { orders: 1, cost: COST });
  });
});

describe('fills', () => {
  it('are read until they add up to the order’s filled count', async () => {
    account.venue.exchange.fillsLag = 2;
    expect(await account.place()).toMatchObject({ status: 'filled', balanceChange: -COST });
    await expectConsistent({ orders: 1, cost: COST });
  });

  it('that are not listed yet leave the order pending and are booked later', async () => {
    account.venue.exchange.fillsLag = 10;
    const trade = await account.place();
    expect(trade).toMatchObject({
      status: 'pending',
      reason: 'the venue lists 0.00 of 10.00 filled contracts',
    });
    await account.live.reconcile();
    account.venue.exchange.fillsLag = 0;
    await expectConsistent({ orders: 1, cost: COST });
  });
});

describe('a restart', () => {
  it('between storing and sending releases the cash of the unsent order after the safe time', async () => {
    const trade = await account.persist();
    const next = await account.start();
    await next.trading.live!.reconcile();
    expect(() => next.trading.live!.assertOpen()).toThrow(/Live trading is closed/);
    expect((await account.find(trade.id)).status).toBe('pending');
    account.service.clock.advance(61_000);
    await expectConsistent({ orders: 0, cost: 0n });
    expect(await account.find(trade.id)).toMatchObject({
      status: 'cancelled',
      reason: 'never reached the venue',
    });
    expect(account.arrived()).toEqual([]);
  });

  it('between sending and the answer finds the order at the venue and books it', async () => {
    const trade = await account.persist();
    await account.live.send({ ...trade, feeRule: undefined as never });
    const next = await account.start();
    expect(() => next.trading.live!.assertOpen()).toThrow(/have not been compared/);
    await next.trading.live!.reconcile();
    expect(await account.find(trade.id)).toMatchObject({ status: 'filled', balanceChange: -COST });
    expect(next.trading.live!.report.state).toBe('open');
    await expectConsistent({ orders: 1, cost: COST });
    expect(account.arrived()).toHaveLength(1);
  });

  it('of two instances still books an order once', async () => {
    const trade = await account.persist();
    await account.live.send({ ...trade, feeRule: undefined as never });
    const next = await account.start();
    await Promise.all([account.live.reconcile(), next.trading.live!.reconcile()]);
    await expectConsistent({ orders: 1, cost: COST });
  });

  it('cancels a stray order that rests in the book', async () => {
    const trade = await account.persist();
    await account.live.send({ ...trade, feeRule: undefined as never });
    Object.assign(account.venue.exchange.orders.at(-1)!, { status: 'resting', count: 12, remaining: 2 });
    account.service.clock.advance(61_000);
    await expectConsistent({ orders: 1, cost: COST });
    expect(account.venue.exchange.orders.at(-1)!.status).toBe('canceled');
  });
});

describe('with its own account,', () => {
  let shared: LiveAccount;
  beforeEach(async () => {
    shared = account;
    account = await openLiveAccount(database.db);
    before = { cash: 1_000_000_000n, orders: 0 };
  });
  afterEach(async () => {
    await account.stop();
    account = shared;
  });

  it('both sides agree after buying and selling both YES and NO', async () => {
    await account.place();
    // Sold to the bid at 0.42: 10 × 0.42 − 0.17052 = 4.0294.
    await account.place({ action: 'sell', limitPrice: 420_000n });
    // NO is bought from the bid of 0.42 for YES: 5 × 0.58 + 0.08526 = 2.9853.
    await account.place({ side: 'no', contracts: 5, limitPrice: 580_000n });
    expect(account.venue.exchange.positions.get(TICKER)).toBe(-5);
    // NO is sold to the bid of 0.54 for NO: 5 × 0.54 − 0.08694 = 2.6130.
    await account.place({ side: 'no', action: 'sell', contracts: 5, limitPrice: 540_000n });
    expect(account.venue.exchange.positions.size).toBe(0);
    await expectConsistent({
      orders: 4,
      cost: COST - 4_029_400n + 2_985_300n - 2_613_000n,
    });
  });

  it('a sale only reduces: after a sale by hand it does not buy the other side', async () => {
    await account.place();
    account.venue.exchange.positions.set(TICKER, 4);
    const trade = await account.place({ action: 'sell', limitPrice: 420_000n });
    expect(trade).toMatchObject({ status: 'partially_filled', filledContracts: 4 });
    expect(account.venue.exchange.positions.has(TICKER)).toBe(false);
  });

  it('fills of an archived order are found in the venue’s archive', async () => {
    account.venue.answerFault = cut;
    const trade = await account.place();
    expect(trade.status).toBe('pending');
    account.venue.answerFault = undefined;
    account.service.clock.advance(48 * 60 * 60 * 1000);
    account.venue.exchange.archiveBefore = account.service.clock.now() - 60_000;
    await account.live.reconcile();
    expect(await account.find(trade.id)).toMatchObject({ status: 'filled', balanceChange: -COST });
  });

  it('unarchived fills of an archived order are found, because each is archived at its own time', async () => {
    account.venue.answerFault = cut;
    const trade = await account.place();
    account.venue.answerFault = undefined;
    account.service.clock.advance(15 * 24 * 60 * 60 * 1000);
    account.venue.exchange.archiveBefore = account.service.clock.now() - 60_000;
    account.venue.exchange.fillsArchivedBefore = 0;
    await account.live.reconcile();
    expect(await account.find(trade.id)).toMatchObject({ status: 'filled', balanceChange: -COST });
  });

  it('fractional contracts are bought and sold, and both sides agree exactly', async () => {
    account.venue.books.set(TICKER, {
      yes_dollars: [['0.4200', '30.00']],
      no_dollars: [
        ['0.5500', '6.25'],
        ['0.5400', '20.00'],
      ],
    });
    await account.service.trading.refresher.refresh();
    // 6.25 × 0.45 + 4.25 × 0.46 = 4.7675; with fees of 0.108282 and 0.073899: 4.949681, rounded up to the next $0.0001.
    const bought = await account.place({ contracts: 10.5 });
    expect(account.venue.exchange.received.at(-1)).toMatchObject({ count: '10.50' });
    expect(bought).toMatchObject({ status: 'filled', filledContracts: 10.5, balanceChange: -4_949_700n });
    expect(bought.fills.map(({ contracts, fee }) => [contracts, fee])).toEqual([
      [6.25, 108_300n],
      [4.25, 73_900n],
    ]);
    // 3.75 × 0.42 − 0.063945 = 1.511055, rounded down to a multiple of $0.0001.
    const sold = await account.place({ action: 'sell', contracts: 3.75, limitPrice: 420_000n });
    expect(sold).toMatchObject({ status: 'filled', filledContracts: 3.75, balanceChange: 1_511_000n });
    expect(account.venue.exchange.positions.get(TICKER)).toBe(6.75);
    await expectConsistent({ orders: 2, cost: 4_949_700n - 1_511_000n });
    // Even a foreign sale of 0.01 contracts is detected.
    account.venue.exchange.positions.set(TICKER, 6.74);
    await account.live.reconcile();
    expect(account.live.report.differences).toMatchObject([
      { kind: 'position', ours: '6.75', venues: '6.74' },
    ]);
  });

  it('an order is not sent to an unreachable venue', async () => {
    await account.venue.stop();
    // This refresh fails too, which uses up any kept-alive connection before the order.
    await account.service.trading.refresher.refresh();
    const trade = await account.place();
    expect(trade).toMatchObject({ status: 'rejected', reason: expect.stringMatching(/cannot be reached/) });
    expect(await account.books()).toMatchObject({ cash: before.cash, reserved: 0n, pending: 0 });
  });
});
