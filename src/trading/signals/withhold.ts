import type { EventSignals, SignalReport } from './signal.js';

/**
 * The report without signals that lean on a book in doubt. All purchases of an event were sized together: without one of
 * them the others are not what was reckoned, and are held back, too.
 */
export function withholdDoubtful(
  report: SignalReport,
  doubts: ReadonlyMap<string, Date> | undefined,
): SignalReport {
  if (!doubts || doubts.size === 0) return report;
  const isDoubtful = ({ signals }: EventSignals) => signals.some(({ market }) => doubts.has(market.ticker));
  if (!report.events.some(isDoubtful)) return report;
  return {
    ...report,
    events: report.events.map((event) => (isDoubtful(event) ? withhold(event, doubts) : event)),
  };
}

function withhold(event: EventSignals, doubts: ReadonlyMap<string, Date>): EventSignals {
  const held = event.signals.map(({ market: { ticker }, side }) => ({
    ticker,
    side,
    reason: doubts.has(ticker)
      ? 'its order book is in doubt'
      : 'it was sized together with a market whose order book is in doubt',
    isWithheld: true,
  }));
  return {
    ...event,
    signals: [],
    suppressed: [...event.suppressed, ...held],
    stake: 0n,
    worstCase: 0n,
    growth: 0,
    gap: 0,
  };
}
