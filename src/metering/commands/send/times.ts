import { DAY_MS, MINUTE_MS } from '../../../core/time.js';
import { CommandError } from '../../../commands/kit/command.js';
import { shorten, UnmappedError } from './record.js';

/** From a clock on the wall, both in ms. @throws UnmappedError if there is no such time, or more than one */
export type TimeZone = (wallMs: number, text: string) => number;

const rfc3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)$/;
const likeRfc3339 =
  /^(\d{4}-\d\d-\d\d)(?:T|\s+)(\d{1,2}:\d\d)(?::(\d\d)(?:[.,](\d+))?)?\s*(?:(Z|UTC|GMT)|([+-]\d\d):?(\d\d)?)?$/i;
/** With slashes, the order of day and month depends on the country. */
const dayFirst = /^(\d{1,2})\.(\d{1,2})\.(\d{4})(?=\D)/;

/** Accepts a blank for the T, a short offset or `UTC`, or no zone if `zone` is given. */
export function toTime(value: unknown, zone: TimeZone | undefined): string {
  const text = String(value).trim();
  if (rfc3339.test(text)) return text;
  if (/^\d+(\.\d+)?$/.test(text))
    throw new UnmappedError(
      `The time ${quoted(text)} is a number. Read Unix times with --occurred-at 'unix(…)'.`,
    );
  const yearFirst = text.replace(dayFirst, (_all, day: string, month: string, year: string) =>
    [year, month.padStart(2, '0'), day.padStart(2, '0')].join('-'),
  );
  const parts = likeRfc3339.exec(yearFirst);
  if (!parts) throw new UnmappedError(`The time ${quoted(text)} cannot be read.`);
  const [, date, clock, second = '00', fraction, utc, hours, minutes = '00'] = parts;
  const wall = `${date}T${clock!.padStart(5, '0')}:${second}`;
  const digits = fraction === undefined ? '' : `.${fraction}`;
  if (utc !== undefined) return `${wall}${digits}Z`;
  if (hours !== undefined) return `${wall}${digits}${hours}:${minutes}`;
  const wallMs = Date.parse(`${wall}Z`);
  if (Number.isNaN(wallMs) || secondsOf(wallMs) !== wall)
    throw new UnmappedError(`The time ${quoted(text)} does not exist.`);
  if (!zone)
    throw new UnmappedError(
      `The time ${quoted(text)} has no time zone. Name it with --time-zone, like UTC or Europe/Berlin.`,
    );
  return `${secondsOf(zone(wallMs, text))}${digits}Z`;
}

const secondsOf = (ms: number): string => new Date(ms).toISOString().slice(0, 19);
const quoted = (text: string): string => shorten(JSON.stringify(text));

/** Decimal places of a nanosecond. The ranges of sizes meet in the year 5138. */
const unixUnits = [
  { below: 1e11, places: 9 },
  { below: 1e14, places: 6 },
  { below: 1e17, places: 3 },
  { below: 1e20, places: 0 },
];

/** The size tells seconds, ms, µs and ns apart. */
export function fromUnixTime(value: unknown): string {
  const text = String(value).trim();
  const [, whole, fraction = ''] = /^(\d{1,20})(?:\.(\d+))?$/.exec(text) ?? [];
  const unit = unixUnits.find(({ below }) => Number(whole) < below);
  if (whole === undefined || !unit) throw new UnmappedError(`${quoted(text)} is not a Unix time.`);
  const nanoseconds = BigInt(whole + fraction.padEnd(unit.places, '0').slice(0, unit.places));
  const microseconds = String((nanoseconds / 1_000n) % 1_000_000n).padStart(6, '0');
  const digits = microseconds.replace(/0+$/, '');
  return `${secondsOf(Number(nanoseconds / 1_000_000n))}${digits && `.${digits}`}Z`;
}

export function openTimeZone(name: string): TimeZone {
  const format = openFormat(name);
  function offsetMs(ms: number): number {
    const [, sign, hours, minutes] = /GMT([+-])(\d\d):(\d\d)/.exec(format.format(ms)) ?? [];
    return sign === undefined ? 0 : Number(`${sign}1`) * (Number(hours) * 60 + Number(minutes)) * MINUTE_MS;
  }
  return (wallMs, text) => {
    const offsets = new Set([offsetMs(wallMs - DAY_MS), offsetMs(wallMs + DAY_MS)]);
    const times = [...offsets].map((offset) => wallMs - offset).filter((ms) => ms + offsetMs(ms) === wallMs);
    if (times.length === 1) return times[0]!;
    const problem = times.length === 0 ? 'is skipped' : 'occurs twice';
    throw new UnmappedError(`The time ${quoted(text)} ${problem} in ${name}, where the clocks change.`);
  };
}

function openFormat(name: string): Intl.DateTimeFormat {
  try {
    return new Intl.DateTimeFormat('en', { timeZone: name, timeZoneName: 'longOffset' });
  } catch (error) {
    throw new CommandError('--time-zone must be UTC or a name like Europe/Berlin.', { cause: error });
  }
}
