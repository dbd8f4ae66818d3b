import { setMaxListeners } from 'node:events';
import { createServer, type Server } from 'node:http';
import { pino } from 'pino';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { z } from 'zod';
import { createKalshiClient, createLimitReader } from '../../../src/markets/venue/kalshi-client.js';
import { basicLimits, createVenueBudget } from '../../../src/markets/venue/venue-budget.js';

const never = new AbortController().signal;
setMaxListeners(0, never);
/** Allows a burst of ten reads, then ten per second. */
const small = { ...basicLimits, read: { refillPerSecond: 100 / 0.9, capacity: 100 / 0.9 } };

afterEach(() => void vi.useRealTimers());

function fakeTime(): void {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
}

/** Counts the reads that the budget lets through. */
function ask(budget: ReturnType<typeof createVenueBudget>, reads: number, path = '/markets') {
  const counted = { went: 0 };
  for (let i = 0; i < reads; i++) void budget.take('GET', path, never).then(() => counted.went++);
  return counted;
}

describe('a budget', () => {
  it('lets a burst through and then keeps to the rate, whatever the load', async () => {
    fakeTime();
    const counted = ask(createVenueBudget(small), 60);
    await vi.advanceTimersByTimeAsync(0);
    expect(counted.went).toBe(10);
    await vi.advanceTimersByTimeAsync(3_000);
    expect(counted.went).toBe(40);
  });

  it('never exceeds the venue’s own bucket over any second', async () => {
    fakeTime();
    const budget = createVenueBudget();
    const counted = ask(budget, 1_000);
    for (let second = 0; second < 20; second++) {
      await vi.advanceTimersByTimeAsync(1_000);
      expect(counted.went * 10).toBeLessThanOrEqual(600 + 200 * (second + 1));
    }
    expect(counted.went).toBeGreaterThan(400);
  });

  it('serves orders and the account before reads that have waited longer', async () => {
    fakeTime();
    const budget = createVenueBudget(small);
    const ordinary = ask(budget, 100);
    await vi.advanceTimersByTimeAsync(0);
    let hasGone = false;
    void budget.take('GET', '/portfolio/orders', never, true).then(() => (hasGone = true));
    await vi.advanceTimersByTimeAsync(100);
    expect([hasGone, ordinary.went]).toEqual([true, 10]);
  });

  it('forgets limits that are not read again, whether they were higher or lower', async () => {
    fakeTime();
    const budget = createVenueBudget(small);
    const learned = { refillPerSecond: 1000 / 0.9, capacity: 1000 / 0.9 };
    budget.setLimits({ ...basicLimits, read: learned, defaultCost: 5 });
    await vi.advanceTimersByTimeAsync(5 * 60_000 - 1);
    const before = ask(budget, 1_000);
    await vi.advanceTimersByTimeAsync(0);
    expect(before.went).toBe(200);
    const after = createVenueBudget(small);
    after.setLimits({ ...basicLimits, read: learned, defaultCost: 5 });
    await vi.advanceTimersByTimeAsync(5 * 60_000);
    const counted = ask(after, 1_000);
    await vi.advanceTimersByTimeAsync(0);
    expect(counted.went).toBe(10);
  });

  it('waits for a rate of next to nothing without a timer that fires at once', () => {
    const started = vi.spyOn(globalThis, 'setTimeout');
    const budget = createVenueBudget(small);
    budget.setLimits({ ...basicLimits, read: { refillPerSecond: 1e-100, capacity: 1 } });
    ask(budget, 2);
    const [[, ms]] = started.mock.calls.slice(-1) as [[unknown, number]];
    started.mockRestore();
    budget.setLimits(basicLimits);
    expect(ms).toBeGreaterThan(1000);
    expect(ms).toBeLessThan(2 ** 31);
  });

  it('has separate tokens for writes', async () => {
    fakeTime();
    const budget = createVenueBudget(small);
    ask(budget, 100);
    let hasGone = false;
    void budget.take('POST', '/portfolio/events/orders', never).then(() => (hasGone = true));
    await vi.advanceTimersByTimeAsync(0);
    expect(hasGone).toBe(true);
  });

  it('charges each endpoint’s cost', async () => {
    fakeTime();
    const costs = [{ method: 'GET', path: '/trade-api/v2/markets/{ticker}/orderbook', cost: 50 }];
    const budget = createVenueBudget({ ...small, costs });
    const counted = ask(budget, 10, '/markets/A-B.5/orderbook');
    await vi.advanceTimersByTimeAsync(0);
    expect(counted.went).toBe(2);
  });

  it('slows down after a refusal, once for simultaneous refusals, and recovers', async () => {
    fakeTime();
    const budget = createVenueBudget(small);
    const counted = ask(budget, 1_000);
    await vi.advanceTimersByTimeAsync(0);
    for (let i = 0; i < 5; i++) budget.refused('GET');
    await vi.advanceTimersByTimeAsync(9_900);
    expect(counted.went).toBeGreaterThanOrEqual(10 + 49);
    expect(counted.went).toBeLessThanOrEqual(10 + 50);
    const before = counted.went;
    await vi.advanceTimersByTimeAsync(10_000);
    expect(counted.went - before).toBeGreaterThan(95);
  });

  it('drops aborted requests, so that none behind waits for them', async () => {
    fakeTime();
    const budget = createVenueBudget(small);
    ask(budget, 10);
    const gone = new AbortController();
    const waiting = budget.take('GET', '/markets', gone.signal).catch((error: Error) => error.message);
    const counted = ask(budget, 1);
    gone.abort(new Error('given up'));
    expect(await waiting).toBe('given up');
    await vi.advanceTimersByTimeAsync(101);
    expect(counted.went).toBe(1);
  });
});

describe('a client', () => {
  let server: Server;
  afterEach(() => void server.close());
  const any = z.record(z.string(), z.unknown());

  async function serve(answer: (path: string) => { status: number; body?: unknown }): Promise<string> {
    server = createServer((req, res) => {
      const { status, body = {} } = answer(req.url!);
      res.writeHead(status).end(JSON.stringify(body));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return `http://127.0.0.1:${(server.address() as { port: number }).port}`;
  }

  it('reports a refusal to its budget, and retries', async () => {
    let asked = 0;
    const baseUrl = await serve(() => ({ status: asked++ === 0 ? 429 : 200 }));
    const budget = createVenueBudget();
    const refused = vi.spyOn(budget, 'refused');
    const client = createKalshiClient({ baseUrl, budget, backoffMs: 1 });
    await client.get('/markets', [], any, never);
    expect([asked, refused.mock.calls]).toEqual([2, [['GET']]]);
  });

  it('with a key reads its account’s limits each minute, and continues without them', async () => {
    const asked: string[] = [];
    let isFailing = false;
    const baseUrl = await serve((path) => {
      asked.push(path);
      if (isFailing) return { status: 404 };
      if (path === '/account/endpoint_costs')
        return { status: 200, body: { default_cost: 20, endpoint_costs: [] } };
      const bucket = { refill_rate: 600, bucket_capacity: 1800 };
      return { status: 200, body: { usage_tier: 'expert', read: bucket, write: bucket, grants: [] } };
    });
    let now = 0;
    const budget = createVenueBudget();
    const set = vi.spyOn(budget, 'setLimits');
    const parts = { budget, clock: { now: () => now }, log: pino({ level: 'silent' }) };
    const client = createKalshiClient({ baseUrl, budget, headers: () => ({}) });
    const learn = createLimitReader({ client, ...parts });
    await learn(never);
    await learn(never);
    const bucket = { refillPerSecond: 600, capacity: 1800 };
    expect(set.mock.calls).toEqual([[{ read: bucket, write: bucket, defaultCost: 20, costs: [] }]]);
    expect(asked).toEqual(['/account/limits', '/account/endpoint_costs']);
    isFailing = true;
    now += 60_000;
    await learn(never);
    expect(set).toHaveBeenCalledTimes(1);
    await createLimitReader({ client: createKalshiClient({ baseUrl }), ...parts })(never);
    expect(asked).toHaveLength(3);
  });
});
