import { setImmediate as nextTurn } from 'node:timers/promises';
import type { WorkContext } from '../../core/http/context.js';
import { DAY_MS, HOUR_MS } from '../../core/time.js';
import type { Database } from '../../core/db/client.js';
import { newId } from '../../core/ids.js';
import { inSlices } from '../../core/steps.js';
import { forecastFits, forecastMixes, sameDayFits } from '../learning/table.js';
import { dateOf } from '../market/climate-day.js';
import { dailyKinds } from '../market/market.js';
import { stations } from '../market/stations.js';
import type { CalibrationStore } from '../snapshot/snapshot.js';
import type { News } from './news.js';
import type { Archive } from './forecast-archive.js';
import { learnAllExtremeHours } from './train-hours.js';
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

/** How often to look for data that another instance or a command has added. */
const LOOK_EVERY_MS = HOUR_MS;
const KEPT_DAYS = 400;
/** For the first model's daily runs and the reports, which seasonal fits use: a little longer than these look back. */
const LONG_KEPT_DAYS = SEASONAL_WINDOW_DAYS + 10;
/** For fits of days in progress. Each day adds 46 of them with up to 1,500 days each: three megabytes. */
const HOUR_FITS_KEPT_DAYS = 60;

interface TrainerOptions extends Pick<WorkContext, 'clock' | 'log'> {
  db: Pick<Database, 'orm'>;
  archive: Archive;
  sources: SourceNames;
  calibration: CalibrationStore;
  /** True while the archive is being filled; training then waits until it is complete. Default: never. */
  isFilling?: () => boolean;
}

export type Trainer = ReturnType<typeof createTrainer>;

/** Keeps the forecast calibrated. Several instances may run at the same time. */
export function createTrainer(options: TrainerOptions) {
  const { db, archive, sources, calibration, clock, log, isFilling = () => false } = options;
  let isStopped = false;
  let last = { atMs: -Infinity, changes: -1 };
  let isNew = false;
  const trainStations = createStationTraining(options, () => isStopped);

  /** Trains, and stores the fits before they are used. Returns undefined if stopped early. */
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
    /** Loads the newest stored fits, which are used until newer ones are made, and the hours of extremes. Never rejects. */
    load: () => loadStored(options),
    async learn({ runs, reports, hours }: News): Promise<void> {
      await archive.addHours(hours);
      await archive.addRuns(runs);
      await archive.addReports(reports);
      if (runs.length + reports.length > 0) isNew = true;
      if (isFilling()) return;
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
    /** Data is kept for 400 days, inputs of seasonal fits for two years. Each call deletes a limited number of rows. */
    async cleanUp(): Promise<void> {
      const now = clock.now();
      const before = new Date(now - KEPT_DAYS * DAY_MS);
      await archive.deleteBefore(dateOf(before.getTime()), dateOf(now - LONG_KEPT_DAYS * DAY_MS));
      await deleteOldFits(db.orm, forecastFits, sources, before);
      await deleteOldFits(db.orm, forecastMixes, sources, before);
      await deleteOldFits(db.orm, sameDayFits, sources, new Date(now - HOUR_FITS_KEPT_DAYS * DAY_MS));
    },
    stop(): void {
      isStopped = true;
    },
  };
}

/** Fits stations with a long history to their own data every five days. Looks for such stations once a day. */
function createStationTraining(
  options: TrainerOptions,
  isStopped: () => boolean,
): (at: Date) => Promise<void> {
  const { db, archive, sources, calibration } = options;
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

/** Inserts one fit at a time and yields in between, because the embedded database blocks the event loop. */
async function storeFits(
  { db, sources }: Pick<TrainerOptions, 'db' | 'sources'>,
  fits: readonly TrainedFit[],
): Promise<void> {
  for (const fit of fits) {
    await insertFits(db.orm, sources, [fit]);
    await nextTurn();
  }
}

async function loadStored({ db, archive, sources, calibration, clock, log }: TrainerOptions): Promise<void> {
  try {
    const at = new Date(clock.now());
    const after = new Date(at.getTime() - LONGEST_AGE_DAYS * DAY_MS);
    const fits = await newestFits(db.orm, sources, { at, after });
    const ofHours = await newestHourFits(db.orm, sources, { at, after });
    const mixes = await newestMixes(db.orm, sources, { at, after });
    const extremes = learnAllExtremeHours(await archive.hoursAsOf(at));
    if (fits.length + extremes.length === 0 || calibration.current.fits.madeAt !== null) return;
    const madeAt =
      fits.length === 0 ? null : new Date(Math.max(...fits.map(({ trainedAt }) => trainedAt.getTime())));
    calibration.replace({ fits: { madeAt, fits, mixes, hours: { fits: ofHours, missing: [], extremes } } });
  } catch (error) {
    log.warn({ err: error }, 'the stored fits could not be read; new ones will be computed');
  }
}
