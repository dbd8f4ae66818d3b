import { existsSync, readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { pino } from 'pino';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createKalshiClient, UnexpectedAnswerError } from '../../../src/markets/venue/kalshi-client.js';
import { createKalshiSource } from '../../../src/markets/venue/kalshi.js';
import { startFakeVenue, wireMarket, type FakeVenue } from '../support/fake-venue.js';
import { plentyOfTokens } from '../support/venue-tokens.js';

type Json = Record<string, unknown>;

const now = Date.parse('2026-07-10T12:00:00Z');
const signal = new AbortController().signal;
let venue: FakeVenue;
beforeAll(async () => {
  venue = await startFakeVenue();
});
afterAll(() => venue.stop());
beforeEach(() => {
  Object.assign(venue, { markets: [], historical: [], requests: [], fault: undefined, pageSize: 1000 });
  venue.cutoff = '2026-01-01T00:00:00Z';
});

const settledDays = (from: string, to: string, series = ['KXHIGHNY']) =>
  createKalshiSource({
    client: createKalshiClient({ baseUrl: venue.url, budget: plentyOfTokens(), backoffMs: 5 }),
    series,
    clock: { now: () => now },
    log: pino({ level: 'silent' }),
  }).history!.readSettledDays({ from, to }, signal);

/** The ladder 83-, 84-85, 86-87, 88-89, 90-91, 92+ for a day that settled at 86 °F; only the winner has the value. */
function ladder(event: string, closeTime: string, over: Json = {}): Json[] {
  const brackets = [
    { cap: 84 },
    ...[84, 86, 88, 90].map((floor) => ({ floor, cap: floor + 1 })),
    { floor: 91 },
  ];
  return brackets.map((bracket, i) =>
    wireMarket(event, bracket, {
      close_time: closeTime,
      status: 'finalized',
      result: i === 2 ? 'yes' : 'no',
      expiration_value: i === 2 ? '86.00' : '',
      ...over,
    }),
  );
}

describe('settled days', () => {
  it('cover an inclusive range, with the reported temperature, known from now on', async () => {
    venue.markets = ['03', '04', '05', '06'].flatMap((day) =>
      ladder(`KXHIGHNY-26JUL${day}`, `2026-07-${String(Number(day) + 1).padStart(2, '0')}T04:59:00Z`),
    );
    venue.pageSize = 5;
    expect(await settledDays('2026-07-04', '2026-07-05')).toEqual([
      {
        kind: 'daily_maximum',
        stationId: 'KNYC',
        date: '2026-07-04',
        temperatureF: 86,
        knownAt: new Date(now),
      },
      {
        kind: 'daily_maximum',
        stationId: 'KNYC',
        date: '2026-07-05',
        temperatureF: 86,
        knownAt: new Date(now),
      },
    ]);
    // Only the markets that closed on these days or the day before are read, page by page: 12 of 24.
    expect(venue.requests.filter((path) => path.includes('/markets?'))).toHaveLength(4);
    expect(venue.requests.some((path) => path.includes('/historical/markets'))).toBe(false);
  });

  it.each<[string, (markets: Json[]) => void]>([
    ['is not final', (markets) => Object.assign(markets[0]!, { status: 'determined' })],
    ['is disputed', (markets) => Object.assign(markets[2]!, { status: 'disputed' })],
    [
      'is not settled at all',
      (markets) => markets.forEach((market) => Object.assign(market, { status: 'closed', result: '' })),
    ],
    ['was called off', (markets) => markets.forEach((market) => Object.assign(market, { result: 'void' }))],
    ['has no temperature', (markets) => Object.assign(markets[2]!, { expiration_value: 'see the report' })],
    ['has two temperatures', (markets) => Object.assign(markets[3]!, { expiration_value: '88.00' })],
    [
      'paid another bracket than its temperature’s',
      (markets) => Object.assign(markets[2]!, { expiration_value: '91.00' }),
    ],
    ['has no winner', (markets) => Object.assign(markets[2]!, { result: 'no' })],
    ['lacks a bracket', (markets) => markets.splice(4, 1)],
    [
      'has another station’s market',
      (markets) => Object.assign(markets[5]!, { rules_primary: 'at LaGuardia' }),
    ],
  ])('exclude one that %s', async (_what, spoil) => {
    const markets = ladder('KXHIGHNY-26JUL04', '2026-07-05T04:59:00Z');
    spoil(markets);
    venue.markets = [...markets, ...ladder('KXHIGHNY-26JUL05', '2026-07-06T04:59:00Z')];
    expect((await settledDays('2026-07-04', '2026-07-05')).map(({ date }) => date)).toEqual(['2026-07-05']);
  });

  it('before the cutoff are queried by day, under both names of their series', async () => {
    venue.cutoff = '2026-03-01T00:00:00Z';
    venue.historical = [
      ...ladder('KXHIGHNY-26FEB01', '2026-02-02T04:59:00Z'),
      ...ladder('KXHIGHNY-24OCT24', '2024-10-25T03:59:00Z'),
      ...ladder('HIGHNY-24OCT23', '2024-10-24T03:59:00Z'),
    ];
    const dates = async (from: string, to: string) => (await settledDays(from, to)).map(({ date }) => date);
    expect(await dates('2026-01-31', '2026-02-02')).toEqual(['2026-02-01']);
    const asked = venue.requests.filter((path) => path.includes('/historical/markets'));
    expect(asked.map((path) => /event_ticker=([^&]+)/.exec(path)![1])).toEqual([
      'KXHIGHNY-26JAN31',
      'KXHIGHNY-26FEB01',
      'KXHIGHNY-26FEB02',
    ]);
    expect(await dates('2024-10-22', '2024-10-24')).toEqual(['2024-10-23', '2024-10-24']);
  });

  it('are not returned at all if an answer cannot be trusted', async () => {
    venue.fault = (_req, res, path) => {
      if (path !== '/historical/cutoff') return false;
      res.writeHead(200, { 'content-type': 'application/json' }).end('{"market_settled_ts":"soon"}');
      return true;
    };
    await expect(settledDays('2026-07-04', '2026-07-04')).rejects.toBeInstanceOf(UnexpectedAnswerError);
  });
});

const SERIES = ['KXHIGHNY', 'KXHIGHCHI', 'KXHIGHMIA'];
const fileOf = (series: string) =>
  new URL(`../../../../shared/data/kalshi/events_${series}.jsonl.gz`, import.meta.url);

describe.runIf(existsSync(fileOf('KXHIGHNY')))('recorded days', () => {
  it('have the venue’s recorded temperature, for exactly the settled days', async () => {
    const events = SERIES.flatMap((series) =>
      gunzipSync(readFileSync(fileOf(series)))
        .toString()
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as { event: { event_ticker: string }; markets: Json[] }),
    );
    const expected = events.flatMap(({ event, markets }) => {
      const winner = markets.find(({ result }) => result === 'yes');
      // `parseInt`, because reports are whole degrees, and one is a sentence that starts with the number.
      return winner ? [`${event.event_ticker} ${Number.parseInt(String(winner.expiration_value), 10)}`] : [];
    });
    // The first months have moved to the archive, some under old names.
    venue.cutoff = '2024-11-01T06:00:00Z';
    const isMoved = ({ close_time: close }: Json) => Date.parse(String(close)) < Date.parse(venue.cutoff);
    const markets = events.flatMap((event) => event.markets);
    venue.markets = markets.filter((market) => !isMoved(market));
    venue.historical = markets.filter(isMoved);
    const found: string[] = [];
    const series = { KNYC: 'HIGHNY', KMDW: 'HIGHCHI', KMIA: 'HIGHMIA' } as Record<string, string>;
    for (let month = 7; month < 17; month++) {
      const [from, to] = [new Date(Date.UTC(2024, month, 1)), new Date(Date.UTC(2024, month + 1, 0))];
      const days = await settledDays(day(from), day(to), SERIES);
      for (const { stationId, date, temperatureF } of days) {
        const ticker = new Date(date).toUTCString().slice(5, 16).toUpperCase().split(' ');
        const name = `${series[stationId]}-${ticker[2]!.slice(2)}${ticker[1]}${ticker[0]}`;
        found.push(`${date >= '2024-10-24' ? 'KX' : ''}${name} ${temperatureF}`);
      }
    }
    expect(expected).toHaveLength(756);
    expect(found.toSorted()).toEqual(expected.toSorted());
  });
});

const day = (date: Date): string => date.toISOString().slice(0, 10);
