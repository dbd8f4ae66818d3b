import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Clock } from '../../clock.js';
import type { Database } from '../../db/client.js';
import { readCoverage } from '../backfill/coverage.js';
import type { Archive } from '../forecast/archive/archive.js';
import { insertFits } from '../forecast/archive/fit-queries.js';
import { createSimulatedWeatherSource } from '../forecast/simulated.js';
import { inChunks } from '../markets/chunks.js';
import { createSimulatedSource } from '../markets/simulated.js';
import type { SettledDay } from '../markets/source.js';
import { insertRecords, listOpenRecords, listRecorded, setOutcome, type Sources } from '../scores/queries.js';
import { targetOfRecord, type NewRecord } from '../scores/records.js';
import { scoreRecord, type ScorableRecord } from '../scores/score-record.js';
import { stations } from '../settlement/stations.js';
import type { SimulatedWorld } from '../simulation/world.js';
import { createLessons, type Lessons } from './lessons.js';
import { dateOf, pastMoments } from './moments.js';
import { makeRecords } from './records.js';

const DAY_MS = 24 * 60 * 60 * 1000;
/** Written at once: a few milliseconds of the embedded database, so that requests are not held up. */
const RECORDS_AT_ONCE = 28;
const FITS_AT_ONCE = 7;

/** The past of an invented world, which everything follows from: it can be made up for at any time. */
export interface Past {
  /** What would have been learned at any time of the last days. */
  learn(signal: AbortSignal): Promise<Lessons>;
  /** The forecasts that would have been made in the last days, those of a moment at a time. */
  recall(lessons: Lessons, signal: AbortSignal): AsyncGenerator<Recalled[]>;
  /**
   * Writes down the forecasts that would have been made in the last days and are not there, with how they came out. It goes
   * on where an earlier one ended.
   * @returns how many were missing
   */
  fillRecords(lessons: Lessons, signal: AbortSignal): Promise<number>;
  /** Writes down the runs and reports that forecasts are learned from, of twice as many days. */
  fillArchive(signal: AbortSignal): Promise<void>;
}

/** A forecast of the past, and how the day came out if that is known. */
export interface Recalled {
  record: NewRecord;
  report: SettledDay | undefined;
}

export interface PastOptions {
  db: Database;
  archive: Pick<Archive, 'addRuns' | 'addReports'>;
  clock: Clock;
  names: Sources;
  world: Pick<SimulatedWorld, 'seed' | 'weather'>;
  days: number;
}

export function createPast({ db, archive, clock, names, world, days }: PastOptions): Past {
  const { orm } = db;
  const { history: runs } = createSimulatedWeatherSource({ ...world, clock });
  const { history: reports } = createSimulatedSource({ ...world, clock });
  const now = () => new Date(clock.now());

  async function* recall(
    lessons: Lessons,
    signal: AbortSignal,
    isThere: (stationId: string, date: string, lead: number) => boolean = () => false,
  ): AsyncGenerator<Recalled[]> {
    for (const moment of pastMoments(now(), days, isThere)) {
      signal.throwIfAborted();
      const known = { fits: await lessons.fitsAt(moment.at), climates: lessons.climatesAt(moment.at) };
      yield makeRecords(world, names, moment, known).map((record) => ({
        record,
        report: lessons.reportOf(targetOfRecord(record), now()),
      }));
      await nextTurn();
    }
  }

  async function write(records: readonly NewRecord[], lessons: Lessons, stored: Set<string>): Promise<void> {
    const used = new Set(records.flatMap(({ fitId }) => (fitId && !stored.has(fitId) ? [fitId] : [])));
    for (const ids of inChunks([...used], FITS_AT_ONCE)) {
      await insertFits(
        orm,
        names,
        ids.map((id) => lessons.find(id)!),
      );
      for (const id of ids) stored.add(id);
      await nextTurn();
    }
    await insertRecords(orm, records);
    await nextTurn();
  }

  /** Days that came out while nothing ran: whoever writes them down in the present has missed them. */
  async function scoreOpen(lessons: Lessons): Promise<void> {
    const dates = Array.from({ length: days }, (_, i) => dateOf(clock.now() - (i + 1) * DAY_MS));
    for (const record of await listOpenRecords(orm, names, dates)) {
      const report = lessons.reportOf(targetOfRecord(record), now());
      if (report) await setOutcome(orm, record, outcomeOf(record, report));
    }
  }

  return {
    recall: (lessons, signal) => recall(lessons, signal),
    learn: (signal) => {
      const from = new Date(clock.now() - days * DAY_MS);
      return createLessons({ weather: runs, markets: reports }, { from, to: now() }, signal);
    },
    async fillRecords(lessons, signal) {
      const since = dateOf(clock.now() - days * DAY_MS);
      const there = new Set(
        (await listRecorded(orm, names, since)).map(({ station, date, leadHours }) =>
          [station, date, leadHours].join(' '),
        ),
      );
      const isThere = (...key: [string, string, number]) => there.has(key.join(' '));
      const stored = new Set<string>();
      let made = 0;
      let batch: NewRecord[] = [];
      for await (const recalled of recall(lessons, signal, isThere)) {
        for (const { record, report } of recalled)
          batch.push(report ? { ...record, ...outcomeOf(record, report) } : record);
        if (batch.length < RECORDS_AT_ONCE) continue;
        await write(batch, lessons, stored);
        made += batch.length;
        batch = [];
      }
      if (batch.length > 0) await write(batch, lessons, stored);
      await scoreOpen(lessons);
      return made + batch.length;
    },
    async fillArchive(signal) {
      const [from, to] = [dateOf(clock.now() - 2 * days * DAY_MS), dateOf(clock.now() + DAY_MS)];
      const covered = await readCoverage(orm, names, stations, { from, to });
      // What the present has begun to write down of the last days is not whole.
      const recent = dateOf(clock.now() - 2 * DAY_MS);
      for (let ms = Date.parse(from); ms <= Date.parse(to); ms += DAY_MS) {
        signal.throwIfAborted();
        const date = dateOf(ms);
        const day = { from: date, to: date };
        if (date >= recent || !covered.hasRuns(date)) await archive.addRuns(await runs.readRuns(day, signal));
        if (date >= recent || !covered.hasReports(date))
          await archive.addReports(await reports.readSettledDays(day, signal));
        await nextTurn();
      }
    },
  };
}

/** What is written down of a day once its report is known. */
const outcomeOf = (record: ScorableRecord, { temperatureF, knownAt }: SettledDay) => ({
  ...scoreRecord(record, temperatureF),
  outcome: temperatureF,
  settledAt: knownAt,
});
