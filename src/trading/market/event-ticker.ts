const months = ['JAN', 'FEB', 'MAR', 'APR', 'MAY', 'JUN', 'JUL', 'AUG', 'SEP', 'OCT', 'NOV', 'DEC'];

export interface NamedEvent {
  seriesTicker: string;
  /** `YYYY-MM-DD` */
  date: string;
  /** By the clock of the place, 0 to 23; of an hour only. */
  hour?: number;
}

/**
 * `KXHIGHNY-25JAN16` is the series KXHIGHNY and the day 2025-01-16, `KXTEMPMIAH-26SEP1312` the hour from 12 on that day's
 * clock. Undefined for what names no series and day.
 */
export function readEventTicker(ticker: string): NamedEvent | undefined {
  const [, seriesTicker, year, name, day, hour] =
    /^([A-Z0-9]+)-(\d\d)([A-Z]{3})(\d\d)(\d\d)?$/.exec(ticker) ?? [];
  const month = months.indexOf(name ?? '') + 1;
  if (seriesTicker === undefined || month === 0 || Number(hour ?? 0) > 23) return undefined;
  const date = `20${year}-${String(month).padStart(2, '0')}-${day}`;
  const midnight = new Date(`${date}T00:00:00Z`);
  // The 31st of a month that has 30 days is no day, and neither is the 99th.
  const isDay = !Number.isNaN(midnight.getTime()) && midnight.toISOString().startsWith(date);
  return isDay ? { seriesTicker, date, ...(hour === undefined ? {} : { hour: Number(hour) }) } : undefined;
}

export function writeEventTicker(seriesTicker: string, date: string, hour?: number): string {
  const [year = '', month, day] = date.split('-');
  const clock = hour === undefined ? '' : String(hour).padStart(2, '0');
  return `${seriesTicker}-${year.slice(2)}${months[Number(month) - 1]}${day}${clock}`;
}
