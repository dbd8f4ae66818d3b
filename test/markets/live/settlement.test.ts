import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { useDatabase } from '../../support/use.js';
import {
  expectSameCash,
  openLiveAccount,
  removeKeys,
  TICKER,
  type LiveAccount,
} from '../support/live-account.js';

const database = useDatabase();
let account: LiveAccount;
afterEach(() => account.stop());
afterAll(removeKeys);

/** Cost of 6 contracts at 0.45 and 4 at 0.46, without fees. */
const COST_CENTS = 454;
const market = () => account.venue.markets.find(({ ticker }) => ticker === TICKER)!;

/** The venue decides the market and pays ten YES contracts. */
function payThere(result: string, cents: number): void {
  const { exchange } = account.venue;
  exchange.positions.delete(TICKER);
  exchange.balanceCents += cents;
  exchange.settlements.push({
    ticker: TICKER,
    market_result: result,
    revenue: cents,
    settled_time: new Date(account.service.clock.now()).toISOString(),
  });
}

async function settleHere(): Promise<void> {
  account.service.clock.advance(6 * 60_000);
  await account.service.trading.refresher.refresh();
  await account.service.trading.settlement.settle();
  await account.live.reconcile();
}

const agrees = { state: 'open', reason: null, differences: [], settling: [] };

describe('a live position is paid what the venue pays,', () => {
  it.each([
    ['seven hours earlier, as YES', '2026-07-04T21:59:00Z', { result: 'yes' }, 1_000],
    ['seven hours earlier, as NO', '2026-07-04T21:59:00Z', { result: 'no' }, 0],
    ['a day later, as YES', '2026-07-06T04:59:00Z', { result: 'yes' }, 1_000],
    [
      'before its day, at a fair price',
      '2026-07-04T15:05:00Z',
      { result: 'scalar', settlement_value_dollars: '0.3700' },
      370,
    ],
    ['at a half cent', '2026-07-04T21:59:00Z', { result: 'scalar', settlement_value_dollars: '0.3750' }, 375],
    ['early and void, at cost', '2026-07-04T21:59:00Z', { result: 'void' }, COST_CENTS],
    ['without a close time', null, { result: 'yes' }, 1_000],
  ])('if its market closes %s', async (_, closeTime, result, cents) => {
    account = await openLiveAccount(database.db);
    await account.place();
    // The venue moves the time while the market trades: nobody trades it any more, but the position stays.
    Object.assign(market(), { close_time: closeTime });
    await account.service.trading.refresher.refresh();
    await expect(account.place()).rejects.toMatchObject({ code: expect.stringMatching(/market/) });
    await account.live.reconcile();
    expect(account.live.report).toMatchObject(agrees);
    Object.assign(market(), { status: 'determined', ...result });
    await settleHere();
    expect(account.live.report).toMatchObject(agrees);
    const before = (await account.books()).cash;
    Object.assign(market(), { status: 'finalized' });
    payThere(result.result, cents);
    // Until our own settlement, the venue's payout is expected, not a difference.
    await account.live.reconcile();
    expect(account.live.report).toMatchObject({ ...agrees, settling: [TICKER] });
    await settleHere();
    expect(account.live.report).toMatchObject(agrees);
    expect((await expectSameCash(account)).cash - before).toBe(BigInt(cents) * 10_000n);
  });

  it('if its market is no longer listed at all', async () => {
    account = await openLiveAccount(database.db);
    await account.place();
    const finalized = { ...market(), status: 'finalized', result: 'no', close_time: '2026-07-04T15:05:00Z' };
    account.venue.markets = account.venue.markets.filter(({ ticker }) => ticker !== TICKER);
    account.venue.historical = [finalized];
    payThere('no', 0);
    await settleHere();
    expect(account.live.report).toMatchObject(agrees);
    await expectSameCash(account);
  });
});
