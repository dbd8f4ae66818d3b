import { generateKeyPairSync } from 'node:crypto';
import fc from 'fast-check';
import { pino } from 'pino';
import { expect } from 'vitest';
import { readAnswer, readChange } from '../../../../src/markets/live/answer.js';
import { createVenue, type Venue } from '../../../../src/markets/live/venue.js';
import type { VenueFillAnswer } from '../../../../src/markets/live/wire.js';
import { isCount } from '../../../../src/markets/market/contracts.js';
import { DOLLAR, parseDollars, type Micros } from '../../../../src/markets/market/money.js';
import type { MarketData } from '../../../../src/markets/market/source.js';
import {
  createKalshiClient,
  UnexpectedAnswerError,
  VenueUnavailableError,
} from '../../../../src/markets/venue/kalshi-client.js';
import { createKalshiSource } from '../../../../src/markets/venue/kalshi.js';
import type { Rows } from '../../../../src/markets/venue/rows.js';
import { createBookKeeper } from '../../../../src/markets/venue/socket/book-keeper.js';
import { readFrame } from '../../../../src/markets/venue/socket/frames.js';
import { createIndexReader } from '../../../../src/markets/weather/kalshi-index.js';
import { newExchange, showFill, showOrder } from '../../support/fake-exchange.js';
import { wireMarket, wireSeries, wireTrade } from '../../support/fake-venue.js';
import { plentyOfTokens } from '../../support/venue-tokens.js';
import { spoil, spoiling, type Json } from './spoil.js';

const NOW = Date.parse('2026-07-04T18:00:00Z');
const TIME = '2026-07-04T17:30:00Z';
const clock = { now: () => NOW };
const log = pino({ level: 'silent' });
const never = new AbortController().signal;
const BASE = 'http://venue/trade-api/v2';

type Bodies = Record<string, Json>;

/** Answers each path with its text; a path without one is 404. */
const answering = (texts: (path: string, query: URLSearchParams) => string | undefined): typeof fetch =>
  ((input: string) => {
    const { pathname, searchParams } = new URL(input);
    const text = texts(pathname.replace('/trade-api/v2', ''), searchParams);
    return Promise.resolve(new Response(text ?? '{}', { status: text === undefined ? 404 : 200 }));
  }) as typeof fetch;

/** Every amount in a text, and a dollar less it. */
function amountsIn(text: string): Set<Micros> {
  const amounts = [...text.matchAll(/"(-?\d{1,12}(?:\.\d{1,6})?)"/g)].map(([, amount]) =>
    parseDollars(amount!),
  );
  return new Set(amounts.flatMap((amount) => [amount, DOLLAR - amount]));
}

/** Neither NaN nor infinite numbers, nor times that do not exist. */
function expectReal(value: unknown, place = ''): void {
  if (typeof value === 'number' && !Number.isFinite(value)) throw new Error(`${place} is ${value}`);
  if (value instanceof Date) {
    if (Number.isNaN(value.getTime())) throw new Error(`${place} is no time`);
  } else if (value instanceof Map) for (const [key, one] of value) expectReal(one, `${place}.${String(key)}`);
  else if (value !== null && typeof value === 'object')
    for (const [key, one] of Object.entries(value)) expectReal(one, `${place}.${key}`);
}

function expectKnownError(error: unknown): void {
  if (error instanceof UnexpectedAnswerError || error instanceof VenueUnavailableError)
    expect(error.message.length).toBeGreaterThan(5);
  else throw error;
}

const events = { KXHIGHNY: 'KXHIGHNY-26JUL04', KXHIGHCHI: 'KXHIGHCHI-26JUL04' };
type Series = keyof typeof events;
const strikes = [{ cap: 84 }, { floor: 84, cap: 85 }, { floor: 86, cap: 87 }, { floor: 87 }];
const marketsOf = (series: Series): Json =>
  strikes.map((strike, i) =>
    wireMarket(events[series], strike, {
      ...(series === 'KXHIGHCHI' ? { close_time: '2026-07-05T06:00:00Z' } : {}),
      ...(i === 3 ? { status: 'finalized', result: 'yes', settlement_value_dollars: '1.0000' } : {}),
    }),
  ) as Json;
const nameOf = (market: Json): string => (market as { ticker: string }).ticker;
const bookOf = (cents: number): Json => ({
  yes_dollars: [
    [`0.${cents}00`, '10.00'],
    [`0.${cents - 1}00`, '3.25'],
  ],
  no_dollars: [[`0.${99 - cents}00`, '5.00']],
});

const listed = { NY: marketsOf('KXHIGHNY') as Json[], CHI: marketsOf('KXHIGHCHI') as Json[] };
const bodies: Bodies = {
  '/exchange/status': { exchange_active: true, trading_active: true, exchange_estimated_resume_time: null },
  '/series': { series: Object.keys(events).map((ticker) => wireSeries(ticker) as Json) },
  '/series/fee_changes': {
    series_fee_change_arr: [
      { id: '1', series_ticker: 'KXHIGHNY', fee_type: 'quadratic', fee_multiplier: 2, scheduled_ts: TIME },
    ],
  },
  '/events/fee_changes': {
    event_fee_changes: [
      {
        id: '2',
        event_ticker: events.KXHIGHNY,
        series_ticker: 'KXHIGHNY',
        fee_type_override: 'quadratic_with_maker_fees',
        fee_multiplier_override: 0.5,
        scheduled_ts: TIME,
      },
    ],
    cursor: '',
  },
  '/account/limits': {
    usage_tier: 'basic',
    read: { refill_rate: 200_000, bucket_capacity: 600_000 },
    write: { refill_rate: 100_000, bucket_capacity: 100_000 },
    grants: [],
  },
  '/account/endpoint_costs': {
    default_cost: 10,
    endpoint_costs: [{ method: 'POST', path: '/trade-api/v2/portfolio/events/orders', cost: 10 }],
  },
  '/markets KXHIGHNY': { markets: listed.NY, cursor: '' },
  '/markets KXHIGHCHI': { markets: listed.CHI, cursor: '' },
  '/markets/orderbooks': {
    orderbooks: [...listed.NY, ...listed.CHI].map((market, i) => ({
      ticker: nameOf(market),
      orderbook_fp: bookOf(41 + i),
    })),
  },
  ...Object.fromEntries(
    [...listed.NY, ...listed.CHI].map((market, i) => [
      `/markets/${nameOf(market)}/orderbook`,
      { orderbook_fp: bookOf(41 + i) },
    ]),
  ),
};
const placeOf = (path: string, query: URLSearchParams): string =>
  path === '/markets' ? `/markets ${query.get('series_ticker')}` : path;

/** One page, spoiled in one way, and read between two reads of whole bodies. */
const marketBodies = fc.asyncProperty(
  fc.constantFrom(...Object.keys(bodies)),
  spoiling,
  fc.boolean(),
  async (place, spoiled, isSigned) => {
    let text: string | undefined;
    const fetch = answering((path, query) => {
      const at = placeOf(path, query);
      if (at === place && text !== undefined) return text;
      return at in bodies ? JSON.stringify(bodies[at]) : undefined;
    });
    const options = { baseUrl: BASE, budget: plentyOfTokens(), backoffMs: 0, fetch };
    const headers = () => ({ 'kalshi-access-key': 'key' });
    const make = () =>
      createKalshiSource({
        client: createKalshiClient({ ...options, ...(isSigned && { headers }) }),
        budget: options.budget,
        series: undefined,
        clock,
        log,
      });
    const kept = make();
    const before = await kept.read(never);
    text = spoil(bodies[place]!, spoiled);
    for (const source of [kept, make()])
      try {
        expectSound(await source.read(never), place, text, before);
      } catch (error) {
        expectKnownError(error);
      }
    text = undefined;
    const after = await kept.read(never);
    expect(after.books).toEqual(before.books);
    if (!place.startsWith('/series') && place !== '/events/fee_changes')
      expect(after.markets).toEqual(before.markets);
  },
);

function expectSound(data: MarketData, place: string, text: string, before: MarketData): void {
  expectReal(data);
  const amounts = amountsIn(`${JSON.stringify(bodies)} ${text}`);
  const isListed = (price: Micros | null) => price === null || amounts.has(price);
  for (const { ticker, yesBid, yesAsk, noBid, noAsk, lastPrice } of data.markets)
    for (const price of [yesBid, yesAsk, noBid, noAsk, lastPrice])
      if (!isListed(price)) throw new Error(`${ticker} has the price ${price}`);
  for (const [ticker, { yes, no }] of data.books)
    for (const { price, contracts } of [...yes, ...no]) {
      const isPrice = price > 0n && price < DOLLAR && amounts.has(price);
      if (!isPrice || !isCount(contracts) || contracts <= 0)
        throw new Error(`${ticker} has ${contracts} contracts at ${price}`);
    }
  for (const { ticker, status } of data.markets)
    expect(status !== 'active' || data.books.has(ticker) || data.doubts?.has(ticker)).toBe(true);
  for (const [name, { type, multiplier }] of data.feeRules)
    expect(multiplier >= 0n && (type === 'unknown' || multiplier <= 100_000_000n), name).toBe(true);
  const ofChicago = ({ markets, books }: MarketData) =>
    markets
      .filter(({ ticker }) => ticker.startsWith('KXHIGHCHI'))
      .map((market) => [market, books.get(market.ticker)]);
  if (place.includes('KXHIGHNY')) expect(ofChicago(data)).toEqual(ofChicago(before));
  expectReasons(data, place, text, before);
}

/** A market that is in the text and is not in the data has a note. */
function expectReasons(data: MarketData, place: string, text: string, before: MarketData): void {
  if (place !== '/markets KXHIGHNY' && place !== '/markets KXHIGHCHI') return;
  const shown = new Set(data.markets.map(({ ticker }) => ticker));
  const named = before.markets.filter(({ ticker }) => text.includes(`"ticker":"${ticker}"`));
  const gone = named.filter(({ ticker }) => !shown.has(ticker));
  if (gone.length > 0) expect(data.notes, gone[0]!.ticker).not.toEqual([]);
}

const oneMarket = listed.NY[3]!;
const ofOne = { markets: [oneMarket], cursor: '' };

const results = fc.asyncProperty(spoiling, async (spoiled) => {
  const text = spoil(ofOne, spoiled);
  const fetch = answering((path) => (path === '/markets' ? text : '{"markets":[],"cursor":""}'));
  const client = createKalshiClient({ baseUrl: BASE, budget: plentyOfTokens(), backoffMs: 0, fetch });
  const source = createKalshiSource({ client, series: undefined, clock, log });
  try {
    for (const found of await source.find([nameOf(oneMarket)], never)) {
      expectReal(found);
      const { settlementValue: value } = found;
      const isStated = value === null || amountsIn(text).has(value) || /"result":"(yes|no)"/.test(text);
      expect(isStated && (value === null || (value >= 0n && value <= DOLLAR))).toBe(true);
    }
  } catch (error) {
    expectKnownError(error);
  }
});

const trades: Json = {
  trades: [1, 2, 3].map((i) => wireTrade('T', { trade_id: `t${i}`, created_time: TIME }) as Json),
  cursor: '',
};

const prints = fc.asyncProperty(spoiling, async (spoiled) => {
  const text = spoil(trades, spoiled);
  const client = createKalshiClient({
    baseUrl: BASE,
    budget: plentyOfTokens(),
    backoffMs: 0,
    fetch: answering(() => text),
  });
  const source = createKalshiSource({ client, series: undefined, clock, log });
  try {
    const found = await source.readPrints!(['T'], new Date(NOW - 3_600_000), never);
    expectReal(found);
    expect(new Set(found.map(({ id }) => id)).size).toBe(found.length);
    for (const { ticker, yesPrice, contracts } of found) {
      expect(ticker).toBe('T');
      expect(amountsIn(text).has(yesPrice) && yesPrice > 0n && yesPrice < DOLLAR).toBe(true);
      expect(isCount(contracts) && contracts > 0).toBe(true);
    }
  } catch (error) {
    expectKnownError(error);
  }
});

const exchange = newExchange();
const made = { ticker: 'T', book_side: 'bid', price: 42, created_time: TIME } as const;
const orderRow = showOrder(exchange, {
  ...made,
  order_id: 'o1',
  client_order_id: 'c1',
  count: 10,
  filled: 4,
  remaining: 6,
  status: 'resting',
  ahead: 0,
  fees: { exact: 0, charged: 0 },
}) as Json;
const fillRow = showFill(exchange, {
  ...made,
  fill_id: 'f1',
  order_id: 'o1',
  count: 4,
  feeCents: 3,
  isTaker: true,
}) as Json;
const withId = (row: Json, name: string, id: string): Json => ({
  ...(row as Record<string, Json>),
  [name]: id,
});
const transferRow: Json = {
  transfer_id: 't1',
  source: 'event_contract',
  destination: 'event_contract',
  source_exchange_shard: 2,
  destination_exchange_shard: 0,
  amount: '10.0000',
  status: 'complete',
  created_ts: NOW / 1000 - 600,
};

interface AccountList {
  path: string;
  /** The body's rows: the first may be spoiled, the last stays as it is. */
  rows: Json[];
  name: string;
  read: (venue: Venue) => Promise<Rows<unknown>>;
}

const lists: AccountList[] = [
  {
    path: '/portfolio/orders',
    name: 'orders',
    rows: [orderRow, withId(orderRow, 'order_id', 'o2')],
    read: (venue) => venue.listOrders({}, never),
  },
  {
    path: '/portfolio/fills',
    name: 'fills',
    rows: [fillRow, withId(fillRow, 'fill_id', 'f2')],
    read: (venue) => venue.listFills({}, never),
  },
  {
    path: '/portfolio/positions',
    name: 'market_positions',
    rows: ['T', 'U'].map((ticker) => ({ ticker, exchange_index: 0, position_fp: '-3.00' })),
    read: (venue) => venue.listPositions(never),
  },
  {
    path: '/portfolio/settlements',
    name: 'settlements',
    rows: [7, 8].map((revenue) => ({ ticker: 'T', market_result: 'yes', revenue, settled_time: TIME })),
    read: (venue) => venue.listSettlements('T', never),
  },
  {
    path: '/portfolio/intra_exchange_instance_transfers',
    name: 'transfers',
    rows: [transferRow, withId(transferRow, 'transfer_id', 't2')],
    read: (venue) => venue.listTransfers(never),
  },
];

const { privateKey } = generateKeyPairSync('ed25519');
const venueWith = (fetch: typeof globalThis.fetch): Venue =>
  createVenue({
    baseUrl: BASE,
    key: { id: 'key', privateKey },
    clock,
    timeoutMs: 5_000,
    budget: plentyOfTokens(),
    backoffMs: 0,
    fetch,
  });

/** A spoiled row is read, listed as unreadable, or of another market or shard. It changes no other row. */
const accountRows = fc.asyncProperty(fc.constantFrom(...lists), spoiling, async (list, spoiled) => {
  const [first, last] = list.rows;
  const row = spoil(first!, spoiled);
  let isJson = true;
  try {
    JSON.parse(row);
  } catch {
    isJson = false;
  }
  const text = `{"${list.name}":[${row},${JSON.stringify(last)}],"cursor":""}`;
  try {
    const found = await list.read(venueWith(answering(() => text)));
    expectReal(found.rows);
    if (list.name === 'fills')
      for (const { count_fp: count, yes_price_dollars: price } of found.rows as VenueFillAnswer[])
        expect(Number(count) > 0 && Number(price) > 0 && Number(price) < 1, row).toBe(true);
    const [untouched] = (
      await list.read(venueWith(answering(() => JSON.stringify({ [list.name]: [last], cursor: '' }))))
    ).rows;
    expect(found.rows).toContainEqual(untouched);
    expect(found.rows.length + found.unreadable.length).toBeLessThanOrEqual(2);
    const { ticker, exchange_index: shard } = Object(JSON.parse(row)) as Record<string, unknown>;
    const isElsewhere =
      (typeof shard === 'number' && shard !== 0) || (typeof ticker === 'string' && ticker !== 'T');
    const isRepeated = list.name === 'fills' && row.includes('"fill_id":"f2"');
    const mayBeLeftOut = isElsewhere || isRepeated || list.name === 'transfers';
    if (!mayBeLeftOut) expect(found.rows.length + found.unreadable.length).toBe(2);
  } catch (error) {
    expectKnownError(error);
    expect(isJson).toBe(false);
  }
});

const balanceBody: Json = {
  balance: 12_345,
  balance_dollars: '123.4567',
  portfolio_value: 0,
  updated_ts: 0,
  balance_breakdown: [
    { exchange_index: 0, balance: '100.0067' },
    { exchange_index: 2, balance: '23.4500' },
  ],
};

const balances = fc.asyncProperty(spoiling, async (spoiled) => {
  const text = spoil(balanceBody, spoiled);
  try {
    const { amount, otherShards } = await venueWith(answering(() => text)).readBalance(never);
    const inCents = new Set([...text.matchAll(/\b\d{1,12}\b/g)].map(([number]) => BigInt(number) * 10_000n));
    const isStated = (value: Micros) =>
      amountsIn(text).has(value) || inCents.has(value) || inCents.has(-value);
    for (const value of [amount, ...otherShards.map(({ balance }) => balance)])
      if (!isStated(value)) throw new Error(`${value} is not in ${text}`);
  } catch (error) {
    expectKnownError(error);
  }
});

const sentOrder = {
  id: 'ours',
  clientOrderId: 'c1',
  ticker: 'T',
  side: 'yes',
  action: 'buy',
  contracts: 10,
  timeInForce: 'good_till_cancelled',
  createdAt: new Date(NOW),
} as const;
const createdBody: Json = {
  order_id: 'o1',
  client_order_id: 'c1',
  fill_count: '4.00',
  remaining_count: '6.00',
  average_fill_price: '0.4200',
  average_fee_paid: '0.0100',
  ts_ms: NOW,
};

const orderAnswers = fc.property(
  spoiling,
  fc.constantFrom(200, 201, 204, 400, 404, 409, 410, 429, 500),
  (spoiled, status) => {
    const body = spoil(createdBody, spoiled);
    const answer = { status, body, contentType: 'application/json' };
    const verdict = readAnswer(answer, sentOrder);
    if (verdict.kind === 'accepted') {
      expect(status).toBeLessThan(300);
      expect(JSON.parse(body)).toMatchObject({ order_id: verdict.venueOrderId });
      expect(verdict.filled + verdict.remaining).toBeLessThanOrEqual(10);
      expect([...body.matchAll(/"(\d+(?:\.\d+)?)"/g)].map(([, count]) => Number(count))).toEqual(
        expect.arrayContaining([verdict.filled, verdict.remaining]),
      );
    } else expect(verdict.reason.length).toBeGreaterThan(0);
    if (readChange(answer, 'o1').kind === 'acknowledged')
      expect(JSON.parse(body)).toMatchObject({ order_id: 'o1' });
  },
);

const frames: Json[] = [
  {
    type: 'orderbook_snapshot',
    sid: 1,
    seq: 1,
    sending_ts_ms: NOW,
    msg: {
      market_ticker: 'T',
      market_id: 'id',
      yes_dollars_fp: [
        ['0.4200', '10.00'],
        ['0.4100', '3.25'],
      ],
      no_dollars_fp: [['0.5000', '5.00']],
    },
  },
  {
    type: 'orderbook_delta',
    sid: 1,
    seq: 2,
    msg: { market_ticker: 'T', price_dollars: '0.4200', delta_fp: '-4.00', side: 'yes', ts_ms: NOW },
  },
  {
    type: 'market_lifecycle_v2',
    sid: 1,
    seq: 3,
    msg: { market_ticker: 'T', event_type: 'close_date_updated', close_ts: NOW / 1000 },
  },
  {
    type: 'orderbook_delta',
    sid: 1,
    seq: 4,
    msg: { market_ticker: 'T', price_dollars: '0.5500', delta_fp: '2.50', side: 'no', ts_ms: NOW },
  },
];

const streamMessages = fc.property(
  fc.array(fc.tuple(fc.nat(3), spoiling, fc.integer({ min: 0, max: 2 })), { minLength: 1, maxLength: 8 }),
  (steps) => {
    const keeper = createBookKeeper();
    keeper.expect(1, ['T', 'U']);
    const sent = steps.map(([at, spoiled, isSpoiled]) =>
      isSpoiled > 0 ? JSON.stringify(frames[at]) : spoil(frames[at]!, spoiled),
    );
    for (const text of sent) {
      const frame = readFrame(text);
      expectReal(frame);
      keeper.take(frame);
      if (frame.type === 'unreadable' && frame.ticker === 'T') expect(keeper.book('T')).toBeUndefined();
    }
    const amounts = amountsIn(sent.join());
    for (const ticker of ['T', 'U'])
      for (const { price, contracts } of Object.values(keeper.book(ticker) ?? {}).flat()) {
        expect(price > 0n && price < DOLLAR && amounts.has(price)).toBe(true);
        expect(isCount(contracts) && contracts > 0).toBe(true);
      }
  },
);

const indexBody: Json = {
  city: 'miami',
  config_version: 'miami-temperature-v1.0',
  units: 'fahrenheit',
  timeseries: [0, 1, 2].map((i) => ({
    t: NOW - 600_000 - i * 60_000,
    v: 90.01 + i,
    status: 'normal',
    contributors: 5,
  })),
};
const calibrationsBody: Json = {
  city: 'miami',
  units: 'celsius',
  calibrations: [
    {
      config_version: 'miami-temperature-v1.0-cal-20260907',
      effective_at_ms: NOW - 86_400_000,
      city_reference_c: 29.5,
      stations: [{ station_id: 'KMIA1M', weight: 0.2, offset_c: -0.1, update_note: '' }],
    },
  ],
};

const indexBodies = fc.asyncProperty(spoiling, fc.boolean(), async (spoiled, isCalibration) => {
  const text = spoil(isCalibration ? calibrationsBody : indexBody, spoiled);
  const whole = JSON.stringify(isCalibration ? indexBody : calibrationsBody);
  const fetch = answering((path) => (path.endsWith('/calibrations') === isCalibration ? text : whole));
  const client = createKalshiClient({ baseUrl: BASE, budget: plentyOfTokens(), attempts: 1, fetch });
  const reader = createIndexReader({ client, clock, log });
  expectReal(await reader.read(never));
  expectReal(reader.states);
  const values = new Set(
    [...`${text} ${whole}`.matchAll(/-?\d+(?:\.\d+)?(?:e[+-]?\d+)?/g)].map(([number]) => Number(number)),
  );
  for (const { latest } of reader.states) if (latest) expect(values).toContain(latest.temperatureF);
});

export const properties = {
  'bodies with markets, books and fees': marketBodies,
  'results of markets': results,
  prints,
  "rows of the account's lists": accountRows,
  "the account's balance": balances,
  'answers to orders': orderAnswers,
  'messages of the stream': streamMessages,
  'bodies of the index': indexBodies,
};
