import type { Logger } from 'pino';
import type { Clock } from '../../core/clock.js';
import type { Database } from '../../core/db/client.js';
import { targetKey } from '../market/market.js';
import type { SnapshotStore } from '../snapshot/snapshot.js';
import type { CalibrationStore } from '../snapshot/calibration.js';
import { readClimates } from './climate.js';
import { insertRecords, listOpenRecords, setOutcome } from './queries.js';
import { readGates } from './read-gates.js';
import type { Past } from '../past/past.js';
import { finalOutcomes, recordsDue, targetOfRecord, type Scene } from './records.js';
import { scoreRecord } from './score-record.js';

/** Writes down what is due at the moment of the scene. Writing it twice, here or on another instance, changes nothing. */
export async function recordForecasts(db: Database, scene: Scene): Promise<void> {
  const due = recordsDue(scene);
  if (due.length === 0) return;
  const { marketSource, at } = scene;
  const targets = due.map(targetOfRecord);
  const climates = await readClimates(db, { marketSource, targets, at });
  await insertRecords(db.orm, recordsDue(scene, climates));
}

/** Scores the records whose days and hours the venue is done with. */
export async function scoreForecasts({ orm }: Database, scene: Scene): Promise<number> {
  const outcomes = new Map(finalOutcomes(scene.events).map((outcome) => [targetKey(outcome), outcome]));
  if (outcomes.size === 0) return 0;
  const dates = [...new Set([...outcomes.values()].map(({ date }) => date))];
  let scored = 0;
  for (const record of await listOpenRecords(orm, scene, dates)) {
    const found = outcomes.get(targetKey(targetOfRecord(record)));
    if (!found) continue;
    const { temperatureF } = found;
    const scores = scoreRecord(record, temperatureF);
    await setOutcome(orm, record, { ...scores, outcome: temperatureF, settledAt: scene.at });
    scored++;
  }
  return scored;
}

/** Keeps the record of forecasts and how they came out, from the snapshots that the reads are answered from. */
export interface ScoreKeeper {
  /** Writes down what is due now. */
  record(): Promise<void>;
  /** Scores what has settled. */
  score(): Promise<void>;
  /** Judges the gates by what has been scored, here or on another instance. */
  judge(): Promise<void>;
  /** Fills in what an invented world's past would have shown, once, and judges the gates. Of the real world only the latter. */
  backfill(): Promise<void>;
  stop(): void;
}

export interface ScoreKeeperOptions {
  db: Database;
  store: SnapshotStore;
  /** Where the gates go. */
  calibration: CalibrationStore;
  marketSource: string;
  forecastSource: string;
  clock: Clock;
  log: Logger;
  /** Undefined where the past cannot be made up for. */
  past: Past | undefined;
}

export function createScoreKeeper(options: ScoreKeeperOptions): ScoreKeeper {
  const { db, store, calibration, marketSource, forecastSource, clock, log, past } = options;
  const stopping = new AbortController();
  let isFilled = false;
  let filling: Promise<void> | undefined;

  function present(): Scene | undefined {
    const snapshot = store.current;
    return snapshot && { ...snapshot, forecastSource, at: new Date(clock.now()) };
  }

  async function judge(): Promise<void> {
    const at = new Date(clock.now());
    calibration.replace({ gates: await readGates(db, { marketSource, forecastSource }, at) });
  }

  async function fillPast(past: Past): Promise<void> {
    const { signal } = stopping;
    let made = 0;
    for (const part of past.parts) {
      const lessons = await past.learn(part, signal);
      // The present learns what is missing itself, and more; until then this is better than nothing.
      if (calibration.current.fits.madeAt === null)
        calibration.replace({ fits: await lessons.fitsAt(new Date(clock.now())) });
      made += await past.fillRecords(part, lessons, signal);
      await judge();
      await past.fillArchive(part, signal);
    }
    if (made > 0) log.info({ made }, 'the forecasts of the last days are filled in');
  }

  async function fill(): Promise<void> {
    try {
      if (past) await fillPast(past);
      else await judge();
      isFilled = true;
    } catch (error) {
      // What is missing is filled in after the next start.
      if (!stopping.signal.aborted) throw error;
    }
  }

  return {
    judge,
    async record() {
      const scene = present();
      if (scene) await recordForecasts(db, scene);
    },
    async score() {
      const scene = present();
      const scored = scene ? await scoreForecasts(db, scene) : 0;
      if (scored === 0) return;
      log.info({ scored }, 'forecasts of days that have settled are scored');
      await judge();
    },
    async backfill() {
      if (!isFilled) await (filling ??= fill().finally(() => (filling = undefined)));
    },
    stop: () => stopping.abort(),
  };
}
