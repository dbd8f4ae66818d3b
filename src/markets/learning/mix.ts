import type { CorrectedForecast, Ensemble } from './day-forecast.js';
import { EARLIER_RUN, GRIDPOINTS, MAIN_MODEL } from '../weather/weather.js';
import { type ModelPart } from './forecast.js';
import type { Known, Mix } from './fits.js';

export interface ModelError {
  /** The target and its place; the same for all models. */
  key: string;
  date: string;
  errorF: number;
  /** From a version of the model older than the newest. */
  isOlder?: boolean | undefined;
}

/** Weather persists for weeks and models change. */
const HALF_LIFE_DAYS = 30;
/** The effective number of dates is not reduced, so the prior does not gain weight. */
const OLDER_SHARE = 0.25;
const PRIOR_DATES = 10;

/** Limits errors, in root mean squares of their model: otherwise a few extreme days would decide the weights. */
const MOST_RMS = 1.5;

export const pairOf = (a: string, b: string): string => [a, b].toSorted().join(' ');

/**
 * Undefined without errors of the first model and of another.
 * @param errors by model, all for the same kind and lead
 */
export function learnMix(errors: ReadonlyMap<string, readonly ModelError[]>) {
  const ofMain = errors.get(MAIN_MODEL) ?? [];
  const dates = ofMain.map(({ date }) => date).toSorted();
  if (errors.size < 2 || dates.length === 0) return undefined;
  const [firstDate, lastDate] = [dates[0]!, dates.at(-1)!];
  const skill: Record<string, Known> = {};
  const correlation: Record<string, Known> = {};
  const names = [...errors.keys()].toSorted();
  const byKey = new Map(
    [...errors].map(([name, own]) => [name, new Map(limit(own).map((each) => [each.key, each]))]),
  );
  for (const [i, a] of names.entries())
    for (const b of names.slice(i)) {
      const { aa, bb, ab, dates } = productsOf([...byKey.get(a)!.values()], byKey.get(b)!, lastDate);
      if (!(aa > 0 && bb > 0)) continue;
      if (a !== b) correlation[pairOf(a, b)] = { value: ab / Math.sqrt(aa * bb), dates };
      if (a === MAIN_MODEL) skill[b] = { value: bb / aa, dates };
      else if (b === MAIN_MODEL) skill[a] = { value: aa / bb, dates };
    }
  return { skill, correlation, firstDate, lastDate };
}

function limit(errors: readonly ModelError[]): ModelError[] {
  const squares = errors.reduce((sum, { errorF }) => sum + errorF ** 2, 0);
  const most = MOST_RMS * Math.sqrt(squares / errors.length);
  return errors.map((each) => ({ ...each, errorF: Math.max(-most, Math.min(most, each.errorF)) }));
}

function productsOf(
  errors: readonly ModelError[],
  others: ReadonlyMap<string, ModelError>,
  lastDate: string,
): { aa: number; bb: number; ab: number; dates: number } {
  let [aa, bb, ab, cases] = [0, 0, 0, 0];
  const shares = new Map<string, number>();
  for (const { key, date, errorF: a, isOlder } of errors) {
    const other = others.get(key);
    if (other === undefined) continue;
    const recent = shares.get(date) ?? 0.5 ** (daysFrom(date, lastDate) / HALF_LIFE_DAYS);
    shares.set(date, recent);
    const share = isOlder || other.isOlder ? OLDER_SHARE * recent : recent;
    const { errorF: b } = other;
    cases += recent;
    aa += share * a * a;
    bb += share * b * b;
    ab += share * a * b;
  }
  const dates = [...shares.values()].reduce((sum, share) => sum + share, 0);
  // Stations of one date share part of their errors, so a date counts as the root of its number of stations.
  return { aa, bb, ab, dates: Math.sqrt(dates * cases) };
}

const daysFrom = (date: string, last: string): number => (Date.parse(last) - Date.parse(date)) / 86_400_000;

export interface Candidate {
  run: Ensemble;
  corrected: CorrectedForecast;
}

/**
 * The deviation follows from those of the models and the correlation of their errors. Uncorrected models get no weight.
 * @param candidates the first model first
 * @param mix undefined without past errors, which gives all models equal weight
 */
export function mixCandidates(candidates: readonly Candidate[], mix: Mix | undefined): CorrectedForecast {
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
      reason: weight > 0 ? null : reasonForNoWeight(corrected),
    };
  });
  // The first model states the method while its weight is not zero.
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

const reasonForNoWeight = ({ isCalibrated, fallback }: CorrectedForecast): string =>
  isCalibrated ? 'it has had nothing to add to the others' : (fallback ?? 'it is not corrected');

const modelOf = ({ run }: Candidate): string => run.model ?? MAIN_MODEL;

const heaviest = (candidates: readonly Candidate[], weights: ReadonlyMap<string, number>) =>
  candidates.toSorted((a, b) => weights.get(modelOf(b))! - weights.get(modelOf(a))!)[0];

/**
 * Nonnegative weights that sum to one and minimize the expected squared error. J. C. Platt, Sequential Minimal
 * Optimization, MSR-TR-98-14 (1998). C. W. J. Granger, R. Ramanathan, J. Forecasting 3 (1984).
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
 * Returns the expected product of two models' errors, relative to the first model's squared error. The prior assumes
 * equal skill and a correlation of one half between any two models' errors, so all models get equal weight; the more
 * alike two models are, the more they count as one, and exact copies share the weight of one model. An earlier run is
 * assumed to have all of the first model's error plus an independent error, so it gets no weight; the gridpoint
 * forecast is assumed to have twice the squared error, so it gets little.
 */
function productOf(a: string, b: string, mix: Mix | undefined): number {
  const isLow = a === b && a === GRIDPOINTS;
  const pair =
    a === b ? { value: 1, dates: skillOf(a, mix).dates } : (mix?.correlation[pairOf(a, b)] ?? UNKNOWN);
  const alike = a === b ? 1 : likenessOf(pair);
  const prior = 1 + alike + Number(a === EARLIER_RUN || b === EARLIER_RUN) + 2 * Number(isLow);
  const [ofA, ofB] = [skillOf(a, mix), skillOf(b, mix)];
  const known = pair.value * Math.sqrt(ofA.value * ofB.value);
  return (pair.dates * known + PRIOR_DATES * prior) / (pair.dates + PRIOR_DATES);
}

/**
 * From 0 to 1: a power of the correlation's lower bound, one standard error below it in Fisher's z. The prior stays
 * positive semidefinite up to that standard error (Schur's product theorem).
 */
function likenessOf({ value, dates }: Known): number {
  if (dates <= 3) return 0;
  const lowest = Math.tanh(Math.atanh(Math.min(1, value)) - 1 / Math.sqrt(dates - 3));
  return Math.max(0, lowest) ** 8;
}

const UNKNOWN: Known = { value: 1, dates: 0 };
const skillOf = (model: string, mix: Mix | undefined): Known => mix?.skill[model] ?? UNKNOWN;

/** √(Σ wᵢ wⱼ ρᵢⱼ σᵢ σⱼ), with ρ = 1 for pairs without data. */
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
