import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  createKalshiClient,
  UnexpectedAnswerError,
  VenueUnavailableError,
  type KalshiClientOptions,
} from '../../src/trading/markets/kalshi-client.js';
import { createKalshiSource } from '../../src/trading/markets/kalshi.js';
import { kalshiExchangeStatusSchema } from '../../src/trading/markets/kalshi-schema.js';
import { CENT } from '../../src/trading/money.js';
import { startFakeVenue, wireMarket, type FakeVenue } from './fake-venue.js';

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
  const client = createKalshiClient({ baseUrl: venue.url, readsPerSecond: 1_000, backoffMs: 5, ...options });
  const log = pino({ level: 'warn' }, { write: (line: string) => void warnings.push(line) });
  return createKalshiSource({ client, series: ['KXHIGHNY'], clock, log });
}

const read = (options?: Partial<KalshiClientOptions>, signal = new AbortController().signal) =>
  source(options).read(signal);
const asked = (path: string) => venue.requests.filter((request) => request.includes(path));

describe('the venue’s markets', () => {
  it('are read page by page to the end, in the order of what they pay for, with their books and fees', async () => {
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
    expect(asked('/markets/orderbooks')).toHaveLength(1);
  });

  it('are asked for with all books in calls of a hundred', async () => {
    venue.markets = Array.from({ length: 150 }, (_, i) =>
      wireMarket(EVENT, { floor: 84, cap: 85 }, { ticker: `${EVENT}-${i}-B84.5` }),
    );
    const data = await read();
    expect(data.books.size).toBe(150);
    expect(asked('/markets/orderbooks').map((request) => request.split('tickers=').length - 1)).toEqual([
      100, 50,
    ]);
  });

  it('that contradict themselves are left out and named in the log; the others stay', async () => {
    venue.markets[0]!.rules_primary = 'recorded at LaGuardia Airport';
    const data = await read();
    expect(data.markets).toHaveLength(5);
    expect(warnings.join()).toContain('KXHIGHNY-26JUL04-T91: its rules are not about Central Park');
  });

  it('say when nobody may trade', async () => {
    venue.status.trading_active = false;
    expect((await read()).isTrading).toBe(false);
  });

  it('ask for fees once an hour', async () => {
    const one = source();
    await one.read(new AbortController().signal);
    await one.read(new AbortController().signal);
    expect(asked('/series/')).toHaveLength(1);
  });
});

describe('a venue that fails', () => {
  const failing = (times: number, status: number, headers: Record<string, string> = {}) => {
    let left = times;
    venue.fault = (_req, res, path) => {
      if (path !== '/markets' || left-- <= 0) return false;
      res.writeHead(status, headers).end('{"error":"too many requests"}');
      return true;
    };
  };

  it.each([429, 500, 502, 503])('with %i is asked again', async (status) => {
    failing(2, status);
    expect((await read()).markets).toHaveLength(6);
    expect(asked('/markets?')).toHaveLength(3);
  });

  it('is asked again no sooner than it says', async () => {
    failing(1, 429, { 'retry-after': '1' });
    const startedAt = performance.now();
    await read();
    expect(performance.now() - startedAt).toBeGreaterThan(950);
  });

  it('again and again is unavailable after a few attempts', async () => {
    failing(Infinity, 503);
    await expect(read()).rejects.toThrow(VenueUnavailableError);
    expect(asked('/markets?')).toHaveLength(3);
  });

  it('is unavailable where nobody listens', async () => {
    await venue.stop();
    await expect(read()).rejects.toThrow(VenueUnavailableError);
  });

  it('by saying nothing is given up in time', async () => {
    venue.fault = (_req, _res, path) => path === '/markets';
    const startedAt = performance.now();
    await expect(read({ timeoutMs: 100, attempts: 2 })).rejects.toThrow(VenueUnavailableError);
    expect(performance.now() - startedAt).toBeLessThan(2_000);
  });

  it('in the middle of a body is given up in time', async () => {
    venue.fault = (_req, res, path) => {
      if (path !== '/markets') return false;
      res.writeHead(200, { 'content-type': 'application/json' }).write('{"markets":[');
      return true;
    };
    await expect(read({ timeoutMs: 100, attempts: 1 })).rejects.toThrow(VenueUnavailableError);
  });

  it('is left alone as soon as nobody waits for it any more', async () => {
    venue.fault = () => true;
    const gone = new AbortController();
    const reading = read({}, gone.signal);
    setTimeout(() => gone.abort(new Error('stopped')), 50);
    await expect(reading).rejects.toThrow('stopped');
    expect(venue.requests).toHaveLength(1);
  });
});

describe('an answer that is not what the documentation says', () => {
  const answering = (path: string, body: string, status = 200, type = 'application/json') => {
    venue.fault = (_req, res, at) => {
      if (at !== path) return false;
      res.writeHead(status, { 'content-type': type }).end(body);
      return true;
    };
  };

  it.each([
    ['a page of HTML', '/markets', '<!doctype html>', 200, 'text/html'],
    ['broken JSON', '/markets', '{"markets":[', 200],
    ['an error inside of a success', '/markets', '{"error":{"code":"deprecated"}}', 200],
    ['no cursor', '/markets', '{"markets":[]}', 200],
    ['gone', '/markets', '{"code":"deprecated_endpoint"}', 410],
    ['other books than were asked for', '/markets/orderbooks', '{"orderbooks":[]}', 200],
    [
      'a book in whole cents',
      '/markets/orderbooks',
      `{"orderbooks":[{"ticker":"X","orderbook":{"yes":[[42,10]]}}]}`,
      200,
    ],
    [
      'another series',
      '/series/KXHIGHNY',
      '{"series":{"ticker":"X","fee_type":"quadratic","fee_multiplier":1}}',
      200,
    ],
    ['a status without its fields', '/exchange/status', '{}', 200],
  ])(
    '(%s) is refused at once and not asked for again',
    async (_what, path, body, status, type = 'application/json') => {
      answering(path, body, status, type);
      await expect(read()).rejects.toThrow(UnexpectedAnswerError);
      expect(asked(path === '/markets' ? '/markets?' : path)).toHaveLength(1);
    },
  );

  it.each([
    ['yes_bid_dollars', undefined],
    ['yes_bid_dollars', 42],
    ['volume_fp', undefined],
    ['status', 'halted'],
    ['price_ranges', []],
  ])('(a market whose %s is %j) spoils the whole answer, and the error names it', async (field, value) => {
    venue.markets[3]![field] = value;
    await expect(read()).rejects.toThrow(new RegExp(`markets\\.3\\.${field}`));
  });

  it('(pages without end) is refused', async () => {
    venue.fault = (_req, res, path) => {
      if (path !== '/markets') return false;
      res.writeHead(200, { 'content-type': 'application/json' }).end('{"markets":[],"cursor":"more"}');
      return true;
    };
    await expect(read()).rejects.toThrow('more than 20 pages');
  });
});

it('reads keep their pace, however many are asked for at once', async () => {
  const client = createKalshiClient({ baseUrl: venue.url, readsPerSecond: 50 });
  const startedAt = performance.now();
  const signal = new AbortController().signal;
  await Promise.all(
    Array.from({ length: 11 }, () => client.get('/exchange/status', [], kalshiExchangeStatusSchema, signal)),
  );
  expect(performance.now() - startedAt).toBeGreaterThan(195);
});
