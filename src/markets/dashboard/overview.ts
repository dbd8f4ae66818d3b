import type { Context } from '../../core/http/context.js';
import type { ReadOverviewPanel } from '../../dashboard/overview/pages.js';
import { toPortfolioView } from '../pages/portfolio-view.js';
import { readPortfolio } from '../portfolio/portfolio.js';
import type { TradingServices } from '../services/services.js';

/** A line of the overview, after the first trade. */
export function createAccountReader(
  { db, clock, config }: Context,
  { snapshots }: TradingServices,
): ReadOverviewPanel {
  const { paperCash, refreshSeconds } = config.trading;
  return async (_context, { session: { orgId, marketAccess } }) => {
    if (marketAccess === 'none') return undefined;
    const portfolio = await readPortfolio({ db, clock, snapshots, paperCash }, orgId, 'paper');
    const marks = { snapshot: snapshots.current, sources: snapshots.sources, refreshSeconds };
    const { tiles, isNew } = toPortfolioView(portfolio, { ...marks, now: new Date(clock.now()) });
    if (isNew) return undefined;
    return { view: 'markets/overview', data: { total: tiles.total, open: portfolio.positions.length } };
  };
}
