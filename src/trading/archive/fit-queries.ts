import { and, desc, eq, gt, lte, sql } from 'drizzle-orm';
import type { Orm } from '../../core/db/client.js';
import { insertRows } from '../../core/db/insert-rows.js';
import type { Fit } from '../forecast/fits.js';
import { forecastFits } from '../forecast/table.js';
import type { TrainedFit } from './training.js';

/** Whose fits: of one pair of sources. */
export interface Sources {
  forecastSource: string;
  marketSource: string;
}

const ofSources = ({ forecastSource, marketSource }: Sources) =>
  and(eq(forecastFits.forecastSource, forecastSource), eq(forecastFits.marketSource, marketSource));

/** A statement deletes no more than this; what is left goes the next time. */
const DELETED_AT_ONCE = 500;

export async function insertFits(orm: Orm, sources: Sources, fits: readonly TrainedFit[]): Promise<void> {
  await insertRows(
    orm,
    forecastFits,
    fits.map((trained) => toRow(sources, trained)),
  );
}

function toRow(sources: Sources, { fit, cases }: TrainedFit): typeof forecastFits.$inferInsert {
  const { coefficients, ...rest } = fit;
  return {
    ...sources,
    ...rest,
    ...coefficients,
    station: fit.stationId,
    stationBias: fit.stationBiasF,
    hourBias: fit.hourBiasF,
    lowestMean: fit.lowestMeanF,
    highestMean: fit.highestMeanF,
    training: cases.map((each) => ({
      station: each.stationId,
      date: each.date,
      ...(each.hour === undefined ? {} : { hour: each.hour }),
      modelRunAt: each.modelRunAt.toISOString(),
      fetchedAt: each.fetchedAt.toISOString(),
      mean: each.meanF,
      variance: each.varianceF,
      temperature: each.temperatureF,
      knownAt: each.knownAt.toISOString(),
    })),
  };
}

/** The newest fit of each kind, station and lead that was there at a time, of those that were trained after another one. */
export async function newestFits(
  orm: Orm,
  sources: Sources,
  { at, after }: { at: Date; after: Date },
): Promise<Fit[]> {
  const rows = await orm
    .selectDistinctOn([forecastFits.kind, forecastFits.station, forecastFits.leadHours], {
      id: forecastFits.id,
      kind: forecastFits.kind,
      stationId: forecastFits.station,
      leadHours: forecastFits.leadHours,
      a: forecastFits.a,
      b: forecastFits.b,
      c: forecastFits.c,
      d: forecastFits.d,
      stationBiasF: forecastFits.stationBias,
      hourBiasF: forecastFits.hourBias,
      n: forecastFits.n,
      firstDate: forecastFits.firstDate,
      lastDate: forecastFits.lastDate,
      lowestMeanF: forecastFits.lowestMean,
      highestMeanF: forecastFits.highestMean,
      trainingCrps: forecastFits.trainingCrps,
      rawCrps: forecastFits.rawCrps,
      knownThrough: forecastFits.knownThrough,
      trainedAt: forecastFits.trainedAt,
    })
    .from(forecastFits)
    .where(and(ofSources(sources), gt(forecastFits.trainedAt, after), lte(forecastFits.trainedAt, at)))
    .orderBy(forecastFits.kind, forecastFits.station, forecastFits.leadHours, desc(forecastFits.trainedAt))
    .limit(1_000);
  return rows.map(({ a, b, c, d, ...fit }) => ({ ...fit, coefficients: { a, b, c, d } }));
}

export async function deleteOldFits(
  orm: Orm,
  { forecastSource, marketSource }: Sources,
  before: Date,
): Promise<void> {
  await orm.execute(sql`
    delete from forecast_fits where id = any(array(
      select id from forecast_fits
      where forecast_source = ${forecastSource} and market_source = ${marketSource} and trained_at < ${before.toISOString()}::timestamptz
      order by trained_at limit ${DELETED_AT_ONCE}
    ))`);
}
