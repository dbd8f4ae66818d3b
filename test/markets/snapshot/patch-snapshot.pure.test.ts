import { expect, it } from 'vitest';
import type { EventSignals, SignalReport } from '../../../src/markets/signals/signal.js';
import { withholdDoubtful } from '../../../src/markets/signals/event-case.js';

const signal = (ticker: string) => ({ market: { ticker }, side: 'yes' }) as EventSignals['signals'][number];
const event = (eventTicker: string, tickers: string[]) =>
  ({
    eventTicker,
    signals: tickers.map(signal),
    suppressed: [{ ticker: 'X', side: 'no', reason: 'there are no asks', isWithheld: false }],
    stake: 5n,
    worstCase: 3n,
    growth: 0.1,
    gap: 0.01,
  }) as unknown as EventSignals;
const report = { events: [event('A', ['A1', 'A2']), event('B', ['B1'])] } as unknown as SignalReport;

it('signals of an event are withheld together while one of their books is in doubt', () => {
  const { events } = withholdDoubtful(report, new Map([['A1', new Date(0)]]));
  expect(events[0]).toMatchObject({ signals: [], stake: 0n, worstCase: 0n, growth: 0, gap: 0 });
  expect(events[0]!.suppressed.slice(1)).toEqual([
    { ticker: 'A1', side: 'yes', reason: 'its order book is in doubt', isWithheld: true },
    {
      ticker: 'A2',
      side: 'yes',
      reason: 'it was sized together with a market whose order book is in doubt',
      isWithheld: true,
    },
  ]);
  expect(events[1]).toBe(report.events[1]);
});

it('a doubt about a market without a signal, or the end of all doubts, changes nothing', () => {
  expect(withholdDoubtful(report, new Map([['C1', new Date(0)]]))).toBe(report);
  expect(withholdDoubtful(report, undefined)).toBe(report);
});
