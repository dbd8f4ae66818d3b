import { parse } from 'csv-parse/sync';
import { groupBy } from '../../core/collections.js';
import { DAY_MS, HOUR_MS } from '../../core/time.js';
import { addDays, climateDayOf, dateOf } from '../market/climate-day.js';
import type { Station } from '../market/stations.js';
import { UnexpectedAnswerError } from '../venue/kalshi-client.js';
import { NWS_USER_AGENT } from './nws-observations.js';
import {
  APART_MS,
  createPlaceForecasts,
  type LeaveOut,
  type PlaceForecasts,
  type PlaceService,
} from './place-forecasts.js';
import { readText, WeatherUnavailableError } from './read-json.js';
import { isPossible, type DayEnsemble } from './weather.js';

/* National Blend of Models bulletins for stations (NBS) from the archive of the Iowa Environmental Mesonet. They have
   the maximum and minimum as the station would report them (TXN) and their standard deviation (XND). */

const NBS = 'nbs';
/** Smallest credible standard deviation; smaller stated values are raised to this. */
const LEAST_SPREAD_F = 1;
/** Matches the values that a bulletin uses for missing data. */
const MISSING = /^(|m|-99|-?999|-?9999)(\.0*)?$/i;
const TIME = /^(\d{4}-\d\d-\d\d)[ T](\d\d):(\d\d)(?::\d\d)?(?:Z|\+00:?(?:00)?)?$/;

function timeOf(text = ''): number {
  const [, date, hour, minute] = TIME.exec(text) ?? [];
  return date === undefined ? Number.NaN : Date.parse(`${date}T${hour}:${minute}:00Z`);
}

type Row = Readonly<Record<string, string | undefined>>;

interface Asked {
  station: Station;
  url: string;
  fetchedAt: Date;
  leaveOut: LeaveOut;
}

/**
 * Parses one station's bulletins. Columns are found by their header, because columns without values are omitted. Each
 * cycle is a separate run: the newest may lack today's maximum, which an earlier one has. Rows and values that cannot be
 * read are left out.
 * @throws WeatherUnavailableError for text instead of a table, which is the response to too many requests
 * @throws UnexpectedAnswerError for another station's table
 */
export function parseBulletins(body: string, asked: Asked): DayEnsemble[] {
  const rows = readTable(body, asked);
  return [...groupBy(rows, ({ runtime }) => timeOf(runtime))].flatMap(([runMs, cycle]) =>
    cycle.flatMap((row) => toRun(row, cycle, asked, new Date(runMs)) ?? []),
  );
}

const NEEDED = ['runtime', 'ftime', 'model', 'station'];

/** Returns the rows of the station's model; all others are left out. */
function readTable(body: string, { station, url, fetchedAt, leaveOut }: Asked): Row[] {
  const [header = ''] = body.split(/\r?\n/, 1);
  const names = header.split(',').map((name) => name.trim().toLowerCase());
  if (!NEEDED.every((name) => names.includes(name)))
    throw new WeatherUnavailableError(url, `not a table: ${body.slice(0, 100).trim() || 'nothing'}`);
  const lines: string[][] = parse(body, {
    from_line: 2,
    trim: true,
    skip_empty_lines: true,
    relax_column_count: true,
    quote: false,
  });
  const problems: string[] = [];
  const rows = lines.flatMap((values, i): Row[] => {
    const row: Row = Object.fromEntries(names.map((name, place) => [name, values[place]]));
    const problem = problemOf(row, values.length === names.length);
    if (problem !== undefined) problems.push(`row ${i + 1}: ${problem}`);
    return problem === undefined ? [row] : [];
  });
  if (rows.length === 0 && problems.length > 0) throw new UnexpectedAnswerError(url, problems[0]!);
  problems.forEach(leaveOut);
  return rows;

  function problemOf(row: Row, isWhole: boolean): string | undefined {
    if (!isWhole) return 'it is truncated';
    if (row.station !== station.id || row.model !== 'NBS')
      return `${row.model} of ${row.station} instead of NBS of ${station.id}`;
    if (!(timeOf(row.runtime) <= fetchedAt.getTime())) return 'its runtime is invalid or in the future';
    if (Number.isNaN(timeOf(row.ftime))) return 'its ftime is invalid';
    return undefined;
  }
}

/** The maximum given at 00Z covers 12Z to 06Z, and the minimum given at 12Z covers 00Z to 18Z. */
function targetAt(forecastMs: number) {
  const date = dateOf(forecastMs);
  const hours = (forecastMs % DAY_MS) / HOUR_MS;
  const window = { fromMs: forecastMs - 12 * HOUR_MS, toMs: forecastMs + 6 * HOUR_MS };
  if (hours === 0) return { kind: 'daily_maximum' as const, date: addDays(date, -1), ...window };
  return hours === 12 ? { kind: 'daily_minimum' as const, date, ...window } : undefined;
}

function toRun(row: Row, cycle: readonly Row[], asked: Asked, modelRunAt: Date): DayEnsemble | undefined {
  const { station, fetchedAt, leaveOut } = asked;
  const extremeF = numberOf(row, 'txn', leaveOut);
  if (extremeF === undefined || !isPossible(extremeF)) return undefined;
  const target = targetAt(timeOf(row.ftime));
  if (!target) return undefined;
  const { kind, date, ...window } = target;
  const { start, end } = climateDayOf(station, date);
  // A window can reach beyond the end of its day, so a run may start after the day has ended.
  if (modelRunAt >= end) return undefined;
  const spreadF = numberOf(row, 'xnd', leaveOut);
  const outside = cycle.flatMap((each): number[] => {
    const ms = timeOf(each.ftime);
    const isOutside =
      ms >= start.getTime() && ms <= end.getTime() && (ms < window.fromMs || ms > window.toMs);
    return isOutside ? [numberOf(each, 'tmp', leaveOut) ?? Number.NaN] : [];
  });
  const sign = kind === 'daily_maximum' ? 1 : -1;
  const isNearMidnight = outside.some((temperatureF) => sign * (temperatureF - extremeF) >= -NEAR_F);
  return {
    model: NBS,
    kind,
    stationId: station.id,
    date,
    modelRunAt,
    fetchedAt,
    membersF: [extremeF],
    ...(spreadF !== undefined && spreadF >= 0 && { spreadF: Math.max(LEAST_SPREAD_F, spreadF) }),
    ...(isNearMidnight && { isNearMidnight }),
  };
}

/** °F. An hour outside the bulletin's window and this near its extreme may contain the day's extreme. */
const NEAR_F = 1;

function numberOf(row: Row, name: string, leaveOut: LeaveOut): number | undefined {
  const text = row[name] ?? '';
  if (MISSING.test(text)) return undefined;
  const value = Number(text);
  if (Number.isFinite(value)) return value;
  leaveOut(`${name} is ${JSON.stringify(text.slice(0, 20))} at ${row.ftime}`);
  return undefined;
}

/** Covers four cycles, because only those at 01, 07, 13 and 19Z are archived. */
const PAST_MS = DAY_MS;

/** Requests 24 stations once an hour: 576 requests a day. History takes one request per station and month. */
export function createStationBulletins(options: PlaceService): PlaceForecasts {
  const { clock, log } = options;
  return {
    ...createPlaceForecasts({
      model: NBS,
      clock,
      log,
      ask: (station, signal, leaveOut) => {
        const to = new Date(clock.now());
        return readBulletins(
          options,
          station,
          { from: new Date(to.getTime() - PAST_MS), to, leaveOut },
          signal,
        );
      },
    }),
    history: {
      model: NBS,
      apartMs: APART_MS,
      async readRuns(station, { from, to }, signal) {
        const first = climateDayOf(station, from).start.getTime();
        const leaveOut = (problem: string) =>
          log?.warn({ model: NBS, station: station.id, problem }, 'a part of a past forecast is left out');
        const cycles = { from: new Date(first - PAST_MS), to: climateDayOf(station, to).end, leaveOut };
        const runs = await readBulletins(options, station, cycles, signal);
        // For days outside the range, only some of the runs were read.
        return runs.filter(({ date }) => from <= date && date <= to);
      },
    },
  };
}

async function readBulletins(
  { baseUrl, clock }: PlaceService,
  station: Station,
  { from, to, leaveOut }: { from: Date; to: Date; leaveOut: LeaveOut },
  signal: AbortSignal,
): Promise<DayEnsemble[]> {
  const fetchedAt = new Date(clock.now());
  const url = `${baseUrl}/cgi-bin/request/mos.py`;
  const query = new URLSearchParams({
    station: station.id,
    model: 'NBS',
    sts: from.toISOString(),
    ets: to.toISOString(),
    format: 'csv',
  });
  const headers = { 'user-agent': NWS_USER_AGENT, accept: 'text/csv' };
  const body = await readText({ url: `${url}?${query.toString()}`, headers, signal });
  return parseBulletins(body, { station, url, fetchedAt, leaveOut });
}
