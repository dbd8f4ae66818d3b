import { setImmediate as nextTurn } from 'node:timers/promises';
import { inChunks } from '../../core/steps.js';
import { DAY_MS } from '../../core/time.js';
import type { Database } from '../../core/db/client.js';
import { isPossible, MAIN_MODEL, momentsOf, type DayEnsemble, type KnownHour } from '../weather/weather.js';
import {
  spanOf,
  targetKey,
  temperatureKinds,
  type DailyKind,
  type Target,
  type TemperatureKind,
} from '../market/market.js';
import { dateOf } from '../market/climate-day.js';
import type { SettledDay } from '../market/source.js';
import { findPlace, placesOf, stations } from '../market/stations.js';
import {
  deleteDaysBefore,
  deleteOldRuns,
  insertHours,
  insertReports,
  insertRuns,
  readFirstDate,
  readHours,
  readReports,
  readRuns,
  type KnownRun,
  type SourceNames,
} from '../learning/queries.js';
import { climateReports, observedHours } from '../learning/table.js';

/** All data known at one time: the only input to training and scoring. `at` excludes later data. */
export class KnownHistory {
  readonly knownAt: Date;
  readonly runs: readonly KnownRun[];
  readonly hours: readonly KnownHour[];
  readonly #reports: ReadonlyMap<string, SettledDay>;

  private constructor(
    knownAt: Date,
    runs: readonly KnownRun[],
    reports: ReadonlyMap<string, SettledDay>,
    hours: readonly KnownHour[],
  ) {
    this.knownAt = knownAt;
    this.runs = runs;
    this.#reports = reports;
    this.hours = hours;
  }

  /** Selects the runs and hours fetched by `knownAt`, and the last report of each target. */
  static at(
    knownAt: Date,
    known: { runs: readonly KnownRun[]; reports: readonly SettledDay[]; hours?: readonly KnownHour[] },
  ): KnownHistory {
    const { runs, reports, hours = [] } = known;
    const newest = new Map<string, SettledDay>();
    // Compares numbers, because comparing thousands of Date objects takes ten times as long.
    const atMs = knownAt.getTime();
    for (const report of reports) {
      if (report.knownAt.getTime() > atMs) continue;
      const key = targetKey(report);
      const found = newest.get(key);
      if (!found || report.knownAt.getTime() > found.knownAt.getTime()) newest.set(key, report);
    }
    const started = runs.filter(
      ({ modelRunAt, fetchedAt }) => modelRunAt.getTime() <= atMs && fetchedAt.getTime() <= atMs,
    );
    const observed = hours.filter(
      ({ observedAt, fetchedAt }) => observedAt.getTime() <= atMs && fetchedAt.getTime() <= atMs,
    );
    return new KnownHistory(knownAt, started, newest, observed);
  }

  reportOf(target: Target): SettledDay | undefined {
    return this.#reports.get(targetKey(target));
  }

  get reports(): Iterable<SettledDay> {
    return this.#reports.values();
  }
}

/** Number of days of data read: longer than the training windows, to compensate for days without data. */
const WINDOW_DAYS: Readonly<Record<TemperatureKind, number>> = {
  daily_maximum: 90,
  daily_minimum: 90,
  hourly: 60,
};
/** Stations are pooled, so sixty days of all stations are more than the training of running days uses. */
export const HOURS_WINDOW_DAYS = 65;
/** Number of days of a long history that are read at a time: several thousand runs. */
const LONG_PART_DAYS = 180;
const FURTHEST_DAYS = 5;
/** Rows per write, to limit how long the event loop is blocked. */
const CHUNK = 500;

interface ArchiveOptions extends SourceNames {
  db: Pick<Database, 'orm'>;
  furtherModels?: readonly string[] | undefined;
}

export type Archive = ReturnType<typeof createArchive>;

/** Stores forecasts and reports, each with the time at which it became known. */
export function createArchive(options: ArchiveOptions) {
  const {
    db: { orm },
    forecastSource,
    marketSource,
  } = options;
  let changes = 0;

  async function addAll<T>(rows: readonly T[], add: (chunk: readonly T[]) => Promise<number>) {
    let added = 0;
    for (const chunk of inChunks(rows, CHUNK)) {
      added += await add(chunk);
      await nextTurn();
    }
    return added;
  }

  const counted = async (adding: Promise<number>): Promise<number> => {
    const added = await adding;
    if (added > 0) changes++;
    return added;
  };

  return {
    /** Number of writes through this object that added rows. */
    get changes() {
      return changes;
    },
    /**
     * Records runs and leaves existing ones unchanged. Skips runs with impossible members, and runs that started after
     * the end of their target, which are not forecasts.
     * @returns number of new runs
     */
    addRuns: (runs: readonly DayEnsemble[]) =>
      counted(
        addAll(runs, async (chunk) => {
          const rows = chunk.filter(isForecast).map((run) => ({ ...run, ...momentsOf(run) }));
          return rows.length > 0 ? insertRuns(orm, forecastSource, rows) : 0;
        }),
      ),
    /**
     * Records reports. A report equal to the one already known at its time changes nothing; a different temperature is a
     * correction.
     * @returns number of new reports
     */
    addReports: (reports: readonly SettledDay[]) =>
      counted(addAll(reports, (chunk) => insertReports(orm, marketSource, chunk))),
    /**
     * Records hourly reports and leaves existing ones unchanged. Does not increase `changes`, because hours cannot be
     * used for training before the day's report.
     * @returns number of new hours
     */
    addHours: (hours: readonly KnownHour[]) =>
      addAll(hours, (chunk) => insertHours(orm, forecastSource, chunk)),
    /** Returns the data known at a time, over the 90 days before it (60 for hourly targets). */
    asOf: (at: Date) => readKnown(options, at),
    /** Returns the hourly reports known at a time, over the 65 days before it. */
    hoursAsOf: (at: Date) => readKnownHours(options, at),
    /** Years of one station, with the first model's runs thinned to one per half day; undefined if they are too few. */
    longAsOf: (at: Date, wanted: Parameters<typeof readLong>[2]) => readLong(options, at, wanted),
    /** @param long separate date limit for the first model's daily runs and for reports */
    async deleteBefore(date: string, long: string): Promise<void> {
      await deleteOldRuns(orm, date, long);
      await deleteDaysBefore(orm, climateReports, long);
      await deleteDaysBefore(orm, observedHours, date);
    },
  };
}

async function readKnown(options: ArchiveOptions, at: Date): Promise<KnownHistory> {
  const {
    db: { orm },
    forecastSource,
    furtherModels = [],
    marketSource,
  } = options;
  const runs: KnownRun[] = [];
  const reports: SettledDay[] = [];
  // Reads one kind and station at a time, and yields to other work in between.
  for (const kind of temperatureKinds) {
    const window = { kind, at, from: dateBefore(at, WINDOW_DAYS[kind]) };
    for (const { id } of placesOf(kind)) {
      for (const model of [MAIN_MODEL, ...furtherModels]) {
        const asked = { ...window, forecastSource, model, stationId: id };
        for (const run of await readRuns(orm, asked)) runs.push(run);
        await nextTurn();
      }
      for (const report of await readReports(orm, { ...window, marketSource, stationId: id }))
        reports.push(report);
      await nextTurn();
    }
  }
  const hours = await readKnownHours(options, at);
  return KnownHistory.at(at, { runs, reports, hours });
}

async function readKnownHours(
  { db: { orm }, forecastSource }: Pick<ArchiveOptions, 'db' | 'forecastSource'>,
  at: Date,
): Promise<KnownHour[]> {
  const hours: KnownHour[] = [];
  for (const { id } of stations) {
    const window = { forecastSource, stationId: id, from: dateBefore(at, HOURS_WINDOW_DAYS), at };
    for (const hour of await readHours(orm, window)) hours.push(hour);
    await nextTurn();
  }
  return hours;
}

async function readLong(
  { db: { orm }, forecastSource, marketSource }: ArchiveOptions,
  at: Date,
  { kind, stationId, days, least }: { kind: DailyKind; stationId: string; days: number; least: number },
): Promise<KnownHistory | undefined> {
  const first = await readFirstDate(orm, { forecastSource, kind, stationId });
  if (first === undefined || first > dateBefore(at, least)) return undefined;
  const asked = { forecastSource, model: MAIN_MODEL, kind, stationId, at };
  const runs: KnownRun[] = [];
  for (let ago = days; ago > -FURTHEST_DAYS; ago -= LONG_PART_DAYS) {
    const part = { from: dateBefore(at, ago), to: dateBefore(at, ago - LONG_PART_DAYS) };
    for (const run of await readRuns(orm, { ...asked, ...part })) runs.push(run);
    await nextTurn();
  }
  const from = dateBefore(at, days);
  const reports = await readReports(orm, { marketSource, kind, stationId, from, at });
  return KnownHistory.at(at, { runs, reports });
}

function isForecast(run: DayEnsemble): boolean {
  const station = findPlace(run.stationId);
  return (
    station !== undefined &&
    run.modelRunAt < spanOf(station, run).end &&
    run.membersF.length > 0 &&
    run.membersF.every(isPossible)
  );
}

const dateBefore = (at: Date, days: number): string => dateOf(at.getTime() - days * DAY_MS);
