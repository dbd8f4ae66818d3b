import type { DayForecast, StationForecast } from '../forecast/forecast.js';
import type { forecastRecords } from '../forecast/table.js';
import type { MarketEvent } from '../markets/event.js';
import type { MarketData } from '../markets/source.js';
import { DOLLAR } from '../money.js';
import { bracketPays, isWholeLadder, type Bracket } from '../settlement/brackets.js';
import { climateDayOf } from '../settlement/climate-day.js';
import { impliedProbabilities, logScore, rankedProbabilityScore } from './score.js';

const HOUR_MS = 60 * 60 * 1000;

/** Hours before the end of the climate day at which forecasts are written down: the evening two days before, the mornings, the afternoon. */
export const LEAD_HOURS = [36, 24, 12, 6] as const;
/** A record is made within this time or not at all: nobody writes down later what was thought before. */
export const RECORD_WINDOW_MS = 5 * 60 * 1000;
/** How far back the records of an invented world are made. */
export const BACKFILL_DAYS = 14;
/** Prices older than this are not those of the moment. */
const MAX_AGE_MS = 60 * 1000;

export type NewRecord = typeof forecastRecords.$inferInsert;
export type ForecastRecord = typeof forecastRecords.$inferSelect;

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
export function recordsDue(scene: Scene): NewRecord[] {
  const { data, events, at } = scene;
  if (at.getTime() - data.fetchedAt.getTime() > MAX_AGE_MS) return [];
  return events.flatMap((event) => {
    const lead = leadAt(event, at);
    const day = scene.forecasts.get(event.station.id)?.days.find(({ date }) => date === event.date);
    if (lead === undefined || !day || !isRecordable(event)) return [];
    return [toRecord(scene, event, day, lead)];
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
    modelRunAt: day.modelRunAt,
    mean: day.meanF,
    deviation: day.deviationF,
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
  return events.flatMap(({ station, date, markets }) => {
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

export interface Scores {
  modelLogScore: number;
  modelRps: number;
  marketLogScore: number | null;
  marketRps: number | null;
}

/** The place of the bracket that a temperature is in. */
export const winnerOf = (brackets: ForecastRecord['brackets'], temperatureF: number): number =>
  brackets.findIndex(({ floor, cap }) => bracketPays(toBracket(floor, cap), temperatureF));

export function scoreRecord({ brackets }: Pick<ForecastRecord, 'brackets'>, temperatureF: number): Scores {
  const winner = winnerOf(brackets, temperatureF);
  const model = brackets.map((bracket) => bracket.model);
  const market = brackets.map((bracket) => bracket.market);
  const isPriced = market.every((probability) => probability !== null);
  return {
    modelLogScore: logScore(model, winner),
    modelRps: rankedProbabilityScore(model, winner),
    marketLogScore: isPriced ? logScore(market, winner) : null,
    marketRps: isPriced ? rankedProbabilityScore(market, winner) : null,
  };
}

function toBracket(floor: number | null, cap: number | null): Bracket {
  if (floor === null) return { kind: 'less', floor, cap: cap! };
  return cap === null ? { kind: 'greater', floor, cap } : { kind: 'between', floor, cap };
}
