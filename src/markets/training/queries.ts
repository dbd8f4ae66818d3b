import { and, desc, getTableColumns, gt, isNotNull, lte, sql } from 'drizzle-orm';
import type { Orm } from '../../core/db/client.js';
import { insertRows, matches } from '../../core/db/sql.js';
import type { Fit, Mix } from '../learning/fits.js';
import type { SourceNames } from '../learning/queries.js';
import { signOf, type HourFit } from '../learning/running-day.js';
import { MAIN_MODEL } from '../weather/weather.js';
import { forecastFits, forecastMixes, sameDayFits } from '../learning/table.js';
import type { TrainedHourFit } from './train-hours.js';
import type { TrainedFit } from './training.js';

type Trained = typeof forecastFits | typeof sameDayFits | typeof forecastMixes;

interface Window {
  at: Date;
  after: Date;
}

const trainedIn = (t: Trained, { forecastSource, marketSource }: SourceNames, { at, after }: Window) =>
  and(matches(t, { forecastSource, marketSource }), gt(t.trainedAt, after), lte(t.trainedAt, at));

/** Maximum number of fits deleted per statement; the next clean-up deletes the rest. */
const FITS_DELETED_AT_ONCE = 500;

export const insertFits = (orm: Orm, sources: SourceNames, fits: readonly TrainedFit[]): Promise<void> =>
  insertRows(
    orm,
    forecastFits,
    fits.map((trained) => toRow(sources, trained)),
  );

function toRow(sources: SourceNames, { fit, cases }: TrainedFit): typeof forecastFits.$inferInsert {
  return {
    ...sources,
    ...fit,
    model: fit.model ?? MAIN_MODEL,
    station: fit.stationId,
    lowestMean: fit.lowestMeanF,
    highestMean: fit.highestMeanF,
    training: (fit.stationId === null ? cases : []).map((each) => ({
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

export const insertHourFits = (orm: Orm, sources: SourceNames, fits: readonly TrainedHourFit[]) =>
  insertRows(
    orm,
    sameDayFits,
    fits.map(({ fit, cases }) => ({
      ...sources,
      ...fit,
      hurdle: fit.hurdle && [...fit.hurdle],
      stationBias: fit.stationBiasF,
      stationExtremeBias: fit.stationExtremeBiasF,
      training: cases.map(({ stationId, date, modelRunAt, observedF }): TrainingRow => [
        stationId,
        date,
        modelRunAt.toISOString(),
        signOf(fit.kind) * observedF,
      ]),
    })),
  );

type TrainingRow = (typeof sameDayFits.$inferInsert)['training'][number];

export async function newestHourFits(orm: Orm, sources: SourceNames, window: Window): Promise<HourFit[]> {
  const t = sameDayFits;
  const {
    stationBias: stationBiasF,
    stationExtremeBias: stationExtremeBiasF,
    training: _,
    ...columns
  } = getTableColumns(t);
  return orm
    .selectDistinctOn([t.kind, t.hour], { ...columns, stationBiasF, stationExtremeBiasF })
    .from(t)
    .where(trainedIn(t, sources, window))
    .orderBy(t.kind, t.hour, desc(t.trainedAt));
}

export async function newestFits(orm: Orm, sources: SourceNames, window: Window): Promise<Fit[]> {
  const t = forecastFits;
  const rows = await orm
    .selectDistinctOn([t.model, t.kind, t.station, t.leadHours], {
      id: t.id,
      model: t.model,
      kind: t.kind,
      stationId: t.station,
      leadHours: t.leadHours,
      coefficients: t.coefficients,
      n: t.n,
      firstDate: t.firstDate,
      lastDate: t.lastDate,
      lowestMeanF: t.lowestMean,
      highestMeanF: t.highestMean,
      trainingCrps: t.trainingCrps,
      rawCrps: t.rawCrps,
      knownThrough: t.knownThrough,
      trainedAt: t.trainedAt,
    })
    .from(t)
    .where(and(trainedIn(t, sources, window), isNotNull(t.coefficients)))
    .orderBy(
      t.model,
      t.kind,
      t.station,
      t.leadHours,
      desc(t.trainedAt),
      // Each part of a simulated past stores fits of the same times; the leading cities' are from the most days.
      desc(t.n),
    )
    .limit(1_000);
  return rows.map(({ coefficients, model, ...fit }) => ({
    ...fit,
    ...(model !== MAIN_MODEL && { model }),
    coefficients: coefficients!,
  }));
}

export const insertMixes = (orm: Orm, sources: SourceNames, mixes: readonly Mix[]): Promise<void> =>
  insertRows(
    orm,
    forecastMixes,
    mixes.map((mix) => ({ ...sources, ...mix })),
  );

export async function newestMixes(orm: Orm, sources: SourceNames, window: Window): Promise<Mix[]> {
  const t = forecastMixes;
  return orm
    .selectDistinctOn([t.kind, t.leadHours])
    .from(t)
    .where(trainedIn(t, sources, window))
    .orderBy(t.kind, t.leadHours, desc(t.trainedAt));
}

export async function deleteOldFits(
  orm: Orm,
  table: Trained,
  { forecastSource, marketSource }: SourceNames,
  before: Date,
): Promise<void> {
  await orm.execute(sql`
    delete from ${table} where id = any(array(
      select id from ${table}
      where forecast_source = ${forecastSource} and market_source = ${marketSource} and trained_at < ${before.toISOString()}::timestamptz
      order by trained_at limit ${FITS_DELETED_AT_ONCE}
    ))`);
}
