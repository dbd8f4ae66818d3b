import { expect, it } from 'vitest';
import { toOpportunities } from '../../../src/markets/pages/desk-view.js';
import type { OwnAccount } from '../../../src/markets/pages/market-view.js';
import type { SignalReport } from '../../../src/markets/signals/signal.js';
import type { Snapshot } from '../../../src/markets/snapshot/snapshot.js';

it.each([
  [false, 'No signals: at these prices and after fees, no purchase is worth its cost.'],
  [true, 'No signals: every purchase that is worth its cost at these prices is withheld.'],
])('a desk without signals does not contradict what is withheld (%s)', (isWithheld, words) => {
  const now = new Date('2026-07-15T16:00:00Z');
  const snapshot = {
    asOf: now,
    events: [{ eventTicker: 'E', kind: 'daily_minimum', markets: [] }],
    forecasts: new Map([['E', {}]]),
    gates: { gates: [{ isOpen: true }] },
  } as unknown as Snapshot;
  const side = { ticker: 'E-T1', side: 'yes', reason: '', isWithheld };
  const signals = {
    events: [{ eventTicker: 'E', signals: [], suppressed: [side] }],
  } as unknown as SignalReport;
  const own = { signals, holdings: new Map() } as unknown as OwnAccount;
  const list = toOpportunities({ snapshot, own, chosen: undefined, now }, { kind: 'daily_maximum', q: '' });
  expect(list.none).toBe(words);
  expect(list.withheld).toBe(
    isWithheld ? '1 purchase in 1 event is withheld until the evidence for their forecasts suffices.' : null,
  );
});
