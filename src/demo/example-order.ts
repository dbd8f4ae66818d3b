import { formatDollars } from '../trading/market/money.js';
import type { Snapshot } from '../trading/snapshot/snapshot.js';

/** A body for `POST /trade`. */
export interface ExampleOrder {
  ticker: string;
  side: 'yes';
  action: 'buy';
  contracts: number;
  limitPrice: string;
}

/** A small purchase near the middle of the first ladder that can be traded, a little above its ask: it will be filled. */
export function findExampleOrder(snapshot: Snapshot | undefined): ExampleOrder | undefined {
  const asked = snapshot?.data.markets.flatMap(({ ticker, status, yesAsk }) =>
    status === 'active' && yesAsk !== null && yesAsk >= 100_000n && yesAsk <= 800_000n
      ? [{ ticker, yesAsk }]
      : [],
  );
  const found = asked?.[0];
  if (!found) return undefined;
  const limitPrice = formatDollars(found.yesAsk + 50_000n);
  return { ticker: found.ticker, side: 'yes', action: 'buy', contracts: 5, limitPrice };
}
