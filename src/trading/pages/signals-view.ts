import type { MarketEvent } from '../market/event.js';
import { CENT, floorTo } from '../market/money.js';
import { formatMoney } from './portfolio-view-text.js';
import { bracketLabel } from '../market/brackets.js';
import type { EventSignals, Signal, SignalReport } from '../signals/signal.js';
import { scoresAddress, ticketAddress } from './addresses.js';
import { formatCents, formatChange, formatExactProbability, formatPoints } from './price-text.js';

export interface SignalView {
  title: string;
  href: string;
  isHedge: boolean;
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
  caps: { market: string; event: string; day: string };
  /** Whether signals come through; null where the event has none to say anything about. */
  gate: { isOpen: boolean; reason: string; href: string } | null;
  signals: SignalView[];
  /** What all of them cost, and what they can lose together. */
  stake: string;
  worstCase: string;
  /** What would be signals, with the one reason why they are not. */
  withheld: { titles: string[]; reason: string } | null;
  suppressed: { title: string; reason: string }[];
}

/** What the forecast makes of an event's prices, the best first; and why of the rest nothing came. */
export function toSignalsView(report: SignalReport, event: MarketEvent, now: Date): SignalsView {
  const found = findSignals(report, event.eventTicker);
  const labels = new Map(event.markets.map(({ ticker, bracket }) => [ticker, bracketLabel(bracket)]));
  const titleOf = ({ side, ticker }: { side: string; ticker: string }) =>
    `${side.toUpperCase()} ${labels.get(ticker) ?? ticker}`;
  const others = found?.suppressed ?? [];
  const withheld = others.filter(({ isWithheld }) => isWithheld);
  return {
    bankroll: formatMoney(report.bankroll),
    kellyShare: wholePercent(report.kellyShare),
    caps: {
      market: wholePercent(report.marketCap),
      event: wholePercent(report.eventCap),
      day: wholePercent(report.dayCap),
    },
    gate: found
      ? {
          isOpen: found.gate.isOpen,
          reason: found.gate.reason,
          href: scoresAddress(event.kind, found.stationId),
        }
      : null,
    signals: currentSignals(found, now).map(toSignalView),
    stake: formatMoney(found?.stake ?? 0n),
    worstCase: formatMoney(found?.worstCase ?? 0n),
    withheld: withheld[0] ? { titles: withheld.map(titleOf), reason: sentence(withheld[0].reason) } : null,
    suppressed: others
      .filter(({ isWithheld }) => !isWithheld)
      .map((side) => ({ title: titleOf(side), reason: side.reason })),
  };
}

/** The signals of all events that hold, the largest edge first; without hedges, which are worth their cost only beside others. */
export const bestSignals = ({ events }: SignalReport, now: Date): Signal[] =>
  events
    .flatMap((found) => currentSignals(found, now))
    .filter(({ isHedge }) => !isHedge)
    .sort((a, b) => b.edge - a.edge);

const findSignals = ({ events }: SignalReport, eventTicker: string): EventSignals | undefined =>
  events.find((event) => event.eventTicker === eventTicker);

/** Those of an event that hold, the largest edge first. */
export const currentSignals = (found: EventSignals | undefined, now: Date): Signal[] =>
  (found?.signals ?? []).filter(({ expiresAt }) => expiresAt > now).toSorted((a, b) => b.edge - a.edge);

const wholePercent = (share: number): string => `${Math.round(share * 100)}\u00a0%`;

/** `Nothing has been learned yet.` of what is a part of other sentences. */
export const sentence = (clause: string): string => `${clause[0]!.toUpperCase()}${clause.slice(1)}.`;

export const toSignalView = (signal: Signal): SignalView => ({
  title: `Buy ${signal.side.toUpperCase()} ${bracketLabel(signal.market.bracket)}`,
  href: ticketAddress(signal.market.ticker, {
    side: signal.side,
    action: 'buy',
    contracts: signal.contracts,
    limitPrice: signal.limitPrice,
  }),
  isHedge: signal.isHedge,
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
