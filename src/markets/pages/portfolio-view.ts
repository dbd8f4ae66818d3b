import { formatAgo } from '../../core/pages/format.js';
import { MAX_TRADING_AGE_MS } from '../market/source.js';
import type { Portfolio } from '../portfolio/portfolio.js';
import { ageOf, type Snapshot, type SourceState } from '../snapshot/snapshot.js';
import { isStale } from './freshness.js';

interface Marks {
  snapshot: Snapshot | undefined;
  sources: readonly SourceState[];
  refreshSeconds: number;
  now: Date;
}

export function toPortfolioView(portfolio: Portfolio, marks: Marks) {
  const { mode, positions, equity, deposits, transfers } = portfolio;
  return {
    mode,
    isNew: portfolio.markets === 0 && portfolio.openOrderCount === 0,
    warning: positions.length > 0 ? warningOf(marks) : undefined,
    tiles: { ...portfolio, gain: equity === null ? null : equity - deposits - transfers },
    /** The value of the other positions counts as zero. */
    cutTo: portfolio.isCut ? positions.length : null,
  };
}

function warningOf({ snapshot, sources, refreshSeconds, now }: Marks): string | undefined {
  if (!snapshot) {
    const failing = sources.find(({ part, state }) => part === 'markets' && state !== 'waiting');
    const why = failing
      ? `The market data source (${failing.name}) is not responding.`
      : 'Market data is loading.';
    return `${why} Positions cannot be valued until it arrives.`;
  }
  const ageMs = ageOf(snapshot, now.getTime());
  if (!isStale(ageMs, refreshSeconds)) return undefined;
  const trading = ageMs > MAX_TRADING_AGE_MS ? ' Trading resumes with newer data.' : '';
  return `Values use market data from ${formatAgo(snapshot.asOf, now)}.${trading}`;
}
