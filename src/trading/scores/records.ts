import { forecastOf, type DayForecast, type StationForecast } from '../forecast/forecast.js';
import type { forecastRecords } from '../forecast/table.js';
import type { MarketEvent } from '../market/event.js';
import { spanOf, targetOf, type Target } from '../market/market.js';
import type { MarketData } from '../market/source.js';
import { DOLLAR } from '../market/money.js';
import { bracketPays } from '../market/brackets.js';
import { areOutcomesKnown, outcomesOf } from '../market/outcomes.js';
import { climateKey, type Climate, type Climates } from './climate.js';
import { leadsOf } from '../signals/leads.js';
import { impliedProbabilities } from './score.js';
import type { ScorableRecord } from './score-record.js';

const HOUR_MS = 60 * 60 * 1000;

/** A record is made within this time or not at all: nobody writes down later what was thought before. */
export const RECORD_WINDOW_MS = 5 * 60 * 1000;
/** How far back the records of an invented world are made. */
export const PAST_DAYS = 75;
/** Prices older than this are not those of the moment. */
const MAX_AGE_MS = 60 * 1000;

export type ForecastRecord = typeof forecastRecords.$inferSelect;
/** With everything that it will be scored by. */
export type NewRecord = typeof forecastRecords.$inferInsert & ScorableRecord & Pick<ForecastRecord, 'hour'>;

/** What a record is of. The hour that is stored of a day means nothing. */
export const targetOfRecord = ({
  kind,
  station: stationId,
  date,
  hour,
}: Pick<ForecastRecord, 'kind' | 'station' | 'date' | 'hour'>): Target =>
  kind === 'hourly' ? { kind, stationId, date, hour } : { kind, stationId, date };

/** What was known at one time, of the markets and of the weather. */
export interface Scene {
  marketSource: string;
  forecastSource: string;
  data: MarketData;
  events: readonly MarketEvent[];
  forecasts: ReadonlyMap<string, StationForecast>;
  at: Date;
}

/** The records that are due now: one for each event and lead whose moment has just come. */
export function recordsDue(scene: Scene, climates: Climates = new Map()): NewRecord[] {
  const { data, events, at } = scene;
  if (at.getTime() - data.fetchedAt.getTime() > MAX_AGE_MS) return [];
  return events.flatMap((event) => {
    const lead = leadAt(event, at);
    const day = forecastOf(scene.forecasts, event);
    if (lead === undefined || !day || !isRecordable(event)) return [];
    return [toRecord(scene, event, day, lead, climates.get(climateKey(targetOf(event))))];
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
  { marketSource, forecastSource, data, at }: Scene,
  { kind, station, date, hour = 0, markets }: MarketEvent,
  day: DayForecast,
  leadHours: number,
  climate: Climate | undefined,
): NewRecord {
  const implied = impliedProbabilities(
    markets.map(({ ticker }) => data.books.get(ticker)),
    outcomesOf(markets.map(({ bracket }) => bracket)),
  );
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
    fitId: day.fit?.id ?? null,
    modelRunAt: day.modelRunAt,
    mean: day.meanF,
    deviation: day.deviationF,
    atLeast: day.atLeastF,
    atMost: day.atMostF,
    members: [...day.membersF],
    climateMean: climate?.mean ?? null,
    climateDeviation: climate?.deviation ?? null,
    brackets: markets.map(({ ticker, bracket: { floor, cap } }, i) => ({
      ticker,
      floor,
      cap,
      model: day.probabilities.get(ticker)!,
      market: implied?.[i] ?? null,
    })),
  };
}

/** How a day or an hour came out. */
export interface Outcome extends Target {
  /** As it was reported: whole degrees of a day, hundredths of an hour. */
  temperatureF: number;
}

/**
 * The days and hours that the venue is done with, and whose reported temperature agrees with what it pays. Before that the
 * result may still change; one that was paid in another way (void, split) has no outcome to score by.
 */
export function finalOutcomes(events: readonly MarketEvent[]): Outcome[] {
  return events.flatMap((event) => {
    const { markets } = event;
    const temperatureF = markets[0]?.settledTemperature ?? null;
    const isSettled = markets.every(
      ({ status, settledTemperature, settlementValue, bracket }) =>
        status === 'finalized' &&
        settledTemperature === temperatureF &&
        temperatureF !== null &&
        settlementValue === (bracketPays(bracket, temperatureF) ? DOLLAR : 0n),
    );
    return isSettled && temperatureF !== null ? [{ ...targetOf(event), temperatureF }] : [];
  });
}
