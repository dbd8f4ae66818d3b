import fc from 'fast-check';
import { beforeEach, describe, expect, it } from 'vitest';
import '../../support/property-seed.js';
import { createMinuteBook, degreesOf, type MemberReading } from '../../../src/markets/weather/minutes.js';
import { groupKnownWeather, type ObservedExtreme } from '../../../src/markets/weather/weather.js';

const MINUTE = 60_000;
const dayStart = Date.parse('2026-08-29T08:00:00Z');
/** Local standard time in Los Angeles. */
const at = (time: string) => new Date(Date.parse(`2026-08-29T${time}:00Z`) + 8 * 60 * MINUTE);
const later = (from: Date, minutes: number) => new Date(from.getTime() + minutes * MINUTE);
const inF = (celsius: number) => Math.round((celsius * 1.8 + 32) * 10) / 10;
const reading = (time: Date, celsius: number, code = 'ok', stationId = 'KLAX'): MemberReading => ({
  stationId,
  at: time,
  temperatureF: inF(celsius),
  code,
});
const hours = (upTo: number, temperatureF: number) =>
  Array.from({ length: 24 }, (_, hour) => (hour <= upTo ? temperatureF : null));
const observed = (more: Partial<ObservedExtreme> = {}): ObservedExtreme => ({
  kind: 'daily_maximum',
  stationId: 'KLAX',
  date: '2026-08-29',
  extremeF: 84.9,
  observedAt: at('10:53'),
  fetchedAt: at('10:56'),
  hoursF: hours(11, 84.9),
  ...more,
});

let book: ReturnType<typeof createMinuteBook>;
beforeEach(() => {
  book = createMinuteBook();
});
const take = (now: Date, ...readings: MemberReading[]) => book.take(readings, now.getTime());
const boundAt = (now: Date, of = observed()) => book.addTo(of, now.getTime()).minutes;

describe('whole °C', () => {
  it.each([
    [31, 87, 88],
    [29, 84, 85],
    [30, 86, 86],
    [25, 77, 77],
    [0, 32, 32],
    [-40, -40, -40],
    [-1, 30, 31],
  ])('%d °C is shown for %d to %d °F', (celsius, lowestF, highestF) => {
    expect(degreesOf(celsius)).toEqual({ lowestF, highestF });
  });

  it('are shown for exactly those whole °F that round to them', () => {
    fc.assert(
      fc.property(fc.integer({ min: -80, max: 140 }), (degree) => {
        const { lowestF, highestF } = degreesOf(Math.round((degree - 32) / 1.8));
        expect(lowestF <= degree && degree <= highestF).toBe(true);
        expect(highestF - lowestF).toBeLessThanOrEqual(1);
      }),
    );
  });
});

describe('the level of recent minutes', () => {
  /** From 8:00 on, 1 °C more each half hour, as whole °C. */
  const rising = (until: string) =>
    Array.from({ length: (at(until).getTime() - at('08:00').getTime()) / MINUTE + 1 }, (_, i) =>
      reading(later(at('08:00'), i), 24 + Math.round(i / 30)),
    );
  const levelAt = (time: string, readings = rising(time)) => {
    take(later(at(time), 2), ...readings);
    return boundAt(later(at(time), 2), observed({ hoursF: hours(11, 86) }))?.level;
  };

  it('follows the temperature after the latest report', () => {
    const level = levelAt('11:30')!;
    expect(level.afterHours).toBe(0.5);
    for (const [i, celsius] of [27, 29, 31].entries())
      expect(Math.abs(level.recentF[i]! - (celsius * 1.8 + 32))).toBeLessThan(0.8);
  });

  it('begins four minutes after a report at 10:53, at first a little before the latest minute', () => {
    expect(levelAt('10:56')).toBeUndefined();
    for (const [time, afterMinutes] of [
      ['10:57', -9],
      ['11:07', 1],
      ['11:08', 8],
      ['12:15', 75],
    ] as const)
      expect(levelAt(time)!.afterHours).toBeCloseTo(afterMinutes / 60, 9);
    expect(levelAt('12:16')).toBeUndefined();
  });

  it('needs ten readings around each of its three times', () => {
    const since = (time: string) => rising('11:30').filter((each) => each.at >= at(time));
    expect(levelAt('11:30', since('09:31'))?.afterHours).toBe(0.5);
    book = createMinuteBook();
    expect(levelAt('11:30', since('09:32'))).toBeUndefined();
  });
});

describe('the bound of one-minute readings', () => {
  const peak = at('11:31');

  it('rises with a pending reading near the minute before and the latest report', () => {
    take(at('11:32'), reading(at('11:29'), 29), reading(at('11:30'), 30, 'pending'));
    expect(boundAt(at('11:33'))).toEqual({ lowestF: 86, highestF: 86, at: at('11:30'), count: 1 });
    take(later(peak, 3), reading(peak, 31, 'pending'));
    expect(boundAt(later(peak, 3))).toEqual({ lowestF: 87, highestF: 88, at: peak, count: 1 });
  });

  it('stays with the peak that lasted one minute, and with the extreme of reports', () => {
    take(at('11:40'), reading(at('11:30'), 30), reading(peak, 31), reading(at('11:32'), 29));
    expect(boundAt(at('11:40'))).toMatchObject({ lowestF: 87, at: peak });
    expect(book.addTo(observed(), at('11:40').getTime()).extremeF).toBe(84.9);
  });

  it('counts the minutes at the extreme reading', () => {
    take(
      at('11:40'),
      reading(at('11:30'), 30),
      reading(peak, 31),
      reading(at('11:32'), 31),
      reading(at('11:33'), 29),
    );
    expect(boundAt(at('11:40'))).toMatchObject({ lowestF: 87, at: peak, count: 2 });
  });

  it('of a minimum falls', () => {
    const low = observed({ kind: 'daily_minimum', extremeF: 84.9 });
    take(at('11:40'), reading(at('11:30'), 30), reading(peak, 28), reading(at('11:32'), 29));
    expect(boundAt(at('11:40'), low)).toEqual({ lowestF: 82, highestF: 83, at: peak, count: 1 });
  });

  it.each<[string, MemberReading, number]>([
    ['the minute before', reading(at('11:30'), 28), 31],
    ['the latest report', reading(at('11:30'), 31, 'pending'), 32],
    ['a minute before that is missing', reading(at('11:28'), 30), 31],
  ])('waits for the quality control of a reading far from %s', (_, before, celsius) => {
    take(at('11:33'), reading(at('11:20'), 29), before, reading(peak, celsius, 'pending'));
    expect(boundAt(at('11:34'))?.at).not.toEqual(peak);
    take(at('11:36'), reading(peak, celsius));
    expect(boundAt(at('11:36'))).toMatchObject({ ...degreesOf(celsius), at: peak });
  });

  it.each([
    ['rejected', { ...reading(peak, 31), code: 'rate_spatial' }],
    ['withdrawn', { ...reading(peak, 31), temperatureF: null, code: 'missing' }],
  ])('falls again if its reading is %s', (_, withdrawn) => {
    take(at('11:33'), reading(at('11:30'), 30), reading(peak, 31, 'pending'));
    expect(boundAt(at('11:34'))).toMatchObject({ lowestF: 87 });
    take(at('11:37'), withdrawn);
    expect(boundAt(at('11:37'))).toEqual({ lowestF: 86, highestF: 86, at: at('11:30'), count: 1 });
  });

  it.each<[string, MemberReading[]]>([
    ['in the future', [reading(at('11:50'), 31)]],
    ['of the day before', [reading(new Date(dayStart - MINUTE), 40)]],
    ['with two values for one minute', [reading(peak, 31), reading(peak, 30)]],
    ['that is no whole °C', [{ ...reading(peak, 31), temperatureF: 87.1 }]],
    ['of another station', [reading(peak, 31, 'ok', 'KMDW')]],
  ])('ignores readings %s', (_, odd) => {
    take(at('11:40'), reading(at('11:30'), 29), ...odd);
    expect(boundAt(at('11:40'))).toEqual({ lowestF: 84, highestF: 85, at: at('11:30'), count: 1 });
  });

  it('does not depend on the order of minutes, and takes a batch that is 20 minutes late', () => {
    take(at('11:40'), reading(at('11:32'), 29), reading(peak, 31), reading(at('11:30'), 30));
    expect(boundAt(at('11:40'))).toMatchObject({ at: peak });
    take(at('12:12'), reading(at('11:52'), 32));
    expect(boundAt(at('12:12'), observed({ hoursF: hours(12, 86) }))).toMatchObject({ at: at('11:52') });
  });

  it('is left out, with the reason, while the feed has stopped or contradicts the hourly report', () => {
    take(at('11:40'), reading(at('10:58'), 29), reading(peak, 31));
    const feed = (now: Date, of = observed()) => book.feedOf('KLAX', of, now.getTime())!;
    expect(feed(at('11:40'))).toMatchObject({ problem: null, latestAt: peak });
    expect(boundAt(at('11:52'))).toBeUndefined();
    expect(feed(at('11:52')).problem).toMatch('its last reading is of 2026-08-29T19:31');
    const cooler = observed({ hoursF: hours(11, 77) });
    expect(boundAt(at('11:40'), cooler)).toBeUndefined();
    expect(feed(at('11:40'), cooler).problem).toMatch('contradicts the report of 2026-08-29T19:00');
  });

  it('of a station that has left the index is forgotten', () => {
    take(at('11:40'), reading(peak, 31));
    book.keepOnly(new Set(['KMDW']));
    expect(boundAt(at('11:40'))).toBeUndefined();
    expect(book.feedOf('KLAX', observed(), at('11:40').getTime())).toBeNull();
  });

  it('needs a report of the day, and adds nothing to a final one', () => {
    take(at('11:40'), reading(peak, 31));
    expect(boundAt(at('11:40'), observed({ hoursF: hours(-1, 0) }))).toBeUndefined();
    expect(boundAt(at('11:40'), observed({ isFinal: true }))).toBeUndefined();
  });

  it('outlasts the merger with another service’s reports, and readings are kept for two days', () => {
    take(at('11:40'), reading(peak, 31));
    const withBound = book.addTo(observed(), at('11:40').getTime());
    const other = observed({ extremeF: 85.1, observedAt: at('11:35'), fetchedAt: at('11:36') });
    delete (other as Partial<ObservedExtreme>).hoursF;
    const weather = { fetchedAt: at('11:40'), ensembles: [], observed: [withBound, other] };
    const [merged] = [...groupKnownWeather(weather, at('11:41')).observed.values()];
    expect(merged).toMatchObject({ extremeF: 85.1, minutes: { lowestF: 87 } });
    book.take([], peak.getTime() + 48 * 60 * MINUTE + 1);
    expect(book.feedOf('KLAX', null, peak.getTime())!.changes).toEqual([]);
  });

  it('is shown with one line for each change of temperature', () => {
    take(
      at('11:40'),
      reading(at('11:28'), 29),
      reading(at('11:29'), 29),
      reading(at('11:30'), 30, 'pending'),
    );
    expect(book.feedOf('KLAX', observed(), at('11:40').getTime())!.changes).toEqual([
      { at: at('11:28'), lowestF: 84, highestF: 85, isConfirmed: true },
      { at: at('11:30'), lowestF: 86, highestF: 86, isConfirmed: false },
    ]);
  });
});
