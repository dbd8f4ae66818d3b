import { bracketLabel, parseBracket, type Bracket } from './brackets.js';
import { readEventTicker, type NamedEvent } from './event.js';
import { cityOf, isPlaced, labelOf, type ListedMarket, type MarketKind } from './market.js';
import { sourceOn, type SettlementSource } from './rules.js';
import { findAreaOfSeries, findSeries, type Place } from './stations.js';

/** What a market is about, as far as its ticker tells it: old ones are no longer listed anywhere. */
export interface MarketName {
  ticker: string;
  eventTicker: string;
  /** Undefined for a series that is not known. */
  station: Place | undefined;
  /** Of the station; of a market without one what the venue says of it. Null if neither is known. */
  city: string | null;
  /** Null for a series that is not known. */
  kind: MarketKind | null;
  /** The climate day, `YYYY-MM-DD`, of an hour the date by the clock; null if the ticker does not say. */
  date: string | null;
  /** By the clock of the place; null but for hours. */
  hour: number | null;
  /** `84° to 85°`. */
  label: string;
  isListed: boolean;
  /** Who reports what it settles by, by the rules of its day; null where that is not certain. */
  source: SettlementSource | null;
}

/**
 * Names a market, from the market itself where it is listed.
 * @param known its bracket in words, as an order wrote it down; without it the ticker has to do
 */
export function nameMarket(
  ticker: string,
  market: ListedMarket | undefined,
  known?: string | null,
): MarketName {
  // Degrees may be below zero: `-B-3.5`.
  const eventTicker = market?.eventTicker ?? ticker.replace(/-([TB]-?[\d.]+|[^-]*)$/, '');
  const named = readEventTicker(eventTicker);
  const series = market ? undefined : findNamed(named);
  const station = market?.station ?? series?.station;
  const date = market?.date ?? named?.date ?? null;
  const bracket = bracketOf(ticker, series?.kind === 'hourly');
  return {
    ticker,
    eventTicker,
    station,
    city: market ? cityOf(market) : (station?.city ?? null),
    kind: market?.kind ?? series?.kind ?? null,
    date,
    hour: (market && isPlaced(market) ? market.hour : named?.hour) ?? null,
    label: market
      ? labelOf(market)
      : bracket
        ? bracketLabel(bracket)
        : (known ?? ticker.split('-').at(-1) ?? ticker),
    isListed: market !== undefined,
    source: market ? market.settlement.source : series && date !== null ? sourceOf(series.kind, date) : null,
  };
}

/** Where the rules themselves are no longer at hand. */
const sourceOf = (kind: MarketKind, date: string): SettlementSource =>
  kind === 'hourly' ? 'Kalshi Weather Index' : sourceOn(date);

function findNamed(named: NamedEvent | undefined): { station: Place; kind: MarketKind } | undefined {
  if (!named) return undefined;
  const area = named.hour === undefined ? undefined : findAreaOfSeries(named.seriesTicker);
  return area ? { station: area, kind: 'hourly' } : findSeries(named.seriesTicker);
}

/** `-B84.5` is the middle of two degrees. `-T84` is either tail of a day; of an hour it is a threshold: `-T89.99`. */
function bracketOf(ticker: string, isHour: boolean): Bracket | undefined {
  const threshold = isHour ? /-T(-?\d+(?:\.\d+)?)$/.exec(ticker)?.[1] : undefined;
  if (threshold !== undefined) return { kind: 'greater', floor: Number(threshold), cap: null, step: 0.01 };
  const strike = Number(/-B(-?\d+(?:\.\d+)?)$/.exec(ticker)?.[1] ?? Number.NaN);
  if (Number.isNaN(strike)) return undefined;
  return parseBracket({
    ticker,
    label: '',
    strikeType: 'between',
    floorStrike: Math.floor(strike),
    capStrike: Math.ceil(strike),
  });
}
