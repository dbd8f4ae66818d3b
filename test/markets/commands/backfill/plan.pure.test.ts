import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  askAgain,
  lastDayOver,
  planChunks,
  readRange,
} from '../../../../src/markets/commands/backfill-archive.js';
import { CommandError } from '../../../../src/commands/kit/command.js';
import { WeatherUnavailableError } from '../../../../src/markets/weather/read-json.js';
import { stations } from '../../../../src/markets/market/stations.js';
import { UnexpectedAnswerError, VenueUnavailableError } from '../../../../src/markets/venue/kalshi-client.js';
import { daysBetween, addDays } from '../../../../src/markets/market/climate-day.js';

describe('days', () => {
  it('between two dates include both, across months and leap years', () => {
    expect(daysBetween('2024-02-27', '2024-03-02')).toEqual([
      '2024-02-27',
      '2024-02-28',
      '2024-02-29',
      '2024-03-01',
      '2024-03-02',
    ]);
    expect(daysBetween('2026-01-01', '2026-01-01')).toEqual(['2026-01-01']);
    expect(daysBetween('2026-01-02', '2026-01-01')).toEqual([]);
  });

  it('are over once they are over in Los Angeles', () => {
    // In Los Angeles, 4 July ends at 08:00Z on the 5th, three hours later than in New York.
    expect(lastDayOver(stations, Date.parse('2026-07-05T07:59:00Z'))).toBe('2026-07-03');
    expect(lastDayOver(stations, Date.parse('2026-07-05T08:00:00Z'))).toBe('2026-07-04');
  });
});

describe('the date range of the flags', () => {
  const now = Date.parse('2026-07-05T12:00:00Z');
  const read = (flags: Record<string, string>) => readRange(flags, stations, now);

  it.each([
    [{}, '2026-04-06', '2026-07-04'],
    [{ days: '1' }, '2026-07-04', '2026-07-04'],
    [{ from: '2026-07-01' }, '2026-07-01', '2026-07-04'],
    [{ from: '2024-02-29', to: '2024-03-01' }, '2024-02-29', '2024-03-01'],
    [{ days: '400' }, '2025-05-31', '2026-07-04'],
    [{ days: '31', to: '2026-01-31' }, '2026-01-01', '2026-01-31'],
  ])('for %j is %s to %s', (flags, from, to) => {
    expect(read(flags)).toEqual({ from, to });
  });

  it.each([
    [{ days: '0' }, '--days "0"'],
    [{ days: '401' }, 'between 1 and 400'],
    [{ days: '1e3' }, '--days "1e3"'],
    [{ from: '2026-02-30' }, '--from "2026-02-30" is not a date'],
    [{ to: 'yesterday' }, '--to "yesterday" is not a date'],
    [{ to: '2026-07-05' }, 'the last completed day is 2026-07-04'],
    [{ from: '2026-07-04', to: '2026-07-03' }, 'is after 2026-07-03'],
    [{ from: '2026-07-01', days: '3' }, 'either --days or --from'],
    [{ from: '2020-01-01' }, '2377 days'],
  ])('is refused for %j', (flags, words) => {
    expect(() => read(flags as Record<string, string>)).toThrow(CommandError);
    expect(() => read(flags as Record<string, string>)).toThrow(words);
  });
});

describe('the planned requests', () => {
  it('cover every missing day once, span at most 31 days, and start and end with a missing day', () => {
    const from = '2025-01-01';
    fc.assert(
      fc.property(fc.array(fc.boolean(), { minLength: 1, maxLength: 120 }), (isThere) => {
        const there = new Map(isThere.map((is, i) => [addDays(from, i), is]));
        const to = addDays(from, isThere.length - 1);
        const chunks = planChunks({ from, to }, (date) => there.get(date)!);
        const asked = chunks.flatMap((chunk) => daysBetween(chunk.from, chunk.to));
        expect(new Set(asked).size).toBe(asked.length);
        for (const [date, is] of there) if (!is) expect(asked).toContain(date);
        for (const chunk of chunks) {
          const days = daysBetween(chunk.from, chunk.to);
          expect(days.length).toBeLessThanOrEqual(31);
          expect([there.get(chunk.from), there.get(chunk.to)]).toEqual([false, false]);
          expect(chunk.missing).toBe(days.filter((date) => !there.get(date)).length);
        }
      }),
      { numRuns: 100 },
    );
    expect(planChunks({ from, to: '2025-03-04' }, () => false)).toEqual([
      { from, to: '2025-01-31', missing: 31 },
      { from: '2025-02-01', to: '2025-03-03', missing: 31 },
      { from: '2025-03-04', to: '2025-03-04', missing: 1 },
    ]);
  });
});

describe('a busy service', () => {
  const stop = new AbortController().signal;

  /**
   * Makes a request that fails with each of these errors in turn and then succeeds; resolves with the pauses in seconds
   * and the outcome.
   */
  async function ask(problems: Error[]) {
    const pauses: number[] = [];
    const notes: string[] = [];
    let asked = 0;
    const outcome = await askAgain(
      () => {
        const problem = problems[asked++];
        return problem ? Promise.reject(problem) : Promise.resolve('answered');
      },
      {
        sleep: (ms) => {
          pauses.push(ms / 1000);
          return Promise.resolve();
        },
        random: () => 0.5,
        note: (text) => notes.push(text),
      },
      stop,
    ).catch((error: unknown) => error);
    return { asked, pauses, notes, outcome };
  }
  const busy = (retryAfterMs?: number) =>
    new WeatherUnavailableError('/runs', 'status 429', { retryAfterMs });
  const down = new VenueUnavailableError('/markets', 'status 503');

  it('is retried after the pause it requests, otherwise after growing pauses', async () => {
    expect(await ask([busy(90_000), busy(), down])).toMatchObject({
      outcome: 'answered',
      pauses: [90, 10, 20],
      notes: ['/runs: status 429. Retrying in 90 s.', expect.any(String), expect.any(String)],
    });
  });

  it('is given up after five attempts, or if the requested pause is too long', async () => {
    const failures = Array.from({ length: 9 }, () => down);
    expect(await ask(failures)).toMatchObject({ outcome: down, asked: 5, pauses: [5, 10, 20, 40] });
    const tomorrow = busy(24 * 3_600_000);
    expect(await ask([tomorrow])).toMatchObject({ outcome: tomorrow, asked: 1, pauses: [] });
  });

  it('is retried, unlike errors that would recur', async () => {
    for (const problem of [new UnexpectedAnswerError('/runs', 'no JSON'), new TypeError('a bug')])
      expect(await ask([problem])).toMatchObject({ outcome: problem, asked: 1, pauses: [] });
  });
});
