import { targetKey } from '../market/market.js';
import type { SettledDay } from '../market/source.js';
import { finalOutcomes } from '../scores/records.js';
import type { Snapshot } from '../snapshot/snapshot.js';
import type { DayEnsemble } from '../forecast/forecast.js';
import type { Archive } from './archive.js';

/**
 * Writes down what snapshots show. Runs stay the same for hours and reports for good: only what the last snapshot did not
 * show is written.
 * @returns whether there was anything new
 */
export function createCollector(
  archive: Pick<Archive, 'addRuns' | 'addReports'>,
): (snapshot: Snapshot) => Promise<boolean> {
  let seen = new Set<string>();
  return async (snapshot) => {
    const runs = new Map(runsIn(snapshot).map((run) => [keyOfRun(run), run]));
    const reports = new Map(reportsIn(snapshot).map((report) => [keyOfReport(report), report]));
    const newRuns = [...runs].filter(([key]) => !seen.has(key)).map(([, run]) => run);
    const newReports = [...reports].filter(([key]) => !seen.has(key)).map(([, report]) => report);
    if (newRuns.length > 0) await archive.addRuns(newRuns);
    if (newReports.length > 0) await archive.addReports(newReports);
    seen = new Set([...runs.keys(), ...reports.keys()]);
    return newRuns.length + newReports.length > 0;
  };
}

const runsIn = ({ forecasts }: Snapshot): DayEnsemble[] =>
  [...forecasts].flatMap(([stationId, { days }]) =>
    days.map(({ kind, date, hour, modelRunAt, fetchedAt, membersF }) => ({
      kind,
      stationId,
      date,
      hour,
      modelRunAt,
      fetchedAt,
      membersF,
    })),
  );

const reportsIn = ({ events, asOf }: Snapshot): SettledDay[] =>
  finalOutcomes(events).map((outcome) => ({ ...outcome, knownAt: asOf }));

const keyOfRun = (run: DayEnsemble): string => `${targetKey(run)} ${run.modelRunAt.getTime()}`;

const keyOfReport = (report: SettledDay): string => `${targetKey(report)} ${report.temperatureF} °F`;
