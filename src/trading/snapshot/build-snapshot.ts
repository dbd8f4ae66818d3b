import type { Logger } from 'pino';
import type { Calibration } from './calibration.js';
import type { ForecastModel, WeatherData } from '../forecast/forecast.js';
import { groupEvents, type MarketEvent } from '../market/event.js';
import type { MarketData } from '../market/source.js';
import type { Micros } from '../market/money.js';
import { makeSignalsInSteps } from '../signals/signals.js';
import type { Snapshot, SourceState } from './snapshot.js';
import { allAtOnce, type Steps } from '../market/steps.js';

/** All that a snapshot is made of, and all that changes from one to the next. */
export interface SnapshotInputs {
  sequence: number;
  /** When it is made: nothing later is in it. */
  at: Date;
  data: MarketData;
  /** Undefined until there has been an answer. */
  weather: WeatherData | undefined;
  calibration: Calibration;
  sources: readonly SourceState[];
}

/** What stays the same while the service runs. */
export interface SnapshotRules {
  marketSource: string;
  forecastSource: string;
  bankroll: Micros;
  model: ForecastModel;
}

/**
 * Makes a snapshot of its inputs alone: the same inputs give the same one, here or on another day, in however many pauses.
 * @param before where the model fails its forecasts stay, and grow old
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
  const forecasts = forecast(inputs, rules, events, before, log);
  yield;
  const situation = { data, events, forecasts, gates, bankroll: rules.bankroll, at };
  const signals = yield* makeSignalsInSteps(situation);
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

function forecast(
  { weather, calibration, at }: SnapshotInputs,
  { model, forecastSource }: SnapshotRules,
  events: readonly MarketEvent[],
  before: Pick<Snapshot, 'forecasts'> | undefined,
  log: Pick<Logger, 'error'>,
): Snapshot['forecasts'] {
  if (!weather) return new Map();
  try {
    return model({ source: forecastSource, weather, events, fits: calibration.fits, at });
  } catch (error) {
    log.error({ err: error }, 'the forecast could not be made: the last one stays');
    return before?.forecasts ?? new Map();
  }
}
