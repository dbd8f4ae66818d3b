import { z } from 'zod';
import { DAY_MS, HOUR_MS } from '../../core/time.js';
import { climateDayAt } from '../market/climate-day.js';
import type { DailyKind } from '../market/market.js';
import type { Station } from '../market/stations.js';
import { UnexpectedAnswerError } from '../venue/kalshi-client.js';
import { NWS_USER_AGENT } from './nws-observations.js';
import {
  createPlaceForecasts,
  type LeaveOut,
  type PlaceForecasts,
  type PlaceService,
} from './place-forecasts.js';
import { readJson } from './read-json.js';
import { GRIDPOINTS, isPossible, type DayEnsemble } from './weather.js';

/** The forecasters' own maximum and minimum at a grid point (National Digital Forecast Database). */

const pointSchema = z.looseObject({
  properties: z.looseObject({
    gridId: z.string().regex(/^[A-Z]{3}$/),
    gridX: z.int().min(0).max(2_000),
    gridY: z.int().min(0).max(2_000),
  }),
});

const MAX_VALUES = 60;
const layerSchema = z.looseObject({
  uom: z.literal('wmoUnit:degC'),
  values: z.array(z.unknown()).max(MAX_VALUES),
});
const valueSchema = z.object({ validTime: z.string(), value: z.number().nullable() });
const gridSchema = z.looseObject({
  properties: z.looseObject({
    updateTime: z.iso.datetime({ offset: true }),
    gridId: z.string(),
    gridX: z.int().optional(),
    gridY: z.int().optional(),
    maxTemperature: z.unknown().optional(),
    minTemperature: z.unknown().optional(),
  }),
});
type Point = z.output<typeof pointSchema>['properties'];

const INTERVAL = /^(.+)\/P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?)?$/;
/** A day's maximum and a night's minimum span a little more than half a day. Shorter ones have already begun. */
const HOURS = { least: 10, most: 16 };

/** Returns the start and hours of an ISO 8601 interval; undefined for other text. */
function readInterval(text: string): { startMs: number; hours: number } | undefined {
  const [, start = '', days = '0', hours = '0', minutes = '0'] = INTERVAL.exec(text) ?? [];
  const startMs = Date.parse(start);
  return Number.isNaN(startMs)
    ? undefined
    : { startMs, hours: Number(days) * 24 + Number(hours) + Number(minutes) / 60 };
}

/** An interval belongs to the climate day of its middle. Intervals that are not about half a day are skipped. */
export function readGrid(
  grid: z.output<typeof gridSchema>['properties'],
  { station, fetchedAt, leaveOut }: { station: Station; fetchedAt: Date; leaveOut: LeaveOut },
): DayEnsemble[] {
  const modelRunAt = new Date(Math.min(Date.parse(grid.updateTime), fetchedAt.getTime()));
  const wrong = (problem: string): [] => (leaveOut(problem), []);
  const read = (kind: DailyKind, name: 'maxTemperature' | 'minTemperature') => {
    const layer = layerSchema.safeParse(grid[name]);
    if (!layer.success) return wrong(describeIssue(name, layer.error));
    return layer.data.values.flatMap((given, i): DayEnsemble[] => {
      const parsed = valueSchema.safeParse(given);
      if (!parsed.success) return wrong(describeIssue(`${name}.values[${i}]`, parsed.error));
      const { validTime, value } = parsed.data;
      const interval = readInterval(validTime);
      if (!interval) return wrong(`${validTime.slice(0, 60)} is not an interval`);
      if (value === null || interval.hours < HOURS.least || interval.hours > HOURS.most) return [];
      const valueF = Math.round((value * 1.8 + 32) * 10) / 10;
      if (!isPossible(valueF)) return wrong(`${value} °C is impossible`);
      const middle = new Date(interval.startMs + (interval.hours * HOUR_MS) / 2);
      const { date, end } = climateDayAt(station, middle);
      if (modelRunAt >= end) return [];
      return [
        { model: GRIDPOINTS, kind, stationId: station.id, date, modelRunAt, fetchedAt, membersF: [valueF] },
      ];
    });
  };
  return [...read('daily_maximum', 'maxTemperature'), ...read('daily_minimum', 'minTemperature')].filter(
    isFirst,
  );
}

const describeIssue = (name: string, { issues: [issue] }: z.ZodError): string =>
  `${[name, ...issue!.path.map(String)].join('.')}: ${issue!.message}`;

const isFirst = (run: DayEnsemble, i: number, runs: readonly DayEnsemble[]): boolean =>
  runs.findIndex(({ kind, date }) => kind === run.kind && date === run.date) === i;

/** Offices rarely move their grid, so a station's grid point is requested once a day. */
const POINT_LASTS_MS = DAY_MS;
/** Maximum lead of a forecast; days further ahead have no markets. */
const FURTHEST_MS = 3 * DAY_MS;

/** Requests 24 stations once an hour, and their grid points once a day: 600 requests a day. */
export function createGridpoints({ baseUrl, clock, log }: PlaceService): PlaceForecasts {
  const points = new Map<string, Point & { untilMs: number }>();
  const headers = { 'user-agent': NWS_USER_AGENT, accept: 'application/geo+json' };

  async function findPoint({ id, latitude, longitude }: Station, signal: AbortSignal): Promise<Point> {
    const found = points.get(id);
    if (found && clock.now() < found.untilMs) return found;
    const url = `${baseUrl}/points/${latitude.toFixed(4)},${longitude.toFixed(4)}`;
    const { properties } = await readJson({ url, headers, schema: pointSchema, signal });
    points.set(id, { ...properties, untilMs: clock.now() + POINT_LASTS_MS });
    return properties;
  }

  return createPlaceForecasts({
    model: GRIDPOINTS,
    clock,
    log,
    async ask(station, signal, leaveOut) {
      const { gridId, gridX, gridY } = await findPoint(station, signal);
      const url = `${baseUrl}/gridpoints/${gridId}/${gridX},${gridY}`;
      try {
        const { properties: grid } = await readJson({ url, headers, schema: gridSchema, signal });
        if (grid.gridId !== gridId || (grid.gridX ?? gridX) !== gridX || (grid.gridY ?? gridY) !== gridY)
          throw new UnexpectedAnswerError(url, `the grid is ${grid.gridId}, not ${gridId}`);
        const fetchedAt = new Date(clock.now());
        return readGrid(grid, { station, fetchedAt, leaveOut }).filter(
          ({ date }) => Date.parse(date) < fetchedAt.getTime() + FURTHEST_MS,
        );
      } catch (error) {
        // The grid may have moved, so the grid point is requested again.
        if (error instanceof UnexpectedAnswerError) points.delete(station.id);
        throw error;
      }
    },
  });
}
