import { existsSync, readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { toMarket, toOrderBook, UnusableMarketError } from '../../src/trading/markets/kalshi-market.js';
import { kalshiMarketSchema, type KalshiMarket } from '../../src/trading/markets/kalshi-schema.js';
import { isOnTick } from '../../src/trading/markets/market.js';
import { CENT, parseDollars } from '../../src/trading/money.js';
import { bracketPays } from '../../src/trading/settlement/brackets.js';

/** A market as the venue sends it; the numbers are made up. */
const wire = (change: Partial<Record<keyof KalshiMarket, unknown>> = {}): KalshiMarket =>
  kalshiMarketSchema.parse({
    ticker: 'KXHIGHCHI-26JUL04-B88.5',
    event_ticker: 'KXHIGHCHI-26JUL04',
    market_type: 'binary',
    title: '',
    yes_sub_title: '88° to 89°',
    open_time: '2026-07-03T14:00:00Z',
    close_time: '2026-07-05T06:00:00Z',
    status: 'active',
    yes_bid_dollars: '0.4200',
    yes_ask_dollars: '0.4500',
    no_bid_dollars: '0.5500',
    no_ask_dollars: '0.5800',
    last_price_dollars: '0.4400',
    volume_fp: '120.50',
    volume_24h_fp: '20.00',
    open_interest_fp: '99.00',
    result: '',
    expiration_value: '',
    strike_type: 'between',
    floor_strike: 88,
    cap_strike: 89,
    rules_primary: 'If the highest temperature recorded at Chicago Midway, IL …',
    price_ranges: [{ start: '0.0000', end: '1.0000', step: '0.0100' }],
    ...change,
  });

describe('a market of the venue', () => {
  it('is read with its station, day, bracket and prices', () => {
    const market = toMarket(wire());
    expect(market).toMatchObject({
      station: { id: 'KMDW' },
      date: '2026-07-04',
      bracket: { kind: 'between', floor: 88, cap: 89 },
      yesBid: 42n * CENT,
      yesAsk: 45n * CENT,
      volume: 120.5,
      settlementValue: null,
      settledTemperature: null,
    });
  });

  it('has no price where nobody bids or asks', () => {
    const empty = toMarket(
      wire({ yes_bid_dollars: '0.0000', yes_ask_dollars: '1.0000', last_price_dollars: '0.0000' }),
    );
    expect([empty.yesBid, empty.yesAsk, empty.lastPrice]).toEqual([null, null, null]);
  });

  it.each([
    ['another station in its rules', { rules_primary: 'recorded at Chicago O’Hare' }],
    ['a day that it does not close with', { close_time: '2026-07-06T06:00:00Z' }],
    ['a close after the end of its day', { close_time: '2026-07-05T06:00:01Z' }],
    ['a series without a known station', { event_ticker: 'KXHIGHTOKYO-26JUL04' }],
    ['an event that is no day', { event_ticker: 'KXHIGHCHI-26JUN31' }],
    ['a bracket in doubt', { floor_strike: 87 }],
    ['more than two outcomes', { market_type: 'scalar' }],
  ])('is not used with %s', (_what, change) => {
    expect(() => toMarket(wire(change))).toThrow(UnusableMarketError);
  });

  it.each([
    ['a price field has another name', { yes_bid_dollars: undefined }],
    ['prices are whole cents', { yes_bid_dollars: 42 }],
    ['a count is no number', { volume_fp: 'many' }],
    ['the status is a new word', { status: 'paused' }],
    ['there are no price ranges', { price_ranges: [] }],
  ])('is not read at all where %s', (_what, change) => {
    expect(() => wire(change)).toThrow();
  });

  it('may close before the end of its day, as it did by the clock of New York, but not the day before', () => {
    const august = { event_ticker: 'HIGHCHI-24AUG16', ticker: 'HIGHCHI-24AUG16-B88.5' };
    expect(toMarket(wire({ ...august, close_time: '2024-08-17T03:59:00Z' })).date).toBe('2024-08-16');
    expect(() => toMarket(wire({ ...august, close_time: '2024-08-16T23:59:00Z' }))).toThrow(
      UnusableMarketError,
    );
  });

  it('pays what the venue says, as soon as it says so and not before', () => {
    const value = (change: object) => toMarket(wire(change)).settlementValue;
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
  ])('its report %j is %s degrees', (text, degrees) => {
    expect(toMarket(wire({ expiration_value: text })).settledTemperature).toBe(degrees);
  });

  it('takes orders at its ticks only, which may differ along the dollar', () => {
    const tapered = [
      { start: 0n, end: 10n * CENT, step: CENT / 10n },
      { start: 10n * CENT, end: 90n * CENT, step: CENT },
    ];
    const prices = ['0.0010', '0.0015', '0.1000', '0.1050', '0.5600', '0.9100'].map(parseDollars);
    expect(prices.map((price) => isOnTick(tapered, price))).toEqual([true, false, true, false, true, false]);
  });
});

it('an order book keeps hundredths of contracts, best bids first', () => {
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

const recorded = (series: string) =>
  new URL(`../../../shared/data/kalshi/events_${series}.jsonl.gz`, import.meta.url);

describe.skipIf(!existsSync(recorded('KXHIGHNY')))('markets as they were recorded', () => {
  it.each(['KXHIGHNY', 'KXHIGHCHI', 'KXHIGHMIA'])(
    '%s: every one is read, and the report agrees with what was paid',
    (series) => {
      for (const line of gunzipSync(readFileSync(recorded(series)))
        .toString()
        .trim()
        .split('\n')) {
        const { markets } = JSON.parse(line) as { markets: unknown[] };
        const read = markets.map((market) => toMarket(kalshiMarketSchema.parse(market)));
        const temperature = read.find((market) => market.settledTemperature !== null)?.settledTemperature;
        for (const { ticker, bracket, settlementValue } of read) {
          if (temperature == null || settlementValue === null) continue;
          expect(settlementValue === parseDollars('1'), ticker).toBe(bracketPays(bracket, temperature));
        }
      }
    },
  );
});
