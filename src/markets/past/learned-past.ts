import { groupBy } from '../../core/collections.js';
import { newId } from '../../core/ids.js';
import { DAY_MS, HOUR_MS } from '../../core/time.js';
import { KnownHistory } from '../training/forecast-archive.js';
import type { TrainedHourFit } from '../training/train-hours.js';
import { trainInSteps, type TrainedFit, type Training } from '../training/training.js';
import { noFits, type FitBook } from '../learning/fits.js';
import {
  meanAndVariance,
  type DayEnsemble,
  type KnownHour,
  type WeatherHistory,
} from '../weather/weather.js';
import { dateOf, daysBetween } from '../market/climate-day.js';
import { targetKey, type Target } from '../market/market.js';
import type { MarketHistory, SettledDay } from '../market/source.js';
import { climatesOf, RECORD_WINDOW_MS, type Climates } from '../scores/records.js';
import { LEAD_HOURS } from '../signals/signal.js';
import { createPace } from '../venue/simulation/random.js';
import { subjectsOn, type Selection, type SimulatedSubject } from '../venue/simulation/world.js';
import { usesCurve, type KnownRun } from '../learning/queries.js';

export type SnapshotTime = ReturnType<typeof pastSnapshotTimes>[number];

/** In order. The live recorder handles the present. */
export function pastSnapshotTimes(
  now: Date,
  days: number,
  selection: Selection,
  isThere: (subject: SimulatedSubject, lead: number) => boolean,
) {
  const latest = now.getTime() - RECORD_WINDOW_MS;
  const dates = daysBetween(dateOf(now.getTime() - days * DAY_MS), dateOf(latest + 2 * DAY_MS));
  const missing = dates
    .flatMap((date) => subjectsOn(date, selection))
    .flatMap((subject) =>
      LEAD_HOURS.map((lead) => ({ subject, lead, ms: subject.span.end.getTime() - lead * HOUR_MS })),
    )
    .filter(({ subject, lead, ms }) => ms <= latest && !isThere(subject, lead));
  return [...groupBy(missing, ({ ms }) => ms)]
    .sort(([a], [b]) => a - b)
    .map(([ms, due]) => ({ at: new Date(ms), subjects: due.map(({ subject }) => subject) }));
}

/**
 * Counted from 1970, so that all callers get the same times. Live training runs whenever new data arrives, which would
 * be most of the work here, for nearly identical fits.
 */
const STEP_MS = 5 * DAY_MS;
const EVENING_MS = 18 * HOUR_MS;
/** As in the archive and in training. */
const WINDOW_DAYS = 90;
const CLIMATE_DAYS = 30;
/** For a day in progress. No fits are needed for other hours. */
const RECORDED_HOURS = LEAD_HOURS.map((lead) => 24 - lead).filter((hour) => hour > 0);

interface KnownDay {
  runs: readonly KnownRun[];
  reports: readonly SettledDay[];
  hours: readonly KnownHour[];
}

/** The fits and reports known at any time in the past. */
export type LearnedPast = Awaited<ReturnType<typeof learnPast>>;

/** One day at a time, so that other work can run in between. */
export async function learnPast(
  { weather, markets }: { weather: WeatherHistory; markets: MarketHistory },
  { from, to }: { from: Date; to: Date },
  signal: AbortSignal,
  pace = createPace(),
) {
  const days = new Map<string, KnownDay>();
  const reportOf = new Map<string, SettledDay>();
  for (let ms = from.getTime() - WINDOW_DAYS * DAY_MS; ms <= to.getTime(); ms += DAY_MS) {
    signal.throwIfAborted();
    const date = dateOf(ms);
    const day = { from: date, to: date };
    const runs = (await weather.readRuns(day, signal)).map(withoutMembers);
    // Hourly temperatures are used only with curves.
    const needsHours = runs.some(({ curveF }) => curveF);
    const known = {
      runs,
      reports: await markets.readSettledDays(day, signal),
      hours: needsHours ? ((await weather.readHours?.(day, signal)) ?? []) : [],
    };
    days.set(date, known);
    for (const report of known.reports) reportOf.set(targetKey(report), report);
    await pace();
  }
  const trainings = new Map<number, Training>();
  const trained = new Map<string, TrainedFit>();
  const trainedHours = new Map<string, TrainedHourFit>();
  const climates = new Map<string, Climates>();
  const daysBefore = (at: Date, count: number): KnownDay[] =>
    daysBetween(dateOf(at.getTime() - count * DAY_MS), dateOf(at.getTime() + 2 * DAY_MS)).flatMap(
      (date) => days.get(date) ?? [],
    );

  async function train(at: Date): Promise<Training> {
    await pace();
    const known = daysBefore(at, WINDOW_DAYS);
    const history = KnownHistory.at(at, {
      runs: known.flatMap(({ runs }) => runs),
      reports: known.flatMap(({ reports }) => reports),
      hours: known.flatMap(({ hours }) => hours),
    });
    await pace();
    const options = { previous: noFits, newId: () => newId(at.getTime()), hours: RECORDED_HOURS };
    const steps = trainInSteps(history, options);
    for (;;) {
      signal.throwIfAborted();
      const { done, value } = steps.next();
      if (done) return value;
      await pace();
    }
  }

  return {
    async fitsAt(at: Date): Promise<FitBook> {
      const ms = Math.floor((at.getTime() - EVENING_MS) / STEP_MS) * STEP_MS + EVENING_MS;
      const training = trainings.get(ms) ?? (await train(new Date(ms)));
      trainings.set(ms, training);
      for (const added of training.added) trained.set(added.fit.id, added);
      for (const added of training.addedHours) trainedHours.set(added.fit.id, added);
      return training.book;
    },
    find: (fitId: string) => trained.get(fitId),
    findHours: (fitId: string) => trainedHours.get(fitId),
    climatesAt(at: Date): Climates {
      const reports = daysBefore(at, CLIMATE_DAYS)
        .flatMap((day) => day.reports)
        .filter(({ knownAt }) => knownAt.getTime() <= at.getTime());
      // Reports are only ever added, so equal counts mean equal reports.
      const key = `${dateOf(at.getTime())} ${reports.length}`;
      const known = climates.get(key) ?? climatesOf(reports);
      climates.set(key, known);
      return known;
    },
    /** Undefined if the report was not yet known. */
    reportOf(target: Target, at: Date): SettledDay | undefined {
      const report = reportOf.get(targetKey(target));
      return report && report.knownAt <= at ? report : undefined;
    },
  };
}

/** V8 gives every spread object its own layout, which takes more memory than the values. */
function withoutMembers(run: DayEnsemble): KnownRun {
  const { mean, variance } = meanAndVariance(run.membersF);
  return {
    model: run.model,
    kind: run.kind,
    stationId: run.stationId,
    date: run.date,
    hour: run.hour,
    modelRunAt: run.modelRunAt,
    fetchedAt: run.fetchedAt,
    members: run.membersF.length,
    meanF: mean,
    varianceF: variance,
    curveF: usesCurve(run) ? run.curveF : undefined,
    version: run.version,
    isNearMidnight: run.isNearMidnight,
  };
}
