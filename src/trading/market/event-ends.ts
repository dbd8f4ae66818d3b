import { areThresholds, isWholeLadder } from './brackets.js';
import { isPaid, outcomesOf } from './outcomes.js';
import { findSeries } from './stations.js';
import type { MarketEvent } from './event.js';
import { readEventTicker } from './event-ticker.js';

/** How an event can end. */
export interface EventEnds {
  /** One of these comes. */
  outcomes: readonly EventEnd[];
  /** Markets of which nothing is known but that each pays or not, whatever the others do. */
  free: ReadonlySet<string>;
}

export interface EventEnd {
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
