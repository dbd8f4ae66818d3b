import type { MarketEvent } from '../markets/event.js';
import { CENT, floorTo } from '../money.js';
import { bracketLabel } from '../settlement/brackets.js';
import type { EventSignals, Signal, SignalReport } from '../signals/signal.js';
import { ticketAddress } from './addresses.js';
import { formatCents, formatChange, formatExactProbability, formatPoints } from './price-text.js';
import { formatMoney } from '../portfolio/view-text.js';

export interface SignalView {
  title: string;
  href: string;
  edge: string;
  probability: string;
  breakEven: string;
  contracts: number;
  averagePrice: string;
  limitPrice: string;
  fee: string;
  stake: string;
  expectedValue: string;
  fullKelly: string;
  usedKelly: string;
  reasons: readonly string[];
  expiresAt: Date;
}

export interface SignalsView {
  bankroll: string;
  kellyShare: string;
  signals: SignalView[];
  /** There were some, for prices that are too old now. */
  areExpired: boolean;
  suppressed: { title: string; reason: string }[];
}

/** What the forecast makes of an event's prices, the best first; and why of the rest nothing came. */
export function toSignalsView(report: SignalReport, event: MarketEvent, now: Date): SignalsView {
  const found = findSignals(report, event.eventTicker);
  const signals = currentSignals(found, now);
  const labels = new Map(event.markets.map(({ ticker, bracket }) => [ticker, bracketLabel(bracket)]));
  return {
    bankroll: formatMoney(report.bankroll),
    kellyShare: formatExactProbability(report.kellyShare).replace('.0', ''),
    signals: signals.map(toSignalView),
    areExpired: signals.length === 0 && (found?.signals ?? []).length > 0,
    suppressed: (found?.suppressed ?? []).map(({ ticker, side, reason }) => ({
      title: `${side.toUpperCase()} ${labels.get(ticker) ?? ticker}`,
      reason,
    })),
  };
}

/** The signal with the largest edge; undefined for none. */
export function bestSignal(report: SignalReport, eventTicker: string, now: Date): SignalView | undefined {
  const [best] = currentSignals(findSignals(report, eventTicker), now);
  return best && toSignalView(best);
}

const findSignals = ({ events }: SignalReport, eventTicker: string): EventSignals | undefined =>
  events.find((event) => event.eventTicker === eventTicker);

const currentSignals = (found: EventSignals | undefined, now: Date): Signal[] =>
  (found?.signals ?? []).filter(({ expiresAt }) => expiresAt > now).toSorted((a, b) => b.edge - a.edge);

const toSignalView = (signal: Signal): SignalView => ({
  title: `Buy ${signal.side.toUpperCase()} ${bracketLabel(signal.market.bracket)}`,
  href: ticketAddress(signal.market.ticker, {
    side: signal.side,
    action: 'buy',
    contracts: signal.contracts,
    limitPrice: signal.limitPrice,
  }),
  edge: formatPoints(signal.edge),
  probability: formatExactProbability(signal.probability),
  breakEven: formatExactProbability(signal.breakEven),
  contracts: signal.contracts,
  averagePrice: formatCents(signal.averagePrice),
  limitPrice: formatCents(signal.limitPrice),
  fee: formatMoney(signal.fee),
  stake: formatMoney(signal.stake),
  // An expectation is charged to nobody: cents say enough.
  expectedValue: formatChange(floorTo(signal.expectedValue, CENT)),
  fullKelly: formatExactProbability(signal.fullKelly),
  usedKelly: formatExactProbability(signal.fractionalKelly),
  reasons: signal.reasons,
  expiresAt: signal.expiresAt,
});
