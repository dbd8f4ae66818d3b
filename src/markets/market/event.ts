import { groupBy } from '../../core/collections.js';
import { areThresholds, bracketPays, bracketRange, isPaid, isWholeLadder, outcomesOf } from './brackets.js';
import { dateFrom } from './climate-day.js';
import { isPlaced, targetOf, type ListedMarket, type Market, type OutcomeMarket } from './market.js';
import { DOLLAR } from './money.js';
import type { SettledDay } from './source.js';
import { findSeries } from './stations.js';

const months = ['JAN', 'FEB', 'MAR', 'APR', 'MAY', 'JUN', 'JUL', 'AUG', 'SEP', 'OCT', 'NOV', 'DEC'];

export interface NamedEvent {
  seriesTicker: string;
  /** `YYYY-MM-DD`. */
  date: string;
  /** Local clock hour; for hourly events only. */
  hour?: number;
}

/**
 * `KXHIGHNY-25JAN16` is the series KXHIGHNY on 2025-01-16, and `KXTEMPMIAH-26SEP1312` the hour from 12:00 by the local
 * clock. Undefined for any other ticker.
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

export interface EventEnds {
  outcomes: readonly EventEnd[];
  /** Markets without a known relation to the others. */
  free: ReadonlySet<string>;
}

interface EventEnd {
  /** The winning bracket, or the highest threshold passed; null if no known market wins. */
  ticker: string | null;
  paying: ReadonlySet<string>;
}

/**
 * Exactly one bracket of a day wins, possibly an unknown one; every threshold that an hour's temperature passes pays.
 * Markets of unlisted series other than daily ones may pay together.
 * @param event undefined if the venue does not list it
 * @param tickers other markets of the event
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

/** The markets on one temperature. */
export interface MarketEvent<M = Market> extends Pick<Market, 'kind' | 'station' | 'date' | 'hour'> {
  eventTicker: string;
  /** From coldest to warmest. */
  markets: readonly M[];
}

export const groupEvents = (markets: readonly ListedMarket[]): MarketEvent[] =>
  groupByEvent(markets.filter(isPlaced));

export const groupByEvent = <M extends OutcomeMarket>(markets: readonly M[]): MarketEvent<M>[] =>
  [...groupBy(markets, ({ eventTicker }) => eventTicker)].map(([eventTicker, ofEvent]) => {
    const { kind, station, date, hour } = ofEvent[0]!;
    return {
      eventTicker,
      kind,
      station,
      date,
      ...(hour === undefined ? {} : { hour }),
      markets: ofEvent.toSorted((a, b) => lowestOf(a) - lowestOf(b)),
    };
  });

export const lowestOf = ({ bracket }: Pick<Market, 'bracket'>): number =>
  bracketRange(bracket).lowest ?? -Infinity;

/**
 * The reported temperature must agree with the payouts. Results before `finalized` may still change; void and split
 * payouts have no outcome to score.
 */
export function finalOutcomes(events: readonly MarketEvent<OutcomeMarket>[]): Omit<SettledDay, 'knownAt'>[] {
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
