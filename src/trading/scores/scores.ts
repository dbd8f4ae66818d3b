import type { Clock } from '../../core/clock.js';
import type { Database } from '../../core/db/client.js';
import type { CalibrationStore } from '../snapshot/calibration.js';
import { listCrpsByDay, listPits, listSaid } from './diagnostic-queries.js';
import { judgedSince } from './gate-rule.js';
import type { Sources } from './queries.js';
import type { TemperatureKind } from '../market/market.js';
import { placesOf } from '../market/stations.js';
import { countReliability, type ReliabilityCount } from './reliability.js';
import { countRecords, listScoredRecords, meanScores, type Wanted } from './report-queries.js';
import type { ScoresAnswer } from './schema.js';
import { toScoresAnswer } from '../pages/scores-view.js';

const MAX_RECORDS = 100;

export interface ScoresDeps {
  db: Database;
  clock: Clock;
  sources: Sources;
  /** Whose gates are shown: those that the signals go by. */
  calibration: Pick<CalibrationStore, 'current'>;
}

/** Undefined: all. */
export interface ScoresAsked {
  /** Different kinds are never added up. */
  kind: TemperatureKind;
  /** Id of a station, of hours of an area. */
  station?: string | undefined;
  leadHours?: number | undefined;
}

/** Everything that is said of the scores of the last 90 days, as `GET /scores` answers it: means, gates, diagnostics, records. */
export async function readScores(deps: ScoresDeps, asked: ScoresAsked): Promise<ScoresAnswer> {
  const { db, clock, sources, calibration } = deps;
  const asOf = new Date(clock.now());
  const { kind, station, leadHours } = asked;
  const wanted: Wanted = { ...sources, kind, since: judgedSince(asOf), station, leadHours };
  const [means, records, reliability, pits, crps] = await Promise.all([
    meanScores(db.orm, wanted),
    listScoredRecords(db.orm, wanted, MAX_RECORDS),
    readReliability(db, wanted),
    listPits(db.orm, wanted),
    listCrpsByDay(db.orm, wanted),
  ]);
  return toScoresAnswer({
    asOf,
    wanted,
    means,
    records,
    reliability,
    pits,
    crps,
    gates: calibration.current.gates,
  });
}

/** Station by station: the brackets of 90 days are megabytes, and other work gets its turn in between. */
async function readReliability({ orm }: Database, wanted: Wanted) {
  const model: ReliabilityCount[] = [];
  const market: ReliabilityCount[] = [];
  for (const { id } of placesOf(wanted.kind)) {
    if (wanted.station !== undefined && wanted.station !== id) continue;
    const records = await listSaid(orm, { ...wanted, station: id });
    model.push(...countReliability(records, 'model'));
    market.push(...countReliability(records, 'market'));
  }
  return { model, market };
}

/** Changes with whatever `readScores` answers but its times. */
export async function readVersion(
  { db, clock, sources, calibration }: ScoresDeps,
  { kind }: Pick<ScoresAsked, 'kind'>,
): Promise<string> {
  const since = judgedSince(new Date(clock.now()));
  return JSON.stringify([
    since,
    await countRecords(db.orm, { ...sources, kind, since }),
    calibration.current.gates.gates,
  ]);
}
