import { and, eq, sql } from 'drizzle-orm';
import fc from 'fast-check';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Market } from '../../../src/markets/market/market.js';
import { CENT, DOLLAR } from '../../../src/markets/market/money.js';
import { checkLedger } from '../../../src/markets/portfolio/ledger-check.js';
import { portfolioHistory, tradingAccounts } from '../../../src/markets/ledger/portfolio-table.js';
import { jobLeases } from '../../../src/markets/ledger/risk-table.js';
import { settlementEventOf } from '../../../src/markets/settlement/settlement-event.js';
import { type TestDatabase } from '../../support/database.js';
import { createListener, readWebhookMessages } from '../../support/webhook-messages.js';
import { createKey, createOrganization } from '../../support/fixtures.js';
import { type TestService, startTestService } from '../../support/service.js';
import {
  bookedOf,
  AFTER_CLOSE,
  makeVenue,
  startSettlement,
  type TestVenue,
  cashOf,
  ends,
  makeMarket,
  positionsOf,
  buy,
  clockOf,
  wordsOf,
  EVENT,
} from '../support/settlement.js';
import { keyAuthority } from '../../../src/accounts/api-keys/authority.js';

const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;

let database: TestDatabase;
let service: TestService;
let venue: TestVenue;
let stop: () => Promise<void>;
/** A new market for each test, so that holders from other tests do not matter. */
let ticker: string;
let markets = 0;
const useNewMarket = () => (ticker = `${EVENT}-B${++markets}.5`);
beforeAll(async () => {
  ({ database, service, venue, stop } = await startSettlement());
});
afterAll(() => stop());
beforeEach(() => {
  service.clock.set(AFTER_CLOSE);
  useNewMarket();
  Object.assign(venue, {
    listed: [],
    unlisted: [],
    asked: [],
    isDown: false,
    isMute: false,
    book: undefined,
  });
});

/** Runs the next pass a few minutes later, with new data from the venue. */
async function say(change: Partial<Market>) {
  venue.listed = [makeMarket({ ticker, ...change })];
  return settle();
}

async function settle(minutesLater = 6) {
  service.clock.advance(minutesLater * MINUTE_MS);
  await service.trading.refresher.refresh();
  return service.trading.settlement.settle();
}

/** Creates an Organization with $1,000, which by default has bought 10 YES for 4.20 plus a fee of 18 cents. */
async function holder(purchase: Partial<Parameters<typeof buy>[1]> = {}) {
  const { id: orgId } = await createOrganization(database.db);
  await buy(database.db, { orgId, ticker, contracts: 10, price: 42n * CENT, fee: 18n * CENT, ...purchase });
  return orgId;
}

const BOUGHT = 1000n * DOLLAR - 438n * CENT;

async function expectLedgerToAgree() {
  expect(await checkLedger(database.db.orm, {}, 10)).toEqual([]);
}

describe('a position', () => {
  it('is paid once the venue’s result is final; earlier events are recorded and move nothing', async () => {
    const orgId = await holder();
    await say(ends.closed);
    expect(await wordsOf(database.db, orgId)).toEqual([]);
    await say(ends.provisional(84));
    await say({ ...ends.determined(DOLLAR), settledTemperature: 84 });
    expect(await cashOf(database.db, orgId)).toBe(BOUGHT);
    expect(await say({ ...ends.finalized(DOLLAR), settledTemperature: 84 })).toMatchObject({
      moved: 1,
      failed: 0,
    });
    expect(await wordsOf(database.db, orgId)).toEqual([
      ['provisional', null, 0n],
      ['determined', DOLLAR, 0n],
      ['finalized', DOLLAR, 10n * DOLLAR],
    ]);
    expect(await cashOf(database.db, orgId)).toBe(BOUGHT + 10n * DOLLAR);
    expect(await positionsOf(database.db, orgId)).toMatchObject([
      { contracts: 0, cost: 0n, realised: 580n * CENT, fees: 18n * CENT, side: 'yes' },
    ]);
    expect(await bookedOf(database.db, orgId)).toEqual([['settlement', 10n * DOLLAR, -580n * CENT]]);
    const points = await database.db.orm
      .select()
      .from(portfolioHistory)
      .where(eq(portfolioHistory.orgId, orgId));
    expect(points).toMatchObject([
      {
        cash: BOUGHT + 10n * DOLLAR,
        liquidation: 0n,
        realised: 580n * CENT,
        unrealised: 0n,
        fees: 18n * CENT,
      },
    ]);
    await expectLedgerToAgree();
  });

  it('is paid once, however often the venue repeats itself', async () => {
    const orgId = await holder();
    for (const livemode of [true, false])
      await createListener(database.db, orgId, { types: ['market.settled'], livemode });
    for (let i = 0; i < 3; i++) await say(ends.finalized(0n));
    expect(await wordsOf(database.db, orgId)).toEqual([['finalized', 0n, 0n]]);
    expect(await bookedOf(database.db, orgId)).toEqual([['settlement', 0n, 420n * CENT]]);
    const told = await readWebhookMessages(database.db, orgId);
    expect(told.map(({ livemode }) => `${livemode}`).sort()).toEqual(['false', 'true']);
    const paid = { mode: 'paper', ticker, state: 'finalized', value: '0.0000', side: 'yes', contracts: 10 };
    expect(told[0]).toMatchObject({ data: { ...paid, payout: '0.0000', isCorrection: false } });
    expect(await cashOf(database.db, orgId)).toBe(BOUGHT);
    await expectLedgerToAgree();
  });

  it('is corrected by the difference, in a separate entry, if its result is amended or voided', async () => {
    const orgId = await holder();
    await say(ends.finalized(0n));
    const before = await bookedOf(database.db, orgId);
    await say(ends.amended(DOLLAR));
    expect(await cashOf(database.db, orgId)).toBe(BOUGHT);
    await say(ends.finalized(DOLLAR));
    expect(await cashOf(database.db, orgId)).toBe(BOUGHT + 10n * DOLLAR);
    await say(ends.void);
    expect(await cashOf(database.db, orgId)).toBe(BOUGHT + 420n * CENT);
    expect(await bookedOf(database.db, orgId)).toEqual([
      ...before,
      ['correction', 10n * DOLLAR, -10n * DOLLAR],
      ['correction', -580n * CENT, 580n * CENT],
    ]);
    expect(await positionsOf(database.db, orgId)).toMatchObject([{ contracts: 0, realised: 0n }]);
    await expectLedgerToAgree();
  });

  it('leaves a debt, on which nothing can be bought, if its payout is taken back after it was spent', async () => {
    const orgId = await holder({ contracts: 2_000, price: 49n * CENT, fee: 0n });
    await say(ends.finalized(DOLLAR));
    await buy(database.db, {
      orgId,
      ticker: `${EVENT}-B86.5`,
      contracts: 2_000,
      price: 99n * CENT,
      at: new Date(service.clock.now()),
    });
    await say(ends.finalized(0n));
    // 1,000 − 980 + 2,000 − 1,980 − 2,000.
    expect(await cashOf(database.db, orgId)).toBe(-1960n * DOLLAR);
    const spend = database.db.orm
      .update(tradingAccounts)
      .set({ cash: sql`cash - 1` })
      .where(eq(tradingAccounts.orgId, orgId));
    // On a Citus shard, the constraint's name has the shard's suffix.
    await expect(spend).rejects.toMatchObject({
      cause: { code: '23514', message: expect.stringContaining('trading_accounts_cash') },
    });
    await say(ends.finalized(DOLLAR));
    const [account] = await database.db.orm
      .select()
      .from(tradingAccounts)
      .where(eq(tradingAccounts.orgId, orgId));
    expect(account).toMatchObject({ cash: 40n * DOLLAR, overdrawn: 0n });
    await expectLedgerToAgree();
  });

  it('is booked separately in paper and in live mode', async () => {
    const orgId = await holder();
    await buy(database.db, { orgId, ticker, mode: 'live', side: 'no', contracts: 3, price: 50n * CENT });
    await say(ends.finalized(0n));
    expect(await cashOf(database.db, orgId)).toBe(BOUGHT);
    expect(await cashOf(database.db, orgId, 'live')).toBe(1000n * DOLLAR - 150n * CENT + 3n * DOLLAR);
    await expectLedgerToAgree();
  });

  it('is paid even if it turns up after its market was settled', async () => {
    const orgId = await holder();
    await say(ends.finalized(DOLLAR));
    await buy(database.db, { orgId, ticker, side: 'no', contracts: 4, price: 25n * CENT });
    await say(ends.finalized(DOLLAR));
    await say(ends.finalized(0n));
    expect(await bookedOf(database.db, orgId)).toEqual([
      ['settlement', 10n * DOLLAR, -580n * CENT],
      ['settlement', 0n, DOLLAR],
      ['correction', -10n * DOLLAR, 10n * DOLLAR],
      ['correction', 4n * DOLLAR, -4n * DOLLAR],
    ]);
    await expectLedgerToAgree();
  });

  it('is paid for what is left after many trades, and the ledger agrees with every order', async () => {
    service.clock.set('2026-07-04T18:00:00Z');
    venue.listed = [makeMarket({ ticker })];
    venue.book = {
      yes: [{ price: 42n * CENT, contracts: 100 }],
      no: [{ price: 55n * CENT, contracts: 100 }],
    };
    await service.trading.refresher.refresh();
    const { id: orgId } = await createOrganization(database.db);
    const { id: keyId } = await createKey(database.db, orgId, { scopes: ['trading:write'] });
    const order = async (action: 'buy' | 'sell', side: 'yes' | 'no', contracts: number, cents: bigint) => {
      const { trade } = await service.trading.orders.place({
        orgId,
        mode: 'paper',
        by: keyAuthority(orgId, keyId, 'trading:write'),
        idempotencyKey: `${action} ${side}`,
        ticker,
        side,
        action,
        contracts,
        limitPrice: cents * CENT,
        timeInForce: 'fill_or_kill',
      });
      expect(trade.filledContracts).toBe(contracts);
    };
    // 10 bought for 4.50; 4 closed at 42 by buying NO at 58 (a pair pays a dollar); 1 sold at 42.
    await order('buy', 'yes', 10, 45n);
    await order('buy', 'no', 4, 58n);
    await order('sell', 'yes', 1, 42n);
    expect(await checkLedger(database.db.orm, { orgId }, 10)).toEqual([]);
    const before = await cashOf(database.db, orgId);
    service.clock.set(AFTER_CLOSE);
    await say(ends.finalized(DOLLAR));
    expect((await cashOf(database.db, orgId)) - before).toBe(5n * DOLLAR);
    const [position] = await positionsOf(database.db, orgId);
    // 4 × (42 − 45) + 1 × (42 − 45) + 5 × (100 − 45) cents.
    expect(position).toMatchObject({ contracts: 0, cost: 0n, realised: 260n * CENT });
    await expectLedgerToAgree();
  });

  it('ends with the cash of the last final result, whatever came before, and the ledger sums to zero', async () => {
    const value = fc.constantFrom(0n, 30n * CENT, DOLLAR);
    const change = fc.oneof(
      fc.constant(ends.provisional(84)),
      value.map(ends.determined),
      value.map(ends.disputed),
      value.map(ends.amended),
      value.map(ends.finalized),
      fc.constant(ends.void),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(change, { minLength: 1, maxLength: 6 }), async (changes) => {
        useNewMarket();
        const orgId = await holder({ side: 'no' });
        for (const next of changes) await say(next);
        const last = changes
          .map((next) => settlementEventOf(makeMarket(next))!)
          .findLast(({ state }) => /void|final/.test(state));
        const paid =
          last === undefined ? 0n : last.value === null ? 420n * CENT : 10n * (DOLLAR - last.value);
        expect(await cashOf(database.db, orgId)).toBe(BOUGHT + paid);
        expect(await checkLedger(database.db.orm, { orgId }, 10)).toEqual([]);
      }),
      { numRuns: 6 },
    );
  });
});

describe('a market that no refresh reads any more', () => {
  it('is read by ticker every few minutes, until nobody holds it and its time is over', async () => {
    const asked = () => venue.asked.flat().filter((name) => name === ticker);
    const orgId = await holder();
    await settle();
    expect(asked()).toEqual([ticker]);
    await settle(1);
    expect(asked()).toEqual([ticker]);
    venue.unlisted = [makeMarket({ ticker, ...ends.finalized(DOLLAR) })];
    await settle();
    expect(await cashOf(database.db, orgId)).toBe(BOUGHT + 10n * DOLLAR);

    venue.asked = [];
    await settle();
    expect(asked()).toEqual([ticker]);
    venue.unlisted = [makeMarket({ ticker, ...ends.finalized(0n) })];
    service.clock.advance(6.9 * DAY_MS);
    await settle();
    expect(await cashOf(database.db, orgId)).toBe(BOUGHT);

    venue.asked = [];
    service.clock.advance(8 * DAY_MS);
    await settle();
    expect(asked()).toEqual([]);
    await expectLedgerToAgree();
  });

  it('does not hold up other settlements if the venue does not answer about it', async () => {
    const gone = await holder({ ticker: 'KXHIGHNY-26JUL03-B84.5' });
    const listed = await holder();
    venue.isMute = true;
    await say(ends.finalized(DOLLAR));
    expect(await cashOf(database.db, listed)).toBe(BOUGHT + 10n * DOLLAR);
    expect(await cashOf(database.db, gone)).toBe(BOUGHT);
  });
});

describe('many accounts', () => {
  it('are settled in batches; a failing account stops no other and is retried', async () => {
    const orgIds = [];
    for (let i = 0; i < 3; i++) orgIds.push(await holder());
    // Enough accounts for more than one further batch.
    await database.db.orm.execute(sql`
      with others as (
        insert into trading_accounts (org_id, mode, cash, opened_at)
        select md5('other ' || n)::uuid, 'paper', 1000000, now() from generate_series(1, 120) n returning org_id
      )
      insert into trading_positions
        (org_id, mode, ticker, event_ticker, side, contracts, cost, realised, fees, opened_at, updated_at)
      select org_id, 'paper', ${ticker}, ${EVENT}, 'yes', 1, 420000, 0, 0, now(), now() from others`);
    const broken = orgIds[1]!;
    const [account] = await database.db.orm
      .delete(tradingAccounts)
      .where(and(eq(tradingAccounts.orgId, broken), eq(tradingAccounts.mode, 'paper')))
      .returning();
    expect(await say(ends.finalized(DOLLAR))).toEqual({ events: 122, moved: 122, failed: 1 });
    await database.db.orm.insert(tradingAccounts).values(account!);
    expect(await say(ends.finalized(DOLLAR))).toEqual({ events: 1, moved: 1, failed: 0 });
    for (const orgId of orgIds) expect(await cashOf(database.db, orgId)).toBe(BOUGHT + 10n * DOLLAR);
    const sums = await database.db.orm.execute(
      sql`select count(*)::int as n, min(cash)::text as least, max(cash)::text as most
      from trading_accounts where org_id in (select md5('other ' || n)::uuid from generate_series(1, 120) n)`,
    );
    expect((sums as { rows: unknown[] }).rows).toEqual([{ n: 120, least: '2000000', most: '2000000' }]);
    await database.db.orm.execute(sql`
      delete from trading_positions where org_id in (select md5('other ' || n)::uuid from generate_series(1, 120) n)`);
  });
});

describe('of two instances,', () => {
  const leases = () => database.db.orm.select().from(jobLeases).where(eq(jobLeases.name, 'settlement'));

  it('one settles; the other takes over when it stops or crashes', async () => {
    const otherVenue = makeVenue(clockOf(() => service));
    const other = await startTestService(database.db, {
      context: { clock: service.clock },
      trading: { markets: otherVenue },
    });
    await settle();
    const [first] = await leases();
    await other.trading.refresher.refresh();
    expect(await other.trading.settlement.settle()).toBeUndefined();
    expect(await leases()).toMatchObject([{ holder: first!.holder }]);

    await database.db.orm.update(jobLeases).set({ until: new Date(Date.now() - 1_000) });
    expect(await other.trading.settlement.settle()).toMatchObject({ failed: 0 });
    expect(await settle()).toBeUndefined();
    const [second] = await leases();
    expect(second!.holder).not.toBe(first!.holder);
    await other.stop();
    expect(await leases()).toEqual([]);
    expect(await other.trading.settlement.settle()).toBeUndefined();
    expect(await settle()).toMatchObject({ failed: 0 });
  });

  it('one with old data leaves the work to the other', async () => {
    const orgId = await holder();
    await settle();
    expect(await leases()).toHaveLength(1);
    venue.listed = [makeMarket({ ticker, ...ends.finalized(DOLLAR) })];
    venue.isDown = true;
    expect(await settle()).toBeUndefined();
    expect(await leases()).toEqual([]);
    expect(await wordsOf(database.db, orgId)).toEqual([]);
    venue.isDown = false;
    await settle();
    expect(await cashOf(database.db, orgId)).toBe(BOUGHT + 10n * DOLLAR);
  });
});
