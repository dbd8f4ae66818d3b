import type { MarketEvent } from '../../src/trading/market/event.js';
import type { Market } from '../../src/trading/market/market.js';
import { CENT, DOLLAR } from '../../src/trading/market/money.js';
import { hourOf } from '../../src/trading/market/climate-day.js';
import { findPlace } from '../../src/trading/market/stations.js';

/** The thresholds of an hour in New York: above each of these. */
export function makeHour({
  date,
  hour,
  floors = [70.99, 71.99, 72.99],
  over = {},
}: {
  date: string;
  hour: number;
  floors?: number[];
  over?: Partial<Market>;
}): MarketEvent {
  const station = findPlace('INDEX-NYC')!;
  const seriesTicker = 'KXTEMPNYCHS';
  const eventTicker = `${seriesTicker}-${date}-${hour}`;
  const at = hourOf(station, date, hour);
  const markets = floors.map((floor): Market => ({
    ticker: `${eventTicker}-T${floor}`,
    eventTicker,
    seriesTicker,
    kind: 'hourly',
    station,
    date,
    hour,
    bracket: { kind: 'greater', floor, cap: null, step: 0.01 },
    status: 'active',
    yesBid: null,
    yesAsk: null,
    noBid: null,
    noAsk: null,
    lastPrice: null,
    volume: 0,
    volume24h: 0,
    openInterest: 0,
    openTime: new Date(at.getTime() - 86_400_000),
    closeTime: at,
    priceRanges: [{ start: 0n, end: DOLLAR, step: CENT }],
    settlement: { source: 'Kalshi Weather Index', rulesText: '' },
    settlementValue: null,
    settledTemperature: null,
    ...over,
  }));
  return { eventTicker, kind: 'hourly', station, date, hour, markets };
}
