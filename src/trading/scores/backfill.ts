import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '../../clock.js';
import type { Database } from '../../db/client.js';
import type { ForecastModel, WeatherSource } from '../forecast/forecast.js';
import { groupEvents } from '../markets/event.js';
import type { MarketSource } from '../markets/source.js';
import { climateDayAt } from '../settlement/climate-day.js';
import { stations } from '../settlement/stations.js';
import { recordForecasts, scoreForecasts } from './keeper.js';
import { countByDate } from './queries.js';
import { BACKFILL_DAYS, LEAD_HOURS, RECORD_WINDOW_MS } from './records.js';

const HOUR_MS = 60 * 60 * 1000;
const DAY_MS = 24 * HOUR_MS;

export interface BackfillOptions {
  db: Database;
  clock: Clock;
  /** The sources as they are at another time: only a world that follows from its clock has them. */
  sourcesAt: (clock: Clock) => { markets: MarketSource; weather: WeatherSource };
  model: ForecastModel;
  /** Left out: 14. */
  days?: number;
  /** Between two moments, each a few milliseconds of work: requests go first. Left out: 20. */
  pauseMs?: number;
}

/**
 * Asks the sources of an invented world what they would have said at each moment of the last days at which a record was
 * due and is missing, and writes that down by the same code that does it in the present. Resolves with the number of moments.
 */
export async function fillPast(options: BackfillOptions, signal: AbortSignal): Promise<number> {
  const { db, clock, sourcesAt, model, days = BACKFILL_DAYS, pauseMs = 20 } = options;
  const setting = { nowMs: 0 };
  const { markets, weather } = sourcesAt({ now: () => setting.nowMs });
  const names = { marketSource: markets.name, forecastSource: weather.name };
  const moments = missingMoments(clock.now(), days, await countRecords(db, names, clock.now()));
  for (const moment of moments) {
    await sleep(pauseMs);
    if (signal.aborted) break;
    setting.nowMs = moment;
    const at = new Date(moment);
    const data = await markets.read(signal);
    const known = await weather.read(signal);
    const events = groupEvents(data.markets);
    const forecasts = model({ source: weather.name, weather: known, events, at });
    const scene = { ...names, data, events, forecasts, at };
    await recordForecasts(db, scene);
    await scoreForecasts(db, scene);
  }
  return moments.length;
}

async function countRecords(
  { orm }: Database,
  names: { marketSource: string; forecastSource: string },
  nowMs: number,
): Promise<Map<string, number>> {
  const since = new Date(nowMs - (BACKFILL_DAYS + 1) * DAY_MS).toISOString().slice(0, 10);
  return new Map((await countByDate(orm, names, since)).map(({ date, count }) => [date, count]));
}

/** The past moments, in order, of days that do not have all their records. The present one is left to the present. */
function missingMoments(nowMs: number, days: number, counts: ReadonlyMap<string, number>): number[] {
  const moments = new Set<number>();
  for (const station of stations)
    for (let back = -1; back <= days; back++) {
      const { date, end } = climateDayAt(station, new Date(nowMs - back * DAY_MS));
      if (counts.get(date) === stations.length * LEAD_HOURS.length) continue;
      for (const lead of LEAD_HOURS) {
        const moment = end.getTime() - lead * HOUR_MS;
        if (moment <= nowMs - RECORD_WINDOW_MS && moment > nowMs - days * DAY_MS) moments.add(moment);
      }
    }
  return [...moments].sort((a, b) => a - b);
}
