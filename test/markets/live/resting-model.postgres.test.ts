import { eq } from 'drizzle-orm';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { AppError } from '../../../src/core/errors.js';
import { tradingFills, tradingOrders } from '../../../src/markets/ledger/orders-table.js';
import { tradingPositions } from '../../../src/markets/ledger/portfolio-table.js';
import { CENT } from '../../../src/markets/market/money.js';
import type { Trade } from '../../../src/markets/orders/order.js';
import {
  answering,
  cut,
  disturb,
  expectSameCash,
  newBook,
  openLiveAccount,
  removeKeys,
  restingTerms,
  TICKER,
  tooLate,
  type LiveAccount,
} from '../support/live-account.js';
import { useDatabase } from '../../support/use.js';

const database = useDatabase();
let account: LiveAccount;
beforeAll(async () => {
  account = await openLiveAccount(database.db);
});
afterAll(async () => {
  await account.stop();
  removeKeys();
});

const cents = fc.integer({ min: 38, max: 50 });
const contracts = fc.integer({ min: 1, max: 1_500 }).map((hundredths) => hundredths / 100);

const steps = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant('place' as const),
      side: fc.constantFrom('yes', 'no'),
      action: fc.constantFrom('buy', 'buy', 'sell'),
      cents,
      contracts,
      postOnly: fc.constantFrom(false, false, false, true),
      /** Seconds; 0 means until cancelled. */
      expires: fc.constantFrom(0, 0, 45),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('print' as const),
      side: fc.constantFrom('bid', 'ask'),
      cents,
      contracts,
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('withdraw' as const),
      which: fc.nat(),
      /** Percentage of the remaining contracts to keep resting; 0 cancels the order. */
      share: fc.constantFrom(0, 0, 50, 90),
      /** Contracts that fill while the request is in flight. */
      crossing: fc.constantFrom(0, 0, 3),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('fault' as const),
      when: fc.constantFrom('before', 'after'),
      what: fc.constantFrom('cut', 'late', '500', '429', 'page'),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('watch' as const) }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('stale' as const), looks: fc.integer({ min: 1, max: 4 }) }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('reconcile' as const) }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('wait' as const), seconds: fc.integer({ min: 1, max: 50 }) }),
  },
);
type Step = typeof steps extends fc.Arbitrary<infer T> ? T : never;

const faults = {
  cut,
  late: tooLate,
  lost: async (...request: Parameters<typeof cut>) => (await tooLate(...request)) || cut(...request),
  '500': answering(500, '{"error":"x"}'),
  '429': answering(429, '{"error":"x"}'),
  page: answering(200, '<html>', { 'content-type': 'text/html' }),
};

async function take(step: Step, placed: string[]): Promise<void> {
  const { venue, service, live } = account;
  if (step.kind === 'place') {
    const { side, action, postOnly, expires } = step;
    const expiresAt = expires === 0 ? null : new Date(service.clock.now() + expires * 1000);
    await service.trading.refresher.refresh();
    const order = {
      side,
      action,
      contracts: step.contracts,
      limitPrice: BigInt(side === 'yes' ? step.cents : 100 - step.cents) * CENT,
    };
    const timeInForce = expiresAt ? 'good_till_time' : restingTerms.timeInForce;
    const rest = { expiresAt, postOnly, cancelOn: [] };
    // The service rejects a disallowed order before it sends anything.
    const trade = await account.rest({ ...order, timeInForce, rest }).catch((error: unknown) => {
      if (error instanceof AppError) return undefined;
      throw error;
    });
    if (trade) placed.push(trade.id);
  } else if (step.kind === 'print') account.print(step.side, step.cents, step.contracts);
  else if (step.kind === 'fault')
    disturb(account, step.when, faults[step.what === 'late' && step.when === 'before' ? 'lost' : step.what]);
  else if (step.kind === 'stale')
    venue.exchange.stale = { orders: structuredClone(venue.exchange.orders), looks: step.looks };
  else if (step.kind === 'watch') await live.watchResting();
  else if (step.kind === 'reconcile') await live.reconcile();
  else if (step.kind === 'wait') service.clock.advance(step.seconds * 1000);
  else await withdrawOne(step, placed);
}

async function withdrawOne(
  { which, share, crossing }: Extract<Step, { kind: 'withdraw' }>,
  placed: string[],
): Promise<void> {
  const { venue } = account;
  const id = placed.length === 0 ? undefined : placed[which % placed.length];
  const trade = id === undefined ? undefined : await account.find(id);
  if (trade?.status !== 'resting') return;
  const open = Math.round((trade.contracts - trade.filledContracts) * 100);
  if (crossing > 0)
    venue.fault ??= (req, _res, path) => {
      if (req.method === 'GET' || !path.includes(trade.venueOrderId!)) return false;
      venue.fault = undefined;
      account.print('ask', 38, crossing);
      account.print('bid', 50, crossing);
      return false;
    };
  const remaining = share === 0 ? 0 : Math.max(1, Math.floor((open * share) / 100)) / 100;
  await Promise.all([account.withdraw(trade, remaining), account.live.watchResting()]);
}

/** Checks that both sides agree on each order, each fill, the position and the cash. */
async function expectSame(placed: readonly string[]): Promise<void> {
  const { venue, live } = account;
  const { orm } = database.db;
  expect(live.report).toMatchObject({ state: 'open', reason: null, differences: [], pendingOrders: 0 });
  const { reserved, resting } = await expectSameCash(account);
  if (resting === 0) expect(reserved).toBe(0n);
  for (const id of placed) expectSameOrder(await account.find(id));
  const orgId = account.organization.id;
  const fills = await orm.select().from(tradingFills).where(eq(tradingFills.orgId, orgId));
  expect(fills).toHaveLength(venue.exchange.fills.length);
  expect(new Set(fills.map(({ venueFillId }) => venueFillId))).toEqual(
    new Set(venue.exchange.fills.map(({ fill_id: id }) => id)),
  );
  const [position] = await orm.select().from(tradingPositions).where(eq(tradingPositions.orgId, orgId));
  const held = position ? (position.side === 'yes' ? position.contracts : -position.contracts) : 0;
  expect(held).toBe(venue.exchange.positions.get(TICKER) ?? 0);
}

function expectSameOrder(trade: Trade): void {
  const wire = account.venue.exchange.orders.find(
    ({ client_order_id: name }) => name === trade.clientOrderId,
  );
  if (!wire) {
    expect(trade).toMatchObject({ status: expect.stringMatching(/cancelled|rejected/), filledContracts: 0 });
    return;
  }
  expect(trade.filledContracts).toBe(wire.filled);
  expect(trade.status === 'resting').toBe(wire.status === 'resting');
  if (wire.status === 'resting')
    expect(Math.round((trade.contracts - trade.filledContracts) * 100)).toBe(
      Math.round(wire.remaining * 100),
    );
}

async function end(placed: readonly string[]): Promise<void> {
  for (const id of placed) {
    const trade = await account.find(id);
    if (trade.status === 'resting') await account.withdraw(trade);
  }
  const rows = await database.db.orm.select({ status: tradingOrders.status }).from(tradingOrders);
  expect(rows.filter(({ status }) => status === 'resting' || status === 'pending')).toEqual([]);
}

it('both sides end in agreement after any sequence of placing, trading, cancelling, decreasing and lost answers', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(steps, { minLength: 12, maxLength: 24 }), async (plan) => {
      const placed: string[] = [];
      account.venue.books.set(TICKER, newBook());
      await account.live.reconcile();
      for (const step of plan) await take(step, placed);
      const { venue, live, service } = account;
      venue.fault = venue.answerFault = venue.exchange.stale = undefined;
      // After 61 seconds, requests in flight can no longer arrive.
      service.clock.advance(61_000);
      await live.reconcile();
      await live.reconcile();
      await expectSame(placed);
      await end(placed);
    }),
    { numRuns: 12 },
  );
});
