import { setImmediate as nextTurn } from 'node:timers/promises';
import { inChunks } from '../../core/steps.js';
import { DAY_MS } from '../../core/time.js';
import type { Database } from '../../core/db/client.js';
import {
  isPossible,
  MAIN_MODEL,
  meanAndVariance,
  type DayEnsemble,
  type KnownHour,
} from '../weather/weather.js';
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
} from '../learning/queries.js';
import { climateReports, observedHours } from '../learning/table.js';

/**
 * What was known at one time. Nothing else is trained on or scored by, and there is no other way to make one than `at`,
 * which leaves out whatever came later: more cannot be asked for.
 */
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

  /**
   * @param runs a run counts once it was started and fetched
   * @param reports of several of a target the one counts that became known last
   * @param hours an hour counts once it was observed and fetched
   */
  static at(
    knownAt: Date,
    {
      runs,
      reports,
      hours = [],
    }: { runs: readonly KnownRun[]; reports: readonly SettledDay[]; hours?: readonly KnownHour[] },
  ): KnownHistory {
    const newest = new Map<string, SettledDay>();
    // As numbers: comparing dates themselves takes ten times as long, and there are thousands.
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

  /** What was reported; undefined while nothing was known. */
  reportOf(target: Target): SettledDay | undefined {
    return this.#reports.get(targetKey(target));
  }

  /** The newest report of each target. */
  get reports(): Iterable<SettledDay> {
    return this.#reports.values();
  }
}

/** A training window of days that have data, and a third as many that may lack them. */
const WINDOW_DAYS: Readonly<Record<TemperatureKind, number>> = {
  daily_maximum: 90,
  daily_minimum: 90,
  hourly: 60,
};
/** Stations are learned from together: sixty days of all of them are more than are used. */
export const HOURS_WINDOW_DAYS = 65;
/** Of a long past: read at once, some thousand runs. */
const LONG_PART_DAYS = 180;
/** Days to come that runs are of. */
const FURTHEST_DAYS = 5;
/** Written at once; also what a turn of the event loop takes at most. */
const CHUNK = 500;

/** What was forecast and what was reported, each with the time at which it was known. */
export interface Archive {
  /** How often something new was written through this object. */
  readonly changes: number;
  /**
   * Records runs; one that is there already stays as it was. Left out: those with members that cannot be, and those that
   * were started when the day or the hour was over, which forecast nothing.
   * @returns how many were new
   */
  addRuns(runs: readonly DayEnsemble[]): Promise<number>;
  /**
   * Records reports; one that says what was known by then already changes nothing, another temperature is a correction.
   * @returns how many were new
   */
  addReports(reports: readonly SettledDay[]): Promise<number>;
  /**
   * Records what was reported of hours; one that is there already stays as it was. It is no change: there is something to learn of
   * an hour once the day's report is there.
   * @returns how many were new
   */
  addHours(hours: readonly KnownHour[]): Promise<number>;
  /** What was known at a time, of the 90 days before it (of hours 60). */
  asOf(at: Date): Promise<KnownHistory>;
  /**
   * The same of one kind of temperature at one station over years, by the first model and one of its runs of each half day; undefined where
   * nothing is there from before a date. Otherwise there is no way to read.
   */
  longAsOf(at: Date, wanted: LongPast): Promise<KnownHistory | undefined>;
  /** @param long of the first model's runs of days, and of reports */
  deleteBefore(date: string, long: string): Promise<void>;
}

export interface LongPast {
  kind: DailyKind;
  stationId: string;
  /** How long it is, and how long it must be at least. */
  days: number;
  least: number;
}

interface ArchiveOptions {
  db: Pick<Database, 'orm'>;
  forecastSource: string;
  /** What `WeatherSource` has by this name. */
  furtherModels?: readonly string[] | undefined;
  marketSource: string;
}

export function createArchive(options: ArchiveOptions): Archive {
  const {
    db: { orm },
    forecastSource,
    marketSource,
  } = options;
  let changes = 0;

  /** Writes chunk after chunk; other work gets its turn in between. */
  async function addAll<T>(
    rows: readonly T[],
    add: (chunk: readonly T[]) => Promise<number>,
  ): Promise<number> {
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
    get changes() {
      return changes;
    },
    addRuns: (runs) =>
      counted(
        addAll(runs, async (chunk) => {
          const rows = chunk.filter(isForecast).map((run) => ({ ...run, ...meanAndVariance(run.membersF) }));
          return rows.length > 0 ? insertRuns(orm, forecastSource, rows) : 0;
        }),
      ),
    addReports: (reports) => counted(addAll(reports, (chunk) => insertReports(orm, marketSource, chunk))),
    addHours: (hours) => addAll(hours, (chunk) => insertHours(orm, forecastSource, chunk)),
    asOf: (at) => readKnown(options, at),
    longAsOf: (at, wanted) => readLong(options, at, wanted),
    async deleteBefore(date, long) {
      await deleteOldRuns(orm, date, long);
      await deleteDaysBefore(orm, climateReports, long);
      await deleteDaysBefore(orm, observedHours, date);
    },
  };
}

async function readKnown(
  { db: { orm }, forecastSource, furtherModels = [], marketSource }: ArchiveOptions,
  at: Date,
): Promise<KnownHistory> {
  const runs: KnownRun[] = [];
  const reports: SettledDay[] = [];
  const hours: KnownHour[] = [];
  // A kind and a station at a time: other work gets its turn in between.
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
  for (const { id } of stations) {
    const window = { forecastSource, stationId: id, from: dateBefore(at, HOURS_WINDOW_DAYS), at };
    for (const hour of await readHours(orm, window)) hours.push(hour);
    await nextTurn();
  }
  return KnownHistory.at(at, { runs, reports, hours });
}

async function readLong(
  { db: { orm }, forecastSource, marketSource }: ArchiveOptions,
  at: Date,
  { kind, stationId, days, least }: LongPast,
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
