import { v7 as newId } from 'uuid';
import { KnownHistory } from '../trading/archive/archive.js';
import { train } from '../trading/archive/training.js';
import { noFits, type FitBook } from '../trading/forecast/fits.js';
import { meanAndVariance, type DayEnsemble } from '../trading/forecast/forecast.js';
import type { SettledDay } from '../trading/market/source.js';
import type { KnownRun } from '../trading/forecast/queries.js';

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
  const { mean, variance } = meanAndVariance(membersF);
  return { meanF: mean, varianceF: variance };
}
