import type { WorkContext } from '../../core/http/context.js';
import type { Database } from '../../core/db/client.js';
import { createCachedAnswer, type Sent } from '../../core/http/cached-answer.js';
import { bracketPays } from '../market/brackets.js';
import type { TemperatureKind } from '../market/market.js';
import { placesOf } from '../market/stations.js';
import { gateAt, type GateBook, leadsOf } from '../signals/signal.js';
import type { CalibrationStore } from '../snapshot/snapshot.js';
import { countReliability, toReliability, type ReliabilityCount } from './diagnostics.js';
import { seenVersions, type SeenVersion } from '../weather/versions.js';
import { gateErrorRates, gateRule, gateRuleText, judgedSince } from './gates.js';
import type { SourceNames } from '../learning/queries.js';
import {
  countRecords,
  listCrpsByDay,
  listForecastOutcomes,
  listScoredRecords,
  listStatedVersions,
  meanModelScores,
  meanScores,
  type Means,
  type ModelMeans,
  type ReportQuery,
} from './report-queries.js';
import type { ScoreSummary, ScoresAnswer } from './schema.js';
import { outcomeOf, recordedBracket } from './score.js';
import type { ForecastRecord } from '../learning/table.js';

const MAX_RECORDS = 100;

interface ScoresDeps extends Pick<WorkContext, 'db' | 'clock'> {
  sources: SourceNames;
  calibration: Pick<CalibrationStore, 'current'>;
}

export type ScoresQuery = Pick<ReportQuery, 'kind' | 'station' | 'leadHours'>;

/** The last 90 days. */
export async function readScores(deps: ScoresDeps, asked: ScoresQuery): Promise<ScoresAnswer> {
  const { db, clock, sources, calibration } = deps;
  const asOf = new Date(clock.now());
  const { kind, station, leadHours } = asked;
  const wanted: ReportQuery = { ...sources, kind, since: judgedSince(asOf), station, leadHours };
  const [means, models, records, reliability, crps, stated] = await Promise.all([
    meanScores(db.orm, wanted),
    meanModelScores(db.orm, wanted),
    listScoredRecords(db.orm, wanted, MAX_RECORDS),
    readReliability(db, wanted),
    listCrpsByDay(db.orm, wanted),
    listStatedVersions(db.orm, wanted, placesOf(kind)[0]!.id),
  ]);
  const { gates } = calibration.current;
  const dates = { since: wanted.since, asOf: asOf.toISOString().slice(0, 10) };
  const names = models.map(({ model }) => model);
  const versions = seenVersions(names, stated, dates);
  const summary = (station: string | null, leadHours: number | null, isCalibrated = true) =>
    toSummary(
      means.find(
        (group) =>
          group.station === station && group.leadHours === leadHours && group.isCalibrated === isCalibrated,
      ),
    );
  const leadsShown = leadsOf(kind).filter((lead) => leadHours === undefined || leadHours === lead);
  const leads = (station: string | null) =>
    leadsShown.map((leadHours) => ({ leadHours, ...summary(station, leadHours) }));
  return {
    marketSource: sources.marketSource,
    forecastSource: sources.forecastSource,
    kind,
    windowDays: gateRule.windowDays,
    overall: summary(null, null),
    uncalibrated: summary(null, null, false),
    leads: leads(null),
    models: models.map((each) => toModelScores(each, versions)),
    breaks: versions
      .filter(({ isBreak }) => isBreak)
      .map(({ model, version, from }) => ({ model, version, from })),
    stations: placesAsked(asked).map(({ id, city }) => ({
      station: id,
      city,
      overall: summary(id, null),
      leads: leads(id).map((lead) => ({ ...lead, gate: toGate(gates, kind, id, lead.leadHours) })),
    })),
    gateRule: { rule: gateRuleText, ...gateRule, errorRates: gateErrorRates },
    gatesJudgedAt: gates.madeAt?.toISOString() ?? null,
    diagnostics: {
      reliability: {
        model: toReliability(reliability.model),
        market: toReliability(reliability.market),
      },
      crps,
    },
    records: records.map(toRecord),
    asOf: asOf.toISOString(),
  };
}

const placesAsked = ({ kind, station }: Pick<ScoresQuery, 'kind' | 'station'>) =>
  placesOf(kind).filter(({ id }) => station === undefined || station === id);

/** One station at a time: 90 days of brackets take up megabytes. */
async function readReliability({ orm }: Database, wanted: ReportQuery) {
  const model: ReliabilityCount[] = [];
  const market: ReliabilityCount[] = [];
  for (const { id } of placesAsked(wanted)) {
    const records = await listForecastOutcomes(orm, { ...wanted, station: id });
    model.push(...countReliability(records, 'model'));
    market.push(...countReliability(records, 'market'));
  }
  return { model, market };
}

/** Changes with everything in the answer of `readScores` except the times. */
async function readVersion(deps: ScoresDeps, { kind }: Pick<ScoresQuery, 'kind'>): Promise<string> {
  const { db, clock, sources, calibration } = deps;
  const since = judgedSince(new Date(clock.now()));
  return JSON.stringify([
    since,
    await countRecords(db.orm, { ...sources, kind, since }),
    await listStatedVersions(db.orm, { ...sources, kind, since }, placesOf(kind)[0]!.id),
    calibration.current.gates.gates,
  ]);
}

function toSummary(means: Means | undefined): ScoreSummary {
  const { n, waiting, withoutMarket, since } = means ?? { n: 0, waiting: 0, withoutMarket: 0, since: null };
  const counts = { n, waiting, withoutMarket, since };
  const crps = means ? crpsOf(means) : null;
  if (!means || n === 0) return { ...counts, model: null, market: null, difference: null, crps };
  const model = { logScore: means.modelLogScore!, rps: means.modelRps! };
  const market = { logScore: means.marketLogScore!, rps: means.marketRps! };
  const difference = { logScore: model.logScore - market.logScore, rps: model.rps - market.rps };
  return { ...counts, model, market, difference, crps };
}

function crpsOf({ crpsN, modelCrps, rawCrps, climateCrps, marketCrps }: Means): ScoreSummary['crps'] {
  if (crpsN === 0) return null;
  return { n: crpsN, model: modelCrps!, raw: rawCrps!, climate: climateCrps!, market: marketCrps! };
}

const toModelScores = (
  { mixedLogScore, mixedCrps, ...own }: ModelMeans,
  versions: readonly SeenVersion[],
) => ({
  ...own,
  version: versions.findLast(({ model }) => model === own.model)?.version ?? null,
  versionFrom: versions.findLast(({ model }) => model === own.model)?.from ?? null,
  mixed: { logScore: mixedLogScore, crps: mixedCrps },
});

function toGate(book: GateBook, kind: TemperatureKind, stationId: string, leadHours: number) {
  // The answer shows `madeAt` beside the gate.
  const at = book.madeAt ?? new Date(0);
  const gate = gateAt(book, { kind, stationId }, { hoursToEnd: leadHours, at });
  const { isOpen, n, dropped, evidence, needed, difference, reason } = gate;
  return { isOpen, n, dropped, evidence, needed, difference, reason };
}

function toRecord(record: ForecastRecord): ScoresAnswer['records'][number] {
  const { kind, station, date, hour, leadHours, method } = record;
  const temperatureF = record.outcome!;
  const { outcome, model, market } = outcomeOf(record, temperatureF);
  return {
    station,
    date,
    hour: kind === 'hourly' ? hour : null,
    leadHours,
    recordedAt: record.recordedAt.toISOString(),
    method,
    modelRunAt: record.modelRunAt.toISOString(),
    temperatureF,
    ticker: winnerOf(record, temperatureF),
    model: {
      probability: model[outcome]!,
      logScore: record.modelLogScore!,
      rps: record.modelRps!,
      crps: record.modelCrps,
    },
    market:
      record.marketLogScore === null || market === null
        ? null
        : {
            probability: market[outcome]!,
            logScore: record.marketLogScore,
            rps: record.marketRps!,
            crps: record.marketCrps,
          },
  };
}

/** The highest threshold passed, or null if none was. */
const winnerOf = ({ kind, brackets }: ForecastRecord, temperatureF: number): string | null =>
  brackets.findLast((bracket) => bracketPays(recordedBracket(bracket, kind), temperatureF))?.ticker ?? null;

/** For each kind, station and lead, however many requests arrive. */
const KEPT_MS = 30_000;

/** Recomputed only after a change. */
export type ScoreReport = (asked: ScoresQuery) => Promise<Sent>;

interface Kept extends Sent {
  version: string;
}

export function createScoreReport(deps: ScoresDeps): ScoreReport {
  const { clock, calibration } = deps;
  const kept = new Map<string, { madeMs: number; answer: Promise<Kept> }>();

  async function make(asked: ScoresQuery, before: Promise<Kept> | undefined): Promise<Kept> {
    const version = await readVersion(deps, asked);
    const last = await before;
    if (last?.version === version) {
      const gatesJudgedAt = calibration.current.gates.madeAt?.toISOString() ?? null;
      return { ...last, lastFields: { gatesJudgedAt, asOf: new Date(clock.now()).toISOString() } };
    }
    const { asOf, gatesJudgedAt, ...rest } = await readScores(deps, asked);
    // The rest of the answer and its ETag stay the same until something settles.
    return { answer: createCachedAnswer(rest), lastFields: { gatesJudgedAt, asOf }, version };
  }

  return (asked) => {
    const key = `${asked.kind} ${asked.station ?? ''} ${asked.leadHours ?? ''}`;
    const found = kept.get(key);
    if (found && clock.now() - found.madeMs < KEPT_MS) return found.answer;
    const answer = make(asked, found?.answer);
    kept.set(key, { madeMs: clock.now(), answer });
    // Waiting callers receive the error; the next call tries again.
    answer.catch(() => kept.delete(key));
    return answer;
  };
}
