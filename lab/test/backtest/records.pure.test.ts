import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import {
  bookOfTrades,
  bookWithTraces,
  readEvents,
  readObservations,
  type RecordedTrade,
} from '../../backtest/records.js';
import { finalOutcomes, groupEvents } from '../../../src/markets/market/event.js';
import { CENT } from '../../../src/markets/market/money.js';
import { wireMarket } from '../../../test/markets/support/fake-venue.js';

const MINUTE_MS = 60_000;

const trades = (...all: [takerSide: 'yes' | 'no', yesPrice: number, contracts: number][]): RecordedTrade[] =>
  all.map(([takerSide, yesPrice, contracts], i) => ({
    atMs: (i + 1) * MINUTE_MS,
    takerSide,
    yesPrice,
    contracts,
  }));
const bookOf = (...all: Parameters<typeof trades>) => bookOfTrades(trades(...all), 0, 10 * MINUTE_MS);
const levels = (...all: [cents: number, contracts: number][]) =>
  all.map(([cents, contracts]) => ({ price: BigInt(cents) * CENT, contracts }));

describe('the book implied by trades', () => {
  it('has asks where YES was bought, and bids where NO was bought', () => {
    expect(bookOf(['yes', 32, 50], ['no', 29, 20], ['yes', 32, 5], ['yes', 31, 7])).toEqual({
      yes: levels([29, 20]),
      no: levels([69, 7], [68, 55]),
    });
  });

  it('drops prices that a later trade had to go beyond', () => {
    // A buyer who paid 50 proves that no ask was left at 30; a seller who got 20 proves that no bid was left at 28.
    expect(bookOf(['no', 28, 40], ['yes', 30, 100], ['yes', 50, 10], ['no', 20, 5])).toEqual({
      yes: levels([20, 5]),
      no: levels([50, 10]),
    });
  });

  it('ignores later trades and old ones', () => {
    const all = trades(['yes', 30, 1], ['yes', 30, 2], ['yes', 30, 4]);
    expect(bookOfTrades(all, MINUTE_MS, 2 * MINUTE_MS).no).toEqual(levels([70, 2]));
  });
});

describe('a side without trades for some minutes', () => {
  const all = trades(['no', 29, 20], ['yes', 32, 50], ['yes', 33, 5]);
  const window = (fromMinute: number) => ({
    fromMs: fromMinute * MINUTE_MS,
    traceMs: 0,
    toMs: 3 * MINUTE_MS,
  });

  it('remains as a trace of less than one contract', () => {
    expect(bookWithTraces(all, window(1))).toEqual({
      yes: levels([29, 0.01]),
      no: levels([67, 5]),
    });
    expect(bookWithTraces(all, window(0))).toEqual(bookOfTrades(all, 0, 3 * MINUTE_MS));
  });

  it('is dropped if it would cross later trades, or never traded', () => {
    const fallen = trades(['no', 40, 20], ['yes', 32, 50]);
    expect(bookWithTraces(fallen, window(1)).yes).toEqual([]);
    expect(bookWithTraces(all, window(3))).toEqual({ yes: [], no: [] });
  });
});

const folder = mkdtempSync(join(tmpdir(), 'gauge-records-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const write = (name: string, content: string): string => {
  writeFileSync(join(folder, name), content);
  return join(folder, name);
};

const ladder = [{ cap: 60 }, ...[60, 62, 64, 66].map((floor) => ({ floor, cap: floor + 1 })), { floor: 67 }];

describe('recorded events', () => {
  const event = (told: (isWinner: boolean) => string) =>
    JSON.stringify({
      markets: ladder.map((strike) => {
        const isWinner = 'floor' in strike && strike.floor === 62;
        return wireMarket('KXHIGHNY-25JAN16', strike, {
          open_time: '2025-01-15T15:00:00Z',
          close_time: '2025-01-17T04:59:00Z',
          status: 'finalized',
          result: isWinner ? 'yes' : 'no',
          expiration_value: told(isWinner),
        });
      }),
    });
  const outcomes = async (text: string) => {
    const { events } = await readEvents([write('events.jsonl', text)]);
    return finalOutcomes(groupEvents([...events.values()].flat())).map(({ temperatureF }) => temperatureF);
  };

  it('have the temperature that the venue states for the winner only', async () => {
    expect(await outcomes(event(() => '63'))).toEqual([63]);
    expect(await outcomes(event((isWinner) => (isWinner ? '63' : '')))).toEqual([63]);
  });

  it('have no temperature if none is stated or it contradicts the payout', async () => {
    expect(await outcomes(event(() => ''))).toEqual([]);
    expect(await outcomes(event((isWinner) => (isWinner ? '70' : '')))).toEqual([]);
  });
});

describe('fees of recorded events', () => {
  const line = (event: Record<string, unknown>) =>
    JSON.stringify({
      event,
      markets: [wireMarket('KXHIGHNY-25JAN16', { cap: 60 }, { close_time: '2025-01-17T04:59:00Z' })],
    });

  it.each([
    [{ fee_multiplier_override: 0.5 }, { type: 'quadratic', multiplier: 500_000n }],
    [
      { fee_type_override: 'quadratic_with_maker_fees' },
      { type: 'quadratic_with_maker_fees', multiplier: 1_000_000n },
    ],
    [{ fee_type_override: 'other' }, { type: 'unknown', multiplier: 1_000_000n }],
    [{}, undefined],
  ])('%o', async (event, rule) => {
    const { feeRules } = await readEvents([write('fees.jsonl', line(event))]);
    expect(feeRules.get('KXHIGHNY-25JAN16')).toEqual(rule);
  });
});

describe('recorded observations', () => {
  const header = 'station,observed_at,fetched_at,temperature_f';
  const good = 'KNYC,2025-01-16T12:51:00Z,2025-01-16T12:55:00Z,41.5';

  it('have the time at which they became known', async () => {
    expect(await readObservations(write('observations.csv', `${header}\n${good}`))).toEqual([
      {
        stationId: 'KNYC',
        observedAt: new Date('2025-01-16T12:51:00Z'),
        fetchedAt: new Date('2025-01-16T12:55:00Z'),
        temperatureF: 41.5,
      },
    ]);
  });

  it.each([
    ['KXXX,2025-01-16T12:51:00Z,2025-01-16T12:55:00Z,41.5', 'column station: no station'],
    ['KNYC,yesterday,2025-01-16T12:55:00Z,41.5', 'column observed_at'],
    ['KNYC,2025-01-16T12:51:00Z,2025-01-16T12:50:00Z,41.5', 'column fetched_at: before it was observed'],
    ['KNYC,2025-01-16T12:51:00Z,2025-01-16T12:55:00Z,-9999', 'column temperature_f: no temperature'],
    ['KNYC,2025-01-16T12:51:00Z,2025-01-16T12:55:00Z,', 'column temperature_f: not a number'],
  ])('%s is refused by line and column', async (line, why) => {
    const file = write('bad.csv', `${header}\n${good}\n${line}`);
    await expect(readObservations(file)).rejects.toThrow(`line 3, ${why}`);
  });
});
