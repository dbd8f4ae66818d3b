import { DAY_MS } from '../../core/time.js';
import { targetKey, temperatureKinds, type DailyKind } from '../market/market.js';
import { placesOf } from '../market/stations.js';
import { groupBy } from '../../core/collections.js';
import { allAtOnce, type Steps } from '../../core/steps.js';
import {
  findMix,
  MAX_LEAD_HOURS,
  LEAD_STEP_HOURS,
  type Fit,
  type FitBook,
  type MissingFit,
  type Mix,
} from '../learning/fits.js';
import {
  casesOf,
  daysIn,
  hasSpread,
  knownThroughMs,
  latestFirst,
  makeFitInSteps,
  type Group,
  type TrainingCase,
} from './make-fit.js';
import { trainHoursInSteps, type HourTrainingOptions, type TrainedHourFit } from './train-hours.js';
import { lineOf } from '../learning/day-ahead.js';
import { markOlder } from '../weather/versions.js';
import { EARLIER_RUN, MAIN_MODEL } from '../weather/weather.js';
import { learnMix, type ModelError } from '../learning/mix.js';
import type { KnownHistory } from './forecast-archive.js';
import type { KnownRun } from '../learning/queries.js';
import type { Place } from '../market/place.js';
import { LONGEST_AGE_DAYS, aheadRow } from '../learning/calibrated.js';

/**
 * Minimum number of days, summed over all stations. 30 errors determine the standard deviation to within an eighth; the
 * ridge penalty shrinks terms with few errors.
 */
const MIN_POOLED_DAYS = 30;
/** Sixty days of all stations, or 31 days of all areas' hours. More do not improve a fit, but take longer. */
const MAX_POOLED_CASES = 3_000;
/** One station and lead needs as many: a shorter history shows each season only once, with that year's weather. */
export const MIN_SEASONAL_DAYS = 548;
/** Two years; a third year does not improve the fit (measured). */
export const SEASONAL_WINDOW_DAYS = 730;

export interface TrainedFit {
  fit: Fit;
  cases: readonly TrainingCase[];
}

export interface Training {
  book: FitBook;
  added: readonly TrainedFit[];
  addedHours: readonly TrainedHourFit[];
  addedMixes: readonly Mix[];
}

export interface TrainingOptions extends Omit<HourTrainingOptions, 'previous'> {
  /** Previous fits keep their id and time and are reused until their training set changes; see `makeFitInSteps`. */
  previous: FitBook;
}

/**
 * Learns from the data known at one time: one fit over all stations per model, kind and lead (hourly fits have a bias
 * per hour of the day), the mixes, and the fits for days in progress. The stations' own fits are carried over; see
 * `trainStationInSteps`. Each step takes a few milliseconds, so the caller can yield in between.
 */
export function* trainInSteps(history: KnownHistory, options: TrainingOptions): Steps<Training> {
  const runs = groupBy(history.runs, groupKey);
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
        const made = group.reason ?? (yield* makeFitInSteps(group, history.knownAt, options));
        if (typeof made === 'string') missing.push(toMissing(group, made));
        else {
          fits.push(made.fit);
          if (made.isNew) added.push({ fit: made.fit, cases: group.cases });
          pooled.push({ ...made, cases: group.cases });
        }
        yield;
      }
    }
  const { mixes, added: addedMixes } = yield* trainMixesInSteps(pooled, history.knownAt, options);
  const { added: addedHours, ...hours } = yield* trainHoursInSteps(history, {
    ...options,
    previous: options.previous.hours?.fits ?? [],
  });
  const own = ownOf(options.previous, history.knownAt);
  const book = {
    madeAt: history.knownAt,
    fits: [...fits, ...own.fits],
    missing: [...missing, ...own.missing],
    mixes,
    hours,
  };
  return { book, added, addedHours, addedMixes };
}

function ownOf({ fits, missing = [] }: FitBook, at: Date) {
  const oldestMs = at.getTime() - LONGEST_AGE_DAYS * DAY_MS;
  return {
    fits: fits.filter(({ stationId, trainedAt }) => stationId !== null && trainedAt.getTime() >= oldestMs),
    missing: missing.filter(({ stationId }) => stationId !== null),
  };
}

const toMissing = ({ model, kind, stationId, leadHours }: Group, reason: string): MissingFit => ({
  ...(model !== undefined && { model }),
  kind,
  stationId,
  leadHours,
  reason,
});

export interface StationTraining {
  fits: Fit[];
  added: TrainedFit[];
  missing: MissingFit[];
}

/**
 * Learns seasonal fits of the first model for one kind of temperature at one station, for each lead with enough data.
 * @param history for this kind and station only
 */
export function* trainStationInSteps(
  history: KnownHistory,
  { kind, station }: { kind: DailyKind; station: Place },
  options: Pick<TrainingOptions, 'previous' | 'newId'>,
): Steps<StationTraining> {
  const made: StationTraining = { fits: [], added: [], missing: [] };
  const byLead = casesOf(history, station, history.runs, SEASONAL_WINDOW_DAYS);
  yield;
  for (const [leadHours, cases] of byLead) {
    if (daysIn(cases) < MIN_SEASONAL_DAYS) continue;
    const used = markVersions(spreadOrNone(cases, MIN_SEASONAL_DAYS));
    const group = { kind, stationId: station.id, leadHours, cases: used };
    const found = yield* makeFitInSteps(group, history.knownAt, options);
    if (typeof found === 'string') made.missing.push(toMissing(group, found));
    else {
      made.fits.push(found.fit);
      if (found.isNew) made.added.push({ fit: found.fit, cases: used });
    }
    yield;
  }
  return made;
}

export function withStation(
  book: FitBook,
  { kind, station }: { kind: DailyKind; station: Place },
  made: StationTraining,
): FitBook {
  const isOther = (each: Pick<Fit, 'kind' | 'stationId'>) =>
    each.kind !== kind || each.stationId !== station.id;
  return {
    ...book,
    fits: [...book.fits.filter(isOther), ...made.fits],
    missing: [...(book.missing ?? []).filter(isOther), ...made.missing],
  };
}

type WantedGroup = Group & { reason: string | null };

function* groupsOf(
  { kind, model }: Pick<Group, 'kind' | 'model'>,
  byStation: ReadonlyMap<string, ReadonlyMap<number, readonly TrainingCase[]>>,
): Generator<WantedGroup> {
  for (let leadHours = LEAD_STEP_HOURS; leadHours <= MAX_LEAD_HOURS[kind]; leadHours += LEAD_STEP_HOURS) {
    const all = [...byStation.values()].flatMap((byLead) => byLead.get(leadHours) ?? []);
    if (model === undefined || all.length > 0) yield { kind, model, leadHours, ...pooledGroup(all) };
  }
}

export const train = (history: KnownHistory, options: TrainingOptions): Training =>
  allAtOnce(trainInSteps(history, options));

const groupKey = ({ kind, stationId, model = '' }: Pick<KnownRun, 'kind' | 'stationId' | 'model'>): string =>
  `${kind} ${stationId} ${model}`;

function pooledGroup(all: readonly TrainingCase[]): Pick<WantedGroup, 'stationId' | 'cases' | 'reason'> {
  const cases = all.length > MAX_POOLED_CASES ? all.toSorted(latestFirst).slice(0, MAX_POOLED_CASES) : all;
  const days = daysIn(cases);
  const reason =
    days < MIN_POOLED_DAYS
      ? `only ${days} of ${MIN_POOLED_DAYS} days are known over all stations at this lead`
      : null;
  return { stationId: null, cases: markVersions(spreadOrNone(cases, MIN_POOLED_DAYS)), reason };
}

const markVersions = (cases: readonly TrainingCase[]): TrainingCase[] =>
  markOlder(cases, ({ modelRunAt }) => modelRunAt.getTime());

/** The real ensembles with their spread if they are enough; otherwise all runs, without spread. */
function spreadOrNone(cases: readonly TrainingCase[], least: number): TrainingCase[] {
  const real = cases.filter(hasSpread);
  // Runs without spread are not copied, because copies would take half of the memory that training uses.
  const withoutSpread = (each: TrainingCase) => (each.varianceF === 0 ? each : { ...each, varianceF: 0 });
  return daysIn(real) >= least ? real : cases.map(withoutSpread);
}

interface PooledFit extends TrainedFit {
  isNew: boolean;
}

/** Age of the first model's earlier run relative to its latest, in hours. */
const EARLIER_HOURS = LEAD_STEP_HOURS;

/** Compares models by the training residuals of their fits. A mix is reused as long as all its fits are reused. */
function* trainMixesInSteps(
  pooled: readonly PooledFit[],
  trainedAt: Date,
  { previous, newId }: TrainingOptions,
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
      // May be later than the data that the fits were trained on, because recent fits are reused when new cases arrive.
      const knownThrough = new Date(Math.max(...fits.map(([, { cases }]) => knownThroughMs(cases))));
      const mix = { id: newId(), kind, leadHours, ...learned, knownThrough, trainedAt };
      mixes.push(mix);
      added.push(mix);
    }
    yield;
  }
  return { mixes, added };
}

const isIn = ({ skill }: Mix, model: string): boolean => model === MAIN_MODEL || model in skill;

/** A fit over all stations does not depend on the day: it is one line per station, hour and model version. */
function errorsOf({ fit, cases }: PooledFit): ModelError[] {
  const lines = new Map<string, ReturnType<typeof lineOf>>();
  return cases.map((each) => {
    const place = `${each.stationId} ${each.hour} ${each.isOlder}`;
    const line = lines.get(place) ?? lineOf(fit.coefficients, aheadRow(each));
    lines.set(place, line);
    return {
      key: targetKey(each),
      date: each.date,
      errorF: each.temperatureF - line.a - line.b * each.meanF,
      isOlder: each.isOlder,
    };
  });
}
