import { formatAgo } from '../../core/pages/format.js';
import { CENT, floorTo, type Micros } from '../market/money.js';
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
  const { mode, positions, cash, liquidation, openedAt, deposits, transfers } = portfolio;
  // Rounded once, so that equity is the sum of the amounts beside it.
  const equity = liquidation === null ? null : toCents(cash) + toCents(liquidation);
  return {
    mode,
    isNew: portfolio.markets === 0 && portfolio.openOrderCount === 0,
    warning: positions.length > 0 ? warningOf(marks) : undefined,
    tiles: {
      ...portfolio,
      equity,
      gain: equity === null || openedAt === null ? null : equity - deposits - transfers,
    },
    /** The value of the other positions counts as zero. */
    cutTo: portfolio.isCut ? positions.length : null,
  };
}

const toCents = (amount: Micros): Micros => floorTo(amount + CENT / 2n, CENT);

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
