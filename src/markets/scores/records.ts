import type { Database } from '../../core/db/client.js';
import { groupBy } from '../../core/collections.js';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../core/time.js';
import { meanAndVariance } from '../weather/weather.js';
import { forecastOf, type DayForecast } from '../learning/forecast.js';
import { readReports, toTarget, type SourceNames } from '../learning/queries.js';
import type { forecastRecords, ForecastRecord } from '../learning/table.js';
import type { MarketEvent } from '../market/event.js';
import { feeRuleOf } from '../market/fees.js';
import { dateOf } from '../market/climate-day.js';
import { spanOf, targetOf, temperatureKinds, type Target } from '../market/market.js';
import type { SettledDay } from '../market/source.js';
import { areOutcomesKnown, outcomesOf } from '../market/brackets.js';
import type { Situation } from '../signals/event-case.js';
import { leadsOf } from '../signals/signal.js';
import { costsOf, impliedProbabilities, type ScorableRecord } from './score.js';

/** A late forecast is not recorded at all, so that none is recorded in hindsight. */
export const RECORD_WINDOW_MS = 5 * MINUTE_MS;
export const PAST_DAYS = 75;
const MAX_AGE_MS = MINUTE_MS;

export type NewRecord = typeof forecastRecords.$inferInsert & ScorableRecord & Pick<ForecastRecord, 'hour'>;

export const targetOfRecord = (record: Pick<ForecastRecord, 'kind' | 'station' | 'date' | 'hour'>): Target =>
  toTarget({ kind: record.kind, stationId: record.station, date: record.date, hour: record.hour });

export type RecordInputs = SourceNames & Omit<Situation, 'gates'>;

/** One for each event and lead whose time has just arrived. */
export function recordsDue(inputs: RecordInputs, climates: Climates = new Map()): NewRecord[] {
  const { data, events, at } = inputs;
  if (at.getTime() - data.fetchedAt.getTime() > MAX_AGE_MS) return [];
  return events.flatMap((event) => {
    const lead = leadAt(event, at);
    const day = forecastOf(inputs.forecasts, event);
    if (lead === undefined || !day || day.isRunUnknown || !isRecordable(event)) return [];
    return [toRecord(inputs, event, day, lead, climates.get(climateKey(targetOf(event))))];
  });
}

function leadAt(event: MarketEvent, at: Date): number | undefined {
  const { end } = spanOf(event.station, event);
  return leadsOf(event.kind).find((lead) => {
    const since = at.getTime() - (end.getTime() - lead * HOUR_MS);
    return since >= 0 && since < RECORD_WINDOW_MS;
  });
}

const isRecordable = ({ markets }: MarketEvent): boolean =>
  markets.every(({ status }) => status === 'active') &&
  areOutcomesKnown(markets.map(({ bracket }) => bracket));

function toRecord(
  { marketSource, forecastSource, data, at }: RecordInputs,
  { kind, station, date, hour = 0, markets }: MarketEvent,
  day: DayForecast,
  leadHours: number,
  climate: Climate | undefined,
): NewRecord {
  const feeRule = feeRuleOf(data, markets[0]!);
  const implied = impliedProbabilities(
    markets.map(({ ticker }) => data.books.get(ticker)),
    outcomesOf(markets.map(({ bracket }) => bracket)),
  );
  const { mean, deviation, atLeast, atMost = null, stays = null, shape = 'normal' } = day.distribution;
  return {
    kind,
    station: station.id,
    date,
    hour,
    leadHours,
    recordedAt: at,
    marketSource,
    forecastSource,
    method: day.method,
    fitId: (day.running?.fit ?? day.fit)?.id ?? null,
    modelRunAt: day.modelRunAt,
    mean,
    deviation,
    atLeast,
    atMost,
    stays,
    shape,
    members: [...day.membersF],
    models: recordedModels(day),
    climateMean: climate?.mean ?? null,
    climateDeviation: climate?.deviation ?? null,
    brackets: markets.map(({ ticker, bracket: { floor, cap } }, i) => ({
      ticker,
      floor,
      cap,
      model: day.probabilities.get(ticker)!,
      market: implied?.[i] ?? null,
      cost: costsOf(data.books.get(ticker), feeRule),
    })),
  };
}

/** With observations, the score no longer reflects the models' own forecasts. */
function recordedModels({ models, observed }: DayForecast): ForecastRecord['models'] {
  if (!models || observed) return null;
  return models
    .filter(({ weight }) => weight > 0)
    .map(({ model, weight, meanF: mean, deviationF: deviation, shape }) => ({
      model,
      weight,
      mean,
      deviation,
      shape,
    }));
}

const WINDOW_DAYS = 30;
/** Fewer days do not represent a season. */
const MIN_DAYS = 10;
/** °F: a few similar days do not make the next one certain. */
const MIN_DEVIATION_F = 1;

/** Recent days, or one hour across days, at a station. */
export interface Climate {
  mean: number;
  deviation: number;
}

/** By `climateKey`. */
export type Climates = ReadonlyMap<string, Climate>;

/** Each hour has its own. */
export const climateKey = ({ kind, stationId, hour }: Omit<Target, 'date'>): string =>
  hour === undefined ? `${kind} ${stationId}` : `${kind} ${stationId} ${hour}`;

/** Reports of the last 30 days that were known at the time. Targets with fewer than 10 have no climate. */
export async function readClimates(
  { orm }: Database,
  { marketSource, targets, at }: { marketSource: string; targets: readonly Target[]; at: Date },
): Promise<Climates> {
  const from = dateOf(at.getTime() - WINDOW_DAYS * DAY_MS);
  const reports: SettledDay[] = [];
  for (const kind of temperatureKinds)
    for (const stationId of stationsOf(targets, kind))
      reports.push(...(await readReports(orm, { marketSource, kind, stationId, from, at })));
  return climatesOf(reports);
}

const stationsOf = (targets: readonly Target[], kind: Target['kind']): Set<string> =>
  new Set(targets.filter((target) => target.kind === kind).map(({ stationId }) => stationId));

export function climatesOf(reports: readonly SettledDay[]): Climates {
  return new Map(
    [...groupBy(reports, climateKey)].flatMap(([key, group]): [string, Climate][] => {
      const climate = climateOf(group.map(({ temperatureF }) => temperatureF));
      return climate ? [[key, climate]] : [];
    }),
  );
}

export function climateOf(reportsF: readonly number[]): Climate | undefined {
  if (reportsF.length < MIN_DAYS) return undefined;
  const { mean, variance } = meanAndVariance(reportsF);
  return { mean, deviation: Math.max(MIN_DEVIATION_F, Math.sqrt(variance)) };
}
