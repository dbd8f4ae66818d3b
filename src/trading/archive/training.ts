import { temperatureKinds, type TemperatureKind } from '../market/market.js';
import { placesOf } from '../market/stations.js';
import { allAtOnce, type Steps } from '../../core/steps.js';
import {
  MAX_LEAD_HOURS,
  LEAD_STEP_HOURS,
  type Fit,
  type FitBook,
  type MissingFit,
} from '../forecast/fits.js';
import {
  casesOf,
  daysIn,
  hasSpread,
  hourBiases,
  latestFirst,
  makeFit,
  stationBiases,
  type Group,
  type TrainingCase,
} from './make-fit.js';
import { trainHoursInSteps, type TrainedHourFit } from './train-hours.js';
import { trainMixesInSteps, type PooledFit } from './train-mixes.js';
import type { Mix } from '../forecast/mix.js';
import type { KnownHistory } from './archive.js';
import type { KnownRun } from '../forecast/queries.js';

/** Fewer days tell four coefficients apart badly: of 30 errors the deviation is known to an eighth. */
const MIN_OWN_DAYS = 30;
/** Over all stations; each has its own bias taken off, which is learned from the same cases. */
const MIN_POOLED_DAYS = 40;
/** The latest cases that are taken together: a fit of more is no better, and takes tens of milliseconds. */
const MAX_POOLED_CASES = 1_500;

/** A fit that is new, with what it was trained on. */
export interface TrainedFit {
  fit: Fit;
  cases: readonly TrainingCase[];
}

export interface Training {
  /** What to forecast by. */
  book: FitBook;
  /** The fits in it that were made anew. */
  added: readonly TrainedFit[];
  addedHours: readonly TrainedHourFit[];
  addedMixes: readonly Mix[];
}

export interface TrainingOptions {
  /** A fit of these stays as it is, with its id and its time, until a day has brought another training set: see `makeFit`. */
  previous: FitBook;
  newId: () => string;
  /** The hours of running days that are learned of; left out: all. */
  hours?: readonly number[] | undefined;
}

/**
 * Learns from what was known at one time, and from nothing else: for each kind and lead a fit for each station that has enough
 * days, and one for all stations together; of further models only the latter, which is as good with the stations' biases in it. Hours of
 * an area are learned from together, each hour of the day with a bias of its own, and days that run hour by hour. Each step is a few
 * milliseconds of work: the caller may do other things in between.
 */
export function* trainInSteps(history: KnownHistory, options: TrainingOptions): Steps<Training> {
  const runs = groupByStation(history.runs);
  const models = [...new Set(history.runs.map(({ model }) => model))];
  yield;
  const fits: Fit[] = [];
  const added: TrainedFit[] = [];
  const missing: MissingFit[] = [];
  const pooled: PooledFit[] = [];
  for (const kind of temperatureKinds)
    for (const model of new Set([undefined, ...models])) {
      const byStation = new Map<string, Map<number, TrainingCase[]>>();
      for (const station of placesOf(kind)) {
        const ofStation = runs.get(groupKey({ kind, stationId: station.id, model })) ?? [];
        byStation.set(station.id, casesOf(history, station, ofStation));
        yield;
      }
      for (const group of groupsOf({ kind, model }, byStation)) {
        const { stationId, leadHours } = group;
        const made = group.reason ?? makeFit(group, history.knownAt, options);
        if (typeof made === 'string')
          missing.push({ ...(model !== undefined && { model }), kind, stationId, leadHours, reason: made });
        else {
          fits.push(made.fit);
          if (made.isNew) added.push({ fit: made.fit, cases: group.cases });
          if (stationId === null) pooled.push({ ...made, cases: group.cases });
        }
        yield;
      }
    }
  const { mixes, added: addedMixes } = yield* trainMixesInSteps(pooled, history.knownAt, options);
  const { added: addedHours, ...hours } = yield* trainHoursInSteps(history, {
    ...options,
    previous: options.previous.hours?.fits ?? [],
  });
  const book = { madeAt: history.knownAt, fits, missing, mixes, hours };
  return { book, added, addedHours, addedMixes };
}

type WantedGroup = Group & { reason: string | null };

function* groupsOf(
  { kind, model }: Pick<Group, 'kind' | 'model'>,
  byStation: ReadonlyMap<string, ReadonlyMap<number, readonly TrainingCase[]>>,
): Generator<WantedGroup> {
  for (let leadHours = LEAD_STEP_HOURS; leadHours <= MAX_LEAD_HOURS[kind]; leadHours += LEAD_STEP_HOURS) {
    const all: TrainingCase[] = [];
    for (const [stationId, byLead] of byStation) {
      const cases = byLead.get(leadHours) ?? [];
      all.push(...cases);
      if (model === undefined) yield { kind, leadHours, ...ownGroup(kind, stationId, cases) };
    }
    if (model === undefined || all.length > 0) yield { kind, model, leadHours, ...pooledGroup(kind, all) };
  }
}

/** The same at once. */
export const train = (history: KnownHistory, options: TrainingOptions): Training =>
  allAtOnce(trainInSteps(history, options));

const groupKey = ({ kind, stationId, model = '' }: Pick<KnownRun, 'kind' | 'stationId' | 'model'>): string =>
  `${kind} ${stationId} ${model}`;

function groupByStation(runs: readonly KnownRun[]): Map<string, KnownRun[]> {
  const groups = new Map<string, KnownRun[]>();
  for (const run of runs) {
    const key = groupKey(run);
    const group = groups.get(key);
    if (group) group.push(run);
    else groups.set(key, [run]);
  }
  return groups;
}

type OwnGroup = Omit<WantedGroup, 'kind' | 'model' | 'leadHours'>;

function ownGroup(kind: TemperatureKind, stationId: string, cases: readonly TrainingCase[]): OwnGroup {
  const days = daysIn(cases);
  const reason =
    days < MIN_OWN_DAYS
      ? `only ${days} of ${MIN_OWN_DAYS} days are known for this station at this lead`
      : null;
  const used = spreadOrNone(cases, MIN_OWN_DAYS);
  const hourBiasF = kind === 'hourly' ? hourBiases(used, null) : null;
  return { stationId, stationBiasF: null, hourBiasF, cases: used, reason };
}

function pooledGroup(kind: TemperatureKind, all: readonly TrainingCase[]): OwnGroup {
  const cases = all.length > MAX_POOLED_CASES ? all.toSorted(latestFirst).slice(0, MAX_POOLED_CASES) : all;
  const days = daysIn(cases);
  const reason =
    days < MIN_POOLED_DAYS
      ? `only ${days} of ${MIN_POOLED_DAYS} days are known over all stations at this lead`
      : null;
  const used = spreadOrNone(cases, MIN_POOLED_DAYS);
  const stationBiasF = stationBiases(used);
  const hourBiasF = kind === 'hourly' ? hourBiases(used, stationBiasF) : null;
  return { stationId: null, stationBiasF, hourBiasF, cases: used, reason };
}

/**
 * What the spread is worth is learned from real ensembles alone, where there are enough of them. Else all runs teach, the
 * single ones of a model's past too, and none of them by its spread: the deviation is then the same every day.
 */
function spreadOrNone(cases: readonly TrainingCase[], least: number): TrainingCase[] {
  const real = cases.filter(hasSpread);
  return daysIn(real) >= least ? real : cases.map((each) => ({ ...each, varianceF: 0 }));
}
