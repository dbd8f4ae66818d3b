/** How pages write numbers and times. Everything is text; templates escape it. */

/** A decimal as Postgres writes it, with all its digits and with separators: `1,234,567.25`. */
export function formatDecimal(decimal: string | number | bigint): string {
  const [whole = '0', fraction] = String(decimal).split('.');
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, ',');
  return fraction === undefined ? grouped : `${grouped}.${fraction}`;
}

const compact = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });

/** A number where there is room for a few characters only: `1.2M`. */
export const formatCompact = (value: number): string => compact.format(value);

/** `42.5 %`, rounded down: 100 is not said too early. */
export function formatShare(part: string, whole: string): string {
  const share = (Number(part) / Number(whole)) * 100;
  if (!Number.isFinite(share)) return '–';
  return `${formatDecimal((Math.floor(share * 10 + 1e-9) / 10).toFixed(1))}\u00a0%`;
}

/** `1 key`, `2 keys`. */
export function formatCount(count: number, noun: string, plural = `${noun}s`): string {
  return `${formatDecimal(count)} ${count === 1 ? noun : plural}`;
}

const utc = (options: Intl.DateTimeFormatOptions) =>
  new Intl.DateTimeFormat('en-GB', { timeZone: 'UTC', ...options });
const utcMinute = utc({
  day: 'numeric',
  month: 'short',
  year: 'numeric',
  hour: '2-digit',
  minute: '2-digit',
});
const utcDay = utc({ day: 'numeric', month: 'short', year: 'numeric' });
const utcMonth = utc({ month: 'long', year: 'numeric' });

/** `21 Nov 2026, 03:16 UTC`: what is shown until a script has put it into the reader's zone. */
export const formatTime = (at: Date): string => `${utcMinute.format(at)} UTC`;

/** `2026-11-21 03:16:14 UTC`: what is shown on hover, whatever the zone. */
export const formatExactTime = (at: Date): string => `${at.toISOString().slice(0, 19).replace('T', ' ')} UTC`;

/** `21 Nov 2026`, in UTC. */
export const formatDay = (at: Date): string => utcDay.format(at);

/** `November 2026`, in UTC. */
export const formatMonth = (at: Date): string => utcMonth.format(at);

const units: [unit: string, ms: number][] = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
];

/** `2 days`, `1 hour`, `less than a minute`: the length of a time, rounded down. */
export function formatDuration(ms: number): string {
  for (const [unit, unitMs] of units) {
    const count = Math.floor(ms / unitMs);
    if (count >= 1) return formatCount(count, unit);
  }
  return 'less than a minute';
}

/** `3 minutes ago`, `in 2 days`, `just now`. */
export function formatAgo(at: Date, now: Date): string {
  const ms = now.getTime() - at.getTime();
  if (Math.abs(ms) < 60_000) return ms >= 0 ? 'just now' : 'in less than a minute';
  return ms > 0 ? `${formatDuration(ms)} ago` : `in ${formatDuration(-ms)}`;
}
