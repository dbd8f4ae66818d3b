import type { Steps } from '../../core/steps.js';
import { lineOf } from '../forecast/day-ahead.js';
import { aheadRow, findMix, LEAD_STEP_HOURS, type Fit, type FitBook } from '../forecast/fits.js';
import { EARLIER_RUN, MAIN_MODEL } from '../forecast/forecast.js';
import { learnMix, type Mix, type ModelError } from '../forecast/mix.js';
import { targetKey } from '../market/market.js';
import type { TrainingCase } from './make-fit.js';

/** A fit of all stations together, and the cases that there are for it. */
export interface PooledFit {
  fit: Fit;
  isNew: boolean;
  cases: readonly TrainingCase[];
}

/** An earlier run of the first model is half a day older. */
const EARLIER_HOURS = LEAD_STEP_HOURS;

/**
 * For each kind and lead how the models have done beside each other: by the errors that their fits leave of the days that these were
 * learned from. A mix that was there before stays while all its fits do.
 */
export function* trainMixesInSteps(
  pooled: readonly PooledFit[],
  trainedAt: Date,
  { previous, newId }: { previous: FitBook; newId: () => string },
): Steps<{ mixes: Mix[]; added: Mix[] }> {
  const errors = new Map<PooledFit, ModelError[]>();
  const recallErrors = (each: PooledFit): ModelError[] => {
    const found = errors.get(each) ?? errorsOf(each);
    errors.set(each, found);
    return found;
  };
  const mixes: Mix[] = [];
  const added: Mix[] = [];
  for (const { fit } of pooled) {
    const { kind, leadHours, model } = fit;
    if (model !== undefined) continue;
    const fits = pooled.flatMap((each): [string, PooledFit][] => {
      if (each.fit.kind !== kind) return [];
      if (each.fit.leadHours === leadHours) return [[each.fit.model ?? MAIN_MODEL, each]];
      const isEarlier = each.fit.model === undefined && each.fit.leadHours === leadHours + EARLIER_HOURS;
      return isEarlier ? [[EARLIER_RUN, each]] : [];
    });
    const before = findMix(previous, { kind, leadHours }, trainedAt);
    const isKept = before && fits.every(([name, { isNew }]) => !isNew && isIn(before, name));
    const learned = isKept
      ? undefined
      : learnMix(new Map(fits.map(([name, each]) => [name, recallErrors(each)])));
    if (isKept) mixes.push(before);
    else if (learned) {
      const knownThrough = new Date(Math.max(...fits.map(([, { cases }]) => latestOf(cases))));
      const mix = { id: newId(), kind, leadHours, ...learned, knownThrough, trainedAt };
      mixes.push(mix);
      added.push(mix);
    }
    yield;
  }
  return { mixes, added };
}

const isIn = ({ skill }: Mix, model: string): boolean => model === MAIN_MODEL || model in skill;

/** When the last of them became known, which may be later than what the fit has seen. */
const latestOf = (cases: readonly TrainingCase[]): number =>
  cases.reduce(
    (latest, { modelRunAt, fetchedAt, knownAt }) =>
      Math.max(latest, modelRunAt.getTime(), fetchedAt.getTime(), knownAt.getTime()),
    -Infinity,
  );

/** A fit of all stations is the same line at a station, and at an hour of it, on every day. */
function errorsOf({ fit, cases }: PooledFit): ModelError[] {
  const lines = new Map<string, ReturnType<typeof lineOf>>();
  return cases.map((each) => {
    const place = `${each.stationId} ${each.hour}`;
    const line = lines.get(place) ?? lineOf(fit.coefficients, aheadRow(each));
    lines.set(place, line);
    return {
      key: targetKey(each),
      date: each.date,
      errorF: each.temperatureF - line.a - line.b * each.meanF,
    };
  });
}
