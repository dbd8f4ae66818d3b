import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Database } from '../../core/db/client.js';
import { spanOf, temperatureKinds, type TemperatureKind } from '../market/market.js';
import type { SettledDay } from '../market/source.js';
import { findPlace, placesOf } from '../market/stations.js';
import type { DayEnsemble } from '../forecast/forecast.js';
import { KnownHistory, type KnownRun } from './known-history.js';
import {
  deleteOldReports,
  deleteOldRuns,
  insertReports,
  insertRuns,
  readReports,
  readRuns,
} from './queries.js';
import { isPossible, momentsOf } from '../forecast/moments.js';

const DAY_MS = 24 * 60 * 60 * 1000;
/** A training window of days that have data, and a third as many that may lack them. */
const WINDOW_DAYS: Readonly<Record<TemperatureKind, number>> = {
  daily_maximum: 90,
  daily_minimum: 90,
  hourly: 60,
};
/** Written at once; also what a turn of the event loop takes at most. */
const CHUNK = 500;

/** What was forecast and what was reported, each with the time at which it was known. */
export interface Archive {
  /** How often something new was written through this object. */
  readonly changes: number;
  /**
   * Writes down runs; one that is there already stays as it was. Left out: those with members that cannot be, and those that
   * were started when the day or the hour was over, which forecast nothing.
   * @returns how many were new
   */
  addRuns(runs: readonly DayEnsemble[]): Promise<number>;
  /**
   * Writes down reports; one that says what was known by then already changes nothing, another temperature is a correction.
   * @returns how many were new
   */
  addReports(reports: readonly SettledDay[]): Promise<number>;
  /** What was known at a time, of the 90 days before it (of hours 60). The only way to read. */
  asOf(at: Date): Promise<KnownHistory>;
  /** Removes a bounded number of rows about days before this one. */
  deleteBefore(date: string): Promise<void>;
}

export interface ArchiveOptions {
  db: Pick<Database, 'orm'>;
  forecastSource: string;
  marketSource: string;
}

export function createArchive({ db: { orm }, forecastSource, marketSource }: ArchiveOptions): Archive {
  let changes = 0;

  /** Writes chunk after chunk; other work gets its turn in between. */
  async function addAll<T>(
    rows: readonly T[],
    add: (chunk: readonly T[]) => Promise<number>,
  ): Promise<number> {
    let added = 0;
    for (let i = 0; i < rows.length; i += CHUNK) {
      added += await add(rows.slice(i, i + CHUNK));
      await nextTurn();
    }
    if (added > 0) changes++;
    return added;
  }

  return {
    get changes() {
      return changes;
    },
    addRuns: (runs) =>
      addAll(runs, async (chunk) => {
        const rows = chunk.filter(isForecast).map((run) => ({ ...run, ...momentsOf(run.membersF) }));
        return rows.length > 0 ? insertRuns(orm, forecastSource, rows) : 0;
      }),
    addReports: (reports) => addAll(reports, (chunk) => insertReports(orm, marketSource, chunk)),
    async asOf(at) {
      const runs: KnownRun[] = [];
      const reports: SettledDay[] = [];
      // A kind and a station at a time: other work gets its turn in between.
      for (const kind of temperatureKinds) {
        const window = { kind, at, from: dateBefore(at, WINDOW_DAYS[kind]) };
        for (const { id } of placesOf(kind)) {
          for (const run of await readRuns(orm, { ...window, forecastSource, stationId: id })) runs.push(run);
          await nextTurn();
          for (const report of await readReports(orm, { ...window, marketSource, stationId: id }))
            reports.push(report);
          await nextTurn();
        }
      }
      return KnownHistory.at(at, { runs, reports });
    },
    async deleteBefore(date) {
      await deleteOldRuns(orm, date);
      await deleteOldReports(orm, date);
    },
  };
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

const dateBefore = (at: Date, days: number): string =>
  new Date(at.getTime() - days * DAY_MS).toISOString().slice(0, 10);
