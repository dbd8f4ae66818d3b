import { readEventTicker } from '../markets/event-ticker.js';
import { labelOf, type ListedMarket } from '../markets/market.js';
import { bracketLabel, parseBracket, type Bracket } from '../settlement/brackets.js';
import { sourceOn, type SettlementSource } from '../settlement/rules.js';
import { findSeries, type Place } from '../settlement/stations.js';

/** What a market is about, as far as its ticker tells it: old ones are no longer listed anywhere. */
export interface MarketName {
  ticker: string;
  eventTicker: string;
  /** Undefined for a series that is not known. */
  station: Place | undefined;
  /** The climate day, `YYYY-MM-DD`; null if the ticker does not say. */
  date: string | null;
  /** `84° to 85°`. */
  label: string;
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
  const bracket = bracketOf(ticker);
  const named = readEventTicker(eventTicker);
  const station = market?.station ?? findSeries(eventTicker.split('-')[0] ?? '')?.station;
  const date = market?.date ?? named?.date ?? null;
  return {
    ticker,
    eventTicker,
    station,
    date,
    source: market ? market.settlement.source : station && date !== null ? sourceOn(date) : null,
    label: market
      ? labelOf(market)
      : bracket
        ? bracketLabel(bracket)
        : (known ?? ticker.split('-').at(-1) ?? ticker),
  };
}

/** `-B84.5` is the middle of two degrees. `-T84` is either tail. */
function bracketOf(ticker: string): Bracket | undefined {
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
