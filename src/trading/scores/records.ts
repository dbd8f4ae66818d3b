import { forecastOf, type DayForecast, type StationForecast } from '../forecast/forecast.js';
import type { forecastRecords } from '../forecast/table.js';
import type { MarketEvent } from '../markets/event.js';
import type { MarketData } from '../markets/source.js';
import { DOLLAR } from '../money.js';
import { bracketPays, isWholeLadder } from '../settlement/brackets.js';
import { climateDayOf } from '../settlement/climate-day.js';
import type { Climate } from './climate.js';
import { LEAD_HOURS } from './leads.js';
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
export type NewRecord = typeof forecastRecords.$inferInsert & ScorableRecord;

/** What was known at one time, of the markets and of the weather. */
export interface Scene {
  marketSource: string;
  forecastSource: string;
  data: MarketData;
  events: readonly MarketEvent[];
  forecasts: ReadonlyMap<string, StationForecast>;
  at: Date;
}

/** By station, what days were like lately. */
export type Climates = ReadonlyMap<string, Climate>;

/** The records that are due now: one for each event and lead whose moment has just come. */
export function recordsDue(scene: Scene, climates: Climates = new Map()): NewRecord[] {
  const { data, events, at } = scene;
  if (at.getTime() - data.fetchedAt.getTime() > MAX_AGE_MS) return [];
  return events.flatMap((event) => {
    const lead = leadAt(event, at);
    const day = forecastOf(scene.forecasts, event);
    if (lead === undefined || !day || !isRecordable(event)) return [];
    return [toRecord(scene, event, day, lead, climates.get(event.station.id))];
  });
}

function leadAt({ station, date }: MarketEvent, at: Date): number | undefined {
  const { end } = climateDayOf(station, date);
  return LEAD_HOURS.find((lead) => {
    const since = at.getTime() - (end.getTime() - lead * HOUR_MS);
    return since >= 0 && since < RECORD_WINDOW_MS;
  });
}

const isRecordable = ({ markets }: MarketEvent): boolean =>
  markets.every(({ status }) => status === 'active') && isWholeLadder(markets.map(({ bracket }) => bracket));

function toRecord(
  { marketSource, forecastSource, data, at }: Scene,
  { station, date, markets }: MarketEvent,
  day: DayForecast,
  leadHours: number,
  climate: Climate | undefined,
): NewRecord {
  const implied = impliedProbabilities(markets.map(({ ticker }) => data.books.get(ticker)));
  return {
    station: station.id,
    date,
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

/** How a day came out. */
export interface Outcome {
  station: string;
  date: string;
  /** As the report has it, whole degrees. */
  temperatureF: number;
}

/**
 * The days that the venue is done with, and whose reported temperature agrees with what it pays. Before that the result
 * may still change; a day that was paid in another way (void, split) has no outcome to score by.
 */
export function finalOutcomes(events: readonly MarketEvent[]): Outcome[] {
  return events.flatMap(({ kind, station, date, markets }) => {
    if (kind !== 'daily_maximum') return [];
    const temperatureF = markets[0]?.settledTemperature ?? null;
    const isSettled = markets.every(
      ({ status, settledTemperature, settlementValue, bracket }) =>
        status === 'finalized' &&
        settledTemperature === temperatureF &&
        temperatureF !== null &&
        settlementValue === (bracketPays(bracket, temperatureF) ? DOLLAR : 0n),
    );
    return isSettled && temperatureF !== null ? [{ station: station.id, date, temperatureF }] : [];
  });
}
