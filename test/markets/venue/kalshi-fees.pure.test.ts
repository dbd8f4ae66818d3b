import { pino } from 'pino';
import { beforeEach, describe, expect, it } from 'vitest';
import type { z } from 'zod';
import { feeRuleOf } from '../../../src/markets/market/fees.js';
import { UnexpectedAnswerError, type KalshiClient } from '../../../src/markets/venue/kalshi-client.js';
import { createNoteBook } from '../../../src/markets/market/source.js';
import { createKalshiFees } from '../../../src/markets/venue/kalshi-fees.js';
import { createKalshiPauses, weeklyPause } from '../../../src/markets/venue/kalshi-pauses.js';
import type { KalshiSeries } from '../../../src/markets/venue/kalshi-schema.js';

const start = Date.parse('2026-10-07T12:00:00Z');
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const at = (ms: number) => new Date(ms).toISOString();

let now: number;
let asked: string[];
let answers: Record<string, unknown>;
let warnings: string[];
const clock = { now: () => now };
const log = pino({ level: 'warn' }, { write: (line: string) => void warnings.push(line) });
const { signal } = new AbortController();
const client: KalshiClient = {
  isSigned: false,
  clockSkewMs: undefined,
  get: <T extends z.ZodType>(path: string, _query: unknown, schema: T) => {
    asked.push(path);
    if (!(path in answers)) return Promise.reject(new UnexpectedAnswerError(path, 'status 404'));
    return Promise.resolve(schema.parse(answers[path]));
  },
};

/** The venue's list of series, which the service reads hourly. */
let series: KalshiSeries[];
const seriesOf = (ticker: string, fee_type: string, fee_multiplier: number): KalshiSeries => ({
  ticker,
  fee_type,
  fee_multiplier,
});
const catalogue = () => ({ series, readAtMs: now - ((now - start) % HOUR) });

beforeEach(() => {
  now = start;
  [asked, warnings] = [[], []];
  series = [seriesOf('KXHIGHNY', 'quadratic', 1), seriesOf('KXHIGHCHI', 'quadratic_with_maker_fees', 0.5)];
  answers = {
    '/series/fee_changes': { series_fee_change_arr: [] },
    '/events/fee_changes': { event_fee_changes: [], cursor: '' },
  };
});

describe('the venue’s fees', () => {
  const day = { eventTicker: 'KXHIGHNY-26OCT08', seriesTicker: 'KXHIGHNY' };
  const seriesChange = (change: Record<string, unknown>) => ({
    series_fee_change_arr: [
      { id: '1', series_ticker: 'KXHIGHNY', fee_type: 'quadratic', fee_multiplier: 2, ...change },
    ],
  });
  const eventChange = (type: string | null, multiplier: number | null, ms: number) => ({
    id: String(ms),
    event_ticker: day.eventTicker,
    series_ticker: 'KXHIGHNY',
    fee_type_override: type,
    fee_multiplier_override: multiplier,
    scheduled_ts: at(ms),
  });
  const ruleOf = async (fees: ReturnType<typeof createKalshiFees>, market = day) =>
    feeRuleOf({ feeRules: await fees.read(catalogue(), signal) }, market);
  const create = (notes = createNoteBook()) => createKalshiFees({ client, clock, notes: () => notes, log });

  it('are those of the series', async () => {
    expect([...(await create().read(catalogue(), signal))]).toEqual([
      ['KXHIGHNY', { type: 'quadratic', multiplier: 1_000_000n }],
      ['KXHIGHCHI', { type: 'quadratic_with_maker_fees', multiplier: 500_000n }],
    ]);
  });

  it('change at the announced time, not when the series is read again', async () => {
    answers['/series/fee_changes'] = seriesChange({ scheduled_ts: at(start + 10 * MINUTE) });
    const fees = create();
    expect(await ruleOf(fees)).toMatchObject({ multiplier: 1_000_000n });
    now = start + 10 * MINUTE - 1;
    expect(await ruleOf(fees)).toMatchObject({ multiplier: 1_000_000n });
    // Changes that have taken effect are removed from the list.
    answers['/series/fee_changes'] = { series_fee_change_arr: [] };
    now = start + 10 * MINUTE;
    expect(await ruleOf(fees)).toMatchObject({ multiplier: 2_000_000n });
    now = start + 55 * MINUTE;
    expect(await ruleOf(fees)).toMatchObject({ multiplier: 2_000_000n });
    // After an hour the list of series is read again, and the series' own fee applies, regardless of any announcement.
    now = start + 61 * MINUTE;
    expect(await ruleOf(fees)).toMatchObject({ multiplier: 1_000_000n });
  });

  it('do not change if an announced change is called off', async () => {
    answers['/series/fee_changes'] = seriesChange({ scheduled_ts: at(start + 20 * MINUTE) });
    const fees = create();
    await ruleOf(fees);
    answers['/series/fee_changes'] = { series_fee_change_arr: [] };
    now = start + 6 * MINUTE;
    await ruleOf(fees);
    now = start + 21 * MINUTE;
    expect(await ruleOf(fees)).toMatchObject({ multiplier: 1_000_000n });
  });

  it('of an event override those of its series until cleared', async () => {
    answers['/events/fee_changes'] = {
      event_fee_changes: [eventChange(null, null, start + HOUR), eventChange(null, 0.5, start - HOUR)],
      cursor: '',
    };
    const fees = create();
    expect(await ruleOf(fees)).toEqual({ type: 'quadratic', multiplier: 500_000n });
    expect(await ruleOf(fees, { ...day, eventTicker: 'KXHIGHNY-26OCT09' })).toMatchObject({
      multiplier: 1_000_000n,
    });
    now = start + HOUR;
    expect(await ruleOf(fees)).toMatchObject({ multiplier: 1_000_000n });
  });

  it('of an unknown type stop orders only where they apply', async () => {
    series[1] = seriesOf('KXHIGHCHI', 'cubic', 1);
    answers['/events/fee_changes'] = {
      event_fee_changes: [eventChange('flat', 1, start - HOUR)],
      cursor: '',
    };
    const fees = create();
    const chicago = { eventTicker: 'KXHIGHCHI-26OCT08', seriesTicker: 'KXHIGHCHI' };
    expect([
      await ruleOf(fees, chicago),
      await ruleOf(fees, day),
      await ruleOf(fees, { ...day, eventTicker: 'KXHIGHNY-26OCT09' }),
    ]).toEqual([undefined, undefined, { type: 'quadratic', multiplier: 1_000_000n }]);
    expect(warnings.filter((line) => line.includes('cubic'))).toHaveLength(1);
  });

  it('are those of the series if the announcements cannot be read', async () => {
    delete answers['/series/fee_changes'];
    expect(await ruleOf(create())).toMatchObject({ multiplier: 1_000_000n });
    expect(warnings).toHaveLength(1);
  });

  it('are unknown until events’ own fees have been read', async () => {
    const listed = answers['/events/fee_changes'];
    delete answers['/events/fee_changes'];
    const notes = createNoteBook();
    const fees = create(notes);
    for (let reads = 1; reads <= 3; reads++) {
      expect(await ruleOf(fees)).toBeUndefined();
      expect(notes.list()).toMatchObject([{ name: 'events.fee_changes', count: reads }]);
      now += MINUTE / 2;
    }
    expect(warnings).toHaveLength(1);
    answers['/events/fee_changes'] = listed;
    now += MINUTE / 2;
    expect(await ruleOf(fees)).toMatchObject({ multiplier: 1_000_000n });
    delete answers['/events/fee_changes'];
    now += 6 * MINUTE;
    expect(await ruleOf(fees)).toMatchObject({ multiplier: 1_000_000n });
  });

  it('of an event stay when the list drops past changes, or the list for series cannot be read', async () => {
    delete answers['/series/fee_changes'];
    answers['/events/fee_changes'] = { event_fee_changes: [eventChange(null, 2, start + HOUR)], cursor: '' };
    const fees = create();
    expect(await ruleOf(fees)).toMatchObject({ multiplier: 1_000_000n });
    now = start + HOUR;
    expect(await ruleOf(fees)).toMatchObject({ multiplier: 2_000_000n });
    answers['/events/fee_changes'] = { event_fee_changes: [], cursor: '' };
    now += 6 * MINUTE;
    expect(await ruleOf(fees)).toMatchObject({ multiplier: 2_000_000n });
  });

  it('are unknown only where a change cannot be read, from its time on, and the change is named', async () => {
    const chicago = { eventTicker: 'KXHIGHCHI-26OCT08', seriesTicker: 'KXHIGHCHI' };
    const other = { ...day, eventTicker: 'KXHIGHNY-26OCT09' };
    answers['/series/fee_changes'] = {
      series_fee_change_arr: [
        seriesChange({ scheduled_ts: at(start - MINUTE) }).series_fee_change_arr[0],
        {
          series_ticker: 'KXHIGHCHI',
          fee_type: 'quadratic',
          fee_multiplier: null,
          scheduled_ts: at(start + HOUR),
        },
        null,
      ],
    };
    answers['/events/fee_changes'] = {
      event_fee_changes: [
        { ...eventChange(null, 0.5, start), fee_multiplier_override: '0,5' },
        { series_ticker: 7 },
      ],
      cursor: '',
    };
    const notes = createNoteBook();
    const fees = create(notes);
    const rules = async () => [await ruleOf(fees), await ruleOf(fees, other), await ruleOf(fees, chicago)];
    const ofChicago = { type: 'quadratic_with_maker_fees', multiplier: 500_000n };
    const ofNewYork = { type: 'quadratic', multiplier: 2_000_000n };
    expect(await rules()).toEqual([undefined, ofNewYork, ofChicago]);
    expect(notes.list().map(({ name, example }) => [name, example.split(':')[0]])).toEqual([
      ['events.fee_changes.event_ticker', 'undefined'],
      ['events.fee_changes.fee_multiplier_override', 'KXHIGHNY-26OCT08'],
      ['series.fee_changes', 'undefined'],
      ['series.fee_changes.fee_multiplier', 'KXHIGHCHI'],
    ]);
    now = start + HOUR;
    expect(await ruleOf(fees, chicago)).toBeUndefined();
    answers['/events/fee_changes'] = { event_fee_changes: [eventChange(null, 0.5, start)], cursor: '' };
    now += 5 * MINUTE;
    expect(await ruleOf(fees)).toMatchObject({ multiplier: 500_000n });
  });

  it('are read page by page', async () => {
    const pages = [
      { event_fee_changes: [eventChange('flat', 1, start - 2 * HOUR)], cursor: 'next' },
      { event_fee_changes: [eventChange(null, 2, start - HOUR)], cursor: '' },
    ];
    Object.defineProperty(answers, '/events/fee_changes', { get: () => pages.shift(), configurable: true });
    expect(await ruleOf(create())).toEqual({ type: 'quadratic', multiplier: 2_000_000n });
  });

  it.each([
    ['whose cursor repeats', () => 'again', 'its cursor repeats'],
    ['without an end', (page: number) => String(page), 'more than 10 pages'],
  ])(
    'of a list %s are unknown, because the list may leave out an event’s own fees',
    async (_, cursorOf, why) => {
      let page = 0;
      Object.defineProperty(answers, '/events/fee_changes', {
        get: () => ({ event_fee_changes: [], cursor: cursorOf(++page) }),
        configurable: true,
      });
      const notes = createNoteBook();
      expect(await ruleOf(create(notes))).toBeUndefined();
      expect(warnings.join()).toContain(why);
    },
  );
});

describe('the venue’s pauses', () => {
  const open = { exchange_active: true, trading_active: true };
  const paused = { exchange_active: true, trading_active: false };
  const create = () => createKalshiPauses({ client, clock, log });
  const schedule = (from: string, until: string) => ({
    schedule: { maintenance_windows: [{ start_datetime: from, end_datetime: until }], standard_hours: [] },
  });

  it.each([
    // 3 AM in New York is 07:00Z in summer and 08:00Z in winter. 2026-11-05 is the first Thursday of winter time.
    ['2026-10-08T06:59:59.999Z', undefined],
    ['2026-10-08T07:00:00Z', '2026-10-08T09:00:00.000Z'],
    ['2026-10-08T08:59:59.999Z', '2026-10-08T09:00:00.000Z'],
    ['2026-10-08T09:00:00Z', undefined],
    ['2026-11-05T07:30:00Z', undefined],
    ['2026-11-05T09:59:59Z', '2026-11-05T10:00:00.000Z'],
    ['2026-10-09T07:30:00Z', undefined],
  ])('at %s include a weekly one that ends at %s', (time, until) => {
    expect(weeklyPause(new Date(time))?.until.toISOString()).toBe(until);
  });

  it('end at the venue’s estimate, or by its schedule, or with the weekly window', async () => {
    now = Date.parse('2026-10-08T07:30:00Z');
    const resumesAt = async (estimate?: string) =>
      (
        await create()({ ...paused, exchange_estimated_resume_time: estimate }, signal)
      ).resumesAt?.toISOString();
    expect(await resumesAt()).toBe('2026-10-08T09:00:00.000Z');
    answers['/exchange/schedule'] = schedule('2026-10-08T07:00:00Z', '2026-10-08T10:30:00Z');
    expect(await resumesAt()).toBe('2026-10-08T10:30:00.000Z');
    expect(await resumesAt('2026-10-08T08:15:00Z')).toBe('2026-10-08T08:15:00.000Z');
    expect(await resumesAt('soon')).toBe('2026-10-08T10:30:00.000Z');
    const { maintenance_windows: windows } = (answers['/exchange/schedule'] as ReturnType<typeof schedule>)
      .schedule;
    const bad = { start_datetime: null, end_datetime: 'later' };
    answers['/exchange/schedule'] = { schedule: { maintenance_windows: [bad, ...windows] } };
    expect(await resumesAt()).toBe('2026-10-08T10:30:00.000Z');
    now = Date.parse('2026-10-06T12:00:00Z');
    expect(await resumesAt()).toBeUndefined();
  });

  it('are announced shortly before they begin, and then follow the venue’s status', async () => {
    now = Date.parse('2026-10-08T06:40:00Z');
    expect(await create()(open, signal)).toEqual({ isTrading: true });
    now = Date.parse('2026-10-08T06:55:00Z');
    expect(await create()(open, signal)).toMatchObject({
      isTrading: true,
      pause: { from: new Date('2026-10-08T07:00:00Z'), until: new Date('2026-10-08T09:00:00Z') },
    });
    now = Date.parse('2026-10-08T08:00:00Z');
    expect(await create()(open, signal)).toMatchObject({ isTrading: true });
    expect(asked).toEqual([]);
  });
});
