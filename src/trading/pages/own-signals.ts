import type { Micros } from '../market/money.js';
import type { Holding } from '../ledger/positions.js';
import type { SignalReport } from '../signals/signal.js';
import { makeSignalsInSteps } from '../signals/signals.js';
import type { Snapshot } from '../snapshot/snapshot.js';
import { inSlices } from '../market/steps.js';

/** Accounts whose signals are kept for each snapshot: a page that asks again every few seconds must not size them anew. */
const MAX_KEPT = 64;
const kept = new WeakMap<SignalReport, Map<string, Promise<SignalReport>>>();

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
  // Made anew with each refresh, and not with each change of a book between two.
  const ofSnapshot = kept.get(signals) ?? new Map<string, Promise<SignalReport>>();
  kept.set(signals, ofSnapshot);
  const key = JSON.stringify([
    String(cash),
    [...holdings].map(([ticker, { side, contracts, cost }]) => [ticker, side, contracts, String(cost)]),
  ]);
  const found = ofSnapshot.get(key);
  if (found) return found;
  const making = inSlices(
    makeSignalsInSteps({ data, events, forecasts, gates, account: { cash, holdings }, at: now }),
  );
  if (ofSnapshot.size >= MAX_KEPT) ofSnapshot.delete(ofSnapshot.keys().next().value!);
  ofSnapshot.set(key, making);
  making.catch(() => ofSnapshot.delete(key));
  return making;
}
