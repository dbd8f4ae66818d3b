import { bracketOf, type Bracket } from './brackets.js';
import { dateFrom } from './climate-day.js';

export const settlementSources = [
  'National Weather Service',
  'The Weather Company',
  'Kalshi Weather Index',
  'AccuWeather',
] as const;
export type SettlementSource = (typeof settlementSources)[number];

/** Only the text of the rules is used: titles and tickers have been wrong. */
export interface TemperatureRules {
  measure: 'maximum' | 'minimum' | 'hour';
  /** As written, without the report. */
  place: string;
  /** `CLINYC`; null in rules before 2026-08-15 and for index markets. */
  report: string | null;
  date: string;
  /** Local clock; null for a whole day. */
  hour: number | null;
  source: SettlementSource | null;
  /** Whole degrees for a day, hundredths for an hour. */
  bracket: Bracket;
}

const months = 'JanFebMarAprMayJunJulAugSepOctNovDec';

/**
 * Matches the venue's wordings since 2024: `highest temperature recorded in Central Park, New York for August 16, 2024
 * as reported by the National Weather Service's Daily Climate Report, is less than 84°`, also as `is less than 82°
 * according to …`; since 2026-08-14 `maximum temperature recorded at New York City (CLINYC) for Oct 6, 2026, is greater
 * than 70° fahrenheit according to The Weather Company`; for an hour `temperature recorded at Miami, FL for Sep 13,
 * 2026 at 12 PM EDT as reported by Synoptic Data, is above 89.99°`.
 */
const wording = new RegExp(
  [
    /^If the (?:(?<measure>maximum|highest|minimum|lowest) )?temperature recorded (?:at|in) (?<place>.+?)/,
    /\s*(?:\((?<report>CLI[A-Z]{3})\))?,? (?:for|on) (?<month>[A-Z][a-z]{2})[a-z]*\.? (?<day>\d{1,2}), (?<year>\d{4})/,
    /(?: at (?<hour>\d{1,2})(?::00)? ?(?<half>AM|PM) [A-Z]{2,4})?/,
    /(?: as reported by (?<by>.+?))?,? is (?<bracket>.+?)(?: according to (?<according>.+?))?, then the market resolves to Yes\.?\s*$/,
  ]
    .map(({ source }) => source)
    .join(''),
);

/**
 * Undefined for unknown wording.
 * @param secondary names an index's method
 */
export function readTemperatureRules(primary: string, secondary = ''): TemperatureRules | undefined {
  const found = wording.exec(primary.trim())?.groups;
  if (!found) return undefined;
  const { measure, place, report, hour, half } = found;
  const date = readDate(found);
  const isHour = hour !== undefined;
  const bracket = readBracket(found.bracket!, isHour ? 0.01 : 1);
  if (date === undefined || bracket === undefined || isHour === (measure !== undefined)) return undefined;
  const clock = isHour ? (Number(hour) % 12) + (half === 'PM' ? 12 : 0) : null;
  return {
    measure: isHour ? 'hour' : measure === 'minimum' || measure === 'lowest' ? 'minimum' : 'maximum',
    place: place!,
    report: report ?? null,
    date,
    hour: clock,
    source: readSource(found.by ?? found.according ?? '', secondary),
    bracket,
  };
}

export const isAboutRain = (primary: string): boolean => /\b(?:precipitation|rain|snow)/i.test(primary);

function readDate({ year, month, day }: Record<string, string | undefined>): string | undefined {
  const at = months.indexOf(month!);
  if (at < 0 || at % 3 !== 0) return undefined;
  return dateFrom(year!, at / 3 + 1, day!);
}

function readBracket(text: string, step: 1 | 0.01): Bracket | undefined {
  const [, less, more, from, to] =
    /^(?:(?:less than|below) (-?[\d.]+)|(?:greater than|above) (-?[\d.]+)|between (-?\d+)-(-?\d+))°(?: fahrenheit)?$/i.exec(
      text,
    ) ?? [];
  const isOnStep = (value: number) =>
    Number.isFinite(value) && Number.isInteger(Math.round(value * 100) / (step * 100));
  if (less !== undefined && isOnStep(Number(less))) return bracketOf(null, Number(less), step);
  if (more !== undefined && isOnStep(Number(more))) return bracketOf(Number(more), null, step);
  if (from === undefined || Number(from) > Number(to)) return undefined;
  return bracketOf(Number(from), Number(to), step);
}

/** Synoptic's data is the index only if the rules also name the index's method. */
function readSource(text: string, secondary: string): SettlementSource | null {
  if (/\bNWS\b|National Weather Service/.test(text)) return 'National Weather Service';
  if (/Weather Company/.test(text)) return 'The Weather Company';
  if (/AccuWeather/i.test(text)) return 'AccuWeather';
  return /Synoptic|Kalshi Weather Index/.test(text) && /Kalshi Weather Index/.test(`${text} ${secondary}`)
    ? 'Kalshi Weather Index'
    : null;
}

/** The National Weather Service's own report settled earlier days. */
const RELAYED_SINCE = '2026-08-14';

export const sourceOn = (date: string): SettlementSource =>
  date < RELAYED_SINCE ? 'National Weather Service' : 'The Weather Company';
