import type { Micros } from '../money.js';
import type { Holding } from '../portfolio/positions.js';
import type { SignalReport } from '../signals/signal.js';
import { makeSignalsInSteps } from '../signals/signals.js';
import type { Snapshot } from '../snapshot.js';
import { inSlices } from '../steps.js';

/**
 * The signals for a paper account as it stands: what it holds counts for its caps and for what a further purchase is worth.
 * An account that was never opened begins with what the snapshot's own signals are sized for.
 * @param cash undefined for an account that was never opened
 */
export async function signalsFor(
  { signals, data, events, forecasts, gates }: Snapshot,
  { cash, holdings }: { cash: Micros | undefined; holdings: ReadonlyMap<string, Holding> },
  now: Date,
): Promise<SignalReport> {
  if (cash === undefined || (holdings.size === 0 && cash === signals.bankroll)) return signals;
  return inSlices(
    makeSignalsInSteps({ data, events, forecasts, gates, account: { cash, holdings }, at: now }),
  );
}
