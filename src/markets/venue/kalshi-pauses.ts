import { z } from 'zod';
import { HOUR_MS, MINUTE_MS } from '../../core/time.js';
import type { KalshiDeps } from './kalshi-client.js';
import { time, type kalshiExchangeStatusSchema } from './kalshi-schema.js';
import { readRows } from './rows.js';
import type { MarketData, Pause } from '../market/source.js';

/** How often the schedule is read again while trading is paused. */
const SCHEDULE_FRESH_MS = 10 * MINUTE_MS;
/** Pauses are reported this long before they start, which is longer than the maximum age of data for trading. */
const AHEAD_MS = 10 * MINUTE_MS;

const scheduleSchema = z.object({ schedule: z.object({ maintenance_windows: z.array(z.unknown()) }) });
const windowSchema = z.object({ start_datetime: time, end_datetime: time });

type Trading = Pick<MarketData, 'isTrading' | 'resumesAt' | 'pause'>;

/** Detects pauses from the venue's estimate, its scheduled maintenance, or its documented weekly window. */
export function createKalshiPauses({ client, clock, log }: KalshiDeps) {
  let windows: Pause[] = [];
  let readAt = -Infinity;

  async function readWindows(signal: AbortSignal): Promise<Pause[]> {
    const now = clock.now();
    if (now - readAt < SCHEDULE_FRESH_MS) return windows;
    readAt = now;
    try {
      const { schedule } = await client.get('/exchange/schedule', [], scheduleSchema, signal);
      const { rows, unreadable } = readRows(windowSchema, schedule.maintenance_windows);
      windows = rows.map(({ start_datetime: from, end_datetime: until }) => ({
        from: new Date(from),
        until: new Date(until),
      }));
      if (unreadable.length > 0) log.warn({ unreadable }, "parts of the venue's schedule could not be read");
    } catch (error) {
      signal.throwIfAborted();
      log.warn({ err: error }, "the venue's schedule could not be read");
    }
    return windows;
  }

  return async (
    status: z.output<typeof kalshiExchangeStatusSchema>,
    signal: AbortSignal,
  ): Promise<Trading> => {
    const now = new Date(clock.now());
    const weekly = weeklyPause(new Date(now.getTime() + AHEAD_MS)) ?? weeklyPause(now);
    const pause = weekly ? { pause: weekly } : {};
    if (status.exchange_active && status.trading_active) return { isTrading: true, ...pause };
    const estimate = new Date(status.exchange_estimated_resume_time ?? Number.NaN);
    if (estimate > now) return { isTrading: false, resumesAt: estimate, ...pause };
    const known = [...(await readWindows(signal)), ...(weekly ? [weekly] : [])];
    const ends = known.find(({ from, until }) => from <= now && now < until)?.until;
    return { isTrading: false, ...(ends ? { resumesAt: ends } : {}), ...pause };
  };
}

const newYork = new Intl.DateTimeFormat('en-US', {
  timeZone: 'America/New_York',
  weekday: 'short',
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  hourCycle: 'h23',
});

/** Returns Thursday's pause, 3 to 5 AM in New York (clocks never change on Thursdays); undefined at other times. */
export function weeklyPause(at: Date): Pause | undefined {
  const parts = Object.fromEntries(newYork.formatToParts(at).map(({ type, value }) => [type, value]));
  const sinceMidnightMs =
    (Number(parts.hour) * 3600 + Number(parts.minute) * 60 + Number(parts.second)) * 1000 +
    (((at.getTime() % 1000) + 1000) % 1000);
  if (parts.weekday !== 'Thu' || sinceMidnightMs < 3 * HOUR_MS || sinceMidnightMs >= 5 * HOUR_MS)
    return undefined;
  const midnight = at.getTime() - sinceMidnightMs;
  return { from: new Date(midnight + 3 * HOUR_MS), until: new Date(midnight + 5 * HOUR_MS) };
}
