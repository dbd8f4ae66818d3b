import { generateKeyPairSync } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { isDemoUrl, runDemo, type DemoStep } from '../../../src/markets/live/demo-run.js';
import { signRequest } from '../../../src/markets/live/sign.js';
import { createVenue } from '../../../src/markets/live/venue.js';
import { createKalshiClient } from '../../../src/markets/venue/kalshi-client.js';
import { systemClock } from '../../../src/core/time.js';
import { EVENT, newBook, TICKER } from '../support/live-account.js';
import { startFakeVenue, wireMarket, type FakeVenue } from '../support/fake-venue.js';
import { plentyOfTokens } from '../support/venue-tokens.js';

const demo = 'https://external-api.demo.kalshi.co/trade-api/v2';
const { privateKey } = generateKeyPairSync('ed25519');
let fake: FakeVenue;
beforeAll(async () => {
  fake = await startFakeVenue();
});
afterAll(() => fake.stop());
beforeEach(() => {
  fake.fault = fake.answerFault = undefined;
  fake.books.set(TICKER, newBook());
  fake.markets = [wireMarket(EVENT, { floor: 80, cap: 81 }, { close_time: '2099-01-01T00:00:00Z' })];
  Object.assign(fake.exchange, { orders: [], fills: [], received: [], positions: new Map() });
  fake.exchange.isSubaccountKey = false;
});

/** Sends requests for the demo's host to the fake venue. */
const toFake: typeof fetch = (url, init) => {
  if (typeof url !== 'string') throw new TypeError('the address must be a string');
  expect(url.startsWith(demo)).toBe(true);
  return fetch(url.replace(demo, fake.url), init);
};

async function run() {
  const key = { id: 'demo-key', privateKey };
  const options = { baseUrl: demo, budget: plentyOfTokens(), fetch: toFake, backoffMs: 1, timeoutMs: 2_000 };
  const headers = (method: string, path: string) => signRequest(key, { atMs: Date.now(), method, path });
  const steps: DemoStep[] = [];
  const error = await runDemo(
    {
      venue: createVenue({ ...options, key, clock: systemClock }),
      client: createKalshiClient({ ...options, headers }),
      clock: systemClock,
      onStep: (step) => steps.push(step),
      pausesMs: [0, 1, 1],
    },
    'KXHIGHNY',
    new AbortController().signal,
  ).then(
    () => undefined,
    (problem: Error) => problem,
  );
  return { steps, error };
}

it('refuses every address but the two of the demo', () => {
  expect([demo, 'https://demo-api.kalshi.co/trade-api/v2'].map(isDemoUrl)).toEqual([true, true]);
  const others = [
    'https://external-api.kalshi.com/trade-api/v2',
    'https://api.elections.kalshi.com/trade-api/v2',
    'http://external-api.demo.kalshi.co/trade-api/v2',
    'https://external-api.demo.kalshi.co:8443/trade-api/v2',
    'https://external-api.demo.kalshi.co.example.com/trade-api/v2',
    'https://external-api.demo.kalshi.co@example.com/trade-api/v2',
    'https://user:pass@external-api.demo.kalshi.co/trade-api/v2',
    'https://external-api.demo.kalshi.co/trade-api/v2?x=1',
    'https://external-api.demo.kalshi.co/other',
    'demo-api.kalshi.co',
    '',
  ];
  expect(others.filter(isDemoUrl)).toEqual([]);
});

it('places, decreases, cancels and fills one contract, and reconciles to the last digit', async () => {
  const { steps, error } = await run();
  expect(error).toBeUndefined();
  expect(steps.map(({ name, isGood }) => [name, isGood])).toEqual(
    [
      'Read the account',
      'Choose a market',
      'Place an order that rests',
      'Find it in the book',
      'Decrease it',
      'Cancel it',
      'Fill an order at once',
      'Reconcile the account',
    ].map((name) => [name, true]),
  );
  expect(fake.exchange.orders.map(({ status, filled }) => [status, filled])).toEqual([
    ['canceled', 0],
    ['executed', 1],
  ]);
});

it('changes no order or position that was there before', async () => {
  await run();
  const mine = { ...fake.exchange.orders[0]!, order_id: 'by-hand', status: 'resting' as const, remaining: 3 };
  Object.assign(fake.exchange, { orders: [mine], fills: [], positions: new Map([[TICKER, -2]]) });
  const { error } = await run();
  expect(error).toBeUndefined();
  expect(mine).toMatchObject({ status: 'resting', remaining: 3 });
  expect(fake.exchange.positions.get(TICKER)).toBe(-1);
});

it('takes its order out of the book if a later step fails', async () => {
  fake.fault = (_req, res, path) => {
    if (!path.endsWith('/decrease')) return false;
    res.writeHead(400, { 'content-type': 'application/json' }).end('{"error":{"code":"nope"}}');
    return true;
  };
  const { steps, error } = await run();
  expect(error?.message).toContain('nope');
  expect(steps.at(-1)).toMatchObject({ name: 'Decrease it', isGood: false });
  expect(fake.exchange.orders.map(({ status }) => status)).toEqual(['canceled']);
});

it('never sends an order twice if its answer is lost', async () => {
  let isCut = false;
  fake.answerFault = (req, _res, path) => {
    if (isCut || req.method !== 'POST' || !path.endsWith('/events/orders')) return false;
    isCut = true;
    req.socket.destroy();
    return true;
  };
  expect((await run()).error).toBeUndefined();
  expect(fake.exchange.orders).toHaveLength(2);
});

it('reports an account that differs by more than the fill', async () => {
  fake.answerFault = (_req, _res, path) => {
    if (path === '/portfolio/fills') {
      fake.answerFault = undefined;
      fake.exchange.balanceCents -= 1;
    }
    return false;
  };
  const { steps, error } = await run();
  expect(error?.message).toContain('instead of');
  expect(steps.at(-1)).toMatchObject({ name: 'Reconcile the account', isGood: false });
});

it('says so if no market can be traded', async () => {
  fake.markets = [];
  const { error } = await run();
  expect(error?.message).toContain('no open market of KXHIGHNY');
  expect(fake.exchange.orders).toEqual([]);
});
