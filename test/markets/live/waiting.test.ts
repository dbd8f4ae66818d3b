import { eq } from 'drizzle-orm';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { apiKeys } from '../../../src/accounts/api-keys/table.js';
import { sessions } from '../../../src/accounts/identity/table.js';
import { managingRoles, memberships, organizations } from '../../../src/accounts/organizations/table.js';
import { liveAccounts } from '../../../src/markets/ledger/orders-table.js';
import { tradingSwitches } from '../../../src/markets/ledger/risk-table.js';
import { memberAuthority } from '../../../src/accounts/identity/session/authority.js';
import type { Trade } from '../../../src/markets/orders/order.js';
import type { OrderInput } from '../../../src/markets/ledger/order-input.js';
import type { SwitchState } from '../../../src/markets/ledger/risk-table.js';
import { basicLimits } from '../../../src/markets/venue/venue-budget.js';
import {
  expectSameCash,
  newBook,
  openLiveAccount,
  removeKeys,
  restingTerms,
  TICKER,
  type LiveAccount,
} from '../support/live-account.js';
import { addMember, createUser, openSession, sessionIdOf } from '../../support/accounts.js';
import { createKey } from '../../support/fixtures.js';
import { operatorClient } from '../../support/operator.js';
import { signedInOperator } from '../../support/operators.js';
import { keyAuthority } from '../../../src/accounts/api-keys/authority.js';
import { plentyOfTokens } from '../support/venue-tokens.js';
import { useDatabase } from '../../support/use.js';

const budget = plentyOfTokens();
const plenty = { refillPerSecond: 1_000_000, capacity: 1_000_000 };
/**
 * A bucket of this size holds the 10 tokens of one order, because the service uses only nine tenths of the capacity.
 */
const oneOrder = 10 / 0.9;

const setWrites = (write: { refillPerSecond: number; capacity: number }) =>
  budget.setLimits({ ...basicLimits, read: plenty, write });
/** Lets one order through; the next would wait about three hours. */
const stopTheLine = () => setWrites({ refillPerSecond: 0.001, capacity: oneOrder });
const letTheLineGo = () => setWrites(plenty);

const database = useDatabase();
let account: LiveAccount;
beforeAll(async () => {
  account = await openLiveAccount(database.db, { budget });
  await account.live.reconcile();
});
afterAll(async () => {
  await account.stop();
  removeKeys();
});

const call = operatorClient(() => account.service);
const orm = () => database.db.orm;

async function setSwitch(state: SwitchState, path = '/trading/switch'): Promise<void> {
  const answer = await call('PUT', path, { state, ...(state === 'open' ? {} : { reason: 'Stop.' }) });
  expect(answer.status).toBe(200);
}

beforeEach(async () => {
  letTheLineGo();
  account.venue.books.set(TICKER, newBook());
  account.venue.exchange.received = [];
  await orm().delete(tradingSwitches);
  await orm().update(organizations).set({ marketAccess: 'trade', archivedAt: null });
  await account.service.trading.refresher.refresh();
});

/** Queues orders behind one that takes all tokens. Resolves once all of them are waiting for their turn. */
async function line(...orders: Partial<OrderInput>[]): Promise<Promise<Trade>[]> {
  stopTheLine();
  await account.place({ contracts: 1 });
  expect(account.arrived()).toHaveLength(1);
  const take = vi.spyOn(budget, 'take');
  const placed = orders.map((order) => account.place(order));
  const isOrder = ([method]: unknown[]) => method === 'POST';
  await vi.waitUntil(() => take.mock.calls.filter(isOrder).length === orders.length, { timeout: 600_000 });
  take.mockRestore();
  return placed;
}

const haltedElsewhere = () =>
  orm().insert(tradingSwitches).values({
    orgId: account.organization.id,
    operatorState: 'halt',
    operatorReason: 'Fills.',
    operatorAt: new Date(),
  });

/** Checks that only the order ahead of the queue was sent, that nothing stays reserved, and that both sides agree. */
async function expectNotSent(trades: Trade[], reason: RegExp): Promise<void> {
  for (const trade of trades) {
    expect(trade).toMatchObject({ status: 'rejected', filledContracts: 0, reserved: 0n });
    expect(trade.reason).toMatch(/^not sent: /);
    expect(trade.reason).toMatch(reason);
  }
  expect(account.arrived()).toHaveLength(1);
  await account.live.reconcile();
  await expectSameCash(account);
  expect(account.live.report).toMatchObject({ state: 'open', pendingOrders: 0, differences: [] });
}

describe('an order that waits for its turn at the venue is not sent', () => {
  it.each([
    ["the service's switch", () => '/trading/switch'],
    [
      "the operator's switch for the Organization",
      () => `/organizations/${account.organization.slug}/trading/switch`,
    ],
  ])('once %s is set to halt, which empties the line at once', async (owner, path) => {
    const placed = await line({}, {}, restingTerms, { contracts: 3 });
    await setSwitch('halt', path());
    // Rejected immediately, although the rate limit would hold the next order back for hours.
    await expectNotSent(
      await Promise.all(placed),
      new RegExp(`^not sent: ${owner} is at halt \\(Stop\\.\\)`),
    );
    await setSwitch('open', path());
  });

  it.each([
    ['/console/trading/switch', () => '/trading/switch'],
    [
      '/console/customers/{slug}/trading/switch',
      () => `/organizations/${account.organization.slug}/trading/switch`,
    ],
  ])('once the form at %s sets halt, which empties the line at once', async (form, switchPath) => {
    const { browser } = await signedInOperator(account.service);
    const placed = await line({}, restingTerms);
    const answer = await browser.send('POST', form.replace('{slug}', account.organization.slug), {
      form: { state: 'halt', reason: 'Stop.' },
    });
    expect(answer.status).toBe(303);
    await expectNotSent(await Promise.all(placed), /is at halt \(Stop\.\)/);
    await setSwitch('open', switchPath());
  });

  it("once the Organization's own switch is set to halt, which empties the line at once", async () => {
    const user = await createUser(database.db);
    await addMember(database.db, account.organization.id, user.id, 'owner');
    const browser = await openSession(database.db, account.service.url, user.id, account.service.clock.now());
    const placed = await line({}, restingTerms);
    const form = { state: 'halt', reason: 'Stop.' };
    const answer = await browser.send('POST', '/dashboard/portfolio/risk/switch', { form });
    expect(answer.status).toBe(303);
    await expectNotSent(await Promise.all(placed), /Organization's own switch is at halt \(Stop\.\)/);
  });

  it('if the switch was set on another instance while it waited', async () => {
    const placed = await line({}, restingTerms);
    await haltedElsewhere();
    letTheLineGo();
    await expectNotSent(await Promise.all(placed), /operator's switch .* at halt \(Fills\.\)/);
  });

  it('if the instance must not answer by then', async () => {
    const placed = await line({}, restingTerms);
    const { lifecycle } = account.service.context;
    lifecycle.refusal = { code: 'unavailable', detail: 'This version of Gauge is too old for the database.' };
    letTheLineGo();
    const trades = await Promise.all(placed);
    lifecycle.refusal = undefined;
    await expectNotSent(trades, /: the version or the clock of this instance is wrong$/);
  });

  it('if the switch was set while its other facts were being read', async () => {
    const [placed] = await line({});
    const { orm: db } = account.service.context.db;
    const execute = db.execute.bind(db);
    const halt = vi.spyOn(db, 'execute').mockImplementationOnce((async (query: never) => {
      const answer = await execute(query);
      await setSwitch('halt');
      return answer;
    }) as never);
    try {
      letTheLineGo();
      await expectNotSent([await placed!], /at halt \(Stop\.\)/);
    } finally {
      halt.mockRestore();
      await setSwitch('open');
    }
  });

  it('if only reducing orders are allowed by now, while reducing ones are sent', async () => {
    await account.place();
    account.venue.exchange.received = [];
    // The first sale takes 8 of the 10 held contracts, which leaves 2 to sell.
    const sale = { action: 'sell', limitPrice: 420_000n } as const;
    const placed = await line({ ...sale, contracts: 8 }, { ...sale, contracts: 2 }, { contracts: 1 });
    await setSwitch('reduce_only');
    expect(await placed[2]).toMatchObject({ status: 'rejected' });
    letTheLineGo();
    expect(await Promise.all(placed.slice(0, 2))).toMatchObject([{ status: 'filled' }, { status: 'filled' }]);
    expect(account.arrived()).toHaveLength(3);
    await setSwitch('open');
    await account.live.reconcile();
    await expectSameCash(account);
  });

  it('if the Organization has lost its access to markets', async () => {
    const placed = await line({});
    await orm()
      .update(organizations)
      .set({ marketAccess: 'none' })
      .where(eq(organizations.id, account.organization.id));
    letTheLineGo();
    await expectNotSent(await Promise.all(placed), /no access to markets/);
  });

  it.each([
    ['was revoked', { revokedAt: new Date('2026-07-04T14:00:00Z') }, /revoked/],
    ['has expired', { expiresAt: new Date('2026-07-04T14:00:00Z') }, /expired/],
    ['may no longer trade', { scopes: ['trading:read'] }, /scope trading:write/],
    ['belongs to an archived Organization', { archivedAt: new Date() }, /archived/],
  ])('if its key %s', async (_name, change, reason) => {
    const key = await createKey(database.db, account.organization.id, { scopes: ['trading:write'] });
    const placed = await line({ by: keyAuthority(key.orgId, key.id, 'trading:write') });
    await orm().update(apiKeys).set(change).where(eq(apiKeys.id, key.id));
    letTheLineGo();
    await expectNotSent(await Promise.all(placed), reason);
  });

  it.each([
    ['no longer belongs to the Organization', undefined, /no longer belong/],
    ['may no longer trade', { role: 'member' as const }, /member now/],
  ])('if the person who placed it %s', async (_name, change, reason) => {
    const { id: orgId } = account.organization;
    const user = await createUser(database.db);
    await addMember(database.db, orgId, user.id, 'admin');
    const browser = await openSession(database.db, account.service.url, user.id, account.service.clock.now());
    const sessionId = sessionIdOf(browser);
    const by = memberAuthority({ orgId, userId: user.id, sessionId, roles: managingRoles });
    const placed = await line({ by });
    const isIt = eq(memberships.userId, user.id);
    await (change
      ? orm().update(memberships).set(change).where(isIt)
      : orm().delete(memberships).where(isIt));
    // Only the membership matters, not the session: the person may have signed out.
    await orm().delete(sessions).where(eq(sessions.userId, user.id));
    letTheLineGo();
    await expectNotSent(await Promise.all(placed), reason);
  });

  it('if it was cancelled while it waited', async () => {
    const [placed] = await line(restingTerms);
    const { trades } = await account.service.trading.orders.list({
      orgId: account.organization.id,
      limit: 1,
    });
    await account.cancel(trades[0]!);
    letTheLineGo();
    expect(await placed).toMatchObject({
      status: 'cancelled',
      reason: 'Cancelled on request.',
      reserved: 0n,
    });
    expect(account.arrived()).toHaveLength(1);
  });

  it('after a halt was confirmed, even at a venue that takes one order per second', async () => {
    setWrites({ refillPerSecond: oneOrder, capacity: oneOrder });
    const placed = Array.from({ length: 5 }, () => account.place({ contracts: 1 }));
    await vi.waitUntil(() => account.arrived().length > 0, { timeout: 600_000 });
    try {
      await setSwitch('halt');
      const sent = account.arrived().length;
      await Promise.allSettled(placed);
      expect(account.arrived()).toHaveLength(sent);
    } finally {
      await setSwitch('open');
    }
  });

  it('if another instance received a venue answer that closes live trading', async () => {
    const placed = await line({}, restingTerms);
    const setProblem = async (problem: string | null) => {
      await orm()
        .update(liveAccounts)
        .set({ problem })
        .where(eq(liveAccounts.orgId, account.organization.id));
      await account.live.reconcile();
    };
    await setProblem('a page instead of an answer');
    letTheLineGo();
    const trades = await Promise.all(placed);
    await setProblem(null);
    await expectNotSent(trades, /live trading was closed meanwhile: a page instead of an answer/);
  });
});
