import { toLevels, type OrderBook } from '../../src/trading/market/book.js';
import type { Market } from '../../src/trading/market/market.js';
import type { MarketData, MarketSource } from '../../src/trading/market/source.js';
import { CENT, DOLLAR } from '../../src/trading/market/money.js';
import { findStation } from '../../src/trading/market/stations.js';
import type { Database } from '../../src/core/db/client.js';
import { createKey, createOrganization } from '../support/fixtures.js';
import { startTestService, type TestService, type TestServiceOptions } from '../support/service.js';

export const TICKER = 'KXHIGHNY-26NOV21-B40.5';
export const OTHER_TICKER = 'KXHIGHNY-26NOV21-B42.5';
const HOUR_MS = 3_600_000;

/** `[price in cents, contracts]`, bids of each side. */
export const makeBook = (yes: [number, number][], no: [number, number][]): OrderBook => {
  const levels = (list: [number, number][]) =>
    toLevels(list.map(([price, contracts]) => ({ price: BigInt(price) * CENT, contracts })));
  return { yes: levels(yes), no: levels(no) };
};

/** YES 42 / 45: 5 at 45, 7 at 46; bids of 10 at 42, 20 at 41. */
export const usualBook = makeBook(
  [
    [42, 10],
    [41, 20],
  ],
  [
    [55, 5],
    [54, 7],
  ],
);

/** A venue whose every word a test decides. */
export interface TestMarkets extends MarketSource {
  books: Map<string, OrderBook>;
  change: Partial<Market>;
  isTrading: boolean;
  /** What the venue says beside its markets. */
  said: Partial<MarketData>;
  /** What the next reads throw. */
  error: Error | undefined;
}

export function createTestMarkets(now: () => number): TestMarkets {
  const source: TestMarkets = {
    name: 'test',
    books: new Map([
      [TICKER, usualBook],
      [OTHER_TICKER, usualBook],
    ]),
    change: {},
    isTrading: true,
    said: {},
    error: undefined,
    read: () => (source.error ? Promise.reject(source.error) : Promise.resolve(makeData(source, now()))),
    find: (tickers) =>
      Promise.resolve(makeData(source, now()).markets.filter(({ ticker }) => tickers.includes(ticker))),
  };
  return source;
}

function makeData({ books, change, isTrading, said }: TestMarkets, now: number): MarketData {
  const market = (ticker: string, floor: number): Market => ({
    ticker,
    eventTicker: 'KXHIGHNY-26NOV21',
    seriesTicker: 'KXHIGHNY',
    kind: 'daily_maximum',
    station: findStation('KNYC')!,
    date: '2026-11-21',
    bracket: { kind: 'between', floor, cap: floor + 1 },
    status: 'active',
    yesBid: null,
    yesAsk: null,
    noBid: null,
    noAsk: null,
    lastPrice: null,
    volume: 0,
    volume24h: 0,
    openInterest: 0,
    openTime: new Date(now - HOUR_MS),
    closeTime: new Date(now + HOUR_MS),
    priceRanges: [{ start: 0n, end: DOLLAR, step: CENT }],
    settlement: { source: 'The Weather Company', rulesText: '' },
    settlementValue: null,
    settledTemperature: null,
    ...change,
  });
  return {
    fetchedAt: new Date(now),
    isTrading,
    markets: [market(TICKER, 40), market(OTHER_TICKER, 42)],
    books: new Map(books),
    feeRules: new Map([['KXHIGHNY', { type: 'quadratic', multiplier: DOLLAR }]]),
    ...said,
  };
}

export interface TradingTest extends TestService {
  markets: TestMarkets;
  /** Puts a book in place and reads it. */
  showBook(book: OrderBook, ticker?: string): Promise<void>;
}

/** The service on a test venue whose markets are open and whose snapshot is loaded. */
export async function startTradingTest(db: Database, options: TestServiceOptions = {}): Promise<TradingTest> {
  let now: () => number = Date.now;
  const markets = createTestMarkets(() => now());
  const service = await startTestService(db, { ...options, trading: { markets, ...options.trading } });
  now = service.clock.now;
  await service.trading.refresher.refresh();
  return {
    ...service,
    markets,
    async showBook(book, ticker = TICKER) {
      markets.books.set(ticker, book);
      await service.trading.refresher.refresh();
    },
  };
}

/** An Organization with a key that may trade. */
export async function createTrader(db: Database, values: { slug?: string; livemode?: boolean } = {}) {
  const { livemode = true, ...organization } = values;
  const { id: orgId, slug } = await createOrganization(db, organization);
  const { secret } = await createKey(db, orgId, { scopes: ['trading:read', 'trading:write'], livemode });
  return { orgId, slug, secret };
}

export interface TradeJson {
  id: string;
  status: string;
  reason: string | null;
  filledContracts: number;
  averagePrice: string | null;
  fees: string;
  total: string;
  fills: { price: string; contracts: number; fee: string; filledAt: string }[];
  [field: string]: unknown;
}

export interface TradeAnswer {
  status: number;
  headers: Headers;
  /** Of a problem. */
  code?: string;
  detail?: string;
  errors?: { pointer: string; detail: string }[];
  trade?: TradeJson;
}

export const usualOrder = {
  ticker: TICKER,
  side: 'yes',
  action: 'buy',
  contracts: 5,
  limitPrice: '0.45',
};

let keys = 0;

/** `POST /trade`: the usual order with what is different about it. */
export async function postTrade(
  url: string,
  secret: string,
  change: Record<string, unknown> = {},
  headers: Record<string, string> = {},
): Promise<TradeAnswer> {
  const response = await fetch(`${url}/trade`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${secret}`,
      'content-type': 'application/json',
      'idempotency-key': `key-${++keys}`,
      ...headers,
    },
    body: JSON.stringify({ ...usualOrder, ...change }),
  });
  const body = (await response.json()) as Omit<TradeAnswer, 'status' | 'headers'>;
  return { ...body, status: response.status, headers: response.headers };
}
