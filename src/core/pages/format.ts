import { addDecimals, compareDecimals, differenceOf, sumDecimals } from '../decimal.js';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../time.js';

/** Formatters return plain text, which templates escape. */

/** A line may break after a hyphen, which is also shorter than the plus sign. */
const withMinus = (text: string): string => text.replace('-', '−');

/** `−1,234,567.25`, with all digits. */
export function formatDecimal(decimal: string | number | bigint): string {
  const [whole = '0', fraction] = withMinus(String(decimal)).split('.');
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, ',');
  return fraction === undefined ? grouped : `${grouped}.${fraction}`;
}

/** Longer parts do not fit on one line on a phone. */
const MAX_UNBROKEN = 20;

/** A long decimal breaks only after its separators. */
export function formatQuantity(decimal: string | number | bigint): string {
  const text = formatDecimal(decimal);
  if (text.length <= 12) return text;
  const parts = text.length > 15 ? text.split(/(?<=,)/) : [text];
  return parts
    .map((part) => (part.length > MAX_UNBROKEN ? part : `<span class="nowrap">${part}</span>`))
    .join('<wbr>');
}

const decimalsOf = (decimal: string): number => decimal.split('.')[1]?.length ?? 0;

/** Formats a column's numbers with as many decimals as the longest has. */
export function formatColumn(column: readonly (string | undefined)[], format = formatQuantity) {
  const most = Math.max(...column.map((decimal = '') => decimalsOf(decimal)), 0);
  return (decimal: string): string => {
    if (decimal === '0') return decimal;
    const point = most > 0 && !decimal.includes('.') ? '.' : '';
    return format(`${decimal}${point}${'0'.repeat(most - decimalsOf(decimal))}`);
  };
}

const cents = new Intl.NumberFormat('en', {
  minimumFractionDigits: 2,
  maximumFractionDigits: 2,
  useGrouping: false,
});

/** A total has two decimals, or none if it is whole. Ledgers, statements, prices and data tables have all digits. */
export function roundFigure(decimal: string): string {
  const value = Number(decimal);
  if (value > 0 && value < 0.005) return '<0.01';
  if (Math.abs(value) < 0.005 || !decimal.includes('.')) return decimal;
  // As text, 0.555 is not the binary number just below it.
  return cents.format(decimal as Intl.StringNumericLiteral);
}

/** Rounds a column's totals: if one has decimals, all but zero have two. */
export function roundFigures(column: readonly string[]): (decimal: string) => string {
  const hasDecimals = column.some((decimal) => roundFigure(decimal).includes('.'));
  return (decimal) =>
    hasDecimals && /^-?[1-9]\d{0,11}$/.test(decimal) ? `${decimal}.00` : roundFigure(decimal);
}

/** Rounds the parts of a total so that they add up to the rounded total: the largest takes the rest. */
export function roundParts(parts: readonly string[]): string[] {
  const round = (amount: string) => (Math.abs(Number(amount)) < 0.005 ? amount : roundFigure(amount));
  const rounded = parts.map(round);
  const rest = differenceOf(round(sumDecimals(parts)), sumDecimals(rounded));
  const largest = parts.indexOf(parts.toSorted(compareDecimals).at(-1)!);
  return rounded.map((part, i) => (i === largest ? addDecimals(part, rest) : part));
}

/** @param column the totals shown with it */
export const formatFigure = (decimal: string, column: readonly string[] = []): string =>
  formatQuantity(roundFigures(column)(decimal)).replace(/^<0/, '&lt;0');

const compact = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });

export const formatCompact = (value: number): string => withMinus(compact.format(value));

/** Without decimals from 1,000, abbreviated from a million. */
export const formatRounded = (value: number): string =>
  Math.abs(value) >= 1_000 && Math.abs(value) < 1_000_000
    ? formatDecimal(Math.round(value))
    : formatCompact(value);

/** `42.5%`, `120%`. Shares are never rounded up to 100% or down to zero. */
export function formatShare(part: string, whole: string): string {
  const share = (Number(part) / Number(whole)) * 100;
  if (!Number.isFinite(share)) return '–';
  const tenths = Math.min(Math.round(share * 10), 999);
  if (tenths === 0) return share > 0 ? '<0.1%' : '0%';
  return `${formatDecimal(share < 100 ? (tenths / 10).toFixed(1) : Math.round(share))}%`;
}

/** `+12.5%`, `−3.0%`; undefined if `before` is zero. */
export function formatGrowth(now: string, before: string): string | undefined {
  const growth = (Number(now) / Number(before) - 1) * 100;
  if (!Number.isFinite(growth)) return undefined;
  const text = formatDecimal(Math.abs(growth).toFixed(1));
  return `${text === '0.0' ? '±' : growth > 0 ? '+' : '−'}${text}%`;
}

export function formatCount(count: number, noun: string, plural = `${noun}s`): string {
  return `${formatDecimal(count)} ${count === 1 ? noun : plural}`;
}

/** `request` of `requests`. A metric without a certain singular, such as `ms`, stays as it is. */
const singularOf = (metric: string): string =>
  metric.replace(/([aeiou][a-z]*(?:[bcdfgklmnprtvwy]|[bdgklmnprtv]e))s$/, '$1');

export const formatUnit = (quantity: string, metric: string): string =>
  quantity === '1' ? singularOf(metric) : metric;

/** `request` or `unit of ms`, after `for each`. */
export const formatEach = (metric: string): string =>
  singularOf(metric) === metric ? `unit of ${metric}` : singularOf(metric);

/** A leading abbreviation keeps its capitals. */
export const inSentence = (text: string): string =>
  text.replace(/^[A-Z](?![A-Z])/, (first) => first.toLowerCase());

/** British English puts the day before the month. */
export const utc = (options: Intl.DateTimeFormatOptions) =>
  new Intl.DateTimeFormat('en-GB', { timeZone: 'UTC', ...options });
const minute = {
  day: 'numeric',
  month: 'short',
  year: 'numeric',
  hour: '2-digit',
  minute: '2-digit',
} as const;
const utcMinute = utc(minute);
const utcSecond = utc({ ...minute, second: '2-digit' });
const utcDay = utc({ day: 'numeric', month: 'short', year: 'numeric' });
const utcShortDay = utc({ day: 'numeric', month: 'short' });
const utcMonth = utc({ month: 'long', year: 'numeric' });

/** `21 Nov 2026, 03:16 UTC`. A script converts it to the reader's time zone. */
export const formatTime = (at: Date): string => `${utcMinute.format(at)} UTC`;

export const formatTimeToSecond = (at: Date): string => `${utcSecond.format(at)} UTC`;

/** `2026-11-21 03:16:14 UTC`, shown on hover. */
export const formatExactTime = (at: Date): string => `${at.toISOString().slice(0, 19).replace('T', ' ')} UTC`;

/** `21 Nov 2026`, in UTC. */
export const formatDay = (at: Date): string => utcDay.format(at);

/** `21 Nov`, in UTC. */
export const formatShortDay = (at: Date): string => utcShortDay.format(at);

/** `November 2026`, in UTC. */
export const formatMonth = (at: Date): string => utcMonth.format(at);

const units: [unit: string, ms: number][] = [
  ['day', DAY_MS],
  ['hour', HOUR_MS],
  ['minute', MINUTE_MS],
];

/** Rounded down by default: `2 days`, `1 hour`, `less than a minute`. */
export function formatDuration(ms: number, round = Math.floor): string {
  for (const [unit, unitMs] of units) {
    const count = ms < unitMs ? 0 : round(ms / unitMs);
    if (count >= 1) return formatCount(count, unit);
  }
  return 'less than a minute';
}

/** To the minute: `1 day`, `23 h 59 min`. */
export function formatGrace(ms: number): string {
  const unitMs = units.find(([, size]) => ms >= size)?.[1] ?? MINUTE_MS;
  if (unitMs === MINUTE_MS || ms % unitMs < MINUTE_MS) return formatDuration(ms);
  return `${Math.floor(ms / HOUR_MS)} h ${Math.floor((ms % HOUR_MS) / MINUTE_MS)} min`;
}

/** The day, if more than a week ago. The future is rounded to the nearest unit, so that a week that has just begun is 7 days long. */
export function formatAgo(at: Date, now: Date): string {
  const ms = now.getTime() - at.getTime();
  if (Math.abs(ms) < MINUTE_MS) return ms >= 0 ? 'just now' : 'in less than a minute';
  if (ms > 7 * DAY_MS) return formatDay(at);
  return ms > 0 ? `${formatDuration(ms)} ago` : `in ${formatDuration(-ms, Math.round)}`;
}

/** Millionths of a dollar. */
const DOLLAR = 1_000_000n;
const CENT = 10_000n;

/** Half a cent rounds away from zero. */
export function roundToCent(micros: bigint): bigint {
  const cents = ((micros < 0n ? -micros : micros) + CENT / 2n) / CENT;
  return micros < 0n ? -cents * CENT : cents * CENT;
}

/** `$1,234.50`, `−$0.04`, rounded to cents. */
export const formatMoney = (micros: bigint): string => formatExactMoney(roundToCent(micros));

/** Like `formatMoney`, but `<$0.01` for what is too little to show. */
export const formatFee = (micros: bigint): string =>
  micros > 0n && roundToCent(micros) === 0n ? '<$0.01' : formatMoney(micros);

/** `$1,234.50`, `$0.3744`: all digits, but at least two decimals. */
export function formatExactMoney(micros: bigint): string {
  const [sign, amount] = micros < 0n ? ['−', -micros] : ['', micros];
  const fraction = String(amount % DOLLAR)
    .padStart(6, '0')
    .replace(/(?:00){1,2}$/, '');
  return `${sign}$${formatDecimal(amount / DOLLAR)}.${fraction}`;
}

/** `42¢`, `42.5¢`, to a hundredth of a cent. For amounts, use `formatMoney`. */
export function formatPrice(micros: bigint): string {
  const hundredths = (micros + 50n) / 100n;
  const fraction = String(hundredths % 100n)
    .padStart(2, '0')
    .replace(/0+$/, '');
  return `${hundredths / 100n}${fraction === '' ? '' : `.${fraction}`}¢`;
}

/** `+$1,234.50`, `−$0.04`. Zero has no sign. */
export function formatChange(micros: bigint): string {
  const text = formatMoney(micros);
  return micros > 0n && text !== '$0.00' ? `+${text}` : text;
}

/** `43%`, `<1%`. Never rounds to 0% or 100%. */
export function formatProbability(probability: number): string {
  const percent = probability * 100;
  if (probability > 0 && percent < 0.5) return '<1%';
  if (probability < 1 && percent >= 99.5) return '>99%';
  return `${Math.round(percent)}%`;
}

/** `43.8%`. */
export const formatExactProbability = (probability: number): string => `${(probability * 100).toFixed(1)}%`;

export function formatPoints(difference: number): string {
  const text = Math.abs(difference * 100).toFixed(1);
  const sign = text === '0.0' ? '' : difference > 0 ? '+' : '−';
  return `${sign}${text}\u00a0points`;
}

export const formatDegrees = (degreesF: number, decimals = 0): string =>
  `${withMinus(degreesF.toFixed(decimals))}°`;

export function formatAge(ms: number): string {
  const seconds = Math.floor(ms / 1000);
  if (seconds < 120) return `${seconds}\u00a0s`;
  const minutes = Math.floor(seconds / 60);
  return minutes < 120 ? `${minutes}\u00a0minutes` : `${Math.floor(minutes / 60)}\u00a0hours`;
}

export const formatWholePercent = (share: number): string => `${Math.round(share * 100)}%`;

export const toNames = (rows: readonly { slug: string; name: string }[]): Map<string, string> =>
  new Map(rows.map(({ slug, name }) => [slug, name]));

/** Choices of a select. Adds the slug to a name that occurs twice. */
export function toNamedOptions(rows: readonly { slug: string; name: string }[]) {
  const counts = new Map<string, number>();
  for (const { name } of rows) counts.set(name, (counts.get(name) ?? 0) + 1);
  // A right-to-left name must not reverse the slug after it.
  return rows.map(({ slug, name }) => ({
    value: slug,
    label: counts.get(name) === 1 ? name : `\u2068${name}\u2069 (${slug})`,
  }));
}
