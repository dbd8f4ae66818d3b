import { bracketRange } from './brackets.js';
import type { Place } from './stations.js';
import { isPlaced, type ListedMarket, type Market, type TemperatureKind } from './market.js';

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
  const byEvent = new Map<string, Market[]>();
  for (const market of markets) {
    if (!isPlaced(market)) continue;
    const found = byEvent.get(market.eventTicker);
    if (found) found.push(market);
    else byEvent.set(market.eventTicker, [market]);
  }
  return [...byEvent].map(([eventTicker, ofEvent]) => {
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
}

export const lowestOf = ({ bracket }: Market): number => bracketRange(bracket).lowest ?? -Infinity;
