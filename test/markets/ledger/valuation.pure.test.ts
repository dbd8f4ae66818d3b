import { describe, expect, it } from 'vitest';
import { toLevels, type OrderBook } from '../../../src/markets/market/book.js';
import type { Market } from '../../../src/markets/market/market.js';
import { formatDollars, parseDollars } from '../../../src/markets/market/money.js';
import { nameMarket } from '../../../src/markets/market/market-name.js';
import {
  eventOutcomes,
  markPosition,
  sumKnown,
  type HeldBracket,
  type Quotes,
} from '../../../src/markets/ledger/valuation.js';
import type { FeeRule } from '../../../src/markets/market/fees.js';
import { findStation } from '../../../src/markets/market/stations.js';

const feeRule: FeeRule = { type: 'quadratic', multiplier: 1_000_000n };
const bids = (...levels: [price: string, contracts: number][]) =>
  toLevels(levels.map(([price, contracts]) => ({ price: parseDollars(price), contracts })));
const active = (book: OrderBook): Quotes => ({
  market: { status: 'active', settlementValue: null },
  book,
  feeRule,
  knownValue: null,
});
const dollars = (micros: bigint | null) => (micros === null ? null : formatDollars(micros));

describe('a position in an active market', () => {
  const book: OrderBook = { yes: bids(['0.56', 100], ['0.55', 50]), no: bids(['0.30', 4]) };

  // Fees are 0.07·C·P·(1−P), rounded up to a millionth per fill; the total proceeds are then rounded down to $0.0001.
  it.each([
    // 56.00 − 1.7248 = 54.2752
    { side: 'yes', contracts: 100, value: '54.2752', fees: '1.7248', unsellable: 0 },
    // 56.00 + 11.00 − 1.7248 − 0.3465 = 64.9287
    { side: 'yes', contracts: 120, value: '64.9287', fees: '2.0713', unsellable: 0 },
    // 56.00 + 27.50 − 1.7248 − 0.86625 = 80.90895; no bids are left for the other 50.
    { side: 'yes', contracts: 200, value: '80.9089', fees: '2.5911', unsellable: 50 },
    // 1.20 − 0.0588 = 1.1412
    { side: 'no', contracts: 10, value: '1.1412', fees: '0.0588', unsellable: 6 },
  ] as const)(
    'is worth the proceeds of selling $contracts $side into the book now, after fees',
    ({ side, contracts, value, fees, unsellable }) => {
      const mark = markPosition({ side, contracts }, active(book));
      expect({ ...mark, value: dollars(mark.value), fees: dollars(mark.fees) }).toEqual({
        valuation: 'book',
        value,
        fees,
        unsellableContracts: unsellable,
        status: 'active',
      });
    },
  );

  it.each([
    // 0.01 − 0.000693 = 0.009307
    [1, '0.0093'],
    // 0.03 − 0.002079 = 0.027921
    [3, '0.0279'],
    // 0.0001 − 0.000007: the proceeds of a hundredth of a contract round down to nothing.
    [0.01, '0.0000'],
  ])('rounds the proceeds of %d contracts at a cent each down to $0.0001', (contracts, value) => {
    const quotes = active({ yes: bids(['0.01', 5]), no: [] });
    expect(dollars(markPosition({ side: 'yes', contracts }, quotes).value)).toBe(value);
  });

  it.each([
    ['it has no bids', active({ yes: [], no: [] })],
    ['it has no book', { ...active(book), book: undefined }],
    ['its fee is unknown', { ...active(book), feeRule: undefined }],
    ['its fee cannot be computed', { ...active(book), feeRule: { ...feeRule, type: 'flat' as const } }],
  ])('is worth nothing while %s', (_why, quotes) => {
    expect(markPosition({ side: 'yes', contracts: 7 }, quotes)).toEqual({
      valuation: 'book',
      value: 0n,
      fees: 0n,
      unsellableContracts: 7,
      status: 'active',
    });
  });
});

describe('a position in a closed market', () => {
  const ended = (status: Market['status'], value: string | null): Quotes => ({
    market: { status, settlementValue: value === null ? null : parseDollars(value) },
    book: { yes: bids(['0.50', 100]), no: bids(['0.50', 100]) },
    feeRule,
    knownValue: null,
  });

  it.each([
    ['determined', '1.00', 'yes', '7.0000'],
    ['determined', '1.00', 'no', '0.0000'],
    ['amended', '0.00', 'no', '7.0000'],
    ['disputed', '0.40', 'no', '4.2000'],
    ['finalized', '1.00', 'yes', '7.0000'],
  ] as const)('%s at %s is valued at the payout of 7 %s', (status, value, side, expected) => {
    const mark = markPosition({ side, contracts: 7 }, ended(status, value));
    expect([mark.valuation, dollars(mark.value), mark.unsellableContracts]).toEqual([
      'expected',
      expected,
      0,
    ]);
  });

  it('is worth nothing until there is a result, even if its book still has bids', () => {
    expect(markPosition({ side: 'yes', contracts: 7 }, ended('closed', null))).toMatchObject({
      valuation: 'closed',
      value: 0n,
      unsellableContracts: 7,
      status: 'closed',
    });
  });

  it('is worth its last known payout once unlisted, or nothing if there was none', () => {
    const gone: Quotes = { market: undefined, book: undefined, feeRule: undefined, knownValue: null };
    expect(markPosition({ side: 'no', contracts: 3 }, { ...gone, knownValue: 0n })).toMatchObject({
      valuation: 'expected',
      value: 3_000_000n,
    });
    expect(markPosition({ side: 'no', contracts: 3 }, gone)).toMatchObject({
      valuation: 'not_listed',
      value: 0n,
      unsellableContracts: 3,
    });
  });
});

it('has no value without market data, and neither does the total', () => {
  const mark = markPosition({ side: 'yes', contracts: 3 }, undefined);
  expect([mark.valuation, mark.value, mark.unsellableContracts]).toEqual(['unknown', null, 0]);
  expect(sumKnown([1n, null, 2n])).toBeNull();
  expect([sumKnown([1n, 2n]), sumKnown([])]).toEqual([3n, 0n]);
});

describe('the outcomes of an event', () => {
  const station = findStation('KNYC')!;
  const ladder = {
    kind: 'daily_maximum' as const,
    markets: [
      { ticker: 'A', bracket: { kind: 'less', floor: null, cap: 60 } },
      { ticker: 'B', bracket: { kind: 'between', floor: 60, cap: 61 } },
      { ticker: 'C', bracket: { kind: 'greater', floor: 61, cap: null } },
    ].map((market) => ({ ...market, station, date: '2026-11-21' })) as unknown as Market[],
  };
  const held = (ticker: string, side: 'yes' | 'no', contracts: number, cost: string): HeldBracket => ({
    ticker,
    side,
    contracts,
    cost: parseDollars(cost),
  });
  const read = (positions: HeldBracket[], event?: typeof ladder) => {
    const { outcomes, worstCase, bestCase } = eventOutcomes('KXHIGHNY-26NOV21', positions, event);
    return {
      outcomes: Object.fromEntries(outcomes.map(({ ticker, result }) => [String(ticker), dollars(result)])),
      worst: dollars(worstCase),
      best: dollars(bestCase),
    };
  };

  it('net YES of one bracket with NO of another', () => {
    // The cost is 5.00. If A wins, 10 + 5 are paid; if B wins, nothing; if C wins, 5 for the NO contracts on B.
    expect(read([held('A', 'yes', 10, '3.00'), held('B', 'no', 5, '2.00')], ladder)).toEqual({
      outcomes: { A: '10.0000', B: '-5.0000', C: '0.0000' },
      worst: '-5.0000',
      best: '10.0000',
    });
  });

  it('let at most one of several NO positions lose', () => {
    // Cost 13.00. At least one of the two pays 10.00, so the most that can be lost is 3.00, not 13.00.
    expect(read([held('A', 'no', 10, '7.00'), held('B', 'no', 10, '6.00')], ladder)).toEqual({
      outcomes: { A: '-3.0000', B: '-3.0000', C: '7.0000' },
      worst: '-3.0000',
      best: '7.0000',
    });
  });

  it('include no loss for a whole ladder', () => {
    const positions = ['A', 'B', 'C'].map((ticker) => held(ticker, 'yes', 1, '0.30'));
    expect(read(positions, ladder)).toMatchObject({ worst: '0.1000', best: '0.1000' });
  });

  it('include an unknown bracket if the ladder is unlisted or has a gap', () => {
    const positions = [held('A', 'yes', 4, '1.00'), held('C', 'no', 2, '1.50')];
    const expected = {
      outcomes: { A: '3.5000', C: '-2.5000', null: '-0.5000' },
      worst: '-2.5000',
      best: '3.5000',
    };
    expect(read(positions)).toEqual(expected);
    const torn = { ...ladder, markets: ladder.markets.filter(({ ticker }) => ticker !== 'B') };
    expect(read(positions, torn)).toEqual(expected);
  });

  it('are only the worst and the best if the relation between the markets is unknown', () => {
    const positions = [held('A', 'yes', 4, '1.00'), held('B', 'no', 2, '1.50')];
    const { outcomes, worstCase, bestCase } = eventOutcomes('KXTEMPNYCHS-26SEP1312', positions, undefined);
    // Either all six contracts pay or none do.
    expect(outcomes.map(({ ticker, payout, result }) => [ticker, dollars(payout), dollars(result)])).toEqual([
      [null, '0.0000', '-2.5000'],
      [null, '6.0000', '3.5000'],
    ]);
    expect([dollars(worstCase), dollars(bestCase)]).toEqual(['-2.5000', '3.5000']);
  });
});

describe('the name of an unlisted market', () => {
  it.each([
    ['KXHIGHNY-26NOV21-B84.5', undefined, 'KNYC', '2026-11-21', '84° to 85°'],
    ['KXHIGHNY-26NOV21-B-3.5', undefined, 'KNYC', '2026-11-21', '-4° to -3°'],
    ['HIGHMIA-24AUG16-T84', undefined, 'KMIA', '2024-08-16', 'T84'],
    ['KXHIGHNY-26NOV21-T84', null, 'KNYC', '2026-11-21', 'T84'],
    ['KXHIGHNY-26NOV21-T84', '83° or below', 'KNYC', '2026-11-21', '83° or below'],
    ['KXHIGHNY-26NOV21-T84', '85° or above', 'KNYC', '2026-11-21', '85° or above'],
    ['SOMETHING', undefined, undefined, null, 'SOMETHING'],
  ])('%s comes from its ticker and its order’s label', (ticker, known, station, date, label) => {
    const name = nameMarket(ticker, undefined, known);
    expect([name.station?.id, name.date, name.label]).toEqual([station, date, label]);
  });
});
