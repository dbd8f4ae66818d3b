import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';
import { operatorClient } from '../../support/operator.js';
import { useDatabase } from '../../support/use.js';
import type { FakeOrder } from '../support/fake-exchange.js';
import {
  cut,
  disturb,
  newBook,
  openLiveAccount,
  removeKeys,
  TICKER,
  type LiveAccount,
} from '../support/live-account.js';

const database = useDatabase();
let account: LiveAccount;
beforeEach(async () => {
  account = await openLiveAccount(database.db);
});
afterEach(() => account.stop());
afterAll(removeKeys);

const call = operatorClient(() => account.service);
const path = () => `/organizations/${account.organization.slug}/trading/reconciliation`;
const exchange = () => account.venue.exchange;
/** An order that somebody placed by hand, in a state that Gauge does not know. */
const foreign = (): FakeOrder => ({
  ...exchange().orders[0]!,
  order_id: 'by-hand',
  client_order_id: '',
  status: 'strange' as FakeOrder['status'],
});

describe('a row of the account that cannot be read', () => {
  it('is not taken for an absent position: trading closes and names it, and nothing is adopted', async () => {
    await account.place();
    exchange().positions.set('KXOTHER-1', Number.NaN);
    await account.live.reconcile();
    expect(account.live.report).toMatchObject({
      state: 'closed',
      reason: expect.stringMatching(
        /positions: 1 of 2 rows cannot be read, the first of KXOTHER-1: position_fp/,
      ),
    });
    expect((await call('PUT', path(), { accept: true })).status).toBe(503);
    exchange().positions.set(TICKER, Number.NaN);
    exchange().positions.delete('KXOTHER-1');
    await account.live.reconcile();
    expect(account.live.report).toMatchObject({ state: 'closed', differences: [] });
    exchange().positions.set(TICKER, 10);
    await account.live.reconcile();
    expect(account.live.report).toMatchObject({ state: 'open', differences: [] });
  });

  it('holds up no other order: its fills are booked while a foreign order is unreadable', async () => {
    const order = await account.rest();
    exchange().orders.push(foreign());
    account.print('ask', 43, 4);
    await account.live.watchResting();
    expect(await account.find(order.id)).toMatchObject({ status: 'resting', filledContracts: 4 });
    await account.live.reconcile();
    expect(account.live.report.reason).toMatch(/orders: 1 of 2 rows cannot be read.*status/);
  });

  it('does not count as an order that never arrived', async () => {
    disturb(account, 'after', cut);
    account.venue.fault = (req, res, at) => {
      if (req.method !== 'GET' || at !== '/portfolio/orders') return false;
      res.writeHead(503).end();
      return true;
    };
    const order = await account.place();
    account.venue.fault = undefined;
    expect(order.status).toBe('pending');
    const row = exchange().orders.find(({ client_order_id: name }) => name === order.clientOrderId)!;
    const { filled } = row;
    row.filled = Number.NaN;
    account.service.clock.advance(5 * 60_000);
    await account.live.reconcile();
    expect(await account.find(order.id)).toMatchObject({ status: 'pending', filledContracts: 0 });
    expect((await account.books()).reserved).toBeGreaterThan(0n);
    row.filled = filled;
    await account.live.reconcile();
    expect(await account.find(order.id)).toMatchObject({ status: 'filled', filledContracts: 10 });
  });

  it('leaves only its own order open if it is a fill', async () => {
    const ticker = String(account.venue.markets[0]!.ticker);
    account.venue.books.set(ticker, newBook());
    await account.service.trading.refresher.refresh();
    exchange().fillsLag = 100;
    const [first, second] = [
      await account.place({ contracts: 2 }),
      await account.place({ ticker, contracts: 3 }),
    ].map(({ id }) => id);
    exchange().fillsLag = 0;
    const fill = exchange().fills[0]!;
    const { feeCents } = fill;
    fill.feeCents = Number.NaN;
    await account.live.reconcile();
    expect([(await account.find(first!)).status, (await account.find(second!)).status]).toEqual([
      'pending',
      'filled',
    ]);
    fill.feeCents = feeCents;
    await account.live.reconcile();
    expect(await account.find(first!)).toMatchObject({ status: 'filled', filledContracts: 2 });
    await account.live.reconcile();
    expect(account.live.report).toMatchObject({ state: 'open', differences: [] });
  });
});
