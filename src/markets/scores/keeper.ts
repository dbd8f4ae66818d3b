import type { WorkContext } from '../../core/http/context.js';
import type { Database } from '../../core/db/client.js';
import { targetKey } from '../market/market.js';
import type { SnapshotStore } from '../snapshot/snapshot.js';
import { insertRecords, listOpenRecords, setOutcome } from './queries.js';
import { readClimates, recordsDue, targetOfRecord, type RecordInputs } from './records.js';
import { scoreRecord } from './score.js';
import { finalOutcomes } from '../market/event.js';

/** Idempotent, even across instances. */
export async function recordForecasts(db: Database, inputs: RecordInputs): Promise<void> {
  const due = recordsDue(inputs);
  if (due.length === 0) return;
  const { marketSource, at } = inputs;
  const climates = await readClimates(db, { marketSource, targets: due.map(targetOfRecord), at });
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

interface ScoreKeeperOptions extends Pick<WorkContext, 'db' | 'clock' | 'log'> {
  store: SnapshotStore;
  forecastSource: string;
  /** Called after records have been scored. */
  judge: () => Promise<void>;
}

export function createScoreKeeper({ db, store, forecastSource, clock, log, judge }: ScoreKeeperOptions) {
  function present(): RecordInputs | undefined {
    const snapshot = store.current;
    return snapshot && { ...snapshot, forecastSource, at: new Date(clock.now()) };
  }

  return {
    async record(): Promise<void> {
      const inputs = present();
      if (inputs) await recordForecasts(db, inputs);
    },
    async score(): Promise<void> {
      const inputs = present();
      const scored = inputs ? await scoreForecasts(db, inputs) : 0;
      if (scored === 0) return;
      log.info({ scored }, 'forecasts of days that have settled are scored');
      await judge();
    },
  };
}
