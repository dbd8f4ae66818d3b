import type { StationForecast } from '../trading/forecast/forecast.js';
import type { MarketEvent } from '../trading/market/event.js';
import type { MarketData } from '../trading/market/source.js';
import type { GateBook } from '../trading/signals/gate.js';

/** What was known at one moment of the past, and nothing else. Moments come in the order of time. */
export interface Moment {
  at: Date;
  data: MarketData;
  /** Every event of `data`. */
  events: readonly MarketEvent[];
  /** The events that are decided on now; none at a moment that only settles. */
  due: readonly MarketEvent[];
  forecasts: ReadonlyMap<string, StationForecast>;
  gates: GateBook;
}

/** Moments to be run through as often as wanted. */
export interface MomentSource {
  /** What the markets and the forecasts are of, for the report. */
  name: string;
  /** How many there are; undefined while nobody knows. */
  count: number | undefined;
  moments: () => AsyncIterable<Moment> | Iterable<Moment>;
}
