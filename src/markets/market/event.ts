import { groupBy } from '../../core/collections.js';
import { areThresholds, bracketPays, bracketRange, isPaid, isWholeLadder, outcomesOf } from './brackets.js';
import { dateFrom } from './climate-day.js';
import { isPlaced, targetOf, type ListedMarket, type Market, type TemperatureKind } from './market.js';
import { DOLLAR } from './money.js';
import type { SettledDay } from './source.js';
import { findSeries, type Place } from './stations.js';

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
  const date = dateFrom(`20${year}`, month, day!);
  if (date === undefined) return undefined;
  return { seriesTicker, date, ...(hour === undefined ? {} : { hour: Number(hour) }) };
}

export function writeEventTicker(seriesTicker: string, date: string, hour?: number): string {
  const [year = '', month, day] = date.split('-');
  const clock = hour === undefined ? '' : String(hour).padStart(2, '0');
  return `${seriesTicker}-${year.slice(2)}${months[Number(month) - 1]}${day}${clock}`;
}

/** How an event can end. */
export interface EventEnds {
  /** One of these comes. */
  outcomes: readonly EventEnd[];
  /** Markets of which nothing is known but that each pays or not, whatever the others do. */
  free: ReadonlySet<string>;
}

interface EventEnd {
  /** The market that it is named after: the bracket that wins, the highest threshold that is passed; null: none that is known. */
  ticker: string | null;
  /** Everything of which YES pays. */
  paying: ReadonlySet<string>;
}

/**
 * What can be netted of an event, and what cannot. Of the brackets of a day exactly one wins, and unless all of them are known it
 * may be yet another one; of an hour's thresholds all pay that are passed. Where an event is not listed, only one of a day's series
 * is known to have brackets: the markets of any other may pay together.
 * @param event if the venue lists it
 * @param tickers further markets of the event
 */
export function endsOf(
  eventTicker: string,
  event: Pick<MarketEvent, 'kind' | 'markets'> | undefined,
  tickers: Iterable<string>,
): EventEnds {
  const markets = event?.markets ?? [];
  const brackets = markets.map(({ bracket }) => bracket);
  const known = markets.map(({ ticker }) => ticker);
  const unknown = new Set([...tickers].filter((ticker) => !known.includes(ticker)));
  if (areThresholds(brackets)) return { outcomes: endsOfThresholds(markets), free: unknown };
  const isDay = event ? event.kind !== 'hourly' : isDaily(eventTicker);
  if (!isDay) return { outcomes: [], free: new Set([...known, ...unknown]) };
  const isWhole = isWholeLadder(brackets) && unknown.size === 0;
  const winners = [...known, ...unknown, ...(isWhole ? [] : [null])];
  return {
    outcomes: winners.map((ticker) => ({ ticker, paying: new Set(ticker === null ? [] : [ticker]) })),
    free: new Set(),
  };
}

function endsOfThresholds(markets: MarketEvent['markets']): EventEnd[] {
  const { ranges, pays } = outcomesOf(markets.map(({ bracket }) => bracket));
  return ranges.map((_, outcome) => ({
    ticker: markets.find((_, i) => pays[i]!.from === outcome)?.ticker ?? null,
    paying: new Set(markets.filter((_, i) => isPaid(pays[i]!, outcome)).map(({ ticker }) => ticker)),
  }));
}

function isDaily(eventTicker: string): boolean {
  const named = readEventTicker(eventTicker);
  return named !== undefined && findSeries(named.seriesTicker) !== undefined;
}

/** One temperature: of the brackets of a day exactly one wins, of an hour's thresholds all that it is above. */
export interface MarketEvent {
  eventTicker: string;
  kind: TemperatureKind;
  station: Place;
  /** The climate day, `YYYY-MM-DD`; of an hour the date by the clock. */
  date: string;
  /** By the clock of the place; of an hour only. */
  hour?: number;
  /** From cold to warm. */
  markets: readonly Market[];
}

/** The markets that have a place by event, in the order that they come in. */
export function groupEvents(markets: readonly ListedMarket[]): MarketEvent[] {
  return [...groupBy(markets.filter(isPlaced), ({ eventTicker }) => eventTicker)].map(
    ([eventTicker, ofEvent]) => {
      const { kind, station, date, hour } = ofEvent[0]!;
      return {
        eventTicker,
        kind,
        station,
        date,
        ...(hour === undefined ? {} : { hour }),
        markets: ofEvent.toSorted((a, b) => lowestOf(a) - lowestOf(b)),
      };
    },
  );
}

export const lowestOf = ({ bracket }: Market): number => bracketRange(bracket).lowest ?? -Infinity;

/**
 * The days and hours that the venue is done with, and whose reported temperature agrees with what it pays. Before that the
 * result may still change; one that was paid in another way (void, split) has no outcome to score by.
 */
export function finalOutcomes(events: readonly MarketEvent[]): Omit<SettledDay, 'knownAt'>[] {
  return events.flatMap((event) => {
    const { markets } = event;
    const temperatureF = markets[0]?.settledTemperature ?? null;
    const isSettled = markets.every(
      ({ status, settledTemperature, settlementValue, bracket }) =>
        status === 'finalized' &&
        settledTemperature === temperatureF &&
        temperatureF !== null &&
        settlementValue === (bracketPays(bracket, temperatureF) ? DOLLAR : 0n),
    );
    return isSettled && temperatureF !== null ? [{ ...targetOf(event), temperatureF }] : [];
  });
}
