import { HOUR_MS } from '../../core/time.js';
import { extremeHoursOf } from '../learning/extreme-hours.js';
import { forecastOf, type DayForecast, type StationForecast } from '../learning/forecast.js';
import { boundBy, isFarther, reachedDegree } from '../learning/running-day.js';
import { bracketRange } from '../market/brackets.js';
import { isPlaced, spanOf, type ListedMarket, type Market } from '../market/market.js';

/** °F. A peak of one minute rarely exceeds the last reports by more. */
const NEAR_F = 2;

/**
 * A single minute can decide a market before any machine knows why its price moves. Returns why a bid that rests there
 * now would be hit first by people who know; undefined if no border of the bracket is near the day's extreme so far.
 */
export const findNearExtreme = (
  { forecasts }: { forecasts: ReadonlyMap<string, StationForecast> },
  market: ListedMarket,
  nowMs: number,
): string | undefined =>
  isPlaced(market) ? nearExtremeOf(forecastOf(forecasts, market), market, nowMs) : undefined;

export function nearExtremeOf(day: DayForecast | undefined, market: Market, nowMs: number) {
  if (market.kind === 'hourly') return undefined;
  const { kind, station, bracket } = market;
  const hour = Math.floor((nowMs - spanOf(station, market).start.getTime()) / HOUR_MS);
  const { from, to } = day?.extremeHours ?? extremeHoursOf([], { kind, stationId: station.id });
  const observed = day?.observed;
  if (!observed || observed.isFinal || hour < from || hour >= to) return undefined;
  const { extremeF, minutes } = observed;
  const reported = reachedDegree(kind, extremeF);
  const bound = minutes ? boundBy(kind, minutes) : reported;
  const reached = isFarther(kind, bound, reported) ? bound : reported;
  const { lowest, highest } = bracketRange(bracket);
  const borders =
    kind === 'daily_maximum' ? [lowest, highest && highest + 1] : [highest, lowest && lowest - 1];
  const border = borders.find((degree) => degree !== null && Math.abs(degree - reached) <= NEAR_F);
  if (border === undefined) return undefined;
  const most = kind === 'daily_maximum' ? 'maximum' : 'minimum';
  return `the ${most} at ${station.name} is ${reached} °F so far, and one minute at ${border} °F would decide it`;
}
