import type { ServerResponse } from 'node:http';
import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  createKalshiClient,
  UnexpectedAnswerError,
  VenueUnavailableError,
  type KalshiClientOptions,
} from '../../../src/markets/venue/kalshi-client.js';
import { createKalshiSource } from '../../../src/markets/venue/kalshi.js';
import { CENT } from '../../../src/markets/market/money.js';
import {
  rulesOf,
  startFakeVenue,
  wireMarket,
  wireSeries,
  wireTrade,
  type FakeVenue,
} from '../support/fake-venue.js';
import { plentyOfTokens } from '../support/venue-tokens.js';

const EVENT = 'KXHIGHNY-26JUL04';
const clock = { now: () => Date.parse('2026-07-04T18:00:00Z') };

let venue: FakeVenue;
let warnings: string[];
beforeEach(async () => {
  venue = await startFakeVenue();
  warnings = [];
  venue.markets = [
    wireMarket(EVENT, { floor: 91 }),
    wireMarket(EVENT, { cap: 84 }),
    ...[84, 86, 88, 90].map((floor) => wireMarket(EVENT, { floor, cap: floor + 1 })),
  ];
});
afterEach(() => venue.stop());

function source(options: Partial<KalshiClientOptions> = {}) {
  const client = createKalshiClient({
    baseUrl: venue.url,
    budget: plentyOfTokens(),
    backoffMs: 5,
    ...options,
  });
  const log = pino({ level: 'warn' }, { write: (line: string) => void warnings.push(line) });
  return createKalshiSource({ client, series: ['KXHIGHNY'], clock, log });
}

/** The fake venue accepts this as a signature. */
const signed = {
  headers: (method: string, path: string) => ({
    'kalshi-access-key': 'key',
    'x-signed': `${method} ${path}`,
  }),
};
const read = (options?: Partial<KalshiClientOptions>, signal = new AbortController().signal) =>
  source(options).read(signal);
const asked = (path: string) => venue.requests.filter((request) => request.includes(path));

describe('the venue’s markets', () => {
  it('are read through the last page, ordered by bracket, with their books and fees', async () => {
    venue.pageSize = 2;
    venue.books.set(`${EVENT}-B84.5`, {
      yes_dollars: [
        ['0.4100', '20.00'],
        ['0.4200', '10.00'],
      ],
      no_dollars: null,
    });
    const data = await read();
    expect(data.markets.map(({ ticker }) => ticker.split('-').at(-1))).toEqual([
      'T84',
      'B84.5',
      'B86.5',
      'B88.5',
      'B90.5',
      'T91',
    ]);
    expect(data.books.get(`${EVENT}-B84.5`)).toEqual({
      yes: [
        { price: 42n * CENT, contracts: 10 },
        { price: 41n * CENT, contracts: 20 },
      ],
      no: [],
    });
    expect(data.books.get(`${EVENT}-T84`)).toEqual({ yes: [], no: [] });
    expect(data.isTrading).toBe(true);
    expect(data.feeRules.get('KXHIGHNY')).toEqual({ type: 'quadratic', multiplier: 1_000_000n });
    expect(asked('/markets?')).toHaveLength(3);
    expect(asked('/orderbook')).toHaveLength(6);
  });

  it('have no book while inactive, and none is requested', async () => {
    for (const market of venue.markets.slice(1)) market.status = 'closed';
    const data = await read();
    expect(asked('/orderbook')).toEqual([`/trade-api/v2/markets/${EVENT}-T91/orderbook`]);
    expect([...data.books.keys()]).toHaveLength(6);
  });

  it('have their books read a hundred per call with a key', async () => {
    venue.markets = Array.from({ length: 150 }, (_, i) =>
      wireMarket(EVENT, { floor: 84, cap: 85 }, { ticker: `${EVENT}-${i}-B84.5` }),
    );
    const data = await read(signed);
    expect(data.books.size).toBe(150);
    expect(asked('/markets/orderbooks').map((request) => request.split('tickers=').length - 1)).toEqual([
      100, 50,
    ]);
  });

  it('are left out and logged if they contradict themselves; the others stay', async () => {
    venue.markets[0]!.rules_primary = rulesOf('KXHIGHNY-26JUL05', { floor: 91 });
    const data = await read();
    expect(data.markets).toHaveLength(5);
    const example = 'KXHIGHNY-26JUL04-T91: its ticker names 2026-07-04, but its rules are about 2026-07-05';
    expect(data.notes).toEqual([{ kind: 'contradiction', name: 'date', count: 1, example }]);
    expect(warnings.join()).toContain(example);
  });

  it('that cannot be forecast are listed last, with a reason', async () => {
    const rules_primary =
      'If the total precipitation at CLINYC in New York City in Jul 4, 2026 is strictly greater than 0 inches, then the market resolves to Yes.';
    venue.markets.unshift({ ...wireMarket(EVENT, { floor: 0 }), ticker: `${EVENT}-RAIN`, rules_primary });
    const { markets, notes } = await read();
    expect(markets).toHaveLength(7);
    expect(markets.at(-1)).toMatchObject({
      kind: 'rain',
      city: 'New York City',
      problem: 'Gauge does not forecast rain',
    });
    expect(notes).toMatchObject([{ kind: 'unknown_kind', name: 'rain', count: 1 }]);
    expect(warnings).toEqual([]);
  });

  it('are found through the venue’s list of series, dormant series in turn', async () => {
    venue.series = Array.from({ length: 200 }, (_, i) => wireSeries(`KXA${i}`)).concat(
      wireSeries('KXHIGHNY'),
    );
    const client = createKalshiClient({ baseUrl: venue.url, budget: plentyOfTokens(), backoffMs: 5 });
    const all = createKalshiSource({ client, series: undefined, clock, log: pino({ level: 'silent' }) });
    const seriesAsked = () =>
      new Set(asked('/markets?').map((request) => /series_ticker=(\w+)/.exec(request)![1]));
    expect((await all.read(new AbortController().signal)).markets).toHaveLength(6);
    expect(seriesAsked().size).toBe(80);
    for (let i = 0; i < 5; i++) await all.read(new AbortController().signal);
    expect(seriesAsked().size).toBe(201);
    expect(asked('series_ticker=KXHIGHNY')).toHaveLength(6);
  });

  it('do not all vanish while open: an empty answer is not trusted for some minutes', async () => {
    const time = { now: clock.now() };
    const client = createKalshiClient({ baseUrl: venue.url, budget: plentyOfTokens(), backoffMs: 5 });
    const log = pino({ level: 'silent' });
    const later = createKalshiSource({ client, series: undefined, clock: { now: () => time.now }, log });
    const readNow = () => later.read(new AbortController().signal);
    const listed = venue.markets;
    await readNow();
    venue.markets = [];
    time.now += 30_000;
    await expect(readNow()).rejects.toThrow('/markets: none of KXHIGHNY, which had open markets');
    venue.markets = listed;
    expect((await readNow()).markets).toHaveLength(6);
    venue.markets = [];
    time.now += 5 * 60_000;
    expect((await readNow()).markets).toEqual([]);
  });

  it('stay if the venue’s list of series is empty', async () => {
    const time = { now: clock.now() };
    const client = createKalshiClient({ baseUrl: venue.url, budget: plentyOfTokens(), backoffMs: 5 });
    const log = pino({ level: 'warn' }, { write: (line: string) => void warnings.push(line) });
    const later = createKalshiSource({ client, series: undefined, clock: { now: () => time.now }, log });
    const readNow = () => later.read(new AbortController().signal);
    const series = venue.series;
    venue.series = [];
    await expect(readNow()).rejects.toThrow('/series: none that can be read');
    venue.series = series;
    await readNow();
    venue.series = [];
    time.now += 60 * 60_000;
    expect((await readNow()).markets).toHaveLength(6);
    expect(warnings.some((line) => line.includes('list of series could not be read'))).toBe(true);
  });

  it('share the report of their event once settled', async () => {
    for (const market of venue.markets) Object.assign(market, { status: 'finalized', result: 'no' });
    Object.assign(venue.markets[0]!, { result: 'yes', expiration_value: '93.00' });
    expect((await read()).markets.map(({ settledTemperature }) => settledTemperature)).toEqual(
      Array(6).fill(93),
    );
    // Markets with contradictory values keep their own values.
    Object.assign(venue.markets[1]!, { expiration_value: '92.00' });
    expect((await read()).markets.map(({ settledTemperature }) => settledTemperature)).toEqual([
      92,
      ...Array(4).fill(null),
      93,
    ]);
  });

  it('show when trading is paused', async () => {
    venue.status.trading_active = false;
    expect((await read()).isTrading).toBe(false);
  });

  it('have their fees read once an hour', async () => {
    const one = source();
    await one.read(new AbortController().signal);
    await one.read(new AbortController().signal);
    expect(asked('/series?')).toHaveLength(1);
  });
});

describe('a series that cannot be read', () => {
  const OTHER = 'KXHIGHCHI-26JUL04';
  const ofChicago = { close_time: '2026-07-05T06:00:00Z' };
  let time: { now: number };
  function both() {
    time = { now: clock.now() };
    venue.markets.push(wireMarket(OTHER, { floor: 91 }, ofChicago));
    const client = createKalshiClient({
      baseUrl: venue.url,
      budget: plentyOfTokens(),
      backoffMs: 5,
      ...signed,
    });
    const log = pino({ level: 'warn' }, { write: (line: string) => void warnings.push(line) });
    const one = createKalshiSource({ client, series: undefined, clock: { now: () => time.now }, log });
    return () => one.read(new AbortController().signal);
  }
  const failing = (answer: (res: ServerResponse) => void) => {
    venue.fault = (req, res, path) => {
      if (path !== '/markets' || !req.url!.includes('KXHIGHCHI')) return false;
      answer(res);
      return true;
    };
  };

  it.each([
    ['an error', 500, '{}', 'status 500'],
    ['no list', 200, '{"markets":7,"cursor":""}', 'markets: '],
    ['a cursor that repeats', 200, '{"markets":[],"cursor":"more"}', 'its cursor repeats'],
  ])('(%s) is named, and the others go on', async (_what, status, body, problem) => {
    const readNow = both();
    const first = await readNow();
    expect([first.markets.length, first.doubts!.size]).toEqual([7, 0]);
    failing((res) => res.writeHead(status, { 'content-type': 'application/json' }).end(body));
    time.now += 90_000;
    const data = await readNow();
    expect(data.fetchedAt.getTime()).toBe(time.now);
    expect(data.markets).toHaveLength(7);
    // Its market stays as it was, and takes no orders.
    expect([...data.doubts!]).toEqual([[`${OTHER}-T91`, new Date(clock.now())]]);
    expect(data.notes).toMatchObject([{ kind: 'not_read', name: 'KXHIGHCHI', count: 1 }]);
    expect(data.notes![0]!.example).toContain(problem);
    expect(warnings.join()).toContain('KXHIGHCHI');
    venue.fault = undefined;
    expect([...(await readNow()).doubts!]).toEqual([]);
  });

  it('(because of one market) loses only that market', async () => {
    const readNow = both();
    venue.markets.push({ ...wireMarket(OTHER, { cap: 84 }, ofChicago), ticker: 7 }, null as never);
    venue.markets.pop();
    const data = await readNow();
    expect(data.markets).toHaveLength(7);
    expect(data.notes).toMatchObject([{ kind: 'missing_field', name: 'ticker' }]);
  });

  it('(because of its fee) is listed, and its fee is unknown', async () => {
    const readNow = both();
    venue.series[1]!.fee_multiplier = 'one';
    const data = await readNow();
    expect(data.markets).toHaveLength(7);
    expect(data.feeRules.get('KXHIGHCHI')?.type).toBe('unknown');
    expect(data.feeRules.get('KXHIGHNY')?.type).toBe('quadratic');
  });

  it('(because a market moved to the next page) has each market once, in its later state', async () => {
    const moved = { ...venue.markets[1]!, status: 'closed' };
    venue.markets.splice(2, 0, moved);
    venue.pageSize = 2;
    const { markets } = await read();
    expect(markets).toHaveLength(6);
    expect(markets.filter(({ status }) => status === 'closed')).toHaveLength(1);
  });
});

describe('a failing venue', () => {
  const failing = (times: number, status: number, headers: Record<string, string> = {}) => {
    let left = times;
    venue.fault = (_req, res, path) => {
      if (path !== '/markets' || left-- <= 0) return false;
      res.writeHead(status, headers).end('{"error":"too many requests"}');
      return true;
    };
  };

  it.each([429, 500, 502, 503])('is queried again after a %i', async (status) => {
    failing(2, status);
    expect((await read()).markets).toHaveLength(6);
    expect(asked('/markets?')).toHaveLength(3);
  });

  it('gets the next request no sooner than it allows', async () => {
    failing(1, 429, { 'retry-after': '1' });
    const startedAt = performance.now();
    await read();
    expect(performance.now() - startedAt).toBeGreaterThan(950);
  });

  it('counts as unavailable after a few attempts', async () => {
    failing(Infinity, 503);
    await expect(read()).rejects.toThrow(VenueUnavailableError);
    expect(asked('/markets?')).toHaveLength(3);
  });

  it('counts as unavailable if nothing listens', async () => {
    await venue.stop();
    await expect(read()).rejects.toThrow(VenueUnavailableError);
  });

  it('times out if it never answers', async () => {
    venue.fault = (_req, _res, path) => path === '/markets';
    const startedAt = performance.now();
    await expect(read({ timeoutMs: 100, attempts: 2 })).rejects.toThrow(VenueUnavailableError);
    // Two default time-outs would take ten seconds.
    expect(performance.now() - startedAt).toBeLessThan(9_000);
  });

  it('times out if it stalls in the middle of a body', async () => {
    venue.fault = (_req, res, path) => {
      if (path !== '/markets') return false;
      res.writeHead(200, { 'content-type': 'application/json' }).write('{"markets":[');
      return true;
    };
    await expect(read({ timeoutMs: 100, attempts: 1 })).rejects.toThrow(VenueUnavailableError);
  });

  it('gets no more requests once the caller has aborted', async () => {
    const gone = new AbortController();
    venue.fault = () => {
      gone.abort(new Error('stopped'));
      return false;
    };
    await expect(read({}, gone.signal)).rejects.toThrow('stopped');
    expect(venue.requests).toHaveLength(1);
  });
});

describe('an answer that contradicts the documentation', () => {
  const answering = (path: string, body: string, status = 200, type = 'application/json') => {
    venue.fault = (_req, res, at) => {
      if (at !== path) return false;
      res.writeHead(status, { 'content-type': type }).end(body);
      return true;
    };
  };

  it.each([
    ['an HTML page', '/markets', '<!doctype html>', 200, 'text/html'],
    ['broken JSON', '/markets', '{"markets":[', 200],
    ['an error with a success status', '/markets', '{"error":{"code":"deprecated"}}', 200],
    ['no cursor', '/markets', '{"markets":[]}', 200],
    ['gone', '/markets', '{"code":"deprecated_endpoint"}', 410],
    ['books that were not requested', '/markets/orderbooks', '{"orderbooks":[]}', 200],
    [
      'a book in whole cents',
      '/markets/orderbooks',
      `{"orderbooks":[{"ticker":"X","orderbook":{"yes":[[42,10]]}}]}`,
      200,
    ],
    ['a single series instead of a list', '/series', '{"series":{"ticker":"X"}}', 200],
    ['a status without its fields', '/exchange/status', '{}', 200],
  ])(
    '(%s) is refused at once without a retry',
    async (_what, path, body, status, type = 'application/json') => {
      answering(path, body, status, type);
      await expect(read(signed)).rejects.toThrow(UnexpectedAnswerError);
      expect(asked(path === '/markets' ? '/markets?' : path)).toHaveLength(1);
    },
  );

  it.each([
    ['yes_bid_dollars', undefined],
    ['yes_bid_dollars', 42],
    ['volume_fp', undefined],
    ['price_ranges', []],
  ])('(a market whose %s is %j) excludes only that market, and the field is named', async (field, value) => {
    venue.markets[3]![field] = value;
    const { markets, notes } = await read();
    expect(markets).toHaveLength(5);
    expect(notes).toMatchObject([{ kind: 'missing_field', name: field, count: 1 }]);
  });

  it.each([false, true])('(one book of many) leaves out only that book, signed: %s', async (isSigned) => {
    const bad = `${EVENT}-B84.5`;
    venue.books.set(bad, { yes_dollars: [[42, 10]] as never, no_dollars: null });
    const { books, doubts, shallow, notes } = await read(isSigned ? signed : {});
    expect(books.size).toBe(isSigned ? 5 : 6);
    // Without a key, the listing has the best prices.
    expect([...(isSigned ? doubts! : shallow!).keys()]).toEqual([bad]);
    expect(notes).toMatchObject([{ kind: 'not_read', name: 'orderbook', count: 1 }]);
    expect(notes![0]!.example).toContain(bad);
  });

  it('(pages that go round in a circle) is refused', async () => {
    venue.fault = (_req, res, path) => {
      if (path !== '/markets') return false;
      res.writeHead(200, { 'content-type': 'application/json' }).end('{"markets":[],"cursor":"more"}');
      return true;
    };
    await expect(read()).rejects.toThrow('its cursor repeats');
    expect(asked('/markets?')).toHaveLength(2);
  });
});

describe('markets requested by ticker', () => {
  const find = (tickers: string[]) => source().find(tickers, new AbortController().signal);
  const settled = { status: 'finalized', result: 'no', settlement_value_dollars: '0.0000' };
  const [warm, cold] = [`${EVENT}-T91`, `${EVENT}-T84`];

  it('are found in the listing and in the archive; unknown ones are left out', async () => {
    const moved = wireMarket(
      'KXHIGHNY-26JUN01',
      { floor: 80 },
      { close_time: '2026-06-02T05:00:00Z', ...settled },
    );
    venue.historical = [moved];
    const found = await find([warm, 'KXHIGHNY-26JUN01-T80', 'KXHIGHNY-26JUN02-T80', 'no, name']);
    expect(found.map(({ ticker, settlementValue }) => [ticker, settlementValue])).toEqual([
      [warm, null],
      ['KXHIGHNY-26JUN01-T80', 0n],
    ]);
    expect(asked('/historical/markets')).toHaveLength(1);
  });

  it('are requested a hundred at a time, and from the archive only if missing', async () => {
    await find([warm, cold]);
    expect(asked('/historical')).toEqual([]);
    expect(await find([])).toEqual([]);
    const unknown = Array.from({ length: 150 }, (_, i) => `KXHIGHNY-26JUN02-T${i}`);
    expect(await find(unknown)).toEqual([]);
    expect(venue.requests).toHaveLength(1 + 2 + 2);
  });

  it('are found although another request fails; a request that fails alone is reported', async () => {
    const unknown = Array.from({ length: 100 }, (_, i) => `KXHIGHNY-26JUN02-T${i}`);
    venue.fault = (req, res) =>
      req.url!.includes('KXHIGHNY-26JUN02') &&
      (res.writeHead(400, { 'content-type': 'application/json' }).end('{}'), true);
    expect((await find([...unknown, warm])).map(({ ticker }) => ticker)).toEqual([warm]);
    await expect(find(unknown)).rejects.toThrow('status 400');
  });

  it('are either void or worth the venue’s value', async () => {
    Object.assign(venue.markets[0]!, { status: 'finalized', result: 'void' });
    Object.assign(venue.markets[1]!, {
      status: 'finalized',
      result: 'scalar',
      settlement_value_dollars: '0.3700',
    });
    const [called, partial] = await find([warm, cold]);
    expect(called).toMatchObject({ isVoid: true, settlementValue: null });
    expect(partial!.settlementValue).toBe(37n * CENT);
    expect(partial!.isVoid).toBeUndefined();
  });

  it.each(['0.0000', '1.0000', '0.3700'])('have no value without a result: %s', async (value) => {
    Object.assign(venue.markets[0]!, { status: 'finalized', result: '', settlement_value_dollars: value });
    expect(await find([warm])).toMatchObject([{ status: 'finalized', settlementValue: null }]);
  });

  it.each([
    { result: 'yes', settlement_value_dollars: '0.0000' },
    { result: 'no', settlement_value_dollars: '1.0000' },
    { result: 'scalar', settlement_value_dollars: '1.0100' },
    { result: 'scalar', settlement_value_dollars: '-0.0100' },
  ])('have no value while the result contradicts the payout: %j', async (change) => {
    Object.assign(venue.markets[0]!, { status: 'finalized', ...change });
    expect(await find([warm])).toMatchObject([{ status: 'finalized', settlementValue: null }]);
    expect(warnings.join()).toContain(`${warm}: it is ${change.result} and pays`);
  });

  const answering = (change: object) => {
    venue.fault = (_req, res, path) => {
      if (path !== '/markets') return false;
      const body = { markets: [{ ...venue.markets[0], ...change }], cursor: '' };
      res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
      return true;
    };
  };

  it('are not trusted if the answer has a different market', async () => {
    answering({ ticker: cold });
    await expect(find([warm])).rejects.toThrow(UnexpectedAnswerError);
  });

  it('keep only their result if a field is renamed, and are not looked up in the archive', async () => {
    answering({ ...settled, expiration_value: undefined });
    expect(await find([warm])).toEqual([
      { ticker: warm, status: 'finalized', settlementValue: 0n, settledTemperature: null },
    ]);
    expect(asked('/historical/markets')).toEqual([]);
    expect(warnings.join()).toContain('expiration_value');
  });
});

it('are signed again on each attempt, for the method and the full path without the query', async () => {
  const seen: unknown[] = [];
  venue.fault = (req, res) => {
    seen.push(req.headers['x-signed']);
    if (seen.length > 1) return false;
    res.writeHead(503).end();
    return true;
  };
  await source(signed).find([`${EVENT}-T91`], new AbortController().signal);
  expect(seen).toEqual(['GET /trade-api/v2/markets', 'GET /trade-api/v2/markets']);
});

describe('prints', () => {
  const since = new Date('2026-07-04T17:50:00Z');
  const tickers = [`${EVENT}-B84.5`, `${EVENT}-T84`];
  const readPrints = (from = since, of = tickers, options: Partial<KalshiClientOptions> = {}) =>
    source(options).readPrints!(of, from, new AbortController().signal);
  const tradeAt = (time: string, more = {}) => wireTrade(tickers[0]!, { created_time: time, ...more });

  it('are read through the last page, oldest first, from a time until now', async () => {
    venue.pageSize = 2;
    venue.trades = [
      tradeAt('2026-07-04T18:00:00.500Z'),
      tradeAt('2026-07-04T17:59:59.999999Z', { trade_id: 'last' }),
      wireTrade(tickers[1]!, {
        trade_id: 'of the other',
        created_time: '2026-07-04T17:55:00Z',
        count_fp: '0.25',
        yes_price_dollars: '0.9150',
        taker_outcome_side: 'no',
      }),
      tradeAt('2026-07-04T17:50:00Z', { trade_id: 'first' }),
      tradeAt('2026-07-04T17:49:59.999Z'),
      wireTrade(`${EVENT}-T91`),
    ];
    const prints = await readPrints();
    expect(prints.map(({ id }) => id)).toEqual(['first', 'of the other', 'last']);
    expect(prints[1]).toEqual({
      id: 'of the other',
      ticker: tickers[1],
      at: new Date('2026-07-04T17:55:00Z'),
      yesPrice: 915_000n,
      contracts: 0.25,
      takerSide: 'no',
    });
    expect(asked('/markets/trades')).toHaveLength(3);
  });

  it('cover at most an hour, and exclude trades negotiated outside the book', async () => {
    venue.trades = [
      tradeAt('2026-07-04T17:59:00Z'),
      tradeAt('2026-07-04T17:00:00Z', { trade_id: 'at the end' }),
      tradeAt('2026-07-04T16:30:00Z', { is_block_trade: true }),
    ];
    const prints = await readPrints(new Date('2026-07-04T16:00:00Z'));
    expect(prints.map(({ id }) => id)).toEqual(['at the end']);
  });

  it('that shift to the next page during a read are counted once', async () => {
    venue.pageSize = 1;
    venue.trades = [tradeAt('2026-07-04T17:59:02Z'), tradeAt('2026-07-04T17:59:01Z')];
    venue.fault = (req) => {
      if (req.url!.includes('cursor=')) {
        venue.trades.unshift(tradeAt('2026-07-04T17:59:03Z'));
        venue.fault = undefined;
      }
      return false;
    };
    const prints = await readPrints(since, tickers.slice(0, 1));
    expect(prints.map(({ at }) => at.getUTCSeconds())).toEqual([1, 2]);
  });

  it.each([
    ['an unknown side', { taker_outcome_side: 'both' }],
    ['a price that is a number', { yes_price_dollars: 0.42 }],
    ['a count with three decimals', { count_fp: '1.125' }],
    ['a count of nothing', { count_fp: '0.00' }],
    ['an invalid time', { created_time: 'yesterday' }],
    ['a price of nothing', { yes_price_dollars: '0.0000' }],
    ['a price above a dollar', { yes_price_dollars: '1.0001' }],
    ['another market', { ticker: `${EVENT}-T91` }],
  ])('with %s are left out alone, and named', async (_, fault) => {
    venue.fault = (req, res) => {
      if (!req.url!.includes('/markets/trades')) return false;
      const trades = [
        tradeAt('2026-07-04T17:59:00Z', { trade_id: 'good' }),
        tradeAt('2026-07-04T17:58:00Z', fault),
      ];
      res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ trades, cursor: '' }));
      return true;
    };
    const kalshi = source();
    const { signal } = new AbortController();
    const prints = await kalshi.readPrints!(tickers.slice(0, 1), since, signal);
    expect(prints.map(({ id }) => id)).toEqual(['good']);
    const noted = ({ name }: { name: string }) => name.startsWith('trades');
    expect((await kalshi.read(signal)).notes!.filter(noted)).toMatchObject([{ count: 1 }]);
    expect(warnings.filter((line) => line.includes('"name":"trades'))).toHaveLength(1);
  });

  it('of other markets alone are an unexpected answer', async () => {
    venue.fault = (req, res) => {
      if (!req.url!.includes('/markets/trades')) return false;
      const trades = [tradeAt('2026-07-04T17:59:00Z', { ticker: `${EVENT}-T91` })];
      res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ trades, cursor: '' }));
      return true;
    };
    await expect(readPrints()).rejects.toThrow(UnexpectedAnswerError);
  });

  it('are read up to a page limit, with a limited number of retries', async () => {
    venue.pageSize = 1;
    venue.trades = Array.from({ length: 30 }, () => tradeAt('2026-07-04T17:59:00Z'));
    await expect(readPrints()).rejects.toThrow(/trades of \S+: more than 20 pages/);
    venue.requests = [];
    venue.fault = (_req, res) => {
      res.writeHead(503).end();
      return true;
    };
    await expect(readPrints(since, tickers.slice(0, 1), { attempts: 2 })).rejects.toThrow(
      VenueUnavailableError,
    );
    expect(venue.requests).toHaveLength(2);
  });
});
