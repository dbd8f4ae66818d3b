import { writeEventTicker } from '../../../src/markets/market/event.js';
import { addDays } from '../../../src/markets/market/climate-day.js';
import { stations, type Station } from '../../../src/markets/market/stations.js';
import type { WireBook } from './fake-stream.js';
import { wireMarket, wireSeries, type FakeVenue } from './fake-venue.js';

type Json = Record<string, unknown>;

const HOUR_MS = 60 * 60 * 1000;
const hourly = [
  { series: 'KXTEMPMIAH', place: 'Miami, FL', zone: 'EST', offset: -5 },
  { series: 'KXTEMPNYCHS', place: 'New York City, NY', zone: 'EST', offset: -5 },
  { series: 'KXTEMPCHIHS', place: 'Chicago, IL', zone: 'CST', offset: -6 },
  { series: 'KXTEMPLAXHS', place: 'Los Angeles, CA', zone: 'PST', offset: -8 },
];
const months = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

/** Formats a date as `Nov 22, 2026`. */
const inWords = (date: string): string => {
  const [year, month, day] = date.split('-');
  return `${months[Number(month) - 1]} ${Number(day)}, ${year}`;
};

/**
 * Fills a venue as in autumn 2026: 48 daily series with two open days and a settled one each, hourly and rain markets,
 * current wording, about 1,500 markets in all. Temperatures and books are made up.
 */
export function fillVenue(venue: FakeVenue, at = '2026-11-22T15:30:00Z'): void {
  const today = at.slice(0, 10);
  venue.series = [
    ...stations.flatMap(({ series }) => [series.maximum, series.minimum]),
    ...hourly.map(({ series }) => series),
    'KXRAIN',
    'KXTORNADO',
  ].map(wireSeries);
  venue.markets = [
    ...stations.flatMap((station) =>
      (['maximum', 'minimum'] as const).flatMap((measure) =>
        [-1, 0, 1].flatMap((days) => dailyMarkets(station, measure, addDays(today, days), days < 0)),
      ),
    ),
    ...hourly.flatMap((area) => Array.from({ length: 12 }, (_, i) => hourMarkets(area, at, i + 1)).flat()),
    ...stations.map((station) => rainMarket(station, today)),
  ];
  for (const [i, market] of venue.markets.entries())
    if (market.status === 'active') {
      const book = inventBook(i);
      venue.books.set(String(market.ticker), book);
      Object.assign(market, topOf(book));
    }
}

function dailyMarkets(
  station: Station,
  measure: 'maximum' | 'minimum',
  date: string,
  isSettled: boolean,
): Json[] {
  const event = writeEventTicker(station.series[measure], date);
  const lowest = 60;
  const brackets: { floor?: number; cap?: number }[] = [
    { cap: lowest },
    ...[0, 2, 4, 6].map((step) => ({ floor: lowest + step, cap: lowest + step + 1 })),
    { floor: lowest + 7 },
  ];
  const hours = String(-station.standardOffsetHours).padStart(2, '0');
  return brackets.map((bracket, i) => {
    const { floor, cap } = bracket;
    const words =
      floor === undefined
        ? `less than ${cap}`
        : cap === undefined
          ? `greater than ${floor}`
          : `between ${floor}-${cap}`;
    return wireMarket(event, bracket, {
      open_time: `${addDays(date, -1)}T14:00:00Z`,
      close_time: `${addDays(date, 1)}T${hours}:00:00Z`,
      updated_time: `${addDays(date, -1)}T09:34:00Z`,
      rules_primary: `If the ${measure} temperature recorded at ${station.rulesCity} (${station.report}) for ${inWords(date)}, is ${words}° fahrenheit according to The Weather Company, then the market resolves to Yes.`,
      ...(isSettled
        ? { status: 'finalized', result: i === 1 ? 'yes' : 'no', expiration_value: '60.00' }
        : {}),
    });
  });
}

function hourMarkets(
  { series, place, zone, offset }: (typeof hourly)[number],
  at: string,
  ahead: number,
): Json[] {
  const end = new Date(Math.floor(Date.parse(at) / HOUR_MS) * HOUR_MS + ahead * HOUR_MS);
  const local = new Date(end.getTime() + offset * HOUR_MS);
  const hour = local.getUTCHours();
  const date = local.toISOString().slice(0, 10);
  const event = writeEventTicker(series, date, hour);
  return Array.from({ length: 11 }, (_, i) => 60 + 2 * i).map((floor) =>
    wireMarket(
      event,
      { floor: floor - 0.01 },
      {
        yes_sub_title: `${floor}° or above`,
        open_time: new Date(end.getTime() - 24 * HOUR_MS).toISOString(),
        close_time: end.toISOString(),
        updated_time: new Date(end.getTime() - 24 * HOUR_MS).toISOString(),
        rules_primary: `If the temperature recorded at ${place} for ${inWords(date)} at ${hour % 12 || 12} ${hour < 12 ? 'AM' : 'PM'} ${zone} as reported by Synoptic Data, is above ${floor - 0.01}°, then the market resolves to Yes.`,
        rules_secondary: 'The value is calculated in accordance with the Kalshi Weather Index Methodology.',
      },
    ),
  );
}

function rainMarket({ rulesCity, report, id }: Station, date: string): Json {
  const event = writeEventTicker('KXRAIN', date);
  return wireMarket(
    event,
    { floor: 0 },
    {
      ticker: `${event}-${id.slice(1)}`,
      yes_sub_title: rulesCity,
      close_time: `${addDays(date, 1)}T05:00:00Z`,
      updated_time: `${addDays(date, -1)}T09:34:00Z`,
      rules_primary: `If the total precipitation at ${report} in ${rulesCity} in ${inWords(date)} is strictly greater than 0 inches, then the market resolves to Yes.`,
    },
  );
}

/** Returns a book with twenty levels per side, some with fractional contracts. */
function inventBook(seed: number): WireBook {
  const middle = 25 + ((seed * 7) % 50);
  const levels = (best: number): [string, string][] =>
    Array.from({ length: Math.min(20, best) }, (_, i): [string, string] => [
      ((best - i) / 100).toFixed(4),
      (10 + ((seed * 13 + i * 17) % 90) + (i % 3 === 0 ? 0.14 : 0)).toFixed(2),
    ]).toReversed();
  return { yes_dollars: levels(middle), no_dollars: levels(100 - middle - 2) };
}

/** Returns the fields in which a listing shows a book's best prices. */
export function topOf({ yes_dollars: yes, no_dollars: no }: WireBook): Json {
  const [bid, size] = yes?.at(-1) ?? ['0.0000', '0.00'];
  const [noBid, noSize] = no?.at(-1) ?? ['0.0000', '0.00'];
  const rest = (price: string) => (1 - Number(price)).toFixed(4);
  return {
    yes_bid_dollars: bid,
    yes_bid_size_fp: size,
    yes_ask_dollars: rest(noBid),
    yes_ask_size_fp: noSize,
    no_bid_dollars: noBid,
    no_ask_dollars: rest(bid),
  };
}
