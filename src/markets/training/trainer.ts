import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Logger } from 'pino';
import { DAY_MS, HOUR_MS, type Clock } from '../../core/time.js';
import type { Database } from '../../core/db/client.js';
import { newId } from '../../core/ids.js';
import { inSlices } from '../../core/steps.js';
import { forecastFits, forecastMixes, sameDayFits } from '../learning/table.js';
import { EARLIER_RUN, MAIN_MODEL, type DayEnsemble, hoursOf, type KnownHour } from '../weather/weather.js';
import { dateOf } from '../market/climate-day.js';
import { dailyKinds, targetKey } from '../market/market.js';
import type { SettledDay } from '../market/source.js';
import { finalOutcomes } from '../market/event.js';
import { stations } from '../market/stations.js';
import type { CalibrationStore, Snapshot, SnapshotStore } from '../snapshot/snapshot.js';
import type { Archive } from './forecast-archive.js';
import { isRecent } from './make-fit.js';
import {
  deleteOldFits,
  insertFits,
  insertHourFits,
  insertMixes,
  newestFits,
  newestHourFits,
  newestMixes,
} from './queries.js';
import {
  MIN_SEASONAL_DAYS,
  SEASONAL_WINDOW_DAYS,
  trainInSteps,
  trainStationInSteps,
  withStation,
  type TrainedFit,
  type Training,
} from './training.js';
import { type SourceNames } from '../learning/queries.js';
import { LONGEST_AGE_DAYS } from '../learning/calibrated.js';

/**
 * Records the contents of snapshots. Runs stay the same for hours and reports for good, so only items missing from the last
 * snapshot are written.
 * @returns whether there was a new run or report
 */
function createCollector(
  archive: Pick<Archive, 'addRuns' | 'addReports' | 'addHours'>,
): (snapshot: Snapshot) => Promise<boolean> {
  let seen = new Set<string>();
  return async (snapshot) => {
    const shown = new Set<string>();
    const unseen = <T>(all: readonly T[], keyOf: (each: T) => string): T[] => {
      const byKey = new Map(all.map((each) => [keyOf(each), each]));
      for (const key of byKey.keys()) shown.add(key);
      return [...byKey].filter(([key]) => !seen.has(key)).map(([, each]) => each);
    };
    const runs = unseen(runsIn(snapshot), keyOfRun);
    const reports = unseen(reportsIn(snapshot), keyOfReport);
    await archive.addHours(unseen(hoursIn(snapshot), keyOfHour));
    await archive.addRuns(runs);
    await archive.addReports(reports);
    seen = shown;
    return runs.length + reports.length > 0;
  };
}

const runsIn = ({ forecasts }: Snapshot): DayEnsemble[] =>
  [...forecasts].flatMap(([stationId, { days }]) =>
    days.flatMap(({ kind, date, hour, modelRunAt, fetchedAt, membersF, curveF, models = [] }) => {
      const target = { kind, stationId, date, hour };
      const further = models.filter(({ model }) => model !== MAIN_MODEL && model !== EARLIER_RUN);
      return [
        { ...target, modelRunAt, fetchedAt, membersF, curveF },
        ...further.map(({ model, modelRunAt, fetchedAt, membersF }) => ({
          ...target,
          model,
          modelRunAt,
          fetchedAt,
          membersF,
        })),
      ];
    }),
  );

const hoursIn = ({ forecasts }: Snapshot): KnownHour[] =>
  [...forecasts].flatMap(([stationId, { days }]) =>
    days.flatMap(({ kind, date, observed }) => {
      if (kind !== 'daily_maximum' || !observed) return [];
      const low = days.find((day) => day.kind === 'daily_minimum' && day.date === date)?.observed;
      return hoursOf({ stationId, date }, observed, low?.extremeF ?? null);
    }),
  );

const reportsIn = ({ events, asOf }: Snapshot): SettledDay[] =>
  finalOutcomes(events).map((outcome) => ({ ...outcome, knownAt: asOf }));

const keyOfHour = ({ stationId, date, hour }: KnownHour): string => `${stationId} ${date} hour ${hour}`;

/** Further models may run hourly; one run in six hours is enough. */
const FURTHER_RUN_MS = 6 * HOUR_MS;

const keyOfRun = (run: DayEnsemble): string => {
  const runMs = run.modelRunAt.getTime();
  return `${targetKey(run)} ${run.model === undefined ? runMs : `${run.model} ${Math.floor(runMs / FURTHER_RUN_MS)}`}`;
};

const keyOfReport = (report: SettledDay): string => `${targetKey(report)} ${report.temperatureF} °F`;

/** Another instance or a command may have added data. */
const LOOK_EVERY_MS = HOUR_MS;
const KEPT_DAYS = 400;
/** Seasonal fits need the first model's daily runs and the reports as far back as training looks. */
const LONG_KEPT_DAYS = SEASONAL_WINDOW_DAYS + 10;
/** There are 46 of them a day with up to 1,500 days each: three megabytes. */
const HOUR_FITS_KEPT_DAYS = 60;

/** Keeps the forecast calibrated. Several instances may run it side by side. */
export interface Trainer {
  /** Uses the newest stored fits until better ones are made. Never rejects. */
  load(): Promise<void>;
  learn(): Promise<void>;
  /** Deletes data older than 400 days, and the inputs of seasonal fits after two years, a bounded number of rows at a time. */
  cleanUp(): Promise<void>;
  stop(): void;
}

interface TrainerOptions {
  db: Pick<Database, 'orm'>;
  archive: Archive;
  sources: SourceNames;
  store: Pick<SnapshotStore, 'current'>;
  calibration: CalibrationStore;
  clock: Clock;
  log: Logger;
}

export function createTrainer(options: TrainerOptions): Trainer {
  const { db, archive, sources, store, calibration, clock, log } = options;
  const collect = createCollector(archive);
  let isStopped = false;
  let last = { atMs: -Infinity, changes: -1 };
  let isNew = false;
  const trainStations = createStationTraining(options, () => isStopped);

  /** Stores fits before they are used. Undefined if stopped early. */
  async function train(at: Date): Promise<Training | undefined> {
    const history = await archive.asOf(at);
    const steps = trainInSteps(history, {
      previous: calibration.current.fits,
      newId: () => newId(at.getTime()),
    });
    const training = await inSlices(steps, () => isStopped);
    await storeFits(options, training?.added ?? []);
    for (const added of training?.addedHours ?? []) {
      await insertHourFits(db.orm, sources, [added]);
      await nextTurn();
    }
    if (training && training.addedMixes.length > 0) await insertMixes(db.orm, sources, training.addedMixes);
    return training;
  }

  return {
    load: () => loadStored(options),
    async learn() {
      if (store.current && (await collect(store.current))) isNew = true;
      const { changes } = archive;
      const at = new Date(clock.now());
      if (!isNew && changes === last.changes && at.getTime() - last.atMs < LOOK_EVERY_MS) return;
      const training = await train(at);
      if (!training) return;
      calibration.replace({ fits: training.book });
      await trainStations(at);
      isNew = false;
      last = { atMs: at.getTime(), changes };
      const { added, addedHours, book } = training;
      if (added.length + addedHours.length > 0)
        log.info(
          {
            made: added.length,
            inUse: book.fits.length,
            madeOfHours: addedHours.length,
            hoursInUse: book.hours?.fits.length,
          },
          'forecasts are corrected by new fits',
        );
    },
    async cleanUp() {
      const now = clock.now();
      const before = new Date(now - KEPT_DAYS * DAY_MS);
      await archive.deleteBefore(dateOf(before.getTime()), dateOf(now - LONG_KEPT_DAYS * DAY_MS));
      await deleteOldFits(db.orm, forecastFits, sources, before);
      await deleteOldFits(db.orm, forecastMixes, sources, before);
      await deleteOldFits(db.orm, sameDayFits, sources, new Date(now - HOUR_FITS_KEPT_DAYS * DAY_MS));
    },
    stop() {
      isStopped = true;
    },
  };
}

/** Fits stations with a long history to their own data, every five days; looks for such stations once a day. */
function createStationTraining(
  { db, archive, sources, calibration }: TrainerOptions,
  isStopped: () => boolean,
): (at: Date) => Promise<void> {
  let stationsAtMs = -Infinity;
  return async (at) => {
    if (at.getTime() - stationsAtMs < DAY_MS) return;
    for (const kind of dailyKinds)
      for (const station of stations) {
        const { fits: previous } = calibration.current;
        const own = previous.fits.filter((fit) => fit.kind === kind && fit.stationId === station.id);
        if (own.length > 0 && own.every((fit) => isRecent(fit, fit.n, at))) continue;
        const past = { kind, stationId: station.id, days: SEASONAL_WINDOW_DAYS, least: MIN_SEASONAL_DAYS };
        const history = await archive.longAsOf(at, past);
        if (!history) continue;
        const options = { previous, newId: () => newId(at.getTime()) };
        const made = await inSlices(trainStationInSteps(history, { kind, station }, options), isStopped);
        if (!made) return;
        await storeFits({ db, sources }, made.added);
        calibration.replace({ fits: withStation(calibration.current.fits, { kind, station }, made) });
      }
    stationsAtMs = at.getTime();
  };
}

/** One at a time, yielding in between: the embedded database blocks the event loop. */
async function storeFits(
  { db, sources }: Pick<TrainerOptions, 'db' | 'sources'>,
  fits: readonly TrainedFit[],
): Promise<void> {
  for (const fit of fits) {
    await insertFits(db.orm, sources, [fit]);
    await nextTurn();
  }
}

async function loadStored({ db, sources, calibration, clock, log }: TrainerOptions): Promise<void> {
  try {
    const at = new Date(clock.now());
    const after = new Date(at.getTime() - LONGEST_AGE_DAYS * DAY_MS);
    const fits = await newestFits(db.orm, sources, { at, after });
    const ofHours = await newestHourFits(db.orm, sources, { at, after });
    const mixes = await newestMixes(db.orm, sources, { at, after });
    if (fits.length === 0 || calibration.current.fits.madeAt !== null) return;
    const madeAt = new Date(Math.max(...fits.map(({ trainedAt }) => trainedAt.getTime())));
    calibration.replace({ fits: { madeAt, fits, mixes, hours: { fits: ofHours, missing: [] } } });
  } catch (error) {
    log.warn({ err: error }, 'the stored fits could not be read; new ones will be computed');
  }
}
