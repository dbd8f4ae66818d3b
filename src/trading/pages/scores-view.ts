import type { TemperatureKind } from '../market/market.js';
import { bracketPays } from '../market/brackets.js';
import { placesOf } from '../market/stations.js';
import { gateAt, type GateBook } from '../signals/gate.js';
import { gateErrorRates, gateRule, gateRuleText } from '../scores/gate-rule.js';
import type { CrpsPoint } from '../../core/charts/series.js';
import { leadsOf } from '../signals/leads.js';
import { toPitHistogram, type DatedPit } from '../scores/pit-histogram.js';
import type { ForecastRecord } from '../scores/records.js';
import { toReliability, type ReliabilityCount, type Side } from '../scores/reliability.js';
import type { Means, Wanted } from '../scores/report-queries.js';
import { bracketOf, outcomeOf } from '../scores/score-record.js';
import type { ScoresAnswer, ScoreSummary } from '../scores/schema.js';

/** What the database says, and the gates that are in use. */
export interface FoundScores {
  asOf: Date;
  wanted: Wanted;
  means: readonly Means[];
  records: readonly ForecastRecord[];
  reliability: Readonly<Record<Side, readonly ReliabilityCount[]>>;
  pits: readonly DatedPit[];
  crps: CrpsPoint[];
  gates: GateBook;
}

export function toScoresAnswer(found: FoundScores): ScoresAnswer {
  const { asOf, wanted, means, gates } = found;
  const summary = (station: string | null, leadHours: number | null, isCalibrated = true) =>
    toSummary(
      means.find(
        (group) =>
          group.station === station && group.leadHours === leadHours && group.isCalibrated === isCalibrated,
      ),
    );
  const { kind } = wanted;
  const leadsShown = leadsOf(kind).filter(
    (lead) => wanted.leadHours === undefined || wanted.leadHours === lead,
  );
  const leads = (station: string | null) =>
    leadsShown.map((leadHours) => ({ leadHours, ...summary(station, leadHours) }));
  const shown = placesOf(kind).filter(({ id }) => wanted.station === undefined || wanted.station === id);
  return {
    marketSource: wanted.marketSource,
    forecastSource: wanted.forecastSource,
    kind,
    windowDays: gateRule.windowDays,
    overall: summary(null, null),
    uncalibrated: summary(null, null, false),
    leads: leads(null),
    stations: shown.map(({ id, city }) => ({
      station: id,
      city,
      overall: summary(id, null),
      leads: leads(id).map((lead) => ({ ...lead, gate: toGate(gates, kind, id, lead.leadHours) })),
    })),
    gateRule: { rule: gateRuleText, ...gateRule, errorRates: gateErrorRates },
    gatesJudgedAt: gates.madeAt?.toISOString() ?? null,
    diagnostics: {
      reliability: {
        model: toReliability(found.reliability.model),
        market: toReliability(found.reliability.market),
      },
      pit: toPit(found.pits),
      crps: found.crps,
    },
    records: found.records.map(toRecord),
    asOf: asOf.toISOString(),
  };
}

/** A group that the database knows nothing of has nothing in it. */
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

function toGate(book: GateBook, kind: TemperatureKind, stationId: string, leadHours: number) {
  // As judged: when that was is said beside it.
  const at = book.madeAt ?? new Date(0);
  const { isOpen, n, difference, reason } = gateAt(book, { kind, stationId }, { hoursToEnd: leadHours, at });
  return { isOpen, n, difference, reason };
}

function toPit(pits: readonly DatedPit[]): ScoresAnswer['diagnostics']['pit'] {
  const { n, shares, pFlat } = toPitHistogram(pits);
  return { n, shares: [...shares], pFlat };
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

/** The market that won; of thresholds the highest that was passed, and null if none was. */
function winnerOf({ kind, brackets }: ForecastRecord, temperatureF: number): string | null {
  return brackets.findLast((bracket) => bracketPays(bracketOf(bracket, kind), temperatureF))?.ticker ?? null;
}
