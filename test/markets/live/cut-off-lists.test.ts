import type { ServerResponse } from 'node:http';
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';
import { useDatabase } from '../../support/use.js';
import {
  cut,
  disturb,
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

type Body = Record<string, unknown>;

/** Changes the answer to each read of `path`. */
function change(path: string, to: (body: Body) => Body): void {
  account.venue.fault = (req, res, at) => {
    if (req.method === 'GET' && at === path) rewrite(res, to);
    return false;
  };
}

function rewrite(res: ServerResponse, to: (body: Body) => Body): void {
  const end = res.end.bind(res) as (text: string) => ServerResponse;
  res.end = ((text: string) => end(JSON.stringify(to(JSON.parse(text) as Body)))) as typeof res.end;
}

const turnInCircles = (path: string, left: (rows: unknown[]) => unknown[] = (rows) => rows): void =>
  change(path, (body) =>
    Object.fromEntries(
      Object.entries(body).map(([name, value]) =>
        name === 'cursor' ? [name, 'again'] : [name, Array.isArray(value) ? left(value) : value],
      ),
    ),
  );

async function placeWithoutAnswer() {
  disturb(account, 'after', cut);
  account.venue.fault = (req, res, at) => {
    if (req.method !== 'GET' || at !== '/portfolio/orders') return false;
    res.writeHead(503).end();
    return true;
  };
  const order = await account.place();
  expect(order.status).toBe('pending');
  account.venue.fault = undefined;
  account.service.clock.advance(5 * 60_000);
  return order;
}

describe('a list of the account that ended early', () => {
  it('still books an order that it names', async () => {
    const order = await placeWithoutAnswer();
    turnInCircles('/portfolio/orders');
    await account.live.reconcile();
    expect(await account.find(order.id)).toMatchObject({ status: 'filled', filledContracts: 10 });
    expect(account.live.report).toMatchObject({
      state: 'closed',
      reason: expect.stringMatching('/portfolio/orders: its cursor repeats'),
    });
    account.venue.fault = undefined;
    await account.live.reconcile();
    expect(account.live.report).toMatchObject({ state: 'open', differences: [] });
  });

  it('does not prove that an order never arrived', async () => {
    const order = await placeWithoutAnswer();
    turnInCircles('/portfolio/orders', () => []);
    await account.live.reconcile();
    expect(await account.find(order.id)).toMatchObject({ status: 'pending', filledContracts: 0 });
    expect((await account.books()).reserved).toBeGreaterThan(0n);
    account.venue.fault = undefined;
    await account.live.reconcile();
    expect(await account.find(order.id)).toMatchObject({ status: 'filled', filledContracts: 10 });
  });

  it('does not prove that a position was closed or settled', async () => {
    await account.place();
    await account.live.reconcile();
    turnInCircles('/portfolio/positions', () => []);
    const { length } = account.venue.requests;
    await account.live.reconcile();
    expect(account.live.report).toMatchObject({
      state: 'closed',
      differences: [],
      reason: expect.stringMatching('/portfolio/positions: its cursor repeats'),
    });
    const asked = account.venue.requests.slice(length);
    expect(asked.filter((request) => request.includes(`settlements?ticker=${TICKER}`))).toEqual([]);
  });

  it('does not make others’ of our own resting orders', async () => {
    const order = await account.rest();
    turnInCircles('/portfolio/orders', () => []);
    await account.live.reconcile();
    expect(account.live.report).toMatchObject({ differences: [], foreign: { orders: [] } });
    expect(await account.find(order.id)).toMatchObject({ status: 'resting' });
  });
});

it('a balance without this exchange shard is read again for the shard, not taken for zero', async () => {
  change('/portfolio/balance', (body) =>
    'balance_breakdown' in body && (body.balance_breakdown as unknown[]).length > 1
      ? { ...body, balance_breakdown: (body.balance_breakdown as unknown[]).slice(1) }
      : body,
  );
  account.venue.exchange.otherBalances.set(2, 5_000);
  await account.live.reconcile();
  expect(account.live.report).toMatchObject({
    state: 'open',
    differences: [],
    otherShards: [{ exchangeIndex: 2, balance: 50_000_000n }],
  });
});
