import type { Logger } from 'pino';
import { byService, change, type ChangeDeps } from '../../accounts/audit/audit.js';
import type { Clock } from '../../core/time.js';
import type { Database } from '../../core/db/client.js';
import { tellTraders } from '../../accounts/webhooks/outbox.js';
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

/** Records what is due at that time. Recording it twice, here or on another instance, changes nothing. */
export async function recordForecasts(db: Database, inputs: RecordInputs): Promise<void> {
  const due = recordsDue(inputs);
  if (due.length === 0) return;
  const { marketSource, at } = inputs;
  const targets = due.map(targetOfRecord);
  const climates = await readClimates(db, { marketSource, targets, at });
  await insertRecords(db.orm, recordsDue(inputs, climates));
}

/** Scores the records whose days and hours the venue is done with. */
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

/** Tells webhooks of gates that have opened or closed since they were judged last, here or on another instance. */
export const recordGates = (deps: ChangeDeps, sources: SourceNames, book: GateBook): Promise<void> =>
  change(deps, byService, async (tx) => {
    for (const place of await storeGates(tx, sources, book)) {
      const { kind, stationId: station, leadHours, isOpen, n, reason } = book.gates[place]!;
      const data = { kind, station, leadHours, state: isOpen ? 'open' : 'closed', n, reason } as const;
      await tellTraders(tx, { type: 'signal.gate_changed', data, at: book.madeAt! });
    }
  });

/** Keeps the record of forecasts and how they came out, from the snapshots that the reads are answered from. */
export interface ScoreKeeper {
  record(): Promise<void>;
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
  past: PastFiller | undefined;
}

/** What fills in the forecasts that an invented world's past would have shown. */
export interface PastFiller {
  /**
   * Goes on where an earlier one ended.
   * @returns how many forecasts were missing
   */
  fillIn(into: FilledIn, signal: AbortSignal): Promise<number>;
}

/** Is told what there is after each part of the past. */
export interface FilledIn {
  /** The fits that forecasts would be made by now. */
  useFits: (fitsAt: (at: Date) => Promise<FitBook>) => Promise<void>;
  recorded: () => Promise<void>;
}

export function createScoreKeeper(options: ScoreKeeperOptions): ScoreKeeper {
  const { db, store, calibration, marketSource, forecastSource, clock, log, past } = options;
  const stopping = new AbortController();
  let isFilled = false;
  let filling: Promise<void> | undefined;

  function present(): RecordInputs | undefined {
    const snapshot = store.current;
    return snapshot && { ...snapshot, forecastSource, at: new Date(clock.now()) };
  }

  async function judge(): Promise<void> {
    const at = new Date(clock.now());
    const sources = { marketSource, forecastSource };
    const gates = await readGates(db, sources, at);
    calibration.replace({ gates });
    // What could not be written is a change still when it is judged again.
    await recordGates({ db, clock }, sources, gates).catch((error: unknown) =>
      log.warn({ err: error }, 'changed gates could not be reported yet'),
    );
  }

  async function fillPast(past: PastFiller): Promise<void> {
    const made = await past.fillIn(
      {
        async useFits(fitsAt) {
          // The present learns what is missing itself, and more; until then this is better than nothing.
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
    async backfill() {
      if (!isFilled) await (filling ??= fill().finally(() => (filling = undefined)));
    },
    stop: () => stopping.abort(),
  };
}
