import type { WeatherHistory } from '../forecast/forecast.js';
import { KnownHistory, type KnownRun } from '../archive/known-history.js';
import { trainInSteps, type TrainedFit, type Training } from '../archive/training.js';
import { noFits, type FitBook } from '../forecast/fits.js';
import { momentsOf } from '../forecast/moments.js';
import { newId } from '../market/ids.js';
import { targetKey, type Target } from '../market/market.js';
import type { MarketHistory, SettledDay } from '../market/source.js';
import { climatesOf, type Climates } from '../scores/climate.js';
import { createPace } from '../venue/simulation/pace.js';
import { dateOf } from './moments.js';

const DAY_MS = 24 * 60 * 60 * 1000;
/**
 * The present learns whenever something new is known; in the past that would be most of the work, for fits that hardly
 * differ. Times are the same whoever asks: whole steps since 1970, in the evening, when the last report of a day is there.
 */
const STEP_MS = 5 * DAY_MS;
const EVENING_MS = 18 * 60 * 60 * 1000;
/** As the archive keeps it: what training looks back. */
const WINDOW_DAYS = 90;
const CLIMATE_DAYS = 30;

/** What would have been learned at any time of the past by what was known then, and by nothing else. */
export interface Lessons {
  fitsAt(at: Date): Promise<FitBook>;
  /** A fit that was made, with what it was trained on. */
  find(fitId: string): TrainedFit | undefined;
  climatesAt(at: Date): Climates;
  /** What was reported, if it was known at a time. */
  reportOf(target: Target, at: Date): SettledDay | undefined;
}

interface Histories {
  weather: WeatherHistory;
  markets: MarketHistory;
}

/**
 * Reads the world's history of one kind once, a day at a time so that others get their turn.
 * @param from the first day that is looked back from; @param to the last one
 */
export async function createLessons(
  { weather, markets }: Histories,
  { from, to }: { from: Date; to: Date },
  signal: AbortSignal,
  pace = createPace(),
): Promise<Lessons> {
  const runs: KnownRun[] = [];
  const reports: SettledDay[] = [];
  for (let ms = from.getTime() - WINDOW_DAYS * DAY_MS; ms <= to.getTime(); ms += DAY_MS) {
    signal.throwIfAborted();
    const date = dateOf(ms);
    runs.push(...(await weather.readRuns({ from: date, to: date }, signal)).map(withoutMembers));
    reports.push(...(await markets.readSettledDays({ from: date, to: date }, signal)));
    await pace();
  }
  const trainings = new Map<number, Training>();
  const trained = new Map<string, TrainedFit>();
  const reportOf = new Map(reports.map((report) => [targetKey(report), report]));
  const inWindow = <T extends { date: string }>(all: readonly T[], at: Date, days: number): T[] => {
    const first = dateOf(at.getTime() - days * DAY_MS);
    const last = dateOf(at.getTime() + 2 * DAY_MS);
    return all.filter(({ date }) => date >= first && date <= last);
  };

  async function train(at: Date): Promise<Training> {
    await pace();
    const history = KnownHistory.at(at, {
      runs: inWindow(runs, at, WINDOW_DAYS),
      reports: inWindow(reports, at, WINDOW_DAYS),
    });
    await pace();
    const steps = trainInSteps(history, { previous: noFits, newId: () => newId(at.getTime()) });
    for (;;) {
      signal.throwIfAborted();
      const { done, value } = steps.next();
      if (done) return value;
      await pace();
    }
  }

  return {
    async fitsAt(at) {
      const ms = Math.floor((at.getTime() - EVENING_MS) / STEP_MS) * STEP_MS + EVENING_MS;
      const training = trainings.get(ms) ?? (await train(new Date(ms)));
      trainings.set(ms, training);
      for (const added of training.added) trained.set(added.fit.id, added);
      return training.book;
    },
    find: (fitId) => trained.get(fitId),
    climatesAt: (at) =>
      climatesOf(
        inWindow(reports, at, CLIMATE_DAYS).filter(({ knownAt }) => knownAt.getTime() <= at.getTime()),
      ),
    reportOf(target, at) {
      const report = reportOf.get(targetKey(target));
      return report && report.knownAt <= at ? report : undefined;
    },
  };
}

function withoutMembers({
  membersF,
  ...run
}: Awaited<ReturnType<WeatherHistory['readRuns']>>[number]): KnownRun {
  const { mean, variance } = momentsOf(membersF);
  return { ...run, members: membersF.length, meanF: mean, varianceF: variance };
}
