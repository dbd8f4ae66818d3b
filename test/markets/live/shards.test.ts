import { and, eq } from 'drizzle-orm';
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';
import { byService } from '../../../src/accounts/audit/audit.js';
import { ledgerEntries } from '../../../src/markets/ledger/portfolio-table.js';
import { requireTradable } from '../../../src/markets/orders/tradable.js';
import { checkLedger } from '../../../src/markets/portfolio/ledger-check.js';
import { selectRisk } from '../../../src/markets/risk/queries.js';
import { Browser, addMember, createUser } from '../../support/accounts.js';
import { signedInOperator } from '../../support/operators.js';
import { textOf } from '../../accounts/api-keys/html.js';
import {
  type LiveAccount,
  EVENT,
  TICKER,
  expectSameCash,
  newBook,
  openLiveAccount,
  removeKeys,
  restingTerms,
} from '../support/live-account.js';
import { beginTransfer, completeTransfer } from '../support/fake-exchange.js';
import { takeFromBook } from '../support/fake-orders.js';
import { wireMarket } from '../support/fake-venue.js';
import { useDatabase } from '../../support/use.js';

const database = useDatabase();
let account: LiveAccount;
afterAll(async () => {
  removeKeys();
});
afterEach(() => account.stop());

const exchange = () => account.venue.exchange;
const MINUTE_MS = 60_000;
const CASH = 1_000_000_000n;

async function readPortfolio() {
  const headers = { authorization: `Bearer ${account.apiKey.secret}` };
  // oxlint-disable-next-line typescript/no-explicit-any -- what comes is what is tested
  return (await (await fetch(`${account.service.url}/portfolio?mode=live`, { headers })).json()) as any;
}

async function openPortfolioPage() {
  const user = await createUser(database.db);
  await addMember(database.db, account.organization.id, user.id, 'member');
  const browser = new Browser(account.service.url);
  await browser.signIn(user.email);
  return textOf(await browser.get('/dashboard/portfolio?mode=live', { accept: 'text/html' }));
}

const transfers = () =>
  database.db.orm
    .select()
    .from(ledgerEntries)
    .where(and(eq(ledgerEntries.orgId, account.organization.id), eq(ledgerEntries.kind, 'transfer')));

function countRequests() {
  const from = account.venue.requests.length;
  return (pattern: RegExp) =>
    account.venue.requests.slice(from).filter((request) => pattern.test(request)).length;
}

describe('money on other exchange shards', () => {
  it('is not part of the cash, is shown as not spendable, and may change without a difference', async () => {
    account = await openLiveAccount(database.db, { isClosed: true });
    exchange().otherBalances.set(2, 0).set(3, 50_000);
    await account.live.reconcile();
    expect((await account.books()).cash).toBe(CASH);
    const { portfolio, venue } = await readPortfolio();
    expect(portfolio).toMatchObject({ cash: '1000.0000', available: '1000.0000', deposits: '1000.0000' });
    expect(venue).toMatchObject({
      state: 'open',
      otherShards: [{ exchangeIndex: 3, balance: '500.0000' }],
    });
    const page = await openPortfolioPage();
    expect(page).toContain('$500.00 on other exchange shards, not spendable here');
    expect(page).toContain('On exchange shard 3 $500.00, not spendable here until it is transferred');
    const { browser } = await signedInOperator(account.service);
    const console = textOf(await browser.get('/console/trading', { accept: 'text/html' }));
    expect(console).toContain('On exchange shard 3 $500.00, not spendable here');
    // The venue pays out on shard 3.
    exchange().otherBalances.set(3, 70_000);
    await account.live.reconcile();
    expect(account.live.report).toMatchObject({ state: 'open', differences: [] });
    expect((await readPortfolio()).venue.otherShards).toEqual([{ exchangeIndex: 3, balance: '700.0000' }]);
    await expectSameCash(account);
  });

  it('is left out if the venue does not break the balance down', async () => {
    account = await openLiveAccount(database.db, { isClosed: true });
    exchange().otherBalances.set(3, 50_000);
    exchange().isSubaccountKey = true;
    await account.live.reconcile();
    expect((await account.books()).cash).toBe(CASH);
    expect(account.live.report).toMatchObject({ state: 'open', otherShards: [] });
  });

  it('cannot pay for an order: the venue refuses it, and nothing stays reserved', async () => {
    account = await openLiveAccount(database.db);
    exchange().otherBalances.set(3, 500_000);
    // The venue has completed a transfer that is not booked in the ledger yet.
    completeTransfer(exchange(), beginTransfer(exchange(), { from: 0, to: 3, cents: 99_900 }));
    const trade = await account.place();
    expect(trade).toMatchObject({
      status: 'rejected',
      reason: expect.stringContaining('insufficient_balance'),
    });
    expect(await account.books()).toMatchObject({ reserved: 0n, pending: 0 });
  });

  it('causes no difference and reserves nothing here, nor do orders and positions there', async () => {
    account = await openLiveAccount(database.db);
    const game = 'KXGAME-1-A';
    account.venue.markets.push(wireMarket('KXGAME-1', { floor: 1 }, { ticker: game, exchange_index: 3 }));
    exchange().positions.set(game, 40);
    const trade = await account.place();
    exchange().orders.push({
      ...exchange().orders[0]!,
      order_id: 'by-hand',
      client_order_id: '',
      ticker: game,
      filled: 0,
      remaining: 900,
      count: 900,
      status: 'resting',
    });
    await account.live.reconcile();
    expect(account.live.report).toMatchObject({
      state: 'open',
      differences: [],
      foreign: { orders: [], positions: [] },
    });
    // Resting orders on other shards do not explain missing cash on this one.
    exchange().balanceCents -= 5_000;
    await account.live.reconcile();
    expect(account.live.report.differences).toMatchObject([{ kind: 'cash' }]);
    expect(trade.status).toBe('filled');
  });
});

describe('every write names its shard:', () => {
  it('a new order, a decrease, a cancellation, a group and the end of one', async () => {
    account = await openLiveAccount(database.db);
    const asked = countRequests();
    await account.place();
    const trade = await account.rest();
    await account.withdraw(trade, 4);
    expect(await account.withdraw(trade)).toMatchObject({ status: 'cancelled' });
    await account.rest();
    await account.live.cancelAll(account.organization.id);
    expect(exchange().received.map((body) => body.exchange_index)).toEqual([0, 0, 0]);
    expect(asked(/events\/orders\/[\w-]+\?exchange_index=0&/)).toBe(1);
    expect(asked(/order_groups\/[\w-]+\?exchange_index=0$/)).toBe(1);
    expect(exchange().orders.every(({ status }) => status !== 'resting')).toBe(true);
    expect(exchange().autoRouted).toBe(0);
  });
});

describe('a market on another shard', () => {
  it('is traded on paper only, with the reason', async () => {
    account = await openLiveAccount(database.db);
    account.venue.markets[1]!.exchange_index = 2;
    await account.service.trading.refresher.refresh();
    await expect(account.place()).rejects.toMatchObject({
      code: 'live_trading_disabled',
      message: `${TICKER} can be traded only on paper: it is on the venue's exchange shard 2, but live accounts have their money on shard 0.`,
    });
    const { snapshots } = account.service.trading;
    const order = {
      ticker: TICKER,
      side: 'yes',
      action: 'buy',
      contracts: 1,
      limitPrice: 450_000n,
      mode: 'paper',
    } as const;
    expect(requireTradable(snapshots, order, account.service.clock.now()).market.ticker).toBe(TICKER);
    expect(exchange().received).toEqual([]);
  });
});

describe('a transfer between shards', () => {
  beforeEach(async () => {
    account = await openLiveAccount(database.db);
    account.service.clock.advance(MINUTE_MS);
  });

  it('changes the spendable cash, and is neither profit, deposit nor difference', async () => {
    completeTransfer(exchange(), beginTransfer(exchange(), { from: 0, to: 3, cents: 12_345 }));
    await account.live.reconcile();
    expect(account.live.report).toMatchObject({ state: 'open', differences: [] });
    expect(await transfers()).toMatchObject([
      {
        cash: -123_450_000n,
        capital: 123_450_000n,
        fees: 0n,
        realised: 0n,
        transferId: exchange().transfers[0]!.transfer_id,
        memo: 'transfer to exchange shard 3',
      },
    ]);
    expect((await readPortfolio()).portfolio).toMatchObject({
      cash: '876.5500',
      available: '876.5500',
      equity: '876.5500',
      deposits: '1000.0000',
      transfers: '-123.4500',
      realisedPnl: '0.0000',
      fees: '0.0000',
    });
    expect(await openPortfolioPage()).toContain('Account value $876.55 $0.00 on $876.55');
    // The transfer does not count as a daily loss either.
    const today = {
      orgId: account.organization.id,
      mode: 'live',
      midnight: new Date('2026-07-04'),
    } as const;
    expect((await selectRisk(database.db.orm, today)).deposits).toBe('876550000');
    await expectSameCash(account);
    completeTransfer(exchange(), beginTransfer(exchange(), { from: 3, to: 0, cents: 22_345 }));
    await account.live.reconcile();
    expect((await readPortfolio()).portfolio).toMatchObject({
      cash: '1100.0000',
      deposits: '1000.0000',
      transfers: '100.0000',
    });
    await expectSameCash(account);
    expect(await checkLedger(database.db.orm, { orgId: account.organization.id }, 10)).toEqual([]);
  });

  it('is booked once, however many instances see it and however often', async () => {
    const next = await account.start();
    completeTransfer(exchange(), beginTransfer(exchange(), { from: 0, to: 3, cents: 10_000 }));
    for (let i = 0; i < 2; i++) await Promise.all([account.live.reconcile(), next.trading.live!.reconcile()]);
    expect(await transfers()).toHaveLength(1);
    expect([account.live.report.state, next.trading.live!.report.state]).toEqual(['open', 'open']);
    await expectSameCash(account);
  });

  it('is not a difference while it is pending, and is booked when it completes', async () => {
    const leaving = beginTransfer(exchange(), { from: 0, to: 3, cents: 10_000 });
    const coming = beginTransfer(exchange(), { from: 3, to: 0, cents: 2_500 });
    await account.live.reconcile();
    expect(account.live.report).toMatchObject({ state: 'open', differences: [] });
    expect(await transfers()).toEqual([]);
    completeTransfer(exchange(), leaving);
    completeTransfer(exchange(), coming);
    await account.live.reconcile();
    expect(account.live.report).toMatchObject({ state: 'open', differences: [] });
    expect(new Set((await transfers()).map(({ cash }) => cash))).toEqual(
      new Set([-100_000_000n, 25_000_000n]),
    );
    await expectSameCash(account);
  });

  it('explains only its own amount, and is booked beside an accepted difference', async () => {
    completeTransfer(exchange(), beginTransfer(exchange(), { from: 0, to: 3, cents: 10_000 }));
    exchange().balanceCents -= 100;
    await account.live.reconcile();
    expect(account.live.report.differences).toMatchObject([
      { kind: 'cash', ours: '900.0000', venues: '899.0000' },
    ]);
    expect(await transfers()).toHaveLength(1);
    const source = {
      actor: 'operator',
      at: new Date(account.service.clock.now()),
      ip: undefined,
      requestId: undefined,
    };
    await account.live.accept(source, byService);
    expect(account.live.report).toMatchObject({ state: 'open', differences: [] });
    await expectSameCash(account);
  });

  it('is ignored between two other shards, or from before the account was opened', async () => {
    exchange().otherBalances.set(2, 10_000);
    completeTransfer(exchange(), beginTransfer(exchange(), { from: 2, to: 3, cents: 10_000 }));
    exchange().transfers.unshift({
      transfer_id: 'early',
      from: 3,
      to: 0,
      cents: 7_700,
      status: 'complete',
      created_ts: Math.floor(exchange().now() / 1000) - 3_600,
    });
    await account.live.reconcile();
    expect(account.live.report).toMatchObject({ state: 'open', differences: [] });
    expect(await transfers()).toEqual([]);
  });
});

it('an account is not opened during a transfer, because its cash would be uncertain', async () => {
  account = await openLiveAccount(database.db, { isClosed: true });
  const transfer = beginTransfer(exchange(), { from: 0, to: 3, cents: 10_000 });
  await account.live.reconcile();
  expect(() => account.live.assertOpen()).toThrow(/transfer .* under way/);
  completeTransfer(exchange(), transfer);
  account.service.clock.advance(MINUTE_MS);
  await account.live.reconcile();
  account.live.assertOpen();
  expect((await account.books()).cash).toBe(900_000_000n);
  expect(await transfers()).toEqual([]);
});

describe('fills of several markets', () => {
  it('are read with one request', async () => {
    account = await openLiveAccount(database.db);
    const tickers = account.venue.markets.map(({ ticker }) => String(ticker));
    expect(tickers).toHaveLength(3);
    for (const ticker of tickers) account.venue.books.set(ticker, newBook());
    await account.service.trading.refresher.refresh();
    const trades = [];
    for (const ticker of tickers) trades.push(await account.rest({ ...restingTerms, ticker }));
    for (const ticker of tickers)
      takeFromBook(exchange(), account.venue.books, { ticker, side: 'ask', price: 43, contracts: 4 });
    const asked = countRequests();
    await account.live.watchResting();
    for (const { id } of trades) expect(await account.find(id)).toMatchObject({ filledContracts: 4 });
    expect(asked(/\/portfolio\/fills/)).toBe(1);
    expect(decodeURIComponent(account.venue.requests.find((one) => /fills\?.*ticker=/.test(one))!)).toContain(
      EVENT,
    );
    await account.live.reconcile();
    expect(account.live.report).toMatchObject({ state: 'open', differences: [] });
    await expectSameCash(account);
  });
});
