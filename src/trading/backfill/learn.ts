import type { Logger } from 'pino';
import type { Clock } from '../../core/clock.js';
import type { Orm } from '../../core/db/client.js';
import { createCalibrationStore } from '../snapshot/calibration.js';
import type { Archive } from '../archive/archive.js';
import { createTrainer } from '../archive/trainer.js';
import type { FitBook } from '../forecast/fits.js';

export interface LearnOptions {
  orm: Orm;
  archive: Archive;
  sources: { forecastSource: string; marketSource: string };
  clock: Clock;
  log: Logger;
}

/** Learns from what there is now, and stores the fits: a service that runs takes them up within the hour. */
export async function learn({ orm, archive, sources, clock, log }: LearnOptions): Promise<FitBook> {
  const calibration = createCalibrationStore();
  const store = { current: undefined };
  const trainer = createTrainer({ db: { orm }, archive, sources, store, calibration, clock, log });
  await trainer.load();
  await trainer.learn();
  return calibration.current.fits;
}
