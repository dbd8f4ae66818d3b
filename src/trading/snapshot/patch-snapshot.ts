import type { MarketEvent } from '../market/event.js';
import { isPlaced, type ListedMarket } from '../market/market.js';
import type { MarketData } from '../market/source.js';
import { withholdDoubtful } from '../signals/withhold.js';
import { refreshOf, type Snapshot } from './snapshot.js';

/**
 * The snapshot with what the venue has told of some markets since its refresh. Everything else is the same objects as
 * before: nothing is forecast or sized anew, and signals of markets whose book is in doubt are withheld until it is not.
 */
export function patchSnapshot(snapshot: Snapshot, data: MarketData, sequence: number): Snapshot {
  const changed = new Map<string, ListedMarket>();
  for (const [i, market] of data.markets.entries())
    if (market !== snapshot.data.markets[i]) changed.set(market.ticker, market);
  const refreshed = refreshOf(snapshot);
  return Object.freeze({
    ...snapshot,
    sequence,
    data,
    markets: changed.size === 0 ? snapshot.markets : new Map([...snapshot.markets, ...changed]),
    events: changed.size === 0 ? snapshot.events : snapshot.events.map((event) => patchEvent(event, changed)),
    signals:
      data.doubts === snapshot.data.doubts
        ? snapshot.signals
        : withholdDoubtful(refreshed.signals, data.doubts),
    refreshed,
  });
}

function patchEvent(event: MarketEvent, changed: ReadonlyMap<string, ListedMarket>): MarketEvent {
  if (!event.markets.some(({ ticker }) => changed.has(ticker))) return event;
  const markets = event.markets.map((market) => {
    const now = changed.get(market.ticker);
    return now && isPlaced(now) ? now : market;
  });
  return { ...event, markets };
}
