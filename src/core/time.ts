export const SECOND_MS = 1_000;
export const MINUTE_MS = 60 * SECOND_MS;
export const HOUR_MS = 60 * MINUTE_MS;
export const DAY_MS = 24 * HOUR_MS;

/** The same month is usually requested again. */
let latest = { firstDay: '', startMs: 0, endMs: 0 };

/** `YYYY-MM-01`, UTC. */
export function monthOf(timeMs: number): string {
  if (!(timeMs >= latest.startMs && timeMs < latest.endMs)) {
    const firstDay = `${new Date(timeMs).toISOString().slice(0, 7)}-01`;
    const startMs = Date.parse(firstDay);
    latest = { firstDay, startMs, endMs: new Date(startMs).setUTCMonth(new Date(startMs).getUTCMonth() + 1) };
  }
  return latest.firstDay;
}

/** UTC; `end` is exclusive. */
export function monthRange(firstDay: string): { start: string; end: string } {
  const [year = 0, month = 1] = firstDay.split('-').map(Number);
  return {
    start: `${firstDay}T00:00:00Z`,
    end: `${new Date(Date.UTC(year, month, 1)).toISOString().slice(0, 10)}T00:00:00Z`,
  };
}

export interface Clock {
  /** Since 1970-01-01T00:00:00Z. */
  now(): number;
}

export const systemClock: Clock = { now: () => Date.now() };

/** Seconds or a date (RFC 9110), into ms; undefined if missing or invalid. */
export function readRetryAfter(value: string | null): number | undefined {
  if (value === null) return undefined;
  const ms = /^\s*\d+\s*$/.test(value) ? Number(value) * 1000 : Date.parse(value) - Date.now();
  return Number.isNaN(ms) ? undefined : Math.max(0, ms);
}
