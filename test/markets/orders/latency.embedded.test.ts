import { beforeEach, describe, expect, it } from 'vitest';
import { makeBook } from '../support/events.js';
import {
  useTradingTest,
  createTrader,
  OTHER_TICKER,
  postTrade,
  TICKER,
  usualBook,
} from '../support/trade.js';

const { database, service } = useTradingTest({
  env: { PAPER_LATENCY_MS: '400' },
  trading: {
    onTheWay: async (ms) => {
      trips.push(ms);
      await meanwhile();
    },
  },
});

/** `meanwhile` runs while an order is in flight; `trips` collects the latencies. */
let meanwhile: () => Promise<unknown>;
let trips: number[];
beforeEach(async () => {
  meanwhile = () => Promise.resolve();
  trips = [];
  service.markets.change = {};
  service.markets.isTrading = true;
  await service.showBook(usualBook);
});

const trade = (secret: string, change = {}, headers = {}) => postTrade(service.url, secret, change, headers);

describe('a paper order with latency', () => {
  it('is matched with the book at its arrival, at better or worse prices within its limit', async () => {
    const { secret } = await createTrader(database.db);
    meanwhile = () => service.showBook(makeBook([[43, 10]], [[56, 20]]));
    const better = await trade(secret, { contracts: 8, limitPrice: '0.46' });
    expect(better.status).toBe(201);
    expect(better.trade).toMatchObject({ status: 'filled', reason: null, averagePrice: '0.4400' });
    meanwhile = () => service.showBook(makeBook([[43, 10]], [[54, 20]]));
    const worse = await trade(secret, { contracts: 8, limitPrice: '0.46' });
    expect(worse.trade).toMatchObject({ status: 'filled', averagePrice: '0.4600' });
    expect(trips).toEqual([400, 400]);
  });

  it('misses contracts that are gone, and is recorded with that reason, not refused', async () => {
    const { secret } = await createTrader(database.db);
    meanwhile = () => service.showBook(makeBook([[42, 10]], [[52, 30]]));
    const missed = await trade(secret, { contracts: 8, limitPrice: '0.46' });
    expect(missed.status).toBe(201);
    expect(missed.trade).toMatchObject({
      status: 'cancelled',
      filledContracts: 0,
      total: '0.0000',
      reason:
        'Of 8 contracts that stood within the limit price when the order was sent, 8 were gone 400 ms later, when it arrived. Nothing was filled.',
    });
    await service.showBook(usualBook);
    meanwhile = () => service.showBook(makeBook([[42, 10]], [[55, 3.5]]));
    const partly = await trade(secret, { contracts: 8, limitPrice: '0.46' });
    expect(partly.trade).toMatchObject({ status: 'partially_filled', filledContracts: 3.5 });
    expect(partly.trade!.reason).toContain('4.5 were gone 400 ms later');
    await service.showBook(usualBook);
    meanwhile = () => service.showBook(makeBook([[42, 10]], [[55, 3.25]]));
    const whole = await trade(secret, { contracts: 8, limitPrice: '0.46', timeInForce: 'fill_or_kill' });
    expect(whole.trade).toMatchObject({ status: 'cancelled', filledContracts: 0 });
    expect(whole.trade!.reason).toContain('fill or kill');
    expect(whole.trade!.reason).toContain('4.75 were gone');
  });

  it.each([
    ['without any asks', makeBook([[42, 10]], [])],
    ['that is crossed', makeBook([[46, 10]], [[55, 5]])],
  ])('misses on a book %s', async (_, book) => {
    const { secret } = await createTrader(database.db);
    meanwhile = () => service.showBook(book);
    const { status, trade: missed } = await trade(secret);
    expect([status, missed!.status]).toEqual([201, 'cancelled']);
    expect(missed!.reason).toContain('5 were gone 400 ms later');
  });

  it('does not blame latency if the book was too thin from the start', async () => {
    const { secret } = await createTrader(database.db);
    const { trade: thin } = await trade(secret, { contracts: 8 });
    expect(thin!.reason).toBe(
      'The book held 5 of 8 contracts at the limit price or better; the rest was cancelled.',
    );
  });

  it('is refused at once, before it is sent, by the same checks as without latency', async () => {
    const { secret } = await createTrader(database.db);
    expect((await trade(secret, { limitPrice: '0.40' })).code).toBe('price_moved');
    expect((await trade(secret, { contracts: 50_000 })).code).toBe('risk_limit');
    expect((await trade(secret, { ticker: 'KXHIGHNY-26NOV21-B99.5' })).code).toBe('unknown_market');
    expect(trips).toEqual([]);
  });

  it('is refused on arrival if the market takes no orders or its cash or contracts are gone', async () => {
    const { secret, orgId } = await createTrader(database.db);
    meanwhile = async () => {
      service.markets.isTrading = false;
      await service.trading.refresher.refresh();
    };
    const closed = await trade(secret);
    expect([closed.status, closed.code]).toEqual([409, 'market_closed']);
    service.markets.isTrading = true;
    meanwhile = () => Promise.resolve();
    await service.showBook(usualBook);
    await trade(secret);
    const sale = { action: 'sell', contracts: 5, limitPrice: '0.42' };
    // Another order arrives first and sells the same contracts.
    meanwhile = async () => {
      meanwhile = () => Promise.resolve();
      await trade(secret, sale);
    };
    expect((await trade(secret, sale)).code).toBe('insufficient_position');
    const { trades } = await service.trading.orders.list({ orgId, limit: 10 });
    expect(trades.map(({ status }) => status)).toEqual(['filled', 'filled']);
  });

  it('takes nothing if it expires in flight', async () => {
    const { secret, orgId } = await createTrader(database.db);
    const expiresAt = new Date(service.clock.now() + 300).toISOString();
    meanwhile = () => {
      service.clock.advance(400);
      return Promise.resolve();
    };
    const late = await trade(secret, { timeInForce: 'good_till_time', expiresAt });
    expect([late.status, late.errors]).toEqual([
      400,
      [{ pointer: '/expiresAt', code: 'invalid_request', detail: 'must be in the future' }],
    ]);
    expect((await service.trading.orders.list({ orgId, limit: 10 })).trades).toEqual([]);
  });

  it('is repeated without waiting, and two in flight with the same key are one order', async () => {
    const { secret } = await createTrader(database.db);
    const headers = { 'idempotency-key': 'once' };
    const first = await trade(secret, {}, headers);
    expect(trips).toHaveLength(1);
    const again = await trade(secret, {}, headers);
    expect([first.status, again.status, trips.length]).toEqual([201, 200, 1]);
    expect(again.trade).toEqual(first.trade);
    const conflict = await trade(secret, { contracts: 4 }, headers);
    expect([conflict.code, trips.length]).toEqual(['idempotency_conflict', 1]);

    const other = { 'idempotency-key': 'twice' };
    await service.showBook(usualBook, OTHER_TICKER);
    let arrived = 0;
    let open = () => {};
    const both = new Promise<void>((resolve) => (open = resolve));
    meanwhile = () => {
      if (++arrived === 2) open();
      return both;
    };
    const order = { ticker: OTHER_TICKER };
    const answers = await Promise.all([trade(secret, order, other), trade(secret, order, other)]);
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200, 201]));
    expect(answers[0].trade).toEqual(answers[1].trade);
  });

  it('holds no connection and no turn in flight, so the Organization can place others', async () => {
    const { secret } = await createTrader(database.db);
    let open = () => {};
    const wait = new Promise<void>((resolve) => (open = resolve));
    let isHeld = false;
    meanwhile = () => (isHeld ? Promise.resolve() : ((isHeld = true), wait));
    const slow = trade(secret, { contracts: 2 });
    while (!isHeld) await new Promise((resolve) => setTimeout(resolve, 5));
    const quick = await trade(secret, { contracts: 4 });
    expect(quick.trade!.filledContracts).toBe(4);
    open();
    // The quick order took four of the five contracts at 45 cents.
    const { trade: late } = await slow;
    expect(late).toMatchObject({ ticker: TICKER, status: 'partially_filled', filledContracts: 1 });
  });
});
