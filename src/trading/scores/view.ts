import { stations, type Station } from '../settlement/stations.js';
import type { Means, Wanted } from './queries.js';
import { LEAD_HOURS, winnerOf, type ForecastRecord } from './records.js';
import type { ScoresAnswer, ScoreSummary } from './schema.js';

interface Found {
  asOf: Date;
  wanted: Wanted;
  windowDays: number;
  means: readonly Means[];
  records: readonly ForecastRecord[];
}

export function toScoresAnswer({ asOf, wanted, windowDays, means, records }: Found): ScoresAnswer {
  const summary = (station: string | null, leadHours: number | null) =>
    toSummary(means.find((group) => group.station === station && group.leadHours === leadHours));
  const leads = (station: string | null) =>
    LEAD_HOURS.map((leadHours) => ({ leadHours, ...summary(station, leadHours) }));
  const shown = stations.filter(({ id }: Station) => wanted.station === undefined || wanted.station === id);
  return {
    asOf: asOf.toISOString(),
    marketSource: wanted.marketSource,
    forecastSource: wanted.forecastSource,
    method: wanted.method,
    isCalibrated: false,
    windowDays,
    overall: summary(null, null),
    leads: leads(null),
    stations: shown.map(({ id, city }) => ({
      station: id,
      city,
      overall: summary(id, null),
      leads: leads(id),
    })),
    records: records.map(toRecord),
  };
}

/** A group that the database knows nothing of has nothing in it. */
function toSummary(means: Means | undefined): ScoreSummary {
  const { n, waiting, withoutMarket, since } = means ?? { n: 0, waiting: 0, withoutMarket: 0, since: null };
  const counts = { n, waiting, withoutMarket, since };
  if (!means || n === 0) return { ...counts, model: null, market: null, difference: null };
  const model = { logScore: means.modelLogScore!, rps: means.modelRps! };
  const market = { logScore: means.marketLogScore!, rps: means.marketRps! };
  const difference = { logScore: model.logScore - market.logScore, rps: model.rps - market.rps };
  return { ...counts, model, market, difference };
}

function toRecord(record: ForecastRecord): ScoresAnswer['records'][number] {
  const { station, date, leadHours, brackets } = record;
  const temperatureF = record.outcome!;
  const winner = brackets[winnerOf(brackets, temperatureF)]!;
  return {
    station,
    date,
    leadHours,
    recordedAt: record.recordedAt.toISOString(),
    modelRunAt: record.modelRunAt.toISOString(),
    temperatureF,
    ticker: winner.ticker,
    model: { probability: winner.model, logScore: record.modelLogScore!, rps: record.modelRps! },
    market:
      record.marketLogScore === null || winner.market === null
        ? null
        : { probability: winner.market, logScore: record.marketLogScore, rps: record.marketRps! },
  };
}
