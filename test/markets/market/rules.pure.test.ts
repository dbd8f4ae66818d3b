import { existsSync, readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  bracketLabel,
  bracketPays,
  bracketRange,
  isWholeLadder,
  parseBracket,
  type Bracket,
} from '../../../src/markets/market/brackets.js';
import { climateDayAt, climateDayOf, clockAt, hourOf } from '../../../src/markets/market/climate-day.js';
import { readTemperatureRules } from '../../../src/markets/market/rules.js';
import {
  findStation,
  findSeries,
  findStationOfPlace,
  findStationOfReport,
  stations,
} from '../../../src/markets/market/stations.js';

const less = (cap: number): Bracket => ({ kind: 'less', floor: null, cap });
const between = (floor: number, cap: number): Bracket => ({ kind: 'between', floor, cap });
const greater = (floor: number): Bracket => ({ kind: 'greater', floor, cap: null });

describe('a bracket', () => {
  it('includes both ends, and is strict at the tails', () => {
    expect([82, 83, 84].map((t) => bracketPays(less(84), t))).toEqual([true, true, false]);
    expect([83, 84, 85, 86].map((t) => bracketPays(between(84, 85), t))).toEqual([false, true, true, false]);
    expect([90, 91, 92].map((t) => bracketPays(greater(91), t))).toEqual([false, false, true]);
  });

  it('pays exactly within its range', () => {
    const bracket = fc.oneof(
      fc.integer({ min: -50, max: 130 }).map(less),
      fc.integer({ min: -50, max: 130 }).map(greater),
      fc
        .tuple(fc.integer({ min: -50, max: 130 }), fc.nat(5))
        .map(([floor, width]) => between(floor, floor + width)),
    );
    fc.assert(
      fc.property(bracket, fc.integer({ min: -60, max: 140 }), (b, t) => {
        const { lowest, highest } = bracketRange(b);
        expect(bracketPays(b, t)).toBe((lowest ?? -Infinity) <= t && t <= (highest ?? Infinity));
      }),
    );
  });

  it.each([
    [less(84), '83° or below', 'X-T84'],
    [between(84, 85), '84° to 85°', 'X-B84.5'],
    [greater(91), '92° or above', 'X-T91'],
    [between(-2, -1), '-2° to -1°', 'X-B-1.5'],
  ])('%j is parsed from its fields, from its label, and from both', (bracket, label, ticker) => {
    expect(bracketLabel(bracket)).toBe(label);
    const strikes = {
      strikeType: bracket.kind,
      floorStrike: bracket.floor ?? undefined,
      capStrike: bracket.cap ?? undefined,
    };
    expect(parseBracket({ ticker, label, ...strikes })).toEqual(bracket);
    expect(parseBracket({ ticker, label })).toEqual(bracket);
    expect(parseBracket({ ticker, label: 'renamed', ...strikes })).toEqual(bracket);
  });

  it('is unknown if its sources contradict each other or are missing', () => {
    const good = {
      ticker: 'X-B84.5',
      label: '84° to 85°',
      strikeType: 'between',
      floorStrike: 84,
      capStrike: 85,
    };
    expect(parseBracket(good)).toBeDefined();
    for (const change of [
      { ticker: 'X-B86.5' },
      { ticker: 'X-T84' },
      { ticker: 'X' },
      { label: '85° to 86°' },
      { label: '84° or above' },
      { capStrike: 86 },
      { floorStrike: 84.5, label: '' },
      { strikeType: 'functional', label: '' },
    ])
      expect(parseBracket({ ...good, ...change }), JSON.stringify(change)).toBeUndefined();
  });
});

describe('a ladder', () => {
  const ladder = [less(84), between(84, 85), between(86, 87), greater(87)];

  it('is whole in any order', () => {
    expect(isWholeLadder(ladder)).toBe(true);
    expect(isWholeLadder(ladder.toReversed())).toBe(true);
  });

  it('is not whole with a gap, an overlap or a missing end', () => {
    expect(isWholeLadder([])).toBe(false);
    for (const i of ladder.keys()) expect(isWholeLadder(ladder.toSpliced(i, 1))).toBe(false);
    expect(isWholeLadder([less(85), ...ladder.slice(1)])).toBe(false);
    expect(isWholeLadder([...ladder, between(84, 85)])).toBe(false);
    // A tail that was parsed as if it included its strike.
    expect(isWholeLadder([...ladder.slice(0, 3), greater(86)])).toBe(false);
  });

  it('has exactly one winner at any temperature if it is whole', () => {
    fc.assert(
      fc.property(fc.integer({ min: -80, max: 150 }), (t) => {
        expect(ladder.filter((bracket) => bracketPays(bracket, t))).toHaveLength(1);
      }),
    );
  });
});

describe('a climate day', () => {
  const newYork = findStation('KNYC')!;

  it('runs midnight to midnight in standard time, in summer 1:00 to 1:00 by the clock', () => {
    const summer = climateDayOf(newYork, '2026-07-04');
    expect([summer.start, summer.end].map((at) => at.toISOString())).toEqual([
      '2026-07-04T05:00:00.000Z',
      '2026-07-05T05:00:00.000Z',
    ]);
    expect(climateDayAt(newYork, new Date('2026-07-05T04:59:59.999Z')).date).toBe('2026-07-04');
    expect(climateDayAt(newYork, new Date('2026-07-05T05:00:00Z')).date).toBe('2026-07-05');
  });

  it('lasts 24 hours when the clocks change', () => {
    for (const date of ['2026-03-08', '2026-11-01']) {
      const { start, end } = climateDayOf(newYork, date);
      expect(end.getTime() - start.getTime()).toBe(86_400_000);
    }
  });

  it('contains each of its moments at every station', () => {
    const moment = fc.date({ min: new Date('2020-01-01'), max: new Date('2035-01-01'), noInvalidDate: true });
    fc.assert(
      fc.property(fc.constantFrom(...stations), moment, (station, at) => {
        const { start, end, date } = climateDayAt(station, at);
        expect(start.getTime() <= at.getTime() && at.getTime() < end.getTime()).toBe(true);
        expect(climateDayOf(station, date)).toEqual({ date, start, end });
      }),
    );
  });

  it('rejects a text that is not a date', () => {
    for (const text of ['2026-13-01', '2026-7-4', 'today', ''])
      expect(() => climateDayOf(newYork, text)).toThrow(RangeError);
  });
});

describe('the stations', () => {
  it('are found by id, report, city and series, present and former', () => {
    expect(findSeries('KXHIGHCHI')).toMatchObject({ station: { id: 'KMDW' }, kind: 'daily_maximum' });
    expect(findSeries('KXLOWTDC')).toMatchObject({ station: { id: 'KDCA' }, kind: 'daily_minimum' });
    expect(findSeries('HIGHNY')?.station.id).toBe('KNYC');
    expect(findSeries('KXHIGHTOKYO')).toBeUndefined();
    expect(findStationOfReport('CLIHOU')?.id).toBe('KHOU');
    expect(findStationOfReport('CLIORD')).toBeUndefined();
    expect(findStation('KORD')).toBeUndefined();
    expect(new Set(stations.map(({ id }) => id)).size).toBe(24);
    expect(new Set(stations.flatMap(({ series }) => [series.maximum, series.minimum])).size).toBe(48);
  });

  it('do not match the rules of another place', () => {
    expect(findStationOfPlace('Austin Bergstrom International Airport')?.id).toBe('KAUS');
    expect(findStationOfPlace('Camp Mabry, Austin')).toBeUndefined();
  });

  it.each(stations.map((station) => [station.id, station] as const))(
    '%s keeps its standard time',
    (_id, station) => {
      const january = new Date('2026-01-15T12:00:00Z');
      const { hour } = clockAt(station, january);
      expect((hour - 12 + 24) % 24 === (station.standardOffsetHours + 24) % 24).toBe(true);
    },
  );

  it('have hours by the local clock, also in summer and on days when clocks change', () => {
    const miami = findStation('KMIA')!;
    expect(hourOf(miami, '2026-09-13', 12).toISOString()).toBe('2026-09-13T16:00:00.000Z');
    expect(hourOf(miami, '2026-12-13', 12).toISOString()).toBe('2026-12-13T17:00:00.000Z');
    expect(hourOf(miami, '2026-11-01', 12).toISOString()).toBe('2026-11-01T17:00:00.000Z');
    expect(hourOf(miami, '2026-11-01', 0).toISOString()).toBe('2026-11-01T04:00:00.000Z');
    for (const hour of [0, 5, 12, 23])
      expect(clockAt(miami, hourOf(miami, '2026-07-04', hour)).hour).toBe(hour);
  });
});

interface RecordedMarket {
  ticker: string;
  strike_type?: string;
  floor_strike?: number;
  cap_strike?: number;
  yes_sub_title: string;
  rules_primary: string;
  result: string;
  expiration_value: string;
  close_time: string;
}

const recorded = (series: string) =>
  new URL(`../../../../shared/data/kalshi/events_${series}.jsonl.gz`, import.meta.url);

describe.skipIf(!existsSync(recorded('KXHIGHNY')))('recorded events', () => {
  it.each(['KXHIGHNY', 'KXHIGHCHI', 'KXHIGHMIA'])('%s: our rule picks the venue’s winner', (series) => {
    const { station } = findSeries(series)!;
    const lines = gunzipSync(readFileSync(recorded(series)))
      .toString()
      .trim()
      .split('\n');
    expect(lines).toHaveLength(266);
    let settled = 0;
    for (const line of lines) {
      const { markets } = JSON.parse(line) as { markets: RecordedMarket[] };
      const brackets = markets.map((market) => {
        const rules = readTemperatureRules(market.rules_primary);
        expect(findStationOfPlace(rules?.place ?? ''), market.ticker).toBe(station);
        const bracket = parseBracket({
          ticker: market.ticker,
          strikeType: market.strike_type,
          floorStrike: market.floor_strike,
          capStrike: market.cap_strike,
          label: market.yes_sub_title,
        });
        expect(bracket, market.ticker).toBeDefined();
        return bracket!;
      });
      expect(isWholeLadder(brackets), markets[0]!.ticker).toBe(true);
      const winner = markets.findIndex(({ result }) => result === 'yes');
      if (winner === -1) continue;
      settled++;
      // `parseFloat`, because one of the values is a sentence that starts with the number.
      const temperature = Number.parseFloat(markets[winner]!.expiration_value);
      const named = brackets.map((bracket) => bracketPays(bracket, temperature));
      expect(named, `${markets[winner]!.ticker} at ${temperature}`).toEqual(
        markets.map(({ result }) => result === 'yes'),
      );
    }
    // 14 of the 266 days had no winner yet when they were recorded.
    expect(settled).toBe(252);
  });
});
