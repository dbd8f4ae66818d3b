import type { Logger } from 'pino';
import { allAtOnce, type Steps } from '../../core/steps.js';
import type { WeatherData } from '../weather/weather.js';
import type { ForecastModel } from '../learning/forecast.js';
import { groupEvents, type MarketEvent } from '../market/event.js';
import { isPlaced, type ListedMarket } from '../market/market.js';
import type { Micros } from '../market/money.js';
import type { MarketData } from '../market/source.js';
import { withholdDoubtful } from '../signals/event-case.js';
import { makeSignalsInSteps } from '../signals/signals.js';
import { refreshOf, type Calibration, type Snapshot, type SourceState } from './snapshot.js';

/** Nothing is forecast or sized again, but signals with a doubtful book are withheld. */
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

export interface SnapshotInputs {
  sequence: number;
  /** The snapshot contains nothing later. */
  at: Date;
  data: MarketData;
  weather: WeatherData | undefined;
  calibration: Calibration;
  sources: readonly SourceState[];
}

export interface SnapshotRules {
  marketSource: string;
  forecastSource: string;
  bankroll: Micros;
  model: ForecastModel;
}

/**
 * The same inputs give the same snapshot, whenever and in however many steps.
 * @param before if the model fails, its forecasts are reused and keep their original times
 */
export function* buildSnapshotInSteps(
  inputs: SnapshotInputs,
  rules: SnapshotRules,
  before: Pick<Snapshot, 'forecasts'> | undefined,
  log: Pick<Logger, 'error'>,
): Steps<Snapshot> {
  const { sequence, at, data, calibration, sources } = inputs;
  const { gates } = calibration;
  const events = groupEvents(data.markets);
  yield;
  const forecasts = yield* forecastInSteps(inputs, rules, events, before, log);
  yield;
  const signals = yield* makeSignalsInSteps({ data, events, forecasts, gates, bankroll: rules.bankroll, at });
  return Object.freeze({
    sequence,
    asOf: data.fetchedAt,
    marketSource: rules.marketSource,
    data,
    markets: new Map(data.markets.map((market) => [market.ticker, market])),
    events,
    forecasts,
    gates,
    signals,
    sources,
  });
}

export const buildSnapshot = (...input: Parameters<typeof buildSnapshotInSteps>): Snapshot =>
  allAtOnce(buildSnapshotInSteps(...input));

function* forecastInSteps(
  { weather, calibration, at }: SnapshotInputs,
  { model, forecastSource }: SnapshotRules,
  events: readonly MarketEvent[],
  before: Pick<Snapshot, 'forecasts'> | undefined,
  log: Pick<Logger, 'error'>,
): Steps<Snapshot['forecasts']> {
  if (!weather) return new Map();
  try {
    return yield* model.inSteps({ source: forecastSource, weather, events, fits: calibration.fits, at });
  } catch (error) {
    log.error({ err: error }, 'the forecast could not be computed; the previous one is kept');
    return before?.forecasts ?? new Map();
  }
}
