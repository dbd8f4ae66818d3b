import { z } from 'zod';
import { DAY_MS } from '../../core/time.js';
import { NWS_USER_AGENT } from '../weather/nws-observations.js';
import { readJson } from '../weather/read-json.js';
import { climateDayOf, dateFrom } from '../market/climate-day.js';
import type { Station } from '../market/stations.js';

const listSchema = z.looseObject({
  '@graph': z
    .array(
      z.looseObject({
        id: z.string().regex(/^[\w-]{1,100}$/),
        issuanceTime: z.iso.datetime({ offset: true }),
        productCode: z.literal('CLI'),
      }),
    )
    .max(1_000),
});

const productSchema = z.looseObject({ productText: z.string().max(100_000) });

export type ClimateReader = ReturnType<typeof createClimateReader>;

/** Both methods can reject with any error of `readJson`. */
export function createClimateReader({ baseUrl }: { baseUrl: string }) {
  const headers = { 'user-agent': NWS_USER_AGENT, accept: 'application/ld+json' };
  return {
    /** About a week's worth, oldest first. */
    async list({ report }: Station, signal: AbortSignal) {
      const url = `${baseUrl}/products/types/CLI/locations/${report.slice(3)}`;
      const { '@graph': listed } = await readJson({ url, headers, schema: listSchema, signal });
      return listed
        .map(({ id, issuanceTime }) => ({ id, issuedAt: new Date(issuanceTime) }))
        .sort((a, b) => a.issuedAt.getTime() - b.issuedAt.getTime());
    },
    async read(station: Station, { id, issuedAt }: { id: string; issuedAt: Date }, signal: AbortSignal) {
      const url = `${baseUrl}/products/${id}`;
      const { productText } = await readJson({ url, headers, schema: productSchema, signal });
      return readClimateProduct(productText, station, issuedAt);
    },
  };
}

export type ClimateProduct = NonNullable<ReturnType<typeof readClimateProduct>>;

const months = `JANUARY FEBRUARY MARCH APRIL MAY JUNE JULY AUGUST SEPTEMBER OCTOBER NOVEMBER DECEMBER`.split(
  ' ',
);
/** `CDUS41 KOKX 200644 CCA`, with the report's name on the next line. */
const heading = /^[A-Z]{4}\d\d [A-Z]{4} (\d\d)(\d\d)(\d\d)(?: ([A-Z]{3}))?\s*\n(CLI[A-Z]{3})\s*$/m;

/**
 * A report on the day so far contains `VALID TODAY AS OF 0400 PM`, or in Denver and Austin `VALID AS OF 0600 AM`; a
 * final one is headed YESTERDAY. The place name cannot identify the station: CLIMSP is headed TWIN CITIES.
 * @param near listed time of issue, because the header has neither month nor year
 * @returns undefined if the text is not a report for this station
 */
export function readClimateProduct(
  text: string,
  station: Pick<Station, 'id' | 'report' | 'standardOffsetHours'>,
  near: Date,
) {
  const [head, day, hour, minute, addition, report] = heading.exec(text.replaceAll('\r', '')) ?? [];
  const date = readDate(text);
  const values = /^TEMPERATURE \(F\)([\s\S]*?)(?:\n\s*PRECIPITATION|$(?![\s\S]))/m.exec(text)?.[1];
  if (head === undefined || report !== station.report || date === undefined || values === undefined)
    return undefined;
  const issuedAt = issueTime(near, Number(day), Number(hour), Number(minute));
  if (!issuedAt) return undefined;
  const isOfToday = /\bVALID(?: TODAY)? AS OF\b/.test(text) || /^\s*TODAY\b/m.test(values);
  return {
    stationId: station.id,
    date,
    /** From the message's WMO header. */
    issuedAt,
    /** False for a report on the day so far. */
    isFinal: !isOfToday && issuedAt >= climateDayOf(station, date).end,
    isCorrection: addition?.startsWith('CC') === true || /^.*CLIMATE REPORT.*CORRECT/m.test(text),
    /** Whole °F; null if the report gives no value (`MM`). */
    maximumF: readValue(values, 'MAXIMUM'),
    minimumF: readValue(values, 'MINIMUM'),
  };
}

function readDate(text: string): string | undefined {
  const [, month, day, year] = /CLIMATE SUMMARY FOR ([A-Z]+) (\d{1,2}),? (\d{4})/.exec(text) ?? [];
  const index = months.indexOf(month ?? '');
  if (index < 0) return undefined;
  return dateFrom(year!, index + 1, day!);
}

/** The result is within a day of `near`; undefined if no time matches. */
function issueTime(near: Date, day: number, hour: number, minute: number): Date | undefined {
  return [-1, 0, 1]
    .map((days) => {
      const date = new Date(near.getTime() + days * DAY_MS);
      return new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate(), hour, minute));
    })
    .find((at) => at.getUTCDate() === day && Math.abs(at.getTime() - near.getTime()) <= DAY_MS);
}

/** `MAXIMUM         78   3:53 PM  92 …`; an `R` after the value marks a record. */
function readValue(section: string, name: 'MAXIMUM' | 'MINIMUM'): number | null {
  const [, value] = new RegExp(`^\\s*${name}\\s+(-?\\d{1,3})R?(?=\\s|$)`, 'm').exec(section) ?? [];
  return value === undefined ? null : Number(value);
}
