import { existsSync, readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { eq } from 'drizzle-orm';
import { pino } from 'pino';
import { describe, expect, it } from 'vitest';
import { createKalshiClient } from '../../../src/markets/venue/kalshi-client.js';
import { createKalshiSource } from '../../../src/markets/venue/kalshi.js';
import { CENT, DOLLAR } from '../../../src/markets/market/money.js';
import type { Market } from '../../../src/markets/market/market.js';
import { checkLedger } from '../../../src/markets/portfolio/ledger-check.js';
import { tradingPositions, tradingSettlements } from '../../../src/markets/ledger/portfolio-table.js';
import { bracketPays } from '../../../src/markets/market/brackets.js';
import { createOrganization } from '../../support/fixtures.js';
import { rulesOf, startFakeVenue, wireMarket } from '../support/fake-venue.js';
import { plentyOfTokens } from '../support/venue-tokens.js';
import { buy, cashOf } from '../support/settlement.js';
import { use, useService } from '../../support/use.js';

interface RecordedEvent {
  event: { event_ticker: string; series_ticker: string };
  markets: { ticker: string; result: string; close_time: string; expiration_value: string }[];
}

const SERIES = ['KXHIGHNY', 'KXHIGHCHI', 'KXHIGHMIA'];
const fileOf = (series: string) =>
  new URL(`../../../../shared/data/kalshi/events_${series}.jsonl.gz`, import.meta.url);

/** Events recorded from the venue or, if the recording is absent, two made-up ones in its format. */
const events: RecordedEvent[] = existsSync(fileOf(SERIES[0]!))
  ? SERIES.flatMap((series) =>
      gunzipSync(readFileSync(fileOf(series)))
        .toString()
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as RecordedEvent),
    )
  : [
      ownEvent('HIGHNY-24AUG17', '2024-08-18T03:59:00Z', 84),
      ownEvent('KXHIGHNY-25JAN16', '2025-01-17T04:59:00Z', 36),
    ];

function ownEvent(eventTicker: string, closeTime: string, temperature: number): RecordedEvent {
  const lowest = temperature - 4;
  const brackets = [
    { cap: lowest },
    ...[0, 2, 4, 6].map((step) => ({ floor: lowest + step, cap: lowest + step + 1 })),
    { floor: lowest + 7 },
  ];
  const markets = brackets.map((bracket) => {
    const wins = bracket.floor === temperature;
    return wireMarket(eventTicker, bracket, {
      close_time: closeTime,
      status: 'finalized',
      result: wins ? 'yes' : 'no',
      expiration_value: wins ? `${temperature}.00` : '',
    }) as unknown as RecordedEvent['markets'][number];
  });
  return { event: { event_ticker: eventTicker, series_ticker: 'KXHIGHNY' }, markets };
}

const winnerOf = ({ markets }: RecordedEvent) => markets.find(({ result }) => result === 'yes');
const settled = events.filter(winnerOf);

const clock = { now: () => service.clock.now() };
const venue = use(startFakeVenue, (fakeVenue) => fakeVenue.stop());
const createMarkets = () =>
  createKalshiSource({
    client: createKalshiClient({ baseUrl: venue.url, budget: plentyOfTokens(), backoffMs: 5 }),
    series: SERIES,
    clock,
    log: pino({ level: 'silent' }),
  });
const { database, service } = useService(() => ({ trading: { markets: createMarkets() } }));

it('every recorded market is found by ticker, archived or not, with the recorded result', async () => {
  const [current, moved] = [events.filter((_, i) => i % 2 === 0), events.filter((_, i) => i % 2 === 1)];
  venue.markets = current.flatMap(({ markets }) => markets) as never;
  venue.historical = moved.flatMap(({ markets }) => markets) as never;
  const tickers = events.flatMap(({ markets }) => markets.map(({ ticker }) => ticker));
  const found = await service.trading.markets.find(tickers, new AbortController().signal);
  const byTicker = new Map(found.map((market) => [market.ticker, market as Market]));
  expect(byTicker.size).toBe(tickers.length);
  for (const event of events) {
    const temperature = Number.parseFloat(winnerOf(event)?.expiration_value ?? '');
    for (const { ticker, result } of event.markets) {
      const { settlementValue, bracket } = byTicker.get(ticker)!;
      expect(settlementValue, ticker).toBe(result === 'yes' ? DOLLAR : result === 'no' ? 0n : null);
      if (result !== '') expect(bracketPays(bracket, temperature), ticker).toBe(result === 'yes');
    }
  }
});

it('positions in recorded markets are paid as recorded, with one winner per event', async () => {
  const { id: orgId } = await createOrganization(database.db);
  // A sample across all series, with old and new tickers.
  const step = Math.max(1, Math.floor(settled.length / 8));
  const held = settled.filter((_, i) => i % step === 0);
  for (const { markets } of held) {
    const at = new Date(Date.parse(markets[0]!.close_time) - 3_600_000);
    for (const [i, { ticker }] of markets.entries())
      await buy(database.db, {
        orgId,
        ticker,
        side: i % 2 === 0 ? 'yes' : 'no',
        contracts: 1,
        price: 20n * CENT,
        at,
      });
  }
  const before = await cashOf(database.db, orgId);
  await service.trading.refresher.refresh();
  expect(await service.trading.settlement.settle()).toMatchObject({ failed: 0, events: held.length * 6 });
  const wins = held.flatMap(({ markets }) =>
    markets.filter(({ result }, i) => (result === 'yes') === (i % 2 === 0)),
  ).length;
  expect(wins).toBeGreaterThan(0);
  expect((await cashOf(database.db, orgId)) - before).toBe(BigInt(wins) * DOLLAR);
  const rows = await database.db.orm
    .select()
    .from(tradingSettlements)
    .where(eq(tradingSettlements.orgId, orgId));
  const paidYes = rows.filter(({ value }) => value === DOLLAR).map(({ ticker }) => ticker);
  expect(paidYes.sort()).toEqual(held.map((event) => winnerOf(event)!.ticker).sort());
  const positions = await database.db.orm
    .select()
    .from(tradingPositions)
    .where(eq(tradingPositions.orgId, orgId));
  expect(positions.every(({ contracts }) => contracts === 0)).toBe(true);
  expect(await checkLedger(database.db.orm, {}, 10)).toEqual([]);
});

it('a recorded day passes through the venue’s states and is paid at the last one', async () => {
  const { id: orgId } = await createOrganization(database.db);
  const event = settled.at(-1)!;
  const winner = winnerOf(event)!;
  await buy(database.db, {
    orgId,
    ticker: winner.ticker,
    contracts: 5,
    price: 30n * CENT,
    at: new Date(Date.parse(winner.close_time) - 3_600_000),
  });
  const before = await cashOf(database.db, orgId);
  const say = async (change: object) => {
    venue.markets = event.markets.map((market) => ({ ...market, ...change })) as never;
    await service.trading.refresher.refresh();
    await service.trading.settlement.settle();
  };
  venue.historical = [];
  service.clock.set(new Date(Date.parse(winner.close_time) + 3_600_000).toISOString());
  const undecided = { status: 'closed', result: '', settlement_value_dollars: null };
  await say({ ...undecided, expiration_value: '' });
  await say({ ...undecided, expiration_value: winner.expiration_value });
  await say({ status: 'determined' });
  expect(await cashOf(database.db, orgId)).toBe(before);
  await say({});
  expect(await cashOf(database.db, orgId)).toBe(before + 5n * DOLLAR);
  const rows = await database.db.orm
    .select()
    .from(tradingSettlements)
    .where(eq(tradingSettlements.orgId, orgId))
    .orderBy(tradingSettlements.n);
  const temperature = Number.parseFloat(winner.expiration_value);
  expect(rows.map((row) => [row.state, row.value, row.temperature])).toEqual([
    ['provisional', null, temperature],
    ['determined', DOLLAR, temperature],
    ['finalized', DOLLAR, temperature],
  ]);
});

describe('a market that closes early', () => {
  const EVENT = 'KXHIGHNY-26JUL04';
  const early = { status: 'finalized', close_time: '2026-07-04T12:00:00Z' };

  it.each([
    ['yes', { result: 'yes' }, DOLLAR],
    ['no', { result: 'no' }, 0n],
    ['at a last fair price', { result: 'scalar', settlement_value_dollars: '0.3700' }, 37n * CENT],
    ['at cost', { result: 'void' }, 40n * CENT],
    ['without the fields that trading needs', { result: 'yes', price_ranges: [], volume_fp: null }, DOLLAR],
    [
      'with rules about another day',
      { result: 'yes', rules_primary: rulesOf('KXHIGHNY-26JUL05', { floor: 91 }) },
      DOLLAR,
    ],
  ])('pays its positions, paper and live: %s', async (_what, change, each) => {
    const { id: orgId } = await createOrganization(database.db);
    const at = new Date('2026-07-04T10:00:00Z');
    service.clock.set('2026-07-04T20:00:00Z');
    const open = wireMarket(EVENT, { floor: 91 });
    const ticker = String(open.ticker);
    [venue.markets, venue.historical] = [[open], []];
    await service.trading.refresher.refresh();
    for (const mode of ['paper', 'live'] as const)
      await buy(database.db, { orgId, mode, ticker, contracts: 5, price: 40n * CENT, at });
    const before = [await cashOf(database.db, orgId), await cashOf(database.db, orgId, 'live')];
    venue.markets = [{ ...open, ...early, ...change }];
    await service.trading.refresher.refresh();
    expect(await service.trading.settlement.settle()).toMatchObject({ failed: 0, moved: 2 });
    const after = [await cashOf(database.db, orgId), await cashOf(database.db, orgId, 'live')];
    expect(after.map((cash, i) => cash - before[i]!)).toEqual([5n * each, 5n * each]);
    expect(await checkLedger(database.db.orm, {}, 10)).toEqual([]);
  });
});
