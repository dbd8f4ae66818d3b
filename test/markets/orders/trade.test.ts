import { sql } from 'drizzle-orm';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Database } from '../../../src/core/db/client.js';
import { selectRows } from '../../../src/core/db/sql.js';
import { requireTradable } from '../../../src/markets/orders/tradable.js';
import { UnexpectedAnswerError } from '../../../src/markets/venue/kalshi-client.js';
import { DOLLAR } from '../../../src/markets/market/money.js';
import { createKey } from '../../support/fixtures.js';
import {
  useTradingTest,
  startTradingTest,
  usualBook,
  postTrade,
  type TradingTest,
  usualOrder,
  createTrader,
  OTHER_TICKER,
  TICKER,
} from '../support/trade.js';
import { makeBook } from '../support/events.js';
import { createListener, readWebhookMessages } from '../../support/webhook-messages.js';

const { database, service } = useTradingTest();
let db: Database;
beforeAll(async () => {
  ({ db } = database);
});

const cashOf = async (orgId: string) => {
  const [row] = await selectRows<{ cash: string; ledger: string; sum: string }>(
    db.orm,
    sql`select (select cash::text from trading_accounts where org_id = ${orgId} and mode = 'paper') as cash,
      sum(cash)::text as ledger, sum(cash + positions + fees + realised + capital)::text as sum
    from ledger_entries where org_id = ${orgId} and mode = 'paper'`,
  );
  expect([row!.ledger, row!.sum]).toEqual([row!.cash, '0']);
  return row!.cash;
};

const positionOf = async (orgId: string) =>
  (
    await selectRows(
      db.orm,
      sql`select side, contracts::float8, cost::text as cost, realised::text as realised, fees::text as fees
      from trading_positions where org_id = ${orgId} and ticker = ${TICKER}`,
    )
  )[0];

describe('a paper order', () => {
  it('takes the book level by level and is charged the venue’s fee', async () => {
    const { secret, orgId } = await createTrader(db);
    await createListener(db, orgId, { types: ['trade.filled'], livemode: false });
    const { status, trade } = await postTrade(service.url, secret, { contracts: 8, limitPrice: '0.4600' });
    const now = new Date(service.clock.now()).toISOString();
    expect(status).toBe(201);
    expect(trade).toMatchObject({
      mode: 'paper',
      status: 'filled',
      reason: null,
      ticker: TICKER,
      eventTicker: 'KXHIGHNY-26NOV21',
      seriesTicker: 'KXHIGHNY',
      station: 'KNYC',
      side: 'yes',
      action: 'buy',
      contracts: 8,
      limitPrice: '0.4600',
      timeInForce: 'immediate_or_cancel',
      filledContracts: 8,
      // 5 · 0.45 + 3 · 0.46 = 3.63
      averagePrice: '0.45375',
      // 0.086625 + 0.052164. The order's sum, 3.768789, is rounded up to 3.7688.
      fees: '0.1388',
      total: '-3.7688',
      fills: [
        { price: '0.4500', contracts: 5, fee: '0.0867', filledAt: now },
        { price: '0.4600', contracts: 3, fee: '0.0521', filledAt: now },
      ],
      venueOrderId: null,
      createdAt: now,
      finishedAt: now,
    });
    expect(await cashOf(orgId)).toBe('996231200');
    expect(await positionOf(orgId)).toEqual({
      side: 'yes',
      contracts: 8,
      cost: '3630000',
      realised: '0',
      fees: '138800',
    });
    const told = {
      mode: 'paper',
      ticker: TICKER,
      eventTicker: 'KXHIGHNY-26NOV21',
      tradeId: trade!.id,
      idempotencyKey: trade!.idempotencyKey,
      status: 'filled',
      side: 'yes',
      action: 'buy',
      contracts: 8,
      filledContracts: 8,
      fills: trade!.fills.map((fill, i) => ({ n: i + 1, ...fill })),
    };
    expect((await readWebhookMessages(db, orgId)).map(({ data }) => data)).toEqual([told]);
  });

  it('takes no contract twice: the next order gets the next level until the venue shows another book', async () => {
    const { secret } = await createTrader(db);
    const { secret: other } = await createTrader(db);
    const pricesOf = async (key: string, limitPrice: string) =>
      (await postTrade(service.url, key, { limitPrice })).trade?.fills.map((fill) => fill.price);
    expect(await pricesOf(secret, '0.46')).toEqual(['0.4500']);
    expect(await pricesOf(secret, '0.46')).toEqual(['0.4600']);
    const gone = await postTrade(service.url, secret);
    expect([gone.status, gone.code]).toEqual([422, 'price_moved']);
    expect(gone.detail).toBe(
      `YES of ${TICKER} is offered at 46¢ at best (2 contracts). The limit price is 45¢.`,
    );
    // The first Organization's orders do not deplete the other's book, and rereading the same book does not refill it.
    await service.trading.refresher.refresh();
    expect(await pricesOf(other, '0.46')).toEqual(['0.4500']);
    expect((await postTrade(service.url, secret)).code).toBe('price_moved');
    await service.showBook(makeBook([[42, 10]], [[55, 5]]));
    expect(await pricesOf(secret, '0.46')).toEqual(['0.4500']);
    await service.showBook(usualBook);
  });

  it('sells at the bid, at most what is held', async () => {
    const { secret, orgId } = await createTrader(db);
    await postTrade(service.url, secret, { contracts: 12, limitPrice: '0.46' });
    const sale = { action: 'sell', limitPrice: '0.41' };
    const tooMany = await postTrade(service.url, secret, { ...sale, contracts: 13 });
    expect([tooMany.status, tooMany.code, tooMany.detail]).toEqual([
      422,
      'insufficient_position',
      `The order sells 13 YES of ${TICKER}, but 12 are held.`,
    ]);
    expect((await postTrade(service.url, secret, { ...sale, side: 'no' })).code).toBe(
      'insufficient_position',
    );
    const { trade } = await postTrade(service.url, secret, { ...sale, contracts: 12 });
    // 10 · 0.42 − 0.17052 = 4.02948, rounded down to 4.0294; with 2 · 0.41 − 0.033866 more: 4.815614, rounded down to
    // 4.8156.
    expect(trade!.fills).toMatchObject([
      { price: '0.4200', contracts: 10, fee: '0.1706' },
      { price: '0.4100', contracts: 2, fee: '0.0338' },
    ]);
    expect([trade!.total, trade!.fees, trade!.averagePrice]).toEqual(['4.8156', '0.2044', '0.418333']);
    // Bought for 5 · 0.45 + 7 · 0.46 = 5.47 and sold for 5.02.
    expect(await positionOf(orgId)).toMatchObject({ contracts: 0, cost: '0', realised: '-450000' });
    await cashOf(orgId);
  });

  it('closes pairs by buying the other side, and each pair pays a dollar at once', async () => {
    const { secret, orgId } = await createTrader(db);
    await postTrade(service.url, secret);
    const { trade } = await postTrade(service.url, secret, { side: 'no', limitPrice: '0.58', contracts: 7 });
    // 7 NO at 0.58 with a fee of 0.119364 cost 4.1794; the five pairs pay 5.
    expect([trade!.total, trade!.fees]).toEqual(['0.8206', '0.1194']);
    // 1000 − 2.3367 + 0.8206
    expect(await cashOf(orgId)).toBe('998483900');
    // The 5 YES, bought for 2.25, were in effect sold at 0.42.
    expect(await positionOf(orgId)).toEqual({
      side: 'no',
      contracts: 2,
      cost: '1160000',
      realised: '-150000',
      fees: '206100',
    });
  });

  it('fills in part with the rest cancelled, or not at all if it is fill-or-kill', async () => {
    const { secret } = await createTrader(db);
    const killed = await postTrade(service.url, secret, { contracts: 6, timeInForce: 'fill_or_kill' });
    expect([killed.status, killed.trade!.status, killed.trade!.filledContracts]).toEqual([
      201,
      'cancelled',
      0,
    ]);
    expect(killed.trade).toMatchObject({ fills: [], averagePrice: null, fees: '0.0000', total: '0.0000' });
    expect(killed.trade!.reason).toMatch(
      /^The book does not have all 6 contracts at the limit price or better/,
    );
    const part = await postTrade(service.url, secret, { contracts: 6 });
    expect(part.trade).toMatchObject({ status: 'partially_filled', filledContracts: 5, total: '-2.3367' });
    expect(part.trade!.reason).toBe(
      'The book held 5 of 6 contracts at the limit price or better; the rest was cancelled.',
    );
  });

  it('trades fractional contracts, to the hundredth', async () => {
    const { secret, orgId } = await createTrader(db);
    await service.showBook({
      yes: [{ price: 420_000n, contracts: 10.01 }],
      no: [
        { price: 550_000n, contracts: 2.35 },
        { price: 540_000n, contracts: 0.5 },
      ],
    });
    const { trade } = await postTrade(service.url, secret, { contracts: 2.86, limitPrice: '0.46' });
    // 2.35 · 0.45 + 0.5 · 0.46 = 1.2875; with fees of 0.040714 and 0.008694: 1.336908, rounded up to the next $0.0001.
    expect(trade).toMatchObject({
      status: 'partially_filled',
      contracts: 2.86,
      filledContracts: 2.85,
      averagePrice: '0.451754',
      fees: '0.0495',
      total: '-1.3370',
      fills: [
        { price: '0.4500', contracts: 2.35, fee: '0.0408' },
        { price: '0.4600', contracts: 0.5, fee: '0.0087' },
      ],
    });
    expect(trade!.reason).toMatch(/^The book held 2\.85 of 2\.86 contracts/);
    expect(await positionOf(orgId)).toMatchObject({ side: 'yes', contracts: 2.85, cost: '1287500' });
    // Nothing is left, not even a hundredth of a contract.
    expect((await postTrade(service.url, secret, { contracts: 0.01, limitPrice: '0.46' })).code).toBe(
      'price_moved',
    );
    const sale = { action: 'sell', limitPrice: '0.42' };
    const tooMany = await postTrade(service.url, secret, { ...sale, contracts: 2.86 });
    expect(tooMany.detail).toBe(`The order sells 2.86 YES of ${TICKER}, but 2.85 are held.`);
    // 2.85 contracts are sold in parts of 0.1, 0.2 and 2.55, without a rounding error.
    for (const contracts of [0.1, 0.2, 2.55])
      expect((await postTrade(service.url, secret, { ...sale, contracts })).trade!.status).toBe('filled');
    expect(await positionOf(orgId)).toMatchObject({ contracts: 0, cost: '0' });
    await cashOf(orgId);
    await service.showBook(usualBook);
  });

  it('is refused on an empty or crossed book, and if it costs more than the available cash', async () => {
    const { secret } = await createTrader(db);
    await service.showBook(makeBook([[42, 10]], []));
    const empty = await postTrade(service.url, secret);
    expect([empty.code, empty.detail]).toEqual([
      'price_moved',
      `There are no asks for YES of ${TICKER} at the moment.`,
    ]);
    await service.showBook(makeBook([[46, 10]], [[55, 5]]));
    expect((await postTrade(service.url, secret)).detail).toContain('is crossed');
    await service.showBook(makeBook([], [[55, 5]]));
    const poor = await startTradingTest(db, { env: { PAPER_CASH: '2.33' } });
    const { secret: poorKey, orgId } = await createTrader(db);
    const refused = await postTrade(poor.url, poorKey);
    expect([refused.status, refused.code, refused.detail]).toEqual([
      422,
      'insufficient_funds',
      'The order can cost $2.3367 at its limit price, including the fee. $2.33 is available.',
    ]);
    const { trade } = await postTrade(poor.url, poorKey, { contracts: 4 });
    // 4 · 0.45 + 0.0693
    expect(trade!.total).toBe('-1.8693');
    expect(await cashOf(orgId)).toBe('460700');
    await poor.stop();
    await service.showBook(usualBook);
  });

  it('follows the ticks of its market, which may be finer near the ends', async () => {
    const { secret } = await createTrader(db);
    const [mill, cent] = [1_000n, 10_000n];
    const range = (start: bigint, end: bigint, step: bigint) => ({ start, end, step });
    service.markets.change = {
      priceRanges: [
        range(0n, 10n * cent, mill),
        range(10n * cent, 90n * cent, cent),
        range(90n * cent, 100n * cent, mill),
      ],
    };
    await service.showBook({
      yes: [{ price: 5_000n, contracts: 10 }],
      no: [{ price: 991_000n, contracts: 10.5 }],
    });
    const order = { contracts: 2.5, limitPrice: '0.0120' };
    const { trade } = await postTrade(service.url, secret, order);
    // 2.5 · 0.009 = 0.0225; with a fee of 0.07 · 2.5 · 0.009 · 0.991 = 0.00156…: 0.024061, rounded up to the next
    // $0.0001.
    expect(trade).toMatchObject({
      status: 'filled',
      averagePrice: '0.0090',
      total: '-0.0241',
      fees: '0.0016',
    });
    for (const limitPrice of ['0.0095', '0.1050', '0.4550', '0.9995']) {
      const { code, errors } = await postTrade(service.url, secret, { ...order, limitPrice });
      expect([code, errors![0]!.pointer]).toEqual(['invalid_request', '/limitPrice']);
      expect(errors![0]!.detail).toContain(
        'a multiple of $0.0010 from $0.0000 to $0.1000, or a multiple of $0.0100',
      );
    }
    service.markets.change = {};
    await service.showBook(usualBook);
  });

  it('never takes more than the available cash, even with many tiny fills', async () => {
    const { secret, orgId } = await createTrader(db);
    expect((await postTrade(service.url, secret)).trade!.status).toBe('filled');
    // Removes all cash except $0.0004.
    await db.orm
      .execute(sql`update ledger_entries l set cash = l.cash - a.cash + 400, capital = l.capital + a.cash - 400
      from trading_accounts a where l.org_id = ${orgId} and a.org_id = l.org_id and l.kind = 'deposit'`);
    await db.orm.execute(sql`update trading_accounts set cash = 400 where org_id = ${orgId}`);
    service.markets.change = { priceRanges: [{ start: 0n, end: DOLLAR, step: 1_000n }] };
    // 0.01 contracts at each of $0.001 to $0.005. At the limit price, all of them would cost $0.0003, but each fill is
    // rounded up to the next $0.0001.
    const dear = [1n, 2n, 3n, 4n, 5n].map((mills) => ({ price: DOLLAR - mills * 1_000n, contracts: 0.01 }));
    await service.showBook({ yes: [], no: dear });
    const { code, detail } = await postTrade(service.url, secret, { contracts: 0.05, limitPrice: '0.005' });
    expect([code, detail]).toEqual([
      'insufficient_funds',
      'The order can cost $0.0005 at its limit price, including the fee. $0.0004 is available.',
    ]);
    service.markets.change = {};
    await service.showBook(usualBook);
  });

  it('is subject to the risk limits', async () => {
    const { secret } = await createTrader(db);
    const metrics = async () => (await fetch(`${service.url}/metrics`)).text();
    const count = async () =>
      Number(/gauge_orders_total{mode="paper",outcome="risk_limit"} (\d+)/.exec(await metrics())?.[1] ?? 0);
    const before = await count();
    expect((await postTrade(service.url, secret, { limitPrice: '0.99' })).code).toBe('risk_limit');
    expect(await count()).toBe(before + 1);
  });
});

describe('an order for an untradable market', () => {
  const codeOf = async (change: Record<string, unknown> = {}) => {
    const { secret } = await createTrader(db);
    const { status, code, detail } = await postTrade(service.url, secret, change);
    return [status, code, detail];
  };
  const change = async (values: TradingTest['markets']['change']) => {
    service.markets.change = values;
    await service.trading.refresher.refresh();
  };

  it('is refused with the reason', async () => {
    expect(await codeOf({ ticker: 'NOWHERE' })).toEqual([
      404,
      'unknown_market',
      'There is no market NOWHERE.',
    ]);
    const now = service.clock.now();
    const closed = [
      { status: 'closed' as const },
      { closeTime: new Date(now) },
      { openTime: new Date(now + 1) },
    ];
    for (const values of closed) {
      await change(values);
      expect((await codeOf()).slice(0, 2)).toEqual([409, 'market_closed']);
    }
    await change({});
    service.markets.isTrading = false;
    await service.trading.refresher.refresh();
    expect((await codeOf())[2]).toBe(`${TICKER} does not accept orders: the venue has paused trading.`);
    service.markets.overrides = { resumesAt: new Date('2026-11-26T10:00:00Z') };
    await service.trading.refresher.refresh();
    expect((await codeOf())[2]).toBe(
      `${TICKER} does not accept orders: the venue has paused trading; it resumes at 2026-11-26T10:00:00.000Z.`,
    );
    service.markets.overrides = {};
    service.markets.isTrading = true;
    await change({});
  });

  it('is refused, on paper and live, if the payout has a floor, and `/markets` says why', async () => {
    const untradable = 'YES always pays $0.0500 or more, and markets with such a floor are not traded here';
    await change({ untradable });
    expect(await codeOf()).toEqual([
      409,
      'market_closed',
      `${TICKER} does not accept orders: ${untradable}.`,
    ]);
    const order = { ticker: TICKER, side: 'yes', action: 'buy', contracts: 1, limitPrice: 450_000n } as const;
    expect(() =>
      requireTradable(service.trading.snapshots, { ...order, mode: 'live' }, service.clock.now()),
    ).toThrow(`${TICKER} does not accept orders: ${untradable}.`);
    const listed = async () => {
      const response = await fetch(`${service.url}/markets`);
      return ((await response.json()) as { markets: object[] }).markets[0];
    };
    expect(await listed()).toMatchObject({ ticker: TICKER, status: 'active', untradable });
    await change({});
    expect(await listed()).toMatchObject({ untradable: null });
  });

  it('is refused from the start of an announced pause while the data predate it', async () => {
    const from = service.clock.now() + 5_000;
    service.markets.overrides = { pause: { from: new Date(from), until: new Date(from + 7_200_000) } };
    await service.trading.refresher.refresh();
    const { secret } = await createTrader(db);
    expect((await postTrade(service.url, secret, { contracts: 1 })).status).toBe(201);
    service.clock.advance(5_000);
    const until = new Date(from + 7_200_000).toISOString();
    expect((await codeOf()).slice(1)).toEqual([
      'market_closed',
      `${TICKER} does not accept orders: the venue pauses trading now; it resumes at ${until}.`,
    ]);
    // Data newer than the start of the pause shows that the venue is trading again.
    await service.trading.refresher.refresh();
    expect((await codeOf())[0]).toBe(201);
    service.markets.overrides = {};
    await service.trading.refresher.refresh();
  });

  it('is refused off the tick, and the answer names the tick', async () => {
    for (const limitPrice of ['0.455', '0', '1', '1.0000', '0.000001']) {
      const { secret } = await createTrader(db);
      const { status, code, errors } = await postTrade(service.url, secret, { limitPrice });
      expect([status, code, errors![0]!.pointer]).toEqual([400, 'invalid_request', '/limitPrice']);
      expect(errors![0]!.detail).toContain('a multiple of $0.0100');
    }
  });

  it('is refused on old, unexpected or missing data, but its repeat is answered', async () => {
    const { secret } = await createTrader(db);
    const headers = { 'idempotency-key': 'before' };
    const { trade } = await postTrade(service.url, secret, {}, headers);
    const repeat = async () => {
      const again = await postTrade(service.url, secret, {}, headers);
      expect([again.status, again.trade]).toEqual([200, trade]);
    };
    service.clock.advance(60_001);
    const old = await codeOf();
    expect(old.slice(0, 2)).toEqual([503, 'market_data_stale']);
    await repeat();
    await service.trading.refresher.refresh();
    service.markets.error = new UnexpectedAnswerError('/markets', 'a renamed field');
    await service.trading.refresher.refresh();
    expect((await codeOf()).slice(0, 2)).toEqual([503, 'market_data_stale']);
    await repeat();
    service.markets.error = undefined;
    await change({ status: 'closed' });
    await repeat();
    await change({});

    const fresh = await startTradingTest(db, {
      trading: { markets: { ...service.markets, read: () => Promise.reject(new Error('down')) } },
    });
    const none = await postTrade(fresh.url, secret);
    expect([none.status, none.code, none.headers.get('retry-after')]).toEqual([
      503,
      'market_data_unavailable',
      '5',
    ]);
    // Repeating the request returns the same trade even after a restart.
    expect((await postTrade(fresh.url, secret, {}, headers)).trade).toEqual(trade);
    await fresh.stop();
  });
});

describe('the idempotency key', () => {
  it('identifies one order: a repeat returns the same trade, and another order is a conflict', async () => {
    const { secret, orgId } = await createTrader(db);
    const headers = { 'idempotency-key': 'an-order' };
    const first = await postTrade(service.url, secret, {}, headers);
    // Neither the price's format nor the choice of API key within the Organization matters.
    const { secret: second } = await createKey(db, orgId, { scopes: ['trading:write'] });
    const again = await postTrade(service.url, second, { limitPrice: '0.450000', mode: 'paper' }, headers);
    expect([again.status, again.trade]).toEqual([200, first.trade]);
    for (const change of [
      { contracts: 4 },
      { side: 'no' },
      { limitPrice: '0.46' },
      { ticker: OTHER_TICKER },
    ]) {
      const other = await postTrade(service.url, secret, change, headers);
      expect([other.status, other.code]).toEqual([409, 'idempotency_conflict']);
    }
    const { secret: stranger } = await createTrader(db);
    expect((await postTrade(service.url, stranger, {}, headers)).status).toBe(201);
    expect(await cashOf(orgId)).toBe('997663300');
  });

  it('identifies one order even if it arrives twenty times at once at two instances', async () => {
    const { secret, orgId } = await createTrader(db);
    const other = await startTradingTest(db);
    const headers = { 'idempotency-key': 'at once' };
    expect((await postTrade(service.url, secret, {}, headers)).status).toBe(400);
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, i) =>
        postTrade(i % 2 ? service.url : other.url, secret, {}, { 'idempotency-key': 'at-once' }),
      ),
    );
    expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([
      ...Array<number>(19).fill(200),
      201,
    ]);
    expect(new Set(answers.map(({ trade }) => trade!.id)).size).toBe(1);
    expect(await cashOf(orgId)).toBe('997663300');
    await other.stop();
  });

  it('is required and must consist of visible characters', async () => {
    const { secret } = await createTrader(db);
    for (const key of ['', 'a b', 'x'.repeat(256), 'é']) {
      const { status, code } = await postTrade(service.url, secret, {}, { 'idempotency-key': key });
      expect([status, code], key).toEqual([400, 'invalid_request']);
    }
    expect((await postTrade(service.url, secret, {}, { 'idempotency-key': 'x'.repeat(255) })).status).toBe(
      201,
    );
    const missing = await fetch(`${service.url}/trade`, {
      method: 'POST',
      headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
      body: JSON.stringify(usualOrder),
    });
    expect(missing.status).toBe(400);
  });
});

describe('POST /trade', () => {
  it('refuses a malformed order and names the field', async () => {
    const { secret } = await createTrader(db);
    const bad: [Record<string, unknown>, string][] = [
      [{ ticker: 'A\u0000B' }, '/ticker'],
      [{ ticker: 'x'.repeat(65) }, '/ticker'],
      [{ ticker: { $ne: 1 } }, '/ticker'],
      [{ side: 'maybe' }, '/side'],
      [{ action: 'hold' }, '/action'],
      [{ contracts: 0 }, '/contracts'],
      [{ contracts: 1.505 }, '/contracts'],
      [{ contracts: 0.001 }, '/contracts'],
      [{ contracts: -1 }, '/contracts'],
      [{ contracts: '5' }, '/contracts'],
      [{ contracts: 100_001 }, '/contracts'],
      [{ contracts: 1e300 }, '/contracts'],
      [{ limitPrice: 0.45 }, '/limitPrice'],
      [{ limitPrice: '4.5e-1' }, '/limitPrice'],
      [{ limitPrice: '-0.45' }, '/limitPrice'],
      [{ limitPrice: '0.4500001' }, '/limitPrice'],
      [{ mode: 'demo' }, '/mode'],
      [{ timeInForce: 'good_till_cancel' }, '/timeInForce'],
      [{ orgId: 'another' }, '/orgId'],
    ];
    for (const [change, pointer] of bad) {
      const { status, code, errors } = await postTrade(service.url, secret, change);
      expect([status, code, errors![0]!.pointer], JSON.stringify(change)).toEqual([
        400,
        'invalid_request',
        pointer,
      ]);
    }
    const huge = await postTrade(service.url, secret, { ticker: 'x'.repeat(5_000) });
    expect([huge.status, huge.code]).toEqual([413, 'body_too_large']);
  });

  it('cannot be sent from another origin’s page', async () => {
    const origin = { origin: 'https://app.example.com' };
    const { secret } = await createTrader(db);
    const { headers } = await postTrade(service.url, secret, {}, origin);
    expect(headers.get('access-control-allow-origin')).toBeNull();
  });

  it('trades live only if every live condition holds', async () => {
    const { secret } = await createTrader(db);
    const off = await postTrade(service.url, secret, { mode: 'live' });
    expect([off.status, off.code]).toEqual([403, 'live_trading_disabled']);
    const { secret: testKey } = await createTrader(db, { livemode: false });
    expect((await postTrade(service.url, testKey, { mode: 'live' })).code).toBe('live_trading_disabled');
    expect((await postTrade(service.url, testKey)).status).toBe(201);
  });
});

describe('GET /trades', () => {
  const get = async (path: string, secret: string) => {
    const response = await fetch(`${service.url}${path}`, { headers: { authorization: `Bearer ${secret}` } });
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  };
  const list = async (query: string, secret: string) => {
    const { body } = await get(`/trades${query}`, secret);
    return body as { trades: { id: string }[]; nextCursor: string | null };
  };

  it('is newest first, paged, and limited to the calling Organization', async () => {
    const { secret } = await createTrader(db);
    const { secret: other } = await createTrader(db);
    const made: unknown[] = [];
    for (const ticker of [TICKER, OTHER_TICKER, TICKER])
      made.unshift((await postTrade(service.url, secret, { ticker, contracts: 1 })).trade);
    expect(await list('', secret)).toEqual({ trades: made, nextCursor: null });
    const first = await list('?limit=2', secret);
    expect(first.trades).toEqual(made.slice(0, 2));
    expect(await list(`?limit=2&cursor=${first.nextCursor}`, secret)).toEqual({
      trades: made.slice(2),
      nextCursor: null,
    });
    expect((await list(`?ticker=${OTHER_TICKER}`, secret)).trades).toEqual([made[1]]);
    expect((await list(`?ticker=${TICKER}&mode=paper`, secret)).trades).toEqual([made[0], made[2]]);
    expect((await list('?mode=live', secret)).trades).toEqual([]);
    expect((await list('', other)).trades).toEqual([]);

    const { id } = made[0] as { id: string };
    expect(await get(`/trades/${id}`, secret)).toEqual({ status: 200, body: { trade: made[0] } });
    expect(await get(`/trades/${id}`, other)).toMatchObject({ status: 404, body: { code: 'not_found' } });
  });

  it('refuses malformed requests', async () => {
    const { secret } = await createTrader(db);
    for (const query of ['limit=0', 'limit=101', 'limit=1&limit=2', 'cursor=1', 'mode=demo', 'ticker=%00'])
      expect((await get(`/trades?${query}`, secret)).status, query).toBe(400);
    for (const id of ['1', '%01', "'", crypto.randomUUID()])
      expect((await get(`/trades/${id}`, secret)).status, id).toBe(404);
  });
});
