import type { WorkContext } from '../../core/http/context.js';
import { DAY_MS } from '../../core/time.js';
import { inChunks } from '../../core/steps.js';
import { HOURS_WINDOW_DAYS, type Archive } from '../training/forecast-archive.js';
import { insertFits, insertHourFits } from '../training/queries.js';
import { readCoverage } from '../training/coverage.js';
import type { FitBook } from '../learning/fits.js';
import { createSimulatedWeatherSource, readWeatherOf } from '../weather/simulated.js';
import { dateOf, daysBetween } from '../market/climate-day.js';
import { groupEvents } from '../market/event.js';
import { dailyKinds, targetKey, targetOf, type Target } from '../market/market.js';
import type { SettledDay } from '../market/source.js';
import { stations } from '../market/stations.js';
import type { PastFiller } from '../scores/judge.js';
import { insertRecords, listOpenRecords, listRecorded, setOutcome } from '../scores/queries.js';
import { recordsDue, targetOfRecord, type Climates, type NewRecord } from '../scores/records.js';
import { scoreRecord, type ScorableRecord } from '../scores/score.js';
import { createSimulatedSource, readMarketsOf } from '../venue/simulated.js';
import { noticedBefore } from '../venue/simulation/crowd.js';
import { createPace } from '../venue/simulation/random.js';
import { leadingStations, type Selection, type SimulatedSubject } from '../venue/simulation/world.js';
import { learnPast, pastSnapshotTimes, type LearnedPast, type SnapshotTime } from './learned-past.js';
import type { SourceNames } from '../learning/queries.js';
import type { SimulatedWorld } from '../venue/simulation/weather.js';
import { calibratedModel } from '../learning/calibrated.js';

/** On these days, the simulated traders already price as they do today. */
export const TRADED_DAYS = 30;

/** Uses only data known by that time. */
function makeRecords(
  world: Pick<SimulatedWorld, 'seed' | 'weather' | 'noticedAt'>,
  names: SourceNames,
  { at, subjects }: SnapshotTime,
  { fits, climates }: { fits: FitBook; climates: Climates },
): NewRecord[] {
  const data = readMarketsOf(world, subjects, at);
  const events = groupEvents(data.markets);
  const weather = readWeatherOf(world, subjects, at);
  const forecasts = calibratedModel({ source: names.forecastSource, weather, events, fits, at });
  return recordsDue({ ...names, data, events, forecasts, at }, climates);
}

/** One kind of temperature at some stations. */
interface PastPart extends Selection {
  /** See `createPace`. */
  share: number;
}

const others = stations.filter((station) => !leadingStations.includes(station));
/** A part's history is held in memory; all 17 other stations together took 260 MB. */
const STATIONS_AT_ONCE = 6;

/** The parts that pages show come first and run at full speed, the others in the background. */
export const pastParts: readonly PastPart[] = [
  { of: leadingStations, share: 1 },
  ...inChunks(others, STATIONS_AT_ONCE).map((of) => ({ of, share: 0.4 })),
].flatMap(({ of, share }) => dailyKinds.map((kind) => ({ stations: of, kinds: [kind], share })));

/** A batch takes the embedded database a few milliseconds. */
const RECORDS_AT_ONCE = 28;
const FITS_AT_ONCE = 7;
const RUNS_AT_ONCE = 63;

export interface PastDay {
  record: NewRecord;
  report: SettledDay | undefined;
}

interface PastOptions extends Pick<WorkContext, 'db' | 'clock'> {
  archive: Pick<Archive, 'addRuns' | 'addReports' | 'addHours'>;
  names: SourceNames;
  world: Pick<SimulatedWorld, 'seed' | 'weather'>;
  days: number;
}

export function createPast(options: PastOptions) {
  const { clock, names, world, days } = options;
  const now = () => new Date(clock.now());

  /** Over the past `days` days, grouped by time. */
  async function* recall(
    part: PastPart,
    learned: LearnedPast,
    signal: AbortSignal,
    isThere: (subject: SimulatedSubject, lead: number) => boolean = () => false,
  ): AsyncGenerator<PastDay[]> {
    const pace = createPace(part.share);
    const pastWorld = { ...world, noticedAt: noticedBefore(new Date(clock.now() - TRADED_DAYS * DAY_MS)) };
    for (const time of pastSnapshotTimes(now(), days, part, isThere)) {
      signal.throwIfAborted();
      const known = { fits: await learned.fitsAt(time.at), climates: learned.climatesAt(time.at) };
      yield makeRecords(pastWorld, names, time, known).map((record) => ({
        record,
        report: learned.reportOf(targetOfRecord(record), now()),
      }));
      await pace();
    }
  }

  /** As training would have, over the past `days` days. */
  function learn(part: PastPart, signal: AbortSignal): Promise<LearnedPast> {
    const from = new Date(clock.now() - days * DAY_MS);
    return learnPast(historiesOf(options, part), { from, to: now() }, signal, createPace(part.share));
  }

  /** Resumes an interrupted run. Returns the number of records added. */
  async function fillRecords(part: PastPart, learned: LearnedPast, signal: AbortSignal): Promise<number> {
    const records = await listRecorded(options.db.orm, names, dateOf(clock.now() - days * DAY_MS));
    const there = new Set(records.map((record) => recordKey(targetOfRecord(record), record.leadHours)));
    const isThere = (subject: SimulatedSubject, lead: number) =>
      there.has(recordKey(targetOf(subject), lead));
    const write = createRecordWriter(options, learned, createPace(part.share));
    let made = 0;
    let batch: NewRecord[] = [];
    for await (const recalled of recall(part, learned, signal, isThere)) {
      for (const { record, report } of recalled)
        batch.push(report ? { ...record, ...outcomeOf(record, report) } : record);
      if (batch.length < RECORDS_AT_ONCE) continue;
      await write(batch);
      made += batch.length;
      batch = [];
    }
    if (batch.length > 0) await write(batch);
    await scoreOpen(options, learned);
    return made + batch.length;
  }

  const fillIn: PastFiller['fillIn'] = async ({ useFits, recorded }, signal) => {
    // One part's fits can be garbage-collected before the next part starts.
    const learnAndRecord = async (part: PastPart): Promise<number> => {
      const learned = await learn(part, signal);
      await useFits((at) => learned.fitsAt(at));
      return fillRecords(part, learned, signal);
    };
    let made = 0;
    for (const part of pastParts) {
      made += await learnAndRecord(part);
      await recorded();
      await fillArchive(options, part, signal);
    }
    return made;
  };

  return {
    recall,
    learn,
    fillRecords,
    fillIn,
    /** Twice `days` days. */
    fillArchive: (part: PastPart, signal: AbortSignal) => fillArchive(options, part, signal),
  };
}

const historiesOf = ({ world, clock }: PastOptions, part: PastPart) => ({
  weather: createSimulatedWeatherSource({ ...world, clock }, part).history,
  markets: createSimulatedSource({ ...world, clock }, part).history,
});

const recordKey = (target: Target, leadHours: number): string => `${targetKey(target)} ${leadHours}`;

function createRecordWriter(
  { db: { orm }, names }: PastOptions,
  learned: LearnedPast,
  pace: () => Promise<void>,
): (records: readonly NewRecord[]) => Promise<void> {
  const stored = new Set<string>();
  return async (records) => {
    const used = new Set(records.flatMap(({ fitId }) => (fitId && !stored.has(fitId) ? [fitId] : [])));
    for (const ids of inChunks([...used], FITS_AT_ONCE)) {
      const fits = ids.map((id) => learned.find(id)).filter((fit) => fit !== undefined);
      const hourFits = ids.map((id) => learned.findHours(id)).filter((fit) => fit !== undefined);
      if (fits.length > 0) await insertFits(orm, names, fits);
      if (hourFits.length > 0) await insertHourFits(orm, names, hourFits);
      for (const id of ids) stored.add(id);
      await pace();
    }
    await insertRecords(orm, records);
    await pace();
  };
}

/** The live scorer missed days that settled while no instance was running. */
async function scoreOpen({ db: { orm }, clock, names, days }: PastOptions, learned: LearnedPast) {
  const now = clock.now();
  const dates = Array.from({ length: days }, (_, i) => dateOf(now - (i + 1) * DAY_MS));
  for (const record of await listOpenRecords(orm, names, dates)) {
    const report = learned.reportOf(targetOfRecord(record), new Date(now));
    if (report) await setOutcome(orm, record, outcomeOf(record, report));
  }
}

const outcomeOf = (record: ScorableRecord, { temperatureF, knownAt }: SettledDay) => ({
  ...scoreRecord(record, temperatureF),
  outcome: temperatureF,
  settledAt: knownAt,
});

async function fillArchive(options: PastOptions, part: PastPart, signal: AbortSignal): Promise<void> {
  const { db, archive, clock, names, days } = options;
  const pace = createPace(part.share);
  const { weather, markets } = historiesOf(options, part);
  const [from, to] = [dateOf(clock.now() - 2 * days * DAY_MS), dateOf(clock.now() + DAY_MS)];
  const kinds = { runKinds: part.kinds, reportKinds: part.kinds };
  const covered = await readCoverage(db.orm, { ...names, ...kinds }, part.stations, { from, to });
  const learnedFrom = dateOf(clock.now() - HOURS_WINDOW_DAYS * DAY_MS);
  // The live archive may have only part of the most recent days.
  const recent = dateOf(clock.now() - 2 * DAY_MS);
  // Live reads need the newest data first.
  for (const date of daysBetween(from, to).toReversed()) {
    signal.throwIfAborted();
    const day = { from: date, to: date };
    if (date >= recent || !covered.hasRuns(date)) {
      for (const runs of inChunks(await weather.readRuns(day, signal), RUNS_AT_ONCE)) {
        await archive.addRuns(runs);
        await pace();
      }
      // Maxima and minima share the hourly temperatures, which only training's days need.
      const isWanted = part.kinds.includes('daily_maximum') && date >= learnedFrom;
      for (const hours of inChunks(isWanted ? await weather.readHours(day, signal) : [], RUNS_AT_ONCE)) {
        await archive.addHours(hours);
        await pace();
      }
    }
    if (date >= recent || !covered.hasReports(date))
      await archive.addReports(await markets.readSettledDays(day, signal));
    await pace();
  }
}
