import type { Logger } from 'pino';
import { byService, change, type ChangeDeps } from '../../accounts/audit/audit.js';
import type { Clock } from '../../core/time.js';
import type { Database } from '../../core/db/client.js';
import { shareRun } from '../../core/steps.js';
import { queueForTraders } from '../../accounts/webhooks/outbox.js';
import { targetKey } from '../market/market.js';
import type { CalibrationStore, SnapshotStore } from '../snapshot/snapshot.js';
import type { GateBook } from '../signals/signal.js';
import { insertRecords, listOpenRecords, setOutcome, storeGates } from './queries.js';
import { readGates } from './gates.js';
import type { FitBook } from '../learning/fits.js';
import type { SourceNames } from '../learning/queries.js';
import { readClimates, recordsDue, targetOfRecord, type RecordInputs } from './records.js';
import { scoreRecord } from './score.js';
import { finalOutcomes } from '../market/event.js';

/** Records the forecasts that are due. Idempotent, also across instances. */
export async function recordForecasts(db: Database, inputs: RecordInputs): Promise<void> {
  const due = recordsDue(inputs);
  if (due.length === 0) return;
  const { marketSource, at } = inputs;
  const targets = due.map(targetOfRecord);
  const climates = await readClimates(db, { marketSource, targets, at });
  await insertRecords(db.orm, recordsDue(inputs, climates));
}

export async function scoreForecasts({ orm }: Database, inputs: RecordInputs): Promise<number> {
  const outcomes = new Map(finalOutcomes(inputs.events).map((outcome) => [targetKey(outcome), outcome]));
  if (outcomes.size === 0) return 0;
  const dates = [...new Set([...outcomes.values()].map(({ date }) => date))];
  let scored = 0;
  for (const record of await listOpenRecords(orm, inputs, dates)) {
    const found = outcomes.get(targetKey(targetOfRecord(record)));
    if (!found) continue;
    const { temperatureF } = found;
    const scores = scoreRecord(record, temperatureF);
    await setOutcome(orm, record, { ...scores, outcome: temperatureF, settledAt: inputs.at });
    scored++;
  }
  return scored;
}

/** Notifies webhooks of gates that have changed since any instance last judged them. */
export const recordGates = (deps: ChangeDeps, sources: SourceNames, book: GateBook): Promise<void> =>
  change(deps, byService, async (tx) => {
    for (const place of await storeGates(tx, sources, book)) {
      const { kind, stationId: station, leadHours, isOpen, n, reason } = book.gates[place]!;
      const data = { kind, station, leadHours, state: isOpen ? 'open' : 'closed', n, reason } as const;
      await queueForTraders(tx, { type: 'signal.gate_changed', data, at: book.madeAt! });
    }
  });

export interface ScoreKeeper {
  record(): Promise<void>;
  score(): Promise<void>;
  /** Judges the gates by all scored records, including those of other instances. */
  judge(): Promise<void>;
  /** Fills in a simulated world's past once, then judges the gates. In the real world it only judges them. */
  fillPast(): Promise<void>;
  stop(): void;
}

export interface ScoreKeeperOptions {
  db: Database;
  store: SnapshotStore;
  calibration: CalibrationStore;
  marketSource: string;
  forecastSource: string;
  clock: Clock;
  log: Logger;
  /** Undefined if the past cannot be reconstructed. */
  past: PastFiller | undefined;
}

export interface PastFiller {
  /** Resumes where an earlier run stopped. @returns how many forecasts were missing */
  fillIn(into: FilledIn, signal: AbortSignal): Promise<number>;
}

export interface FilledIn {
  /** Receives the fits that forecasts would use now. */
  useFits: (fitsAt: (at: Date) => Promise<FitBook>) => Promise<void>;
  recorded: () => Promise<void>;
}

export function createScoreKeeper(options: ScoreKeeperOptions): ScoreKeeper {
  const { db, store, calibration, marketSource, forecastSource, clock, log, past } = options;
  const stopping = new AbortController();
  let isFilled = false;

  function present(): RecordInputs | undefined {
    const snapshot = store.current;
    return snapshot && { ...snapshot, forecastSource, at: new Date(clock.now()) };
  }

  async function judge(): Promise<void> {
    const at = new Date(clock.now());
    const sources = { marketSource, forecastSource };
    const gates = await readGates(db, sources, at);
    calibration.replace({ gates });
    // A change that was not written is found again when gates are next judged.
    await recordGates({ db, clock }, sources, gates).catch((error: unknown) =>
      log.warn({ err: error }, 'changed gates could not be reported yet'),
    );
  }

  async function fillFrom(past: PastFiller): Promise<void> {
    const made = await past.fillIn(
      {
        async useFits(fitsAt) {
          // The trainer will learn better fits itself; until then these are better than none.
          if (calibration.current.fits.fits.length === 0)
            calibration.replace({ fits: await fitsAt(new Date(clock.now())) });
        },
        recorded: judge,
      },
      stopping.signal,
    );
    if (made > 0) log.debug({ made }, 'the forecasts of the last days are filled in');
  }

  async function fill(): Promise<void> {
    try {
      if (past) await fillFrom(past);
      else await judge();
      isFilled = true;
    } catch (error) {
      // The next start fills in the rest.
      if (!stopping.signal.aborted) throw error;
    }
  }

  const filling = shareRun(fill);
  return {
    judge,
    async record() {
      const inputs = present();
      if (inputs) await recordForecasts(db, inputs);
    },
    async score() {
      const inputs = present();
      const scored = inputs ? await scoreForecasts(db, inputs) : 0;
      if (scored === 0) return;
      log.info({ scored }, 'forecasts of days that have settled are scored');
      await judge();
    },
    async fillPast() {
      if (!isFilled) await filling.run();
    },
    stop: () => stopping.abort(),
  };
}
