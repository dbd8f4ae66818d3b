import { bracketLabel, parseBracket, type Bracket } from './brackets.js';
import { readEventTicker, type NamedEvent } from './event.js';
import { cityOf, isPlaced, labelOf, type ListedMarket, type MarketKind } from './market.js';
import { sourceOn, type SettlementSource } from './rules.js';
import { findAreaOfSeries, findSeries } from './stations.js';
import type { Place } from './place.js';

export type MarketName = ReturnType<typeof nameMarket>;

/** @param known the bracket's label as stored with an order; without it, the ticker is parsed */
export function nameMarket(ticker: string, market: ListedMarket | undefined, known?: string | null) {
  // Degrees may be negative, as in `-B-3.5`.
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
    /** For an hour, the local calendar date. Null if the ticker does not contain it. */
    date,
    /** Local clock; for hourly markets only. */
    hour: (market && isPlaced(market) ? market.hour : named?.hour) ?? null,
    bracket: market ? market.bracket : (bracket ?? null),
    label: market
      ? labelOf(market)
      : bracket
        ? bracketLabel(bracket)
        : (known ?? ticker.split('-').at(-1) ?? ticker),
    isListed: market !== undefined,
    /** Under the rules in force on the market's day; null if not certain. */
    source: market ? market.settlement.source : series && date !== null ? sourceOf(series.kind, date) : null,
  };
}

const sourceOf = (kind: MarketKind, date: string): SettlementSource =>
  kind === 'hourly' ? 'Kalshi Weather Index' : sourceOn(date);

function findNamed(named: NamedEvent | undefined): { station: Place; kind: MarketKind } | undefined {
  if (!named) return undefined;
  const area = named.hour === undefined ? undefined : findAreaOfSeries(named.seriesTicker);
  return area ? { station: area, kind: 'hourly' } : findSeries(named.seriesTicker);
}

/** `-B84.5` is the midpoint of a bracket. `-T84` is either tail of a day, but `-T89.99` is the threshold of an hour. */
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
