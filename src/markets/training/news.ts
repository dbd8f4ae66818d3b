import { setImmediate as nextTurn } from 'node:timers/promises';
import { HOUR_MS } from '../../core/time.js';
import { finalOutcomes } from '../market/event.js';
import { targetKey } from '../market/market.js';
import type { SettledDay } from '../market/source.js';
import type { Snapshot } from '../snapshot/snapshot.js';
import { EARLIER_RUN, hoursOf, MAIN_MODEL, type DayEnsemble, type KnownHour } from '../weather/weather.js';

/** The parts of a snapshot that the previous snapshot did not have. */
export interface News {
  runs: readonly DayEnsemble[];
  reports: readonly SettledDay[];
  hours: readonly KnownHour[];
}

export const noNews: News = Object.freeze({ runs: [], reports: [], hours: [] });

/**
 * Passes only the new parts of a snapshot to `learn`, because runs stay unchanged for hours and reports permanently.
 * @param learn if it fails, the next call passes the same news again
 */
export function createCollector(learn: (news: News) => Promise<void>) {
  let seen = new Set<string>();
  return async (snapshot: Snapshot | undefined) => {
    if (!snapshot) return learn(noNews);
    const shown = new Set<string>();
    const unseen = <T>(all: readonly T[], keyOf: (each: T) => string): T[] => {
      const byKey = new Map(all.map((each) => [keyOf(each), each]));
      for (const key of byKey.keys()) shown.add(key);
      return [...byKey].filter(([key]) => !seen.has(key)).map(([, each]) => each);
    };
    const runs = unseen(runsIn(snapshot), keyOfRun);
    await nextTurn();
    const reports = unseen(reportsIn(snapshot), (one) => `${targetKey(one)} ${one.temperatureF} °F`);
    await nextTurn();
    const hours = unseen(
      hoursIn(snapshot),
      ({ stationId, date, hour }) => `${stationId} ${date} hour ${hour}`,
    );
    await nextTurn();
    await learn({ runs, reports, hours });
    seen = shown;
  };
}

const runsIn = ({ forecasts }: Snapshot): DayEnsemble[] =>
  [...forecasts].flatMap(([stationId, { days }]) =>
    days.flatMap(
      ({ kind, date, hour, modelRunAt, isRunUnknown, fetchedAt, membersF, curveF, models = [] }) => {
        const target = { kind, stationId, date, hour };
        const further = models.filter(({ model }) => model !== MAIN_MODEL && model !== EARLIER_RUN);
        return [
          ...(isRunUnknown ? [] : [{ ...target, modelRunAt, fetchedAt, membersF, curveF }]),
          ...further.map(({ model, modelRunAt, fetchedAt, membersF }) => ({
            ...target,
            model,
            modelRunAt,
            fetchedAt,
            membersF,
          })),
        ];
      },
    ),
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

/** Other models may run every hour, but one archived run in six hours is enough. */
const FURTHER_RUN_MS = 6 * HOUR_MS;

const keyOfRun = (run: DayEnsemble): string => {
  const runMs = run.modelRunAt.getTime();
  return `${targetKey(run)} ${run.model === undefined ? runMs : `${run.model} ${Math.floor(runMs / FURTHER_RUN_MS)}`}`;
};
