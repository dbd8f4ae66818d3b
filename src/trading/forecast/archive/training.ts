import { stations } from '../../settlement/stations.js';
import { MAX_LEAD_HOURS, LEAD_STEP_HOURS, type Fit, type FitBook, type MissingFit } from '../fits.js';
import { casesOf, hasSpread, type TrainingCase } from './cases.js';
import type { KnownHistory, KnownRun } from './known-history.js';
import { makeFit } from './make-fit.js';
import { stationBiases } from './station-bias.js';

/** Fewer days tell four coefficients apart badly: of 30 errors the deviation is known to an eighth. */
const MIN_OWN_DAYS = 30;
/** Over all stations; each has its own bias taken off, which is learned from the same cases. */
const MIN_POOLED_CASES = 40;

/** A fit that is new, with what it was trained on. */
export interface TrainedFit {
  fit: Fit;
  cases: readonly TrainingCase[];
}

export interface Training {
  /** What to forecast by. */
  book: FitBook;
  /** The fits in it whose training set is not that of an earlier one. */
  added: readonly TrainedFit[];
}

export interface TrainingOptions {
  /** A fit of these stays as it is, with its id and its time, for as long as its training set does. */
  previous: FitBook;
  newId: () => string;
}

/**
 * Learns from what was known at one time, and from nothing else: for each lead a fit for each station that has enough
 * days, and one for all stations together. Each step is a few milliseconds of work: the caller may do other things in
 * between.
 */
export function* trainInSteps(
  history: KnownHistory,
  options: TrainingOptions,
): Generator<undefined, Training> {
  const byStation = new Map<string, Map<number, TrainingCase[]>>();
  const runs = groupByStation(history.runs);
  for (const station of stations) {
    byStation.set(station.id, casesOf(history, station, runs.get(station.id) ?? []));
    yield;
  }
  const fits: Fit[] = [];
  const added: TrainedFit[] = [];
  const missing: MissingFit[] = [];
  for (let lead = LEAD_STEP_HOURS; lead <= MAX_LEAD_HOURS; lead += LEAD_STEP_HOURS) {
    const groups = stations.map(({ id }) => ({ id, cases: byStation.get(id)?.get(lead) ?? [] }));
    const wanted = [...groups.map(ownGroup), pooledGroup(groups.flatMap(({ cases }) => cases))];
    for (const { reason, ...group } of wanted) {
      const made = reason ?? makeFit({ ...group, leadHours: lead }, history.knownAt, options);
      if (typeof made === 'string')
        missing.push({ stationId: group.stationId, leadHours: lead, reason: made });
      else {
        fits.push(made.fit);
        if (made.isNew) added.push({ fit: made.fit, cases: group.cases });
      }
      yield;
    }
  }
  return { book: { madeAt: history.knownAt, fits, missing }, added };
}

/** The same at once. */
export function train(history: KnownHistory, options: TrainingOptions): Training {
  const steps = trainInSteps(history, options);
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

function groupByStation(runs: readonly KnownRun[]): Map<string, KnownRun[]> {
  const groups = new Map<string, KnownRun[]>();
  for (const run of runs) {
    const group = groups.get(run.stationId);
    if (group) group.push(run);
    else groups.set(run.stationId, [run]);
  }
  return groups;
}

function ownGroup({ id, cases }: { id: string; cases: readonly TrainingCase[] }) {
  const reason =
    cases.length < MIN_OWN_DAYS
      ? `only ${cases.length} of ${MIN_OWN_DAYS} days are known for this station at this lead`
      : null;
  return { stationId: id, stationBiasF: null, cases: spreadOrNone(cases, MIN_OWN_DAYS), reason };
}

function pooledGroup(cases: readonly TrainingCase[]) {
  const reason =
    cases.length < MIN_POOLED_CASES
      ? `only ${cases.length} of ${MIN_POOLED_CASES} days are known over all stations at this lead`
      : null;
  const used = spreadOrNone(cases, MIN_POOLED_CASES);
  return { stationId: null, stationBiasF: stationBiases(used), cases: used, reason };
}

/**
 * What the spread is worth is learned from real ensembles alone, where there are enough of them. Else all runs teach, the
 * single ones of a model's past too, and none of them by its spread: the deviation is then the same every day.
 */
function spreadOrNone(cases: readonly TrainingCase[], least: number): TrainingCase[] {
  const real = cases.filter(hasSpread);
  return real.length >= least ? real : cases.map((each) => ({ ...each, varianceF: 0 }));
}
