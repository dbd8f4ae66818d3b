import { v7 as newId } from 'uuid';
import { KnownHistory, type KnownRun } from '../trading/archive/known-history.js';
import { train } from '../trading/archive/training.js';
import { noFits, type FitBook } from '../trading/forecast/fits.js';
import type { DayEnsemble } from '../trading/forecast/forecast.js';
import { momentsOf } from '../trading/forecast/moments.js';
import type { SettledDay } from '../trading/market/source.js';

/** As far back as the service reads, see the archive. */
const WINDOW_MS = 90 * 24 * 60 * 60 * 1000;

/** Trains on what was known at each time that is asked for, which only goes forward. */
export function createLearner(runs: readonly DayEnsemble[], reports: readonly SettledDay[]) {
  const known = runs
    .map(({ membersF, ...run }): KnownRun => ({ ...run, members: membersF.length, ...inDegrees(membersF) }))
    .sort((a, b) => a.fetchedAt.getTime() - b.fetchedAt.getTime());
  let book: FitBook = noFits;
  return {
    fitsAt(at: Date): FitBook {
      const since = new Date(at.getTime() - WINDOW_MS).toISOString().slice(0, 10);
      const recent = known.filter(({ date }) => date >= since);
      const history = KnownHistory.at(at, {
        runs: recent,
        reports: reports.filter(({ date }) => date >= since),
      });
      ({ book } = train(history, { previous: book, newId }));
      return book;
    },
  };
}

function inDegrees(membersF: readonly number[]): Pick<KnownRun, 'meanF' | 'varianceF'> {
  const { mean, variance } = momentsOf(membersF);
  return { meanF: mean, varianceF: variance };
}
