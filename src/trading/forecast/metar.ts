const HOUR_MS = 60 * 60 * 1000;
/** Reports are made some minutes before the hour that they are for. */
const EARLY_MS = 15 * 60 * 1000;

/** Temperatures of a report that the daily climate report cannot be below, in tenths of °C as the station measured. */
export interface ReportedTemperatures {
  /** At the time of the report, °C. */
  temperatureC: number | null;
  /** The highest of the six hours before, °C. */
  sixHourMaximumC: number | null;
}

/**
 * The remarks of a METAR (FMH-1, chapter 12): `T02330150` is 23.3 °C, `10256` the six hours' maximum of 25.6 °C in the
 * reports for 00, 06, 12 and 18 UTC. The body's whole degrees do not count: turned into °F they are up to one off.
 */
export function readMetar(stationId: string, report: string, at: Date): ReportedTemperatures {
  const [body = '', remarks = ''] = report.split(/\sRMK\s/);
  const none = { temperatureC: null, sixHourMaximumC: null };
  if (!body.split(/\s+/).includes(stationId)) return none;
  const isSixHourly = Math.floor((at.getTime() + EARLY_MS) / HOUR_MS) % 6 === 0;
  return {
    temperatureC: tenths(/(?:^|\s)T([01])(\d{3})(?:[01]\d{3}|\/{4})?(?=\s|\$|$)/.exec(remarks)),
    sixHourMaximumC: isSixHourly ? tenths(/(?:^|\s)1([01])(\d{3})(?=\s|\$|$)/.exec(remarks)) : null,
  };
}

/** A sign, 1 for below zero, and tenths of a degree. */
const tenths = (found: RegExpExecArray | null): number | null =>
  found ? (found[1] === '1' ? -1 : 1) * (Number(found[2]) / 10) : null;

export const toFahrenheit = (celsius: number): number => celsius * 1.8 + 32;
