import type { SettledDay } from '../../markets/source.js';
import { finalOutcomes } from '../../scores/records.js';
import type { Snapshot } from '../../snapshot.js';
import type { DayEnsemble } from '../forecast.js';
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
    days.map(({ date, modelRunAt, fetchedAt, membersF }) => ({
      kind: 'daily_maximum' as const,
      stationId,
      date,
      modelRunAt,
      fetchedAt,
      membersF,
    })),
  );

const reportsIn = ({ events, asOf }: Snapshot): SettledDay[] =>
  finalOutcomes(events).map(({ station, date, temperatureF }) => ({
    kind: 'daily_maximum' as const,
    stationId: station,
    date,
    temperatureF,
    knownAt: asOf,
  }));

const keyOfRun = ({ stationId, date, modelRunAt }: DayEnsemble): string =>
  `${stationId} ${date} ${modelRunAt.getTime()}`;

const keyOfReport = ({ stationId, date, temperatureF }: SettledDay): string =>
  `${stationId} ${date} ${temperatureF} °F`;
