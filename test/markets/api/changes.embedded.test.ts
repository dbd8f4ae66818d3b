import { request, type ClientRequest } from 'node:http';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../../support/database.js';
import { startTestService, type TestService } from '../../support/service.js';
import { startFakeVenue, type FakeVenue } from '../support/fake-venue.js';
import { fillVenue } from '../support/fake-world.js';
import { plentyOfTokens } from '../support/venue-tokens.js';
import { member, keyFile, removeKeys } from '../support/live-account.js';
import { postTrade, createTrader } from '../support/trade.js';
import { until } from '../../support/until.js';

const NOW = '2026-11-22T15:30:00Z';
const TICKER = 'KXHIGHNY-26NOV22-B62.5';
const NEIGHBOUR = 'KXHIGHNY-26NOV22-B64.5';

let database: TestDatabase;
let venue: FakeVenue;
let service: TestService;
let secret: string;
const clients: ClientRequest[] = [];

beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(async () => {
  removeKeys();
  await database.remove();
});

beforeEach(async () => {
  venue = await startFakeVenue();
  fillVenue(venue, NOW);
  venue.series = venue.series.slice(0, 2);
  venue.markets = venue.markets.filter(({ ticker }) => /^KX(HIGH|LOWT)NY/.test(String(ticker)));
  service = await startTestService(database.db, {
    env: {
      MARKET_SOURCE: 'kalshi',
      KALSHI_BASE_URL: venue.url,
      KALSHI_KEY_ID: member.keyId,
      KALSHI_PRIVATE_KEY_FILE: keyFile('member'),
    },
    trading: {
      weather: { name: 'none', freshMs: 0, read: () => Promise.reject(new Error('no weather')) },
      venueBudget: plentyOfTokens(),
      streamTimings: {
        silenceMs: 1_500,
        backoffMs: 10,
        maxBackoffMs: 50,
        tendMs: 20,
        repairMs: 20,
        gatherMs: 30,
      },
    },
  });
  service.clock.set(NOW);
  ({ secret } = await createTrader(database.db));
  await service.trading.refresher.refresh();
  await until(isKept);
});
afterEach(async () => {
  for (const client of clients.splice(0)) client.destroy();
  await service.stop();
  await venue.stop();
});

type Side = 'yes' | 'no';

/** The venue's levels on one side as `cents:contracts`, best first. */
function venueLevels(side: Side, ticker = TICKER): string[] {
  const levels = venue.books.get(ticker)![`${side}_dollars`]!;
  return levels.toReversed().map(([price, count]) => `${Math.round(Number(price) * 100)}:${Number(count)}`);
}
function shownLevels(side: Side, ticker = TICKER): string[] {
  const { books } = service.trading.snapshots.current!.data;
  const levels = books.get(ticker)![side];
  return levels.map(({ price, contracts }) => `${price / 10_000n}:${contracts}`);
}
const isShown = (ticker = TICKER) =>
  (['yes', 'no'] as const).every(
    (side) => String(shownLevels(side, ticker)) === String(venueLevels(side, ticker)),
  );
const inDoubt = () => service.trading.snapshots.current!.data.doubts?.has(TICKER) === true;
async function isKept(): Promise<boolean> {
  const { values } = await service.context.metrics.keptBooks.get();
  return values.some(({ labels, value }) => labels.state === 'kept' && value === 24);
}

const readMarket = async () => {
  const body = (await (await fetch(`${service.url}/markets?station=KNYC`)).json()) as {
    markets: { ticker: string; [field: string]: unknown }[];
  };
  return body.markets.find(({ ticker }) => ticker === TICKER)!;
};
const best = (side: 'yes' | 'no') => Number(venue.books.get(TICKER)![`${side}_dollars`]!.at(-1)![0]);
const buy = () =>
  postTrade(service.url, secret, {
    ticker: TICKER,
    contracts: 1,
    limitPrice: (1 - best('no')).toFixed(2),
  });

function openStream(): Promise<{ events: string[] }> {
  const events: string[] = [];
  return new Promise((resolve, reject) => {
    const client = request(`${service.url}/stream`, { agent: false }, (res) => {
      res.setEncoding('utf8').on('data', (text: string) => events.push(text));
      res.on('error', () => undefined);
      resolve({ events });
    });
    clients.push(client);
    client.on('error', reject);
    client.end();
  });
}

describe('between two refreshes', () => {
  it('a change at the venue is streamed without a refresh, shown, and traded on', async () => {
    const { events } = await openStream();
    await until(() => events.some((text) => text.includes('event: snapshot')));
    const price = best('yes') + 0.01;
    venue.stream.change(TICKER, 'yes', price.toFixed(4), '7.00');
    await until(() => events.some((text) => text.includes('event: changes')));
    const told = events.find((text) => text.includes('event: changes'))!;
    const { markets } = JSON.parse(/^data: (.*)$/m.exec(told)![1]!) as { markets: unknown[] };
    expect(markets).toMatchObject([
      { ticker: TICKER, yesBid: price.toFixed(4), yesBidSize: 7, bookState: 'whole' },
    ]);
    await until(async () => (await readMarket()).yesBid === price.toFixed(4));
    const { status, trade } = await buy();
    expect([status, trade!.filledContracts]).toEqual([201, 1]);
  });

  it('forecasts and sizes are not recomputed, and unchanged objects are shared', async () => {
    const { current: before } = service.trading.snapshots;
    venue.stream.change(TICKER, 'yes', '0.0100', '3.00');
    const book = before!.data.books.get(TICKER);
    await until(() => service.trading.snapshots.current!.data.books.get(TICKER) !== book);
    const { current: after } = service.trading.snapshots;
    expect(after!.refreshed).toBe(before!.refreshed ?? before);
    expect(after!.asOf).toBe(before!.asOf);
    expect(after!.forecasts).toBe(before!.forecasts);
    expect(after!.data.books.get(NEIGHBOUR)).toBe(before!.data.books.get(NEIGHBOUR));
    expect(Object.isFrozen(after)).toBe(true);
  });

  it('a market paused by the venue takes no orders until a listing shows it as open', async () => {
    venue.stream.announce({ market_ticker: TICKER, event_type: 'deactivated' });
    await until(async () => (await readMarket()).status === 'inactive');
    expect(await buy()).toMatchObject({ status: 409, code: 'market_closed' });
    service.clock.advance(1_000);
    await service.trading.refresher.refresh();
    // On a busy machine, the connection may have timed out, so wait until the book is live again.
    await until(isKept);
    expect((await buy()).status).toBe(201);
  });
});

describe('a market with a doubtful book takes no order until the book matches the venue’s again', () => {
  const lose = (lost: number) => {
    let left = lost;
    venue.stream.fault = (frame, send) => {
      if (frame.type === 'orderbook_delta' && left-- > 0) return;
      send(frame);
    };
  };
  it.each<[name: string, fault: () => void]>([
    ['a lost frame', () => lose(1)],
    [
      'a repeated frame',
      () => {
        venue.stream.fault = (frame, send) => {
          send(frame);
          if (frame.type === 'orderbook_delta') send(frame);
        };
      },
    ],
    [
      'frames in the wrong order',
      () => {
        let held = true;
        venue.stream.fault = (frame, send) => {
          if (!held || frame.type !== 'orderbook_delta') return send(frame);
          held = false;
          setTimeout(() => send(frame), 10);
        };
      },
    ],
    ['a restarted sequence', () => venue.stream.restartSequences()],
    [
      'another subscription’s number',
      () => {
        venue.stream.fault = (frame, send) =>
          send(frame.type === 'orderbook_delta' ? { ...frame, sid: 999 } : frame);
      },
    ],
    ['an overflow', () => venue.stream.overflow()],
    ['a lost connection', () => venue.stream.disconnect()],
    ['a connection that dies silently', () => venue.stream.goSilent()],
  ])('%s', async (_name, fault) => {
    const certain = [venueLevels('yes')];
    const noBids = shownLevels('no');
    venue.stream.refuse = () => ({ code: 1, msg: 'not now' });
    fault();
    // A level below the best bid, so the best price does not change.
    const deep = (best('yes') - 0.03).toFixed(4);
    for (const delta of ['11.00', '12.00']) {
      venue.stream.change(TICKER, 'yes', deep, delta);
      certain.push(venueLevels('yes'));
    }
    await until(inDoubt);
    const refused = await buy();
    expect(refused).toMatchObject({ status: 503, code: 'market_data_stale' });
    expect(refused.detail).toContain(`The order book of ${TICKER} is in doubt`);
    await until(async () => (await readMarket()).bookState === 'in_doubt');
    // The service keeps showing the last book known to be correct, which must be one of the venue's actual books.
    expect(certain).toContainEqual(shownLevels('yes'));
    expect(shownLevels('no')).toEqual(noBids);
    venue.stream.fault = undefined;
    venue.stream.refuse = undefined;
    await until(() => !inDoubt() && isShown());
    expect((await buy()).status).toBe(201);
  });

  it('a read of the venue also ends the doubt while its stream is down', async () => {
    venue.stream.refuse = () => ({ code: 1, msg: 'not now' });
    venue.stream.disconnect();
    await until(inDoubt);
    venue.stream.change(TICKER, 'yes', '0.0200', '5.00');
    expect((await buy()).status).toBe(503);
    service.clock.advance(1_000);
    await service.trading.refresher.refresh();
    expect([inDoubt(), isShown()]).toEqual([false, true]);
    expect((await buy()).status).toBe(201);
  });
});
