import { existsSync, readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { readMarket, readMarketOrResult, toOrderBook } from '../../../src/markets/venue/kalshi-market.js';
import { isOnTick, isPlaced, type Market } from '../../../src/markets/market/market.js';
import { createNoteBook } from '../../../src/markets/market/source.js';
import { CENT, DOLLAR, parseDollars } from '../../../src/markets/market/money.js';
import { bracketPays } from '../../../src/markets/market/brackets.js';
import { rulesOf, wireMarket } from '../support/fake-venue.js';

/** `88° to 89°` on July 4 in Chicago, with made-up numbers. */
const wire = (change: Record<string, unknown> = {}): Record<string, unknown> => ({
  ...wireMarket('KXHIGHCHI-26JUL04', { floor: 88, cap: 89 }),
  close_time: '2026-07-05T06:00:00Z',
  volume_fp: '120.50',
  ...change,
});

/** A September market, whose rules name the report. */
const today = (change: Record<string, unknown> = {}): Record<string, unknown> => ({
  ...wireMarket('KXLOWTCHI-26SEP25', { floor: 58, cap: 59 }),
  close_time: '2026-09-26T06:00:00Z',
  ...change,
});

const hour = (change: Record<string, unknown> = {}): Record<string, unknown> => ({
  ...wireMarket('KXTEMPMIAH-26SEP1312', { floor: 89.99 }),
  yes_sub_title: '90° or above',
  close_time: '2026-09-13T16:00:00Z',
  rules_primary:
    'If the temperature recorded at Miami, FL for Sep 13, 2026 at 12 PM EDT as reported by Synoptic Data, is above 89.99°, then the market resolves to Yes.',
  rules_secondary: 'It is calculated in accordance with the Kalshi Weather Index Methodology.',
  ...change,
});

function read(value: unknown) {
  const notes = createNoteBook();
  return { market: readMarket(value, notes), notes: notes.list() };
}

/** @throws Error unless the value is a market with a place */
function place(value: unknown): Market {
  const { market, notes } = read(value);
  if (!market || !isPlaced(market)) throw new Error(JSON.stringify(market ?? notes));
  return market;
}

describe('a market with payout bounds', () => {
  it.each([
    [{ settlement_bounds_type: 'default' }, undefined],
    [{ settlement_bounds_type: undefined }, undefined],
    [
      { settlement_bounds_type: 'floor', settlement_floor_dollars: '0.0500' },
      'YES always pays $0.0500 or more, and markets with such a floor are not traded here',
    ],
    [
      { settlement_bounds_type: 'floor', settlement_floor_dollars: null },
      'YES always pays more than nothing, and markets with such a floor are not traded here',
    ],
    [{ settlement_bounds_type: 'ceiling' }, 'its payout has unknown bounds (“ceiling”)'],
  ])('takes orders only with the usual bounds: %o', (bounds, untradable) => {
    expect(place(wire(bounds)).untradable).toBe(untradable);
  });
});

describe('a venue market', () => {
  it('is parsed without fields that the venue has removed', () => {
    expect(wire()).not.toHaveProperty('liquidity_dollars');
    expect(read(wire()).notes).toEqual([]);
    expect(read(wire({ liquidity_dollars: '1.0000', tick_size: 1 }))).toEqual(read(wire()));
  });

  it('is parsed with its station, day, bracket and prices', () => {
    expect(place(wire())).toMatchObject({
      kind: 'daily_maximum',
      station: { id: 'KMDW' },
      date: '2026-07-04',
      bracket: { kind: 'between', floor: 88, cap: 89 },
      yesBid: 42n * CENT,
      yesAsk: 45n * CENT,
      volume: 120.5,
      settlement: { source: 'National Weather Service' },
      settlementValue: null,
      settledTemperature: null,
    });
  });

  it.each([
    ['KXHIGHNY-26OCT06', 'KNYC', 'daily_maximum', '2026-10-07T05:00:00Z'],
    ['KXLOWTCHI-26SEP25', 'KMDW', 'daily_minimum', '2026-09-26T06:00:00Z'],
    ['KXHIGHTPHX-26SEP25', 'KPHX', 'daily_maximum', '2026-09-26T07:00:00Z'],
    ['KXHIGHTSDF-26SEP25', 'KSDF', 'daily_maximum', '2026-09-26T05:00:00Z'],
    ['KXHIGHTHOU-26SEP25', 'KHOU', 'daily_maximum', '2026-09-26T06:00:00Z'],
  ])('of event %s settles at %s, whatever its title says', (event, station, kind, close_time) => {
    const market = place({ ...wireMarket(event, { cap: 60 }), title: 'SATX low', close_time });
    expect(market).toMatchObject({
      kind,
      station: { id: station },
      settlement: { source: 'The Weather Company' },
    });
  });

  it('of an hour is about the index exceeding a hundredth of a degree at its close time', () => {
    expect(place(hour())).toMatchObject({
      kind: 'hourly',
      station: { id: 'INDEX-MIAMI' },
      date: '2026-09-13',
      hour: 12,
      bracket: { kind: 'greater', floor: 89.99, cap: null },
      settlement: { source: 'Kalshi Weather Index' },
    });
    expect(bracketPays(place(hour()).bracket, 89.99)).toBe(false);
    expect(bracketPays(place(hour()).bracket, 90)).toBe(true);
  });

  it('is parsed with strikes below zero', () => {
    const event = 'KXLOWTMIN-27JAN20';
    const market = place({
      ...wireMarket(event, { floor: -3, cap: -2 }),
      close_time: '2027-01-21T06:00:00Z',
    });
    expect(market.bracket).toEqual({ kind: 'between', floor: -3, cap: -2 });
  });

  it('is placed by city on the one day when the rules named only the city', () => {
    const rules = rulesOf('KXHIGHNY-26AUG15', { cap: 80 })
      .replace(' (CLINYC)', '')
      .replace('15, 2026', '14, 2026');
    const value = { ...wireMarket('KXHIGHNY-26AUG14', { cap: 80 }), rules_primary: rules };
    expect(place({ ...value, close_time: '2026-08-15T05:00:00Z' }).station.id).toBe('KNYC');
  });

  it('has no price without bids or asks', () => {
    const empty = place(
      wire({ yes_bid_dollars: '0.0000', yes_ask_dollars: '1.0000', last_price_dollars: '0.0000' }),
    );
    expect([empty.yesBid, empty.yesAsk, empty.lastPrice]).toEqual([null, null, null]);
  });

  it.each([
    ['another day’s ticker', wire({ event_ticker: 'KXHIGHCHI-26JUL05' }), 'date'],
    ['an uncertain bracket', wire({ floor_strike: 87 }), 'bracket'],
    [
      'rules about another bracket',
      wire({ rules_primary: rulesOf('KXHIGHCHI-26JUL04', { floor: 86, cap: 87 }) }),
      'bracket',
    ],
    [
      'a series of highs but rules about a low',
      today({ event_ticker: 'KXHIGHCHI-26SEP25', ticker: 'KXHIGHCHI-26SEP25-B58.5' }),
      'series',
    ],
    [
      'an unknown series of highs but rules about a low',
      today({ event_ticker: 'KXHIGHTCHI-26SEP25', ticker: 'KXHIGHTCHI-26SEP25-B58.5' }),
      'series',
    ],
    [
      'one station’s series but another’s rules',
      today({ event_ticker: 'KXLOWTNYC-26SEP25', ticker: 'KXLOWTNYC-26SEP25-B58.5' }),
      'series',
    ],
  ])('is left out and noted with %s', (_what, value, name) => {
    const { market, notes } = read(value);
    expect(market).toBeUndefined();
    expect(notes).toEqual([{ kind: 'contradiction', name, count: 1, example: expect.any(String) as string }]);
  });

  it.each([
    ['a day that does not match its close', wire({ close_time: '2026-07-06T06:00:00Z' })],
    ['a close after the end of its day', wire({ close_time: '2026-07-05T06:00:01Z' })],
    ['an hour that does not match its close', hour({ close_time: '2026-09-13T17:00:00Z' })],
  ])('takes no orders with %s', (_what, value) => {
    const { market, notes } = read(value);
    expect(market?.untradable).toContain('it closes at');
    expect(notes).toMatchObject([{ kind: 'contradiction', name: 'close_time', count: 1 }]);
  });

  it.each(['closed', 'determined', 'finalized'])('may have closed at any time once it is %s', (status) => {
    const { market, notes } = read(wire({ status, result: 'yes', close_time: '2026-07-04T15:00:00Z' }));
    expect(market).toMatchObject({ status, kind: 'daily_maximum', date: '2026-07-04' });
    expect([market?.untradable, notes]).toEqual([undefined, []]);
  });

  it.each([
    [{ result: 'yes', settlement_value_dollars: '0.0000' }],
    [{ result: 'no', settlement_value_dollars: '1.0000' }],
    [{ result: 'scalar', settlement_value_dollars: '1.0100' }],
  ])('has no payout while its value contradicts its result: %j', (change) => {
    const { market, notes } = read(wire({ status: 'finalized', ...change }));
    expect(market).toMatchObject({ status: 'finalized', settlementValue: null });
    expect(notes).toMatchObject([{ kind: 'contradiction', name: 'payout', count: 1 }]);
  });

  const needed = new Set(['ticker', 'status', 'result']);
  const changes: [string, unknown][] = Object.keys(wire())
    .filter((field) => !needed.has(field))
    .flatMap((field): [string, unknown][] => [
      [field, undefined],
      [field, 'odd'],
      [field, null],
      [field, 7],
    ]);
  it.each(changes)('is paid whatever becomes of its other fields: %s is %j', (field, value) => {
    const paid = (change: object) => {
      const ended = wire({ status: 'finalized', ...change, [field]: value });
      const found = readMarketOrResult(ended, createNoteBook());
      return found?.status === 'finalized' ? (found.isVoid ?? found.settlementValue) : undefined;
    };
    expect(paid({ result: 'yes' })).toBe(DOLLAR);
    expect(paid({ result: 'no' })).toBe(0n);
    expect(paid({ result: 'void' })).toBe(true);
    const scalar = { result: 'scalar', settlement_value_dollars: '0.3700' };
    expect(paid(scalar)).toBe(field === 'settlement_value_dollars' ? null : 37n * CENT);
  });

  it.each([
    [
      'a place without a station',
      wire({
        rules_primary: rulesOf('KXHIGHCHI-26JUL04', { floor: 88, cap: 89 }).replace(
          'Chicago Midway, IL',
          'Camp Mabry, Austin',
        ),
      }),
      'daily_maximum',
      'unknown_place',
    ],
    [
      'an unknown report',
      today({ rules_primary: String(today().rules_primary).replace('CLIMDW', 'CLIORD') }),
      'daily_minimum',
      'unknown_place',
    ],
    [
      'an unknown index',
      hour({ rules_primary: String(hour().rules_primary).replace('Miami, FL', 'Boise, ID') }),
      'hourly',
      'unknown_place',
    ],
    [
      'an hour with another settlement source',
      hour({
        rules_primary: String(hour().rules_primary).replace(
          'Synoptic Data',
          'Accuweather (for coordinates 40.7812,-73.9665)',
        ),
      }),
      'hourly',
      'unknown_place',
    ],
    [
      'unknown wording',
      today({ rules_primary: 'If it gets very cold in Chicago, then the market resolves to Yes.' }),
      'other',
      'unknown_wording',
    ],
    [
      'rain',
      {
        ...wireMarket('KXRAIN-26OCT10', { floor: 0 }),
        ticker: 'KXRAIN-26OCT10-NYC',
        yes_sub_title: 'New York City',
        rules_primary:
          'If the total precipitation at CLINYC in New York City in Oct 10, 2026 is strictly greater than 0 inches, then the market resolves to Yes.',
      },
      'rain',
      'unknown_kind',
    ],
  ])('is listed without a place, with prices and a reason, for %s', (_what, value, kind, note) => {
    const { market, notes } = read(value);
    expect(market).toMatchObject({ kind, station: null, bracket: null, yesBid: 42n * CENT });
    expect((market as { problem: string }).problem).not.toBe('');
    expect(notes.map((each) => each.kind)).toEqual([note]);
  });

  it.each([
    ['a price field is renamed', { yes_bid_dollars: undefined }, 'yes_bid_dollars'],
    ['prices are whole cents', { yes_bid_dollars: 42 }, 'yes_bid_dollars'],
    ['a price is null', { no_ask_dollars: null }, 'no_ask_dollars'],
    ['a price is more than a dollar', { yes_ask_dollars: '42.0000' }, 'yes_ask_dollars'],
    ['a price is negative', { no_bid_dollars: '-0.4200' }, 'no_bid_dollars'],
    ['a count is not a number', { volume_fp: 'many' }, 'volume_fp'],
    ['its price ranges are missing', { price_ranges: [] }, 'price_ranges'],
  ])('is the only one left out if %s, and the field is named', (_what, change, name) => {
    const { market, notes } = read(wire(change));
    expect(market).toBeUndefined();
    expect(notes).toMatchObject([{ kind: 'missing_field', name, count: 1 }]);
  });

  it('takes no orders in an unknown status, and pays nothing for an unknown result', () => {
    const paused = read(wire({ status: 'paused' }));
    expect(paused.market?.status).toBe('inactive');
    expect(paused.notes).toMatchObject([{ kind: 'unknown_status', name: 'paused' }]);
    const odd = read(wire({ status: 'finalized', result: 'maybe', settlement_value_dollars: '1.0000' }));
    expect(odd.market?.settlementValue).toBeNull();
    expect(odd.notes).toMatchObject([{ kind: 'unknown_result', name: 'maybe' }]);
    expect(read(wire({ market_type: 'scalar' })).market).toBeUndefined();
  });

  it('may close before its day ends, as it did by New York’s clock, but not on the day before', () => {
    const august = wireMarket('HIGHCHI-24AUG16', { floor: 88, cap: 89 });
    expect(place({ ...august, close_time: '2024-08-17T03:59:00Z' }).date).toBe('2024-08-16');
    expect(place({ ...august, close_time: '2024-08-17T03:59:00Z' }).untradable).toBeUndefined();
    expect(place({ ...august, close_time: '2024-08-16T23:59:00Z' }).untradable).toContain('it closes at');
  });

  it('pays what the venue reports, and not before it does', () => {
    const value = (change: Record<string, unknown>) => place(wire(change)).settlementValue;
    expect(value({ status: 'closed', result: 'yes' })).toBeNull();
    expect(value({ status: 'determined', result: 'yes' })).toBe(parseDollars('1'));
    expect(value({ status: 'finalized', result: 'no' })).toBe(0n);
    expect(value({ status: 'finalized', result: 'scalar', settlement_value_dollars: '0.3700' })).toBe(
      37n * CENT,
    );
    expect(value({ status: 'finalized', result: 'scalar' })).toBeNull();
  });

  it.each([
    ['87.00', 87],
    ['-3.00', -3],
    ['84. Although the report was not finalized …', 84],
    ['', null],
    ['n/a', null],
    ['87.5', null],
  ])('with report %j settles at %s degrees', (text, degrees) => {
    expect(place(wire({ expiration_value: text })).settledTemperature).toBe(degrees);
  });

  it('of an hour settles in hundredths', () => {
    expect(place(hour({ expiration_value: '89.87' })).settledTemperature).toBe(89.87);
  });

  it('takes orders at its ticks only, which may vary with the price', () => {
    const tapered = [
      { start: 0n, end: 10n * CENT, step: CENT / 10n },
      { start: 10n * CENT, end: 90n * CENT, step: CENT },
    ];
    const prices = ['0.0010', '0.0015', '0.1000', '0.1050', '0.5600', '0.9100'].map(parseDollars);
    expect(prices.map((price) => isOnTick(tapered, price))).toEqual([true, false, true, false, true, false]);
  });
});

it('has an order book with hundredths of contracts, best bids first', () => {
  const book = toOrderBook({
    yes: [
      ['0.4100', '20.00'],
      ['0.4200', '10.75'],
    ],
    no: [['0.5500', '0.50']],
  });
  expect(book).toEqual({
    yes: [
      { price: 42n * CENT, contracts: 10.75 },
      { price: 41n * CENT, contracts: 20 },
    ],
    no: [{ price: 55n * CENT, contracts: 0.5 }],
  });
});

const shared = (path: string) => new URL(`../../../../shared/data/${path}`, import.meta.url);

describe.skipIf(!existsSync(shared('kalshi')))('recorded markets', () => {
  it.each(['KXHIGHNY', 'KXHIGHCHI', 'KXHIGHMIA'])(
    '%s: every market is parsed, and its report agrees with its payout',
    (series) => {
      const lines = gunzipSync(readFileSync(shared(`kalshi/events_${series}.jsonl.gz`)))
        .toString()
        .trim()
        .split('\n');
      for (const line of lines) {
        const { markets } = JSON.parse(line) as { markets: unknown[] };
        const placed = markets.map(place);
        const temperature = placed.find((market) => market.settledTemperature !== null)?.settledTemperature;
        for (const { ticker, bracket, settlementValue } of placed) {
          if (temperature == null || settlementValue === null) continue;
          expect(settlementValue === parseDollars('1'), ticker).toBe(bracketPays(bracket, temperature));
        }
      }
    },
  );

  it.each([
    ['markets_open_KXHIGHNY_20261005', 'KNYC', 'daily_maximum'],
    ['markets_KXHIGHNY-26SEP23_20260922', 'KNYC', 'daily_maximum'],
    ['event_KXHIGHNY-26SEP23_20260922', 'KNYC', 'daily_maximum'],
    ['markets_open_KXHIGHCHI_20260924', 'KMDW', 'daily_maximum'],
    ['markets_open_KXLOWTCHI_20260924', 'KMDW', 'daily_minimum'],
    ['markets_open_KXHIGHTPHX_20260924', 'KPHX', 'daily_maximum'],
  ])('%s: every market is placed at %s', (file, station, kind) => {
    const { markets } = JSON.parse(readFileSync(shared(`kalshi-2026/${file}.json`), 'utf8')) as {
      markets: unknown[];
    };
    const found = markets.map(place).map((market) => [market.station.id, market.kind]);
    expect(found).toEqual(markets.map(() => [station, kind]));
  });
});
