import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createMetrics } from '../../../../src/core/metrics.js';
import { createMarketMetrics } from '../../../../src/markets/metrics.js';
import { systemClock } from '../../../../src/core/time.js';
import { isCrossed, isSameBook, type OrderBook } from '../../../../src/markets/market/book.js';
import { toOrderBook } from '../../../../src/markets/venue/kalshi-market.js';
import { compareBooks } from '../../../../src/markets/venue/socket/changes.js';
import { createKeptBooks, type KeptBooks } from '../../../../src/markets/venue/socket/kept-books.js';
import type { StreamFrame } from '../../support/fake-stream.js';
import { startFakeVenue, type FakeVenue } from '../../support/fake-venue.js';
import { until } from '../../../support/until.js';

const tickers = Array.from({ length: 250 }, (_, i) => `KXHIGHNY-26NOV22-B${i}.5`);
const [first, second, last] = [tickers[0]!, tickers[1]!, tickers.at(-1)!];

let venue: FakeVenue;
let kept: KeptBooks;
let metrics: ReturnType<typeof createMetrics>;
let skew: number;

const timings = {
  silenceMs: 500,
  backoffMs: 10,
  maxBackoffMs: 50,
  gatherMs: 5,
  answerMs: 800,
  tendMs: 20,
  repairMs: 20,
};

beforeEach(async () => {
  venue = await startFakeVenue();
  skew = 0;
  for (const ticker of tickers)
    venue.books.set(ticker, {
      yes_dollars: [
        ['0.3000', '5.00'],
        ['0.4000', '10.00'],
      ],
      no_dollars: [['0.5500', '7.00']],
    });
  metrics = createMetrics([createMarketMetrics], { ofProcess: false });
  kept = createKeptBooks({
    url: `${venue.url.replace('http', 'ws').replace('/v2', '')}/ws/v2`,
    headers: () => ({ 'kalshi-access-signature': 'signed' }),
    log: pino({ level: 'silent' }),
    metrics,
    clock: systemClock,
    clockSkewMs: () => skew,
    timings,
  });
});
afterEach(async () => {
  kept.stop();
  await venue.stop();
});

const venueBook = (ticker: string): OrderBook => {
  const { yes_dollars: yes, no_dollars: no } = venue.books.get(ticker)!;
  return toOrderBook({ yes: yes ?? [], no: no ?? [] });
};
const isKept = (ticker: string): boolean => {
  const book = kept.book(ticker);
  return book !== undefined && isSameBook(book, venueBook(ticker));
};
const areAllKept = () => tickers.every(isKept);

/** Follows the tickers and waits until all of their books are maintained from the stream. */
async function begin(): Promise<void> {
  kept.follow(tickers);
  await until(areAllKept);
}

async function problems(kind: string): Promise<number> {
  const { values } = await metrics.streamProblems.get();
  return values.find(({ labels }) => labels.kind === kind)?.value ?? 0;
}

/** Returns the number of timed messages and their total latency. */
async function latency(): Promise<{ count: number; sum: number }> {
  const { values } = await metrics.streamLatency.get();
  const valueOf = (name: string) =>
    values.find(({ metricName }) => metricName === `gauge_venue_stream_latency_seconds_${name}`)?.value ?? 0;
  return { count: valueOf('count'), sum: valueOf('sum') };
}

/** Intercepts the next frame that changes a book, and lets all others through. */
function onNextDelta(act: (frame: StreamFrame, send: (frame: StreamFrame) => void) => void): void {
  venue.stream.fault = (frame, send) => {
    if (frame.type !== 'orderbook_delta') return send(frame);
    venue.stream.fault = undefined;
    act(frame, send);
  };
}

/**
 * Checks every book returned from now on: none may be crossed or differ from every state that the venue's book has had.
 */
function watchForPhantoms(): () => string[] {
  const wrong: string[] = [];
  const known = new Map(tickers.map((ticker) => [ticker, [venueBook(ticker)]]));
  const change = venue.stream.change.bind(venue.stream);
  venue.stream.change = (ticker, side, price, delta) => {
    change(ticker, side, price, delta);
    known.get(ticker)!.push(venueBook(ticker));
  };
  const unwatch = kept.watch((ticker) => {
    const book = kept.book(ticker);
    if (!book) return;
    const wasThere = known.get(ticker)!.some((one) => isSameBook(one, book));
    if (isCrossed(book) || !wasThere) wrong.push(ticker);
  });
  return () => {
    unwatch();
    return wrong;
  };
}

describe('kept books', () => {
  it('are subscribed over a signed handshake, a hundred markets at a time, with an explicit price format', async () => {
    await begin();
    const [handshake] = venue.stream.handshakes;
    expect([handshake!.url, handshake!.headers['kalshi-access-signature']]).toEqual([
      '/trade-api/ws/v2',
      'signed',
    ]);
    const subscribed = venue.stream.commands.filter(({ cmd }) => cmd === 'subscribe');
    expect(subscribed[0]!.params).toEqual({ channels: ['market_lifecycle_v2'] });
    expect(subscribed.slice(1).map(({ params }) => (params.market_tickers as string[]).length)).toEqual([
      100, 100, 50,
    ]);
    expect(subscribed[1]!.params).toMatchObject({ channels: ['orderbook_delta'], use_yes_price: true });
  });

  it('follow every change, at most one batch per pause', async () => {
    await begin();
    await sleep(5 * timings.gatherMs);
    const told: string[] = [];
    let batches = 0;
    kept.subscribe((changed) => {
      batches++;
      told.push(...changed);
    });
    const startedAt = performance.now();
    for (let i = 0; i < 20; i++) venue.stream.change(first, 'yes', '0.4100', '1.00');
    venue.stream.change(last, 'no', '0.5600', '2.50');
    await until(() => told.includes(last));
    expect(batches).toBeLessThanOrEqual(1 + (performance.now() - startedAt) / timings.gatherMs);
    expect([isKept(first), isKept(last)]).toEqual([true, true]);
    expect(kept.book(first)!.yes[0]!.contracts).toBe(20);
  });

  it('come and go with the markets, filling up existing subscriptions', async () => {
    await begin();
    kept.follow(tickers.slice(1, 220));
    expect([kept.book(first), kept.book(last)]).toEqual([undefined, undefined]);
    venue.books.set('NEW', { yes_dollars: null, no_dollars: null });
    kept.follow([...tickers.slice(1, 220), 'NEW']);
    await until(() => kept.book('NEW') !== undefined);
    const actions = venue.stream.commands.flatMap(({ cmd, params }) =>
      cmd === 'update_subscription' ? [params.action] : [],
    );
    // Ignores snapshot requests, because a slow machine may repeat them.
    expect(actions.filter((action) => action !== 'get_snapshot')).toEqual([
      'delete_markets',
      'delete_markets',
      'add_markets',
    ]);
    await sleep(60);
    expect(tickers.slice(1, 220).every(isKept)).toBe(true);
    expect(await problems('gap')).toBe(0);
  });

  it('are requested again if the venue refuses them, while the others are kept', async () => {
    venue.stream.refuse = ({ params }) =>
      (params.market_tickers as string[] | undefined)?.includes(last)
        ? { code: 16, msg: 'Market not found' }
        : undefined;
    kept.follow(tickers);
    await until(() => isKept(first));
    expect(kept.book(last)).toBeUndefined();
    venue.stream.refuse = undefined;
    await until(areAllKept);
  });
});

describe('the books recover, and are never wrong in between, after', () => {
  const hit = () => {
    venue.stream.change(first, 'yes', '0.4200', '3.00');
    venue.stream.change(second, 'no', '0.5600', '1.00');
    venue.stream.change(first, 'yes', '0.4000', '-10.00');
  };

  it.each<[name: string, kind: string, fault: () => void]>([
    ['a lost frame', 'gap', () => onNextDelta(() => undefined)],
    [
      'a repeated frame',
      'stale',
      () =>
        onNextDelta((frame, send) => {
          send(frame);
          send(frame);
        }),
    ],
    [
      'frames out of order',
      'gap',
      () => onNextDelta((frame, send) => void setTimeout(() => send(frame), 20)),
    ],
    ['a restarted sequence', 'stale', () => venue.stream.restartSequences()],
    [
      'another subscription’s number',
      'foreign',
      () => onNextDelta((frame, send) => send({ ...frame, sid: 999 })),
    ],
    [
      'a level that becomes negative',
      'negative',
      () => onNextDelta((frame, send) => send({ ...frame, msg: { ...frame.msg, delta_fp: '-1000.00' } })),
    ],
    [
      'a crossed book',
      'crossed',
      () => onNextDelta((frame, send) => send({ ...frame, msg: { ...frame.msg, price_dollars: '0.9900' } })),
    ],
    [
      'a frame with wrong content',
      'unreadable',
      () => onNextDelta((frame, send) => send({ ...frame, msg: { ...frame.msg, side: 'maybe' } })),
    ],
    ['an overflow', 'overflow', () => venue.stream.overflow()],
  ])('%s', async (_name, kind, fault) => {
    await begin();
    const phantoms = watchForPhantoms();
    let doubted = false;
    kept.watch((ticker) => (doubted ||= kept.book(ticker) === undefined));
    fault();
    hit();
    await until(() => doubted);
    await until(areAllKept);
    hit();
    await until(areAllKept);
    expect([phantoms(), await problems(kind)]).toEqual([[], expect.any(Number)]);
    expect(await problems(kind)).toBeGreaterThan(0);
  });

  it.each<[name: string, fault: () => void]>([
    ['a lost connection', () => venue.stream.disconnect()],
    ['a connection that dies silently', () => venue.stream.goSilent()],
    ['an invalid message', () => onNextDelta((_frame, send) => send('' as unknown as StreamFrame))],
  ])('%s', async (_name, fault) => {
    await begin();
    const phantoms = watchForPhantoms();
    fault();
    hit();
    await until(() => kept.book(last) === undefined);
    await until(areAllKept);
    expect(phantoms()).toEqual([]);
    const { values } = await metrics.streamReconnects.get();
    expect(values[0]!.value).toBeGreaterThan(0);
  });

  it('a venue that stops answering', async () => {
    await begin();
    venue.stream.fault = (frame, send) => (frame.id === undefined ? send(frame) : undefined);
    kept.follow([...tickers, 'NEW']);
    await until(() => kept.book(last) === undefined);
    venue.stream.fault = undefined;
    await until(areAllKept);
  });

  it('a quiet market, which answered pings keep connected', async () => {
    await begin();
    await sleep(3 * timings.silenceMs);
    expect(venue.stream.handshakes).toHaveLength(1);
    expect(areAllKept()).toBe(true);
  });
});

describe('a book contradicted by a read', () => {
  const signal = new AbortController().signal;
  const readNow = (asked: string[]) => Promise.resolve(new Map(asked.map((one) => [one, venueBook(one)])));

  it('is in doubt, counted and repaired once a second read confirms it', async () => {
    await begin();
    const before = venueBook(first);
    // Changes a book without sending a frame.
    venue.books.set(first, { yes_dollars: [['0.2000', '1.00']], no_dollars: [] });
    const read = await readNow(tickers);
    const comparing = compareBooks(kept, read, readNow, signal, 20);
    expect(kept.book(first)).toEqual(before);
    expect(await comparing).toEqual([first]);
    await until(areAllKept);
    expect(await problems('mismatch')).toBe(1);
  });

  it('is not a mismatch if one side was merely ahead', async () => {
    await begin();
    const old = await readNow(tickers);
    venue.stream.change(first, 'yes', '0.4100', '1.00');
    venue.stream.change(second, 'yes', '0.4100', '1.00');
    await until(areAllKept);
    // This read returns books from before the latest changes.
    const readOld = async (asked: string[]) => {
      const found = await readNow(asked);
      for (const ticker of asked) venue.stream.change(ticker, 'yes', '0.4200', '1.00');
      return found;
    };
    expect(await compareBooks(kept, old, readOld, signal, 20)).toEqual([]);
    expect(await problems('mismatch')).toBe(0);
  });
});

it('lifecycle events of markets are reported', async () => {
  await begin();
  const told: unknown[] = [];
  kept.subscribe((_tickers, lives) => told.push(...lives));
  venue.stream.announce({ market_ticker: first, event_type: 'deactivated' });
  venue.stream.announce({ market_ticker: 'ANOTHER', event_type: 'deactivated' });
  await until(() => told.length > 0);
  await sleep(20);
  expect(told).toMatchObject([{ ticker: first, event: 'deactivated' }]);
});

describe('the latency of the stream', () => {
  it('is measured from each message’s time', async () => {
    venue.stream.sendingTime = () => Date.now() - 60_000;
    kept.follow(tickers);
    await until(async () => (await latency()).count > tickers.length);
    const { count, sum } = await latency();
    expect(count).toBeGreaterThanOrEqual(tickers.length);
    expect(sum / count).toBeGreaterThanOrEqual(60);
  });

  it('is not measured if messages have no readable time', async () => {
    for (const time of [undefined, 'soon' as unknown as number]) {
      venue.stream.sendingTime = () => time;
      await begin();
      venue.stream.change(first, 'yes', '0.2000', '1.00');
      await until(areAllKept);
    }
    expect(await latency()).toEqual({ count: 0, sum: 0 });
  });

  it('is zero if our clock is behind the venue’s', async () => {
    venue.stream.sendingTime = () => Date.now() + 60_000;
    await begin();
    expect((await latency()).sum).toBe(0);
  });

  it('puts every book in doubt while it exceeds two seconds, and none at less', async () => {
    await begin();
    venue.stream.sendingTime = () => Date.now() - 1_000;
    venue.stream.change(first, 'yes', '0.2000', '1.00');
    await until(() => isKept(first));
    expect(kept.lateSince).toBeUndefined();
    const told = new Set<string>();
    kept.watch((ticker) => told.add(ticker));
    venue.stream.sendingTime = () => Date.now() - 20_000;
    venue.stream.change(first, 'yes', '0.2000', '1.00');
    await until(() => kept.book(last) === undefined);
    expect(told.size).toBe(tickers.length);
    expect(Date.now() - kept.lateSince!).toBeGreaterThanOrEqual(20_000);
    expect(Date.now() - kept.lateSince!).toBeLessThan(25_000);
    expect(await problems('late')).toBe(1);
    // The sequence is whole, so a message on time makes all books certain again.
    venue.stream.sendingTime = Date.now;
    venue.stream.change(second, 'yes', '0.2000', '1.00');
    await until(areAllKept);
    expect(kept.lateSince).toBeUndefined();
  });

  it.each([
    ['ahead', 20_000, false],
    ['behind', -20_000, false],
    ['behind, but messages are late', -20_000, true],
  ])('allows for the venue’s clock, which is %s', async (_what, offset, isLate) => {
    skew = offset;
    venue.stream.sendingTime = () => Date.now() + offset;
    await begin();
    venue.stream.sendingTime = () => Date.now() + offset - (isLate ? 3_000 : 500);
    venue.stream.change(first, 'yes', '0.2000', '1.00');
    await until(() => (isLate ? kept.lateSince !== undefined : isKept(first)));
    expect(kept.book(first) === undefined).toBe(isLate);
  });
});
