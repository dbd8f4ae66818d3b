import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Clock } from '../../core/clock.js';
import type { Database } from '../../core/db/client.js';
import type { CalibrationStore } from '../snapshot/calibration.js';
import { newId } from '../market/ids.js';
import type { SnapshotStore } from '../snapshot/snapshot.js';
import { LONGEST_AGE_DAYS } from '../forecast/calibrated.js';
import { inSlices } from '../market/steps.js';
import type { Archive } from './archive.js';
import { createCollector } from './collect.js';
import { deleteOldFits, insertFits, newestFits, type Sources } from './fit-queries.js';
import { trainInSteps, type Training } from './training.js';

const HOUR_MS = 60 * 60 * 1000;
const DAY_MS = 24 * HOUR_MS;
/** Another instance, or a command, may have written what this one has not seen. */
const LOOK_EVERY_MS = HOUR_MS;
const KEPT_DAYS = 400;

/** Keeps the forecast calibrated. Several instances do the same, and none harms another. */
export interface Trainer {
  /** Puts the newest fits that are stored in use, until better ones are made. Never rejects. */
  load(): Promise<void>;
  /** Writes down what the present shows, and learns anew if something new is known. */
  learn(): Promise<void>;
  /** Removes what is older than 400 days, a bounded number of rows at a time. */
  cleanUp(): Promise<void>;
  stop(): void;
}

export interface TrainerOptions {
  db: Pick<Database, 'orm'>;
  archive: Archive;
  sources: Sources;
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

  /** Fits are stored before anybody forecasts by them. Undefined when stopped before the end. */
  async function train(at: Date): Promise<Training | undefined> {
    const history = await archive.asOf(at);
    const steps = trainInSteps(history, {
      previous: calibration.current.fits,
      newId: () => newId(at.getTime()),
    });
    const training = await inSlices(steps, () => isStopped);
    for (const added of training?.added ?? []) {
      await insertFits(db.orm, sources, [added]);
      // The embedded database answers without one.
      await nextTurn();
    }
    return training;
  }

  return {
    async load() {
      try {
        const at = new Date(clock.now());
        const after = new Date(at.getTime() - LONGEST_AGE_DAYS * DAY_MS);
        const fits = await newestFits(db.orm, sources, { at, after });
        if (fits.length === 0 || calibration.current.fits.madeAt !== null) return;
        const madeAt = new Date(Math.max(...fits.map(({ trainedAt }) => trainedAt.getTime())));
        calibration.replace({ fits: { madeAt, fits } });
      } catch (error) {
        log.warn({ err: error }, 'the stored fits could not be read: new ones will be made');
      }
    },
    async learn() {
      if (store.current && (await collect(store.current))) isNew = true;
      const { changes } = archive;
      const at = new Date(clock.now());
      if (!isNew && changes === last.changes && at.getTime() - last.atMs < LOOK_EVERY_MS) return;
      const training = await train(at);
      if (!training) return;
      calibration.replace({ fits: training.book });
      isNew = false;
      last = { atMs: at.getTime(), changes };
      if (training.added.length > 0)
        log.info(
          { made: training.added.length, inUse: training.book.fits.length },
          'forecasts are corrected by new fits',
        );
    },
    async cleanUp() {
      const before = new Date(clock.now() - KEPT_DAYS * DAY_MS);
      await archive.deleteBefore(before.toISOString().slice(0, 10));
      await deleteOldFits(db.orm, sources, before);
    },
    stop() {
      isStopped = true;
    },
  };
}
