import type { TemperatureKind } from '../market/market.js';
import type { Corrected, Ensemble } from './day-forecast.js';
import { EARLIER_RUN, MAIN_MODEL } from '../weather/weather.js';
import { type ModelPart } from './forecast.js';

/** How models have done lately beside each other, and what that was learned from. */
export interface Mix {
  /** UUIDv7 under which it is stored. */
  id: string;
  kind: TemperatureKind;
  /** Of the first model's runs, see `fitLeadOf`. */
  leadHours: number;
  /** By model: its mean squared error as a multiple of the first one's on the same dates, and how many dates those were. */
  skill: Readonly<Record<string, Known>>;
  /** By two models (`pairOf`): the correlation of their errors. */
  correlation: Readonly<Record<string, Known>>;
  firstDate: string;
  lastDate: string;
  /** The latest time at which something it was learned from became known. */
  knownThrough: Date;
  trainedAt: Date;
}

interface Known {
  value: number;
  /** Recent ones count fully, those of `HALF_LIFE_DAYS` before half. */
  dates: number;
}

/** What a model said wrong of a day or an hour, °F, after its correction. */
export interface ModelError {
  /** Of the day or the hour at its place: the same for all models. */
  key: string;
  date: string;
  errorF: number;
}

/** Weather goes by weeks, and models are changed: what was two months ago counts a quarter. */
const HALF_LIFE_DAYS = 30;
/** How many dates weigh as much as what is taken for granted before there is one. */
const PRIOR_DATES = 10;

export const pairOf = (a: string, b: string): string => [a, b].toSorted().join(' ');

/**
 * What the errors of models say of each other, all stations together; undefined without those of the first one, or of another.
 * @param errors by model, of the same kind and lead
 */
export function learnMix(
  errors: ReadonlyMap<string, readonly ModelError[]>,
): Pick<Mix, 'skill' | 'correlation' | 'firstDate' | 'lastDate'> | undefined {
  const ofMain = errors.get(MAIN_MODEL) ?? [];
  const dates = ofMain.map(({ date }) => date).toSorted();
  if (errors.size < 2 || dates.length === 0) return undefined;
  const [firstDate, lastDate] = [dates[0]!, dates.at(-1)!];
  const skill: Record<string, Known> = {};
  const correlation: Record<string, Known> = {};
  const names = [...errors.keys()].toSorted();
  const byKey = new Map(
    [...errors].map(([name, own]) => [name, new Map(own.map(({ key, errorF }) => [key, errorF]))]),
  );
  for (const [i, a] of names.entries())
    for (const b of names.slice(i)) {
      const { aa, bb, ab, dates } = productsOf(errors.get(a)!, byKey.get(b)!, lastDate);
      if (!(aa > 0 && bb > 0)) continue;
      if (a !== b) correlation[pairOf(a, b)] = { value: ab / Math.sqrt(aa * bb), dates };
      if (a === MAIN_MODEL) skill[b] = { value: bb / aa, dates };
      else if (b === MAIN_MODEL) skill[a] = { value: aa / bb, dates };
    }
  return { skill, correlation, firstDate, lastDate };
}

/** Sums over what both have said, the recent first. */
function productsOf(
  errors: readonly ModelError[],
  others: ReadonlyMap<string, number>,
  lastDate: string,
): { aa: number; bb: number; ab: number; dates: number } {
  let [aa, bb, ab] = [0, 0, 0];
  const shares = new Map<string, number>();
  for (const { key, date, errorF: a } of errors) {
    const b = others.get(key);
    if (b === undefined) continue;
    const share = shares.get(date) ?? 0.5 ** (daysFrom(date, lastDate) / HALF_LIFE_DAYS);
    shares.set(date, share);
    aa += share * a * a;
    bb += share * b * b;
    ab += share * a * b;
  }
  return { aa, bb, ab, dates: [...shares.values()].reduce((sum, share) => sum + share, 0) };
}

const daysFrom = (date: string, last: string): number => (Date.parse(last) - Date.parse(date)) / 86_400_000;

/** What a model said, and what was made of it. */
export interface Candidate {
  run: Ensemble;
  corrected: Corrected;
}

/**
 * The mean of several models, each corrected by its own fit, by their recent skill; and the deviation that their mean has by their own
 * deviations and how far their errors go together. A model that is not corrected has no part in it. Where only one is left its
 * forecast stands as it is.
 * @param candidates the first model first
 * @param mix undefined: nothing is known yet, and all count the same
 */
export function mixCandidates(candidates: readonly Candidate[], mix: Mix | undefined): Corrected {
  const [main] = candidates;
  if (candidates.length === 1) return main!.corrected;
  const used = candidates.filter(({ corrected }) => corrected.isCalibrated);
  const weights = weightsOf(used.map(modelOf), mix);
  const models = candidates.map((candidate): ModelPart => {
    const { run, corrected } = candidate;
    const weight = used.length === 0 ? Number(candidate === main) : (weights.get(modelOf(candidate)) ?? 0);
    return {
      model: modelOf(candidate),
      modelRunAt: run.modelRunAt,
      fetchedAt: run.fetchedAt,
      membersF: run.membersF,
      rawMeanF: run.meanF,
      meanF: corrected.meanF,
      deviationF: corrected.deviationF,
      shape: corrected.shape,
      weight,
      reason: weight > 0 ? null : whyNoWeight(corrected),
    };
  });
  // What is said of how it was made is that of the first model, while that has a part in it.
  const lead = used.includes(main!) ? main! : (heaviest(used, weights) ?? main!);
  if (used.length < 2) return { ...lead.corrected, models };
  const shares = models.filter(({ weight }) => weight > 0);
  return {
    ...lead.corrected,
    meanF: shares.reduce((sum, { weight, meanF }) => sum + weight * meanF, 0),
    deviationF: mixedDeviation(shares, mix),
    models,
  };
}

const whyNoWeight = ({ isCalibrated, fallback }: Corrected): string =>
  isCalibrated ? 'it has had nothing to add to the others' : (fallback ?? 'it is not corrected');

const modelOf = ({ run }: Candidate): string => run.model ?? MAIN_MODEL;

const heaviest = (
  candidates: readonly Candidate[],
  weights: ReadonlyMap<string, number>,
): Candidate | undefined =>
  candidates.toSorted((a, b) => weights.get(modelOf(b))! - weights.get(modelOf(a))!)[0];

/**
 * Those on which the weighted mean of the models would have had the least squared error, none below 0; they sum to one. Pair by pair
 * weight is moved to where it does more good, until none does: J. C. Platt, Sequential Minimal Optimization, MSR-TR-98-14 (1998).
 * C. W. J. Granger, R. Ramanathan, Improved Methods of Combining Forecasts, J. Forecasting 3 (1984).
 */
function weightsOf(models: readonly string[], mix: Mix | undefined): Map<string, number> {
  const products = models.map((a) => models.map((b) => productOf(a, b, mix)));
  const counted = models.filter((model) => model !== EARLIER_RUN).length;
  const weights = models.map((model) =>
    counted === 0 ? 1 / models.length : Number(model !== EARLIER_RUN) / counted,
  );
  const slope = (row: readonly number[]): number => row.reduce((sum, x, k) => sum + x * weights[k]!, 0);
  for (let sweep = 0, most = 1; sweep < MAX_SWEEPS && most > SMALL; sweep++) {
    most = 0;
    for (const [i, row] of products.entries())
      for (const [j, other] of products.entries()) {
        const bend = row[i]! + other[j]! - 2 * row[j]!;
        if (j <= i || !(bend > SMALL)) continue;
        const best = (slope(other) - slope(row)) / bend;
        const moved = Math.max(-weights[i]!, Math.min(weights[j]!, best));
        weights[i]! += moved;
        weights[j]! -= moved;
        most = Math.max(most, Math.abs(moved));
      }
  }
  return new Map(models.map((model, i) => [model, weights[i]!]));
}

const MAX_SWEEPS = 200;
const SMALL = 1e-9;

/**
 * Of the errors of two models, as a multiple of the first one's square. As long as nothing is known all are as good, with half of their
 * errors in common, so that their weights are the same; but an earlier run has all errors of the others and some of its own, and no weight.
 */
function productOf(a: string, b: string, mix: Mix | undefined): number {
  const prior = 1 + Number(a === b) + Number(a === EARLIER_RUN || b === EARLIER_RUN);
  const [ofA, ofB] = [skillOf(a, mix), skillOf(b, mix)];
  const pair = a === b ? { value: 1, dates: ofA.dates } : (mix?.correlation[pairOf(a, b)] ?? UNKNOWN);
  const known = pair.value * Math.sqrt(ofA.value * ofB.value);
  return (pair.dates * known + PRIOR_DATES * prior) / (pair.dates + PRIOR_DATES);
}

const UNKNOWN: Known = { value: 1, dates: 0 };
const skillOf = (model: string, mix: Mix | undefined): Known => mix?.skill[model] ?? UNKNOWN;

/** Of a weighted mean of errors: √(Σ wᵢ wⱼ ρᵢⱼ σᵢ σⱼ). Where nothing is known of two they are taken to err together. */
function mixedDeviation(shares: readonly ModelPart[], mix: Mix | undefined): number {
  let variance = 0;
  for (const a of shares)
    for (const b of shares)
      variance += a.weight * b.weight * correlationOf(a.model, b.model, mix) * a.deviationF * b.deviationF;
  return Math.sqrt(variance);
}

function correlationOf(a: string, b: string, mix: Mix | undefined): number {
  if (a === b) return 1;
  const { value, dates } = mix?.correlation[pairOf(a, b)] ?? UNKNOWN;
  return (dates * Math.max(0, value) + PRIOR_DATES) / (dates + PRIOR_DATES);
}
