import { v7 as uuid } from 'uuid';
import { beforeAll, expect, it } from 'vitest';
import { asksOf, bidsOf } from '../../../src/markets/market/book.js';
import type { MarketSource } from '../../../src/markets/market/source.js';
import { createSimulatedSource } from '../../../src/markets/venue/simulated.js';
import { formatDollars } from '../../../src/markets/market/money.js';
import { simulateWeather } from '../../../src/markets/venue/simulation/weather.js';
import { createKey, createOrganization } from '../../support/fixtures.js';
import { TestClock } from '../../support/service.js';
import { operatorClient } from '../../support/operator.js';
import { useService, useServiceOn } from '../../support/use.js';

const clock = new TestClock();
clock.set('2026-11-21T15:00:00Z');
const weather = simulateWeather('risk');
const simulated = createSimulatedSource({ clock, seed: 'risk', weather });
/** Fields of the simulated venue's answer that a test overrides. */
let overrides: Partial<Awaited<ReturnType<MarketSource['read']>>> = {};
const markets: MarketSource = {
  ...simulated,
  read: async (signal) => ({ ...(await simulated.read(signal)), ...overrides }),
};

const options = { context: { clock }, trading: { markets } };
const { database, service } = useService(options);
const services = [service, useServiceOn(() => database.db, options)] as const;
beforeAll(async () => {
  for (const { trading } of services) await trading.refresher.refresh();
});

const operator = operatorClient(() => services[1]);

/** Creates an Organization and finds the market with the deepest YES offer. */
async function setUp() {
  const { id, slug } = await createOrganization(database.db);
  const { secret } = await createKey(database.db, id, { scopes: ['trading:read', 'trading:write'] });
  const { data } = services[0].trading.snapshots.current!;
  const [best] = data.markets
    .filter(({ status }) => status === 'active')
    .map(({ ticker }) => ({ ticker, book: data.books.get(ticker)! }))
    .map((one) => ({ ...one, ask: asksOf(one.book, 'yes')[0], bid: bidsOf(one.book, 'yes')[0] }))
    .filter(({ ask, bid }) => ask && bid)
    .sort((a, b) => b.ask!.contracts - a.ask!.contracts);
  const trade = async (order: object, instance: 0 | 1 = 0): Promise<string> => {
    const response = await fetch(`${services[instance].url}/trade`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${secret}`,
        'content-type': 'application/json',
        'idempotency-key': uuid(),
      },
      body: JSON.stringify({ ticker: best!.ticker, side: 'yes', ...order }),
    });
    const body = (await response.json()) as any;
    return response.status === 201 ? body.trade.status : `${response.status} ${body.code} ${body.detail}`;
  };
  const buy = (contracts: number, instance: 0 | 1 = 0) =>
    trade({ action: 'buy', contracts, limitPrice: formatDollars(best!.ask!.price) }, instance);
  const sell = (contracts: number, instance: 0 | 1 = 0) =>
    trade({ action: 'sell', contracts, limitPrice: formatDollars(best!.bid!.price) }, instance);
  return {
    trading: `/organizations/${slug}/trading`,
    trade,
    buy,
    sell,
    ticker: best!.ticker,
    ask: best!.ask!,
  };
}

it('a limit set on one instance applies to the next order on the other', async () => {
  const { trading, buy, sell, ticker } = await setUp();
  expect(await buy(3)).toBe('filled');
  await operator('PUT', `${trading}/limits`, { maxPositionContracts: 4 });
  for (const instance of [0, 1] as const)
    expect(await buy(2, instance)).toBe(
      `422 risk_limit max_position_contracts: this order would make 5 yes contracts of ${ticker}; the limit is 4.`,
    );
  expect(await buy(1)).toBe('filled');
  await operator('PUT', `${trading}/switch`, { state: 'reduce_only', reason: 'holiday' });
  expect(await buy(1)).toMatch(/^422 risk_limit reduce_only: .*holiday/);
  expect(await sell(1)).toBe('filled');
  await operator('PUT', `${trading}/switch`, { state: 'halt', reason: 'fire' });
  for (const instance of [0, 1] as const)
    expect(await sell(1, instance)).toMatch(/^422 risk_limit halt: .*fire/);
  await operator('PUT', `${trading}/switch`, { state: 'open' });
  expect(await sell(1)).toBe('filled');
  await operator('PUT', '/trading/switch', { state: 'halt', reason: 'everybody' });
  expect(await buy(1)).toMatch(/^422 risk_limit halt: the service's switch/);
  await operator('PUT', '/trading/switch', { state: 'open' });
  expect(await buy(1)).toBe('filled');
});

it('concurrent orders together never exceed the limit', async () => {
  const { trading, buy } = await setUp();
  await operator('PUT', `${trading}/limits`, { maxPositionContracts: 5 });
  const answers = await Promise.all(Array.from({ length: 12 }, (_, n) => buy(1, n % 2 === 0 ? 0 : 1)));
  expect(answers.filter((answer) => answer === 'filled')).toHaveLength(5);
  expect(answers.filter((answer) => /risk_limit max_position_contracts/.test(answer))).toHaveLength(7);
});

it('a price far beyond the book and an overly expensive purchase are refused without booking anything', async () => {
  const { trading, trade, buy, ask } = await setUp();
  expect(await trade({ action: 'buy', contracts: 1, limitPrice: '0.9900' })).toMatch(
    /^422 risk_limit price_collar: the limit price 99¢ is /,
  );
  await operator('PUT', `${trading}/limits`, { maxOrderCost: formatDollars(ask.price) });
  // The limit equals the price, so the price plus the fee exceeds it.
  expect(await buy(1)).toMatch(/^422 risk_limit max_order_cost: /);
  await operator('PUT', `${trading}/limits`, { maxDailyLoss: '0' });
  expect(await buy(1)).toMatch(/^422 risk_limit max_daily_loss: \$0\.00 were lost/);
});

it('orders are refused if the venue’s clock differs from ours', async () => {
  const { buy } = await setUp();
  const refreshed = async (words: typeof overrides) => {
    overrides = words;
    await services[0].trading.refresher.refresh();
  };
  await refreshed({ clockSkewMs: 4000 });
  expect(await buy(1)).toMatch(/^422 risk_limit clock_skew: .* 4 s apart; the limit is 2 s\.$/);
  await refreshed({});
  expect(await buy(1)).toBe('filled');
});
