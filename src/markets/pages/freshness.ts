import type { Page } from '../../core/pages/layout.js';
import { ageOf, type Snapshot, type SourceState } from '../snapshot/snapshot.js';
import { formatAge } from '../../core/pages/format.js';
import { MAX_TRADING_AGE_MS } from '../market/source.js';

export const MARKETS_SECTION = 'markets';
export const loadingPage: Page = { view: 'markets/loading', title: 'Markets', section: MARKETS_SECTION };

export type Freshness = ReturnType<typeof toFreshness>;

export interface FreshnessInput {
  sources: readonly SourceState[];
  refreshSeconds: number;
  now: Date;
}

/** Two refreshes brought no new prices, or no order is accepted at them. */
export const isStale = (ageMs: number, refreshSeconds: number): boolean =>
  ageMs > Math.min(2_000 * refreshSeconds, MAX_TRADING_AGE_MS);

export function toFreshness(snapshot: Snapshot, { sources, refreshSeconds, now }: FreshnessInput) {
  const ageMs = ageOf(snapshot, now.getTime());
  const isUnexpected = sources.some(({ part, state }) => part === 'markets' && state === 'unexpected');
  const closedBecause = isUnexpected
    ? 'The venue’s data cannot be trusted at the moment. Trading resumes once it can be trusted again.'
    : ageMs > MAX_TRADING_AGE_MS
      ? `The prices are ${formatAge(ageMs)} old, too old to trade on. Trading resumes with the next prices.`
      : !snapshot.data.isTrading
        ? 'The exchange has paused trading. Orders are accepted again when it resumes.'
        : null;
  return {
    /** `closed` refuses orders. */
    state: closedBecause !== null ? 'closed' : isStale(ageMs, refreshSeconds) ? 'stale' : 'current',
    asOf: snapshot.asOf,
    isSimulated: snapshot.marketSource === 'simulated',
    ageText: formatAge(ageMs),
    notes: sources.flatMap(noteOf),
    /** Null if orders can be placed. */
    closedBecause,
  };
}

const partNames = { markets: 'Prices', forecasts: 'Forecasts' };

function noteOf({ part, name, state, failingSince }: SourceState): string[] {
  if (state === 'ok') return [];
  const since = failingSince ? ` since ${failingSince.toISOString().slice(11, 16)} UTC` : '';
  const said = {
    failing: `has not responded${since}. Its last data is shown.`,
    unexpected: `returns unexpected data${since}. Its last valid data is shown.`,
    waiting: 'has not responded yet.',
  };
  return [`${partNames[part]}: the source “${name}” ${said[state]}`];
}
