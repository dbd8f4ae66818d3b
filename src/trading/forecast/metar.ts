const HOUR_MS = 60 * 60 * 1000;
/** Reports are made some minutes before the hour that they are for. */
const EARLY_MS = 15 * 60 * 1000;

/** The hottest and the coldest of some hours, °C; null where the report does not say. */
export interface ReportedRange {
  highestC: number | null;
  lowestC: number | null;
}

/** Temperatures of a report that the daily climate report cannot contradict, in tenths of °C as the station measured. */
export interface ReportedTemperatures {
  /** At the time of the report, °C. */
  temperatureC: number | null;
  /** Of the six hours before. */
  sixHours: ReportedRange;
  /** Of the calendar day in local standard time, in the report at its end. */
  day: ReportedRange;
}

const unknown: ReportedRange = { highestC: null, lowestC: null };

/**
 * The remarks of a METAR (FMH-1, chapter 12): `T02330150` is 23.3 °C; `10256 20144` the six hours' maximum of 25.6 °C and minimum
 * of 14.4 °C in the reports for 00, 06, 12 and 18 UTC; `402890144` the day's maximum of 28.9 °C and minimum of 14.4 °C in the report
 * for midnight. The body's whole degrees do not count: turned into °F they are up to one off.
 */
export function readMetar(stationId: string, report: string, at: Date): ReportedTemperatures {
  const [body = '', remarks = ''] = report.split(/\sRMK\s/);
  if (!body.split(/\s+/).includes(stationId)) return { temperatureC: null, sixHours: unknown, day: unknown };
  const group = (pattern: string) =>
    new RegExp(`(?:^|\\s)${pattern}(?=\\s|\\$|$)`).exec(remarks)?.slice(1) ?? [];
  const [sign, digits] = group(String.raw`T([01])(\d{3})(?:[01]\d{3}|/{4})?`);
  const isSixHourly = (hourOfReport(at) / HOUR_MS) % 6 === 0;
  const [highSign, high] = isSixHourly ? group(String.raw`1([01])(\d{3})`) : [];
  const [lowSign, low] = isSixHourly ? group(String.raw`2([01])(\d{3})`) : [];
  const [dayHighSign, dayHigh, dayLowSign, dayLow] = group(String.raw`4([01])(\d{3})([01])(\d{3})`);
  return {
    temperatureC: tenths(sign, digits),
    sixHours: { highestC: tenths(highSign, high), lowestC: tenths(lowSign, low) },
    day: { highestC: tenths(dayHighSign, dayHigh), lowestC: tenths(dayLowSign, dayLow) },
  };
}

/** The whole hour that a report is for, in ms since 1970. */
export const hourOfReport = (at: Date): number => Math.floor((at.getTime() + EARLY_MS) / HOUR_MS) * HOUR_MS;

/** A sign, 1 for below zero, and tenths of a degree. */
const tenths = (sign: string | undefined, digits: string | undefined): number | null =>
  digits === undefined ? null : ((sign === '1' ? -1 : 1) * Number(digits)) / 10;

export const toFahrenheit = (celsius: number): number => celsius * 1.8 + 32;
