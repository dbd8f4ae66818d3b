import { bracketRange } from '../settlement/brackets.js';
import type { Station } from '../settlement/stations.js';
import type { Market } from './market.js';

/** One day at one station: brackets of which exactly one wins. */
export interface MarketEvent {
  eventTicker: string;
  station: Station;
  /** The climate day, `YYYY-MM-DD`. */
  date: string;
  /** From cold to warm. */
  markets: readonly Market[];
}

/** The markets by event, in the order of stations and days that they come in. */
export function groupEvents(markets: readonly Market[]): MarketEvent[] {
  const byEvent = new Map<string, Market[]>();
  for (const market of markets) {
    const found = byEvent.get(market.eventTicker);
    if (found) found.push(market);
    else byEvent.set(market.eventTicker, [market]);
  }
  return [...byEvent].map(([eventTicker, ofEvent]) => ({
    eventTicker,
    station: ofEvent[0]!.station,
    date: ofEvent[0]!.date,
    markets: ofEvent.toSorted((a, b) => lowestOf(a) - lowestOf(b)),
  }));
}

const lowestOf = ({ bracket }: Market): number => bracketRange(bracket).lowest ?? -Infinity;
