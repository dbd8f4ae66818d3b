import type { WorkContext } from '../../core/http/context.js';
import { shareRun } from '../../core/steps.js';
import type { SourceNames } from '../learning/queries.js';
import { createPast } from '../past/past.js';
import { createJudge, type Judge } from '../scores/judge.js';
import type { CalibrationStore } from '../snapshot/snapshot.js';
import type { SimulatedWorld } from '../venue/simulation/weather.js';
import { createArchive } from '../training/forecast-archive.js';
import { createTrainer, type Trainer } from '../training/trainer.js';

/** Work that takes seconds: training, judging gates, and reconstructing a simulated world's past. */
export interface Background extends Omit<Trainer, 'stop'>, Omit<Judge, 'stop'> {
  stop(): Promise<void>;
}

export interface BackgroundDeps extends Pick<WorkContext, 'db' | 'clock' | 'log'> {
  calibration: CalibrationStore;
}

/** Plain data, so that it can be passed to a thread. */
export interface BackgroundOptions {
  names: SourceNames;
  furtherModels: readonly string[] | undefined;
  /** Days of the past to reconstruct; undefined unless the world is simulated. */
  pastDays: number | undefined;
}

export function createBackground(
  { db, clock, log, calibration }: BackgroundDeps,
  { names, furtherModels, pastDays }: BackgroundOptions,
  world: Pick<SimulatedWorld, 'seed' | 'weather'>,
) {
  const archive = createArchive({ db, ...names, furtherModels });
  const past =
    pastDays === undefined ? undefined : createPast({ db, archive, clock, names, world, days: pastDays });
  const judge = createJudge({ db, calibration, sources: names, clock, log, past });
  const filling = shareRun(() => judge.fillPast());
  const isFilling = () => filling.running !== undefined;
  const trainer = createTrainer({ db, archive, sources: names, calibration, clock, log, isFilling });
  return {
    archive,
    /** Undefined unless the world is simulated. */
    past,
    ...trainer,
    ...judge,
    fillPast: filling.run,
    async stop(): Promise<void> {
      trainer.stop();
      judge.stop();
    },
  };
}
