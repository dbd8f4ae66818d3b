import type { Logger } from 'pino';
import type { Clock } from '../../clock.js';
import type { Database } from '../../db/client.js';
import type { SnapshotStore } from '../snapshot.js';
import { insertRecords, listOpenRecords, setOutcome } from './queries.js';
import { finalOutcomes, recordsDue, scoreRecord, type Scene } from './records.js';

/** Writes down what is due at the moment of the scene. Writing it twice, here or on another instance, changes nothing. */
export async function recordForecasts({ orm }: Database, scene: Scene): Promise<void> {
  const due = recordsDue(scene);
  if (due.length > 0) await insertRecords(orm, due);
}

/** Scores the records whose days the venue is done with. */
export async function scoreForecasts({ orm }: Database, scene: Scene): Promise<number> {
  const outcomes = new Map(finalOutcomes(scene.events).map((day) => [`${day.station} ${day.date}`, day]));
  if (outcomes.size === 0) return 0;
  const dates = [...new Set([...outcomes.values()].map(({ date }) => date))];
  let scored = 0;
  for (const record of await listOpenRecords(orm, scene, dates)) {
    const found = outcomes.get(`${record.station} ${record.date}`);
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
  /** Fills in what an invented world's past would have shown. Once; where the world is the real one it does nothing. */
  backfill(): Promise<void>;
  stop(): void;
}

export interface ScoreKeeperOptions {
  db: Database;
  store: SnapshotStore;
  forecastSource: string;
  clock: Clock;
  log: Logger;
  /** Undefined where the past cannot be asked again. */
  fillPast: ((signal: AbortSignal) => Promise<number>) | undefined;
}

export function createScoreKeeper(options: ScoreKeeperOptions): ScoreKeeper {
  const { db, store, forecastSource, clock, log, fillPast } = options;
  const stopping = new AbortController();
  let isFilled = fillPast === undefined;

  function present(): Scene | undefined {
    const snapshot = store.current;
    return snapshot && { ...snapshot, forecastSource, at: new Date(clock.now()) };
  }

  return {
    async record() {
      const scene = present();
      if (scene) await recordForecasts(db, scene);
    },
    async score() {
      const scene = present();
      const scored = scene ? await scoreForecasts(db, scene) : 0;
      if (scored > 0) log.info({ scored }, 'forecasts of days that have settled are scored');
    },
    async backfill() {
      if (isFilled) return;
      const moments = await fillPast!(stopping.signal);
      isFilled = true;
      if (moments > 0) log.info({ moments }, 'the forecasts of the last days are filled in');
    },
    stop: () => stopping.abort(),
  };
}
