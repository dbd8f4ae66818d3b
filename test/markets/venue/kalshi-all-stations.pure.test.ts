import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createMetrics } from '../../../src/core/metrics.js';
import { createMarketMetrics } from '../../../src/markets/metrics.js';
import { systemClock } from '../../../src/core/time.js';
import { isSameBook } from '../../../src/markets/market/book.js';
import { createBookRotation } from '../../../src/markets/venue/kalshi-books.js';
import { createKalshiClient } from '../../../src/markets/venue/kalshi-client.js';
import { toOrderBook } from '../../../src/markets/venue/kalshi-market.js';
import { createKalshiSource, type KalshiSourceOptions } from '../../../src/markets/venue/kalshi.js';
import { createVenueBudget, type VenueBudget } from '../../../src/markets/venue/venue-budget.js';
import { createKeptBooks } from '../../../src/markets/venue/socket/kept-books.js';
import { fillVenue } from '../support/fake-world.js';
import { startFakeVenue, type FakeVenue } from '../support/fake-venue.js';
import { plentyOfTokens } from '../support/venue-tokens.js';

const never = new AbortController().signal;
const signed = () => ({ 'kalshi-access-key': 'key', 'kalshi-access-signature': 'signed' });
let venue: FakeVenue;
let now: number;
beforeEach(async () => {
  venue = await startFakeVenue();
  fillVenue(venue);
  now = Date.parse('2026-11-22T15:30:00Z');
});
afterEach(() => venue.stop());

function source(options: Partial<KalshiSourceOptions> & { isSigned?: boolean; budget?: VenueBudget } = {}) {
  const { budget = plentyOfTokens(), isSigned = false, ...more } = options;
  const client = createKalshiClient({
    baseUrl: venue.url,
    budget,
    backoffMs: 5,
    headers: isSigned ? signed : undefined,
  });
  return createKalshiSource({
    client,
    series: undefined,
    clock: { now: () => now },
    log: pino({ level: 'silent' }),
    ...more,
  });
}

const venueBook = (ticker: string) => {
  const { yes_dollars: yes, no_dollars: no } = venue.books.get(ticker)!;
  return toOrderBook({ yes: yes ?? [], no: no ?? [] });
};
/** Selects New York's two series, which have few enough markets to read each book without a key. */
const ofNewYork = () => {
  venue.series = venue.series.slice(0, 2);
  venue.markets = venue.markets.filter(({ ticker }) => /^KX(HIGH|LOWT)NY/.test(String(ticker)));
};
const asked = (path: string) => venue.requests.filter((request) => request.includes(path)).length;

describe('a refresh of all series', () => {
  it('lists some 1,500 markets of 24 stations, their maxima and minima, hours and rain', async () => {
    const { markets } = await source({ isSigned: true }).read(never);
    expect(markets.length).toBe(venue.markets.length);
    const count = (kind: string) => markets.filter((market) => market.kind === kind).length;
    expect([count('daily_maximum'), count('daily_minimum'), count('hourly'), count('rain')]).toEqual([
      24 * 18,
      24 * 18,
      4 * 12 * 11,
      24,
    ]);
    expect(markets.length).toBeGreaterThan(1_400);
  });

  it('with a key reads every full book, and stays within the basic tier from the first second', async () => {
    venue.tokens = { refillPerSecond: 200, capacity: 600 };
    const answers = new Map<number, number>();
    venue.answerFault = (_req, res) => {
      answers.set(res.statusCode, (answers.get(res.statusCode) ?? 0) + 1);
      return false;
    };
    const startedAt = performance.now();
    const { markets, books } = await source({ isSigned: true, budget: createVenueBudget() }).read(never);
    expect(performance.now() - startedAt).toBeLessThan(20_000);
    const active = markets.filter(({ status }) => status === 'active');
    expect(active.length).toBeGreaterThan(1_000);
    for (const { ticker } of active) expect(isSameBook(books.get(ticker)!, venueBook(ticker))).toBe(true);
    expect(asked('/markets/orderbooks?')).toBe(Math.ceil(active.length / 100));
    expect(venue.requests.length * 10).toBeLessThan(600 + 200 * 20);
  });

  it('returns the same objects for unchanged markets, so that derived results stay cached', async () => {
    ofNewYork();
    const all = source({ isSigned: true });
    const [before, quiet] = [await all.read(never), await all.read(never)];
    expect(before.markets.length).toBeGreaterThan(10);
    expect(quiet.markets.every((market, i) => market === before.markets[i])).toBe(true);
    expect([...quiet.books].every(([ticker, book]) => book === before.books.get(ticker))).toBe(true);
    expect(quiet.notes).toEqual(before.notes);
    Object.assign(
      venue.markets.find(({ status }) => status === 'active')!,
      { last_price_dollars: '0.9900' },
    );
    const { markets } = await all.read(never);
    expect(markets.filter((market, i) => market !== before.markets[i])).toHaveLength(1);
  });

  it('notices closed and new markets', async () => {
    ofNewYork();
    const all = source({ isSigned: true });
    await all.read(never);
    const [first, second] = venue.markets.filter(({ status }) => status === 'active');
    Object.assign(first!, { status: 'closed' });
    venue.markets = venue.markets.filter((market) => market !== second);
    const { markets } = await all.read(never);
    expect(markets.find(({ ticker }) => ticker === first!.ticker)!.status).toBe('closed');
    expect(markets.some(({ ticker }) => ticker === second!.ticker)).toBe(false);
    venue.markets.push(second!);
    const listed = await all.read(never);
    expect(listed.markets.some(({ ticker }) => ticker === second!.ticker)).toBe(true);
  });
});

describe('without a key', () => {
  it('a book that could not be read has the listing’s best prices and is marked as shallow', async () => {
    ofNewYork();
    const open = venue.markets
      .filter(({ status }) => status === 'active')
      .map(({ ticker }) => String(ticker));
    const [read, ...others] = open;
    venue.fault = (_req, res, path) => {
      if (!path.endsWith('/orderbook') || path.includes(`/${read}/`)) return false;
      res.writeHead(404).end('{}');
      return true;
    };
    const { books, shallow } = await source().read(never);
    expect([...shallow!.keys()].toSorted()).toEqual(others.toSorted());
    for (const ticker of others) {
      const { yes, no } = venueBook(ticker);
      expect(books.get(ticker)).toEqual({ yes: yes.slice(0, 1), no: no.slice(0, 1) });
    }
    expect(books.get(read!)).toEqual(venueBook(read!));
  });

  it('books of interest are read first, then the longest unread', () => {
    const interest = new Set<string>();
    const rotation = createBookRotation(() => interest);
    const book = { yes: [], no: [] };
    const at = (seconds: number) => ({ book, readAt: new Date(seconds * 1000) });
    rotation.take(
      new Map([
        ['A', at(30)],
        ['B', at(10)],
        ['C', at(20)],
      ]),
    );
    expect(rotation.order(['A', 'B', 'C', 'D'])).toEqual(['D', 'B', 'C', 'A']);
    interest.add('A').add('C');
    expect(rotation.order(['A', 'B', 'C', 'D'])).toEqual(['C', 'A', 'D', 'B']);
  });

  it('a full book is used for 30 s, and only while the listing agrees with it', async () => {
    ofNewYork();
    const all = source();
    const { markets, books, bookTimes, shallow } = await all.read(never);
    const { ticker } = markets.find(({ status }) => status === 'active')!;
    expect([books.get(ticker)!.yes.length, bookTimes!.get(ticker)!.getTime(), shallow!.size]).toEqual([
      venueBook(ticker).yes.length,
      now,
      0,
    ]);
    const rotation = createBookRotation(() => new Set());
    const whole = venueBook(ticker);
    rotation.take(new Map([[ticker, { book: whole, readAt: new Date(now) }]]));
    const listed = markets.filter((market) => market.ticker === ticker);
    const top = { yes: whole.yes.slice(0, 1), no: whole.no.slice(0, 1) };
    expect(
      rotation.booksOf(listed, () => top, { listedAt: now + 1, now: now + 30_000 }).books.get(ticker),
    ).toBe(whole);
    const old = rotation.booksOf(listed, () => top, { listedAt: now + 1, now: now + 30_001 });
    expect([old.books.get(ticker), old.shallow!.get(ticker), old.bookTimes!.size]).toEqual([top, true, 0]);
    const moved = { ...top, yes: [{ price: 10_000n, contracts: 1 }] };
    rotation.take(new Map([[ticker, { book: whole, readAt: new Date(now) }]]));
    const times = { listedAt: now + 1, now: now + 1 };
    expect(rotation.booksOf(listed, () => moved, times).books.get(ticker)).toBe(moved);
    const since = { ...times, listedAt: now };
    expect(rotation.booksOf(listed, () => moved, since).books.get(ticker)).toBe(whole);
  });

  it('a market that vanishes between two listings affects no other', async () => {
    ofNewYork();
    const all = source();
    await all.read(never);
    const gone = String(venue.markets.find(({ status }) => status === 'active')!.ticker);
    venue.markets = venue.markets.filter(({ ticker }) => ticker !== gone);
    venue.fault = (_req, res, path) => {
      if (path !== `/markets/${gone}/orderbook`) return false;
      res.writeHead(404).end('{}');
      return true;
    };
    const { markets, books } = await all.read(never);
    expect(markets.some(({ ticker }) => ticker === gone)).toBe(false);
    expect(books.has(gone)).toBe(false);
  });

  it('the stream is not used', async () => {
    ofNewYork();
    await source().read(never);
    expect(venue.stream.handshakes).toEqual([]);
  });
});

describe('with the venue’s stream', () => {
  const keepBooks = () =>
    createKeptBooks({
      url: `${venue.url.replace('http', 'ws').replace('/v2', '')}/ws/v2`,
      headers: signed,
      log: pino({ level: 'silent' }),
      metrics: createMetrics([createMarketMetrics], { ofProcess: false }),
      clock: systemClock,
      timings: { gatherMs: 5, tendMs: 20, repairMs: 20, backoffMs: 10 },
    });

  it('1,500 books are kept and merged into the data between two reads', async () => {
    const all = source({ isSigned: true, keepBooks });
    const data = await all.read(never);
    const active = data.markets.filter(({ status }) => status === 'active').map(({ ticker }) => ticker);
    const changes = all.changes!;
    const ticker = active[0]!;
    let now = data;
    changes.subscribe((tickers) => (now = changes.apply(now, tickers)));
    venue.stream.change(ticker, 'yes', '0.0100', '5.00');
    await expect.poll(() => venue.stream.sids().length).toBe(Math.ceil(active.length / 100));
    await expect
      .poll(() => active.every((one) => isSameBook(now.books.get(one)!, venueBook(one))))
      .toBe(true);
    venue.stream.change(ticker, 'yes', '0.9700', '5.00');
    venue.stream.change(ticker, 'no', venue.books.get(ticker)!.no_dollars!.at(-1)![0], '-0.05');
    const last = now.books.get(ticker);
    await expect.poll(() => now.doubts?.has(ticker)).toBe(true);
    expect(now.books.get(ticker)).toBe(last);
    changes.stop();
  });

  it('that is late, every book is in doubt and as old as the late message, even after a read', async () => {
    const all = source({ isSigned: true, keepBooks });
    let now = await all.read(never);
    const active = now.markets.filter(({ status }) => status === 'active').map(({ ticker }) => ticker);
    const changes = all.changes!;
    changes.subscribe((tickers) => (now = changes.apply(now, tickers)));
    await expect.poll(() => venue.stream.sids().length).toBe(Math.ceil(active.length / 100));
    await expect
      .poll(() => active.every((one) => isSameBook(now.books.get(one)!, venueBook(one))))
      .toBe(true);
    venue.stream.sendingTime = () => Date.now() - 20_000;
    venue.stream.change(active[0]!, 'yes', '0.0100', '5.00');
    await expect.poll(() => Date.now() - +now.doubts!.get(active[1]!)!).toBeGreaterThanOrEqual(20_000);
    expect(now.doubts!.size).toBe(active.length);
    const since = now.doubts!.get(active[1]!)!;
    expect(now.bookTimes!.get(active[1]!)).toEqual(since);
    now = changes.apply(await all.read(never));
    expect(now.doubts!.size).toBe(active.length);
    venue.stream.sendingTime = Date.now;
    venue.stream.change(active[0]!, 'yes', '0.0100', '5.00');
    await expect.poll(() => now.doubts!.size).toBe(0);
    expect(now.bookTimes!.size).toBe(0);
    changes.stop();
  });
});
