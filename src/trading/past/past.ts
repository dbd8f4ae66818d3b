import type { Clock } from '../../core/clock.js';
import type { Database } from '../../core/db/client.js';
import { readCoverage } from '../backfill/coverage.js';
import type { Archive } from '../archive/archive.js';
import { insertFits } from '../archive/fit-queries.js';
import { createSimulatedWeatherSource } from '../forecast/simulated.js';
import { inChunks } from '../market/chunks.js';
import { createSimulatedSource } from '../venue/simulated.js';
import type { SettledDay } from '../market/source.js';
import { daysBetween } from '../market/calendar.js';
import { insertRecords, listOpenRecords, listRecorded, setOutcome, type Sources } from '../scores/queries.js';
import { targetOfRecord, type NewRecord } from '../scores/records.js';
import { scoreRecord, type ScorableRecord } from '../scores/score-record.js';
import { createPace } from '../venue/simulation/pace.js';
import { targetKey, type Target } from '../market/market.js';
import { targetOfSubject, type SimulatedWorld, type Subject } from '../venue/simulation/world.js';
import { createLessons, type Lessons } from './lessons.js';
import { dateOf, pastMoments } from './moments.js';
import { pastParts, type PastPart } from './parts.js';
import { makeRecords } from './records.js';

const DAY_MS = 24 * 60 * 60 * 1000;
/** Written at once: a few milliseconds of the embedded database, so that requests are not held up. */
const RECORDS_AT_ONCE = 28;
const FITS_AT_ONCE = 7;
const RUNS_AT_ONCE = 63;

/** The past of an invented world, which everything follows from: it can be made up for at any time, part by part. */
export interface Past {
  /** What matters most comes first. */
  readonly parts: readonly PastPart[];
  /** What would have been learned of a part at any time of the last days. */
  learn(part: PastPart, signal: AbortSignal): Promise<Lessons>;
  /** The forecasts that would have been made in the last days, those of a moment at a time. */
  recall(part: PastPart, lessons: Lessons, signal: AbortSignal): AsyncGenerator<Recalled[]>;
  /**
   * Writes down the forecasts that would have been made in the last days and are not there, with how they came out. It goes
   * on where an earlier one ended.
   * @returns how many were missing
   */
  fillRecords(part: PastPart, lessons: Lessons, signal: AbortSignal): Promise<number>;
  /** Writes down the runs and reports that forecasts are learned from, of twice as many days. */
  fillArchive(part: PastPart, signal: AbortSignal): Promise<void>;
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
  const now = () => new Date(clock.now());
  const historiesOf = (part: PastPart) => ({
    weather: createSimulatedWeatherSource({ ...world, clock }, part).history,
    markets: createSimulatedSource({ ...world, clock }, part).history,
  });

  async function* recall(
    part: PastPart,
    lessons: Lessons,
    signal: AbortSignal,
    isThere: (subject: Subject, lead: number) => boolean = () => false,
  ): AsyncGenerator<Recalled[]> {
    const pace = createPace(part.share);
    for (const moment of pastMoments(now(), days, part, isThere)) {
      signal.throwIfAborted();
      const known = { fits: await lessons.fitsAt(moment.at), climates: lessons.climatesAt(moment.at) };
      yield makeRecords(world, names, moment, known).map((record) => ({
        record,
        report: lessons.reportOf(targetOfRecord(record), now()),
      }));
      await pace();
    }
  }

  async function write(
    records: readonly NewRecord[],
    lessons: Lessons,
    stored: Set<string>,
    pace: () => Promise<void>,
  ): Promise<void> {
    const used = new Set(records.flatMap(({ fitId }) => (fitId && !stored.has(fitId) ? [fitId] : [])));
    for (const ids of inChunks([...used], FITS_AT_ONCE)) {
      await insertFits(
        orm,
        names,
        ids.map((id) => lessons.find(id)!),
      );
      for (const id of ids) stored.add(id);
      await pace();
    }
    await insertRecords(orm, records);
    await pace();
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
    parts: pastParts,
    recall: (part, lessons, signal) => recall(part, lessons, signal),
    learn: (part, signal) => {
      const from = new Date(clock.now() - days * DAY_MS);
      return createLessons(historiesOf(part), { from, to: now() }, signal, createPace(part.share));
    },
    async fillRecords(part, lessons, signal) {
      const since = dateOf(clock.now() - days * DAY_MS);
      const pace = createPace(part.share);
      const there = new Set(
        (await listRecorded(orm, names, since)).map((record) =>
          recordKey(targetOfRecord(record), record.leadHours),
        ),
      );
      const isThere = (subject: Subject, lead: number) =>
        there.has(recordKey(targetOfSubject(subject), lead));
      const stored = new Set<string>();
      let made = 0;
      let batch: NewRecord[] = [];
      for await (const recalled of recall(part, lessons, signal, isThere)) {
        for (const { record, report } of recalled)
          batch.push(report ? { ...record, ...outcomeOf(record, report) } : record);
        if (batch.length < RECORDS_AT_ONCE) continue;
        await write(batch, lessons, stored, pace);
        made += batch.length;
        batch = [];
      }
      if (batch.length > 0) await write(batch, lessons, stored, pace);
      await scoreOpen(lessons);
      return made + batch.length;
    },
    async fillArchive(part, signal) {
      const pace = createPace(part.share);
      const { weather, markets } = historiesOf(part);
      const [from, to] = [dateOf(clock.now() - 2 * days * DAY_MS), dateOf(clock.now() + DAY_MS)];
      const kinds = { runKinds: part.kinds, reportKinds: part.kinds };
      const covered = await readCoverage(orm, { ...names, ...kinds }, part.stations, { from, to });
      // What the present has begun to write down of the last days is not whole.
      const recent = dateOf(clock.now() - 2 * DAY_MS);
      // The newest first: what is looked back at from the present is there soonest.
      for (const date of daysBetween(from, to).toReversed()) {
        signal.throwIfAborted();
        const day = { from: date, to: date };
        if (date >= recent || !covered.hasRuns(date))
          for (const runs of inChunks(await weather.readRuns(day, signal), RUNS_AT_ONCE)) {
            await archive.addRuns(runs);
            await pace();
          }
        if (date >= recent || !covered.hasReports(date))
          await archive.addReports(await markets.readSettledDays(day, signal));
        await pace();
      }
    },
  };
}

const recordKey = (target: Target, leadHours: number): string => `${targetKey(target)} ${leadHours}`;

/** What is written down of a day once its report is known. */
const outcomeOf = (record: ScorableRecord, { temperatureF, knownAt }: SettledDay) => ({
  ...scoreRecord(record, temperatureF),
  outcome: temperatureF,
  settledAt: knownAt,
});
