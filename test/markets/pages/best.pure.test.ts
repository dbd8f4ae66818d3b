import { expect, it } from 'vitest';
import { toBest } from '../../../src/markets/pages/overview-view.js';
import type { SignalReport } from '../../../src/markets/signals/signal.js';
import type { Snapshot } from '../../../src/markets/snapshot/snapshot.js';

it.each([
  [false, 'No signals: at these prices and after fees, no purchase is worth its cost.'],
  [true, 'No signals: every purchase that is worth its cost at these prices is withheld.'],
])('an overview without signals does not contradict what is withheld (%s)', (isWithheld, words) => {
  const now = new Date('2026-07-15T16:00:00Z');
  const snapshot = {
    asOf: now,
    events: [{ eventTicker: 'E', markets: [] }],
    forecasts: new Map([['E', {}]]),
    gates: { gates: [{ isOpen: true }] },
  } as unknown as Snapshot;
  const side = { ticker: 'E-T1', side: 'yes', reason: '', isWithheld };
  const report = {
    events: [{ eventTicker: 'E', signals: [], suppressed: [side] }],
  } as unknown as SignalReport;
  const best = toBest(snapshot, report, now);
  expect(best.none).toBe(words);
  expect(best.withheld?.text).toBe(isWithheld ? '1 purchase in 1 event' : undefined);
});
