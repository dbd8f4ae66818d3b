import { formatCount } from '../../core/pages/format.js';
import { endsOf, type MarketEvent } from '../market/event.js';
import { CENT, floorTo } from '../market/money.js';
import { bracketLabel } from '../market/brackets.js';
import { worstCaseLoss } from '../risk/exposure.js';
import type { EventSignals, Signal, SignalReport } from '../signals/signal.js';
import { LEAST_SHOWN } from '../signals/signals.js';
import { scoresAddress, ticketAddress } from './addresses.js';

export function toSignalsView(report: SignalReport, event: MarketEvent, now: Date) {
  const found = report.events.find(({ eventTicker }) => eventTicker === event.eventTicker);
  const labels = new Map(event.markets.map(({ ticker, bracket }) => [ticker, bracketLabel(bracket)]));
  const titleOf = ({ side, ticker }: { side: string; ticker: string }) =>
    `${side.toUpperCase()} ${labels.get(ticker) ?? ticker}`;
  const others = found?.suppressed ?? [];
  const slight = (found?.signals ?? []).filter((signal) => !hasShownEdge(signal));
  const signals = signalsOf(report, event, now).map(toSignalView);
  const legs = signals.map((one) => ({ ...one, ticker: one.market.ticker, cost: one.stake }));
  const withheld = others.filter(({ isWithheld }) => isWithheld);
  return {
    kellyShare: report.kellyShare,
    caps: { market: report.marketCap, event: report.eventCap, day: report.dayCap },
    gate: found && { ...found.gate, href: scoresAddress(event.kind, found.stationId) },
    signals,
    /** Null with signals, and with withheld ones, which have their own reason. */
    none: found && signals.length === 0 && withheld.length === 0 ? whyNone(found).text : null,
    stake: legs.reduce((sum, { cost }) => sum + cost, 0n),
    worstCase: worstCaseLoss(endsOf(event.eventTicker, event, []), legs, []),
    withheld: withheld[0]
      ? { titles: withheld.map(titleOf), reason: reasonBeside(found!.gate, withheld[0].reason) }
      : null,
    suppressed: [
      ...others.filter(({ isWithheld }) => !isWithheld),
      ...slight.map((one) => ({ ...one, ticker: one.market.ticker, reason: 'its edge is near 0 points' })),
    ].map((one) => ({ title: titleOf(one), reason: one.reason })),
  };
}

/** The first reason why an event has no signal, and two words for it. */
export function whyNone({ gate, isCalibrated, suppressed }: EventSignals): { text: string; short: string } {
  const [first] = suppressed;
  if (first && suppressed.every(({ reason }) => reason === first.reason))
    return { text: sentence(first.reason), short: 'Not tradable' };
  if (!gate.isOpen) return { text: gate.reason, short: gate.leadHours === 0 ? 'Not scored' : 'Gate closed' };
  if (!isCalibrated) return { text: 'The forecast is not calibrated.', short: 'Not calibrated' };
  return { text: 'At these prices and after fees, no purchase is worth its cost.', short: 'Too dear' };
}

/** Null if it would only repeat the gate's own reason. */
function reasonBeside(gate: { reason: string }, clause: string): string | null {
  const reason = sentence(clause);
  return reason.toLowerCase().endsWith(gate.reason.toLowerCase()) ? null : reason;
}

/** By descending edge, for every view of the event. */
export const signalsOf = (
  { events }: SignalReport,
  { eventTicker }: Pick<MarketEvent, 'eventTicker'>,
  now: Date,
): Signal[] =>
  currentSignals(
    events.find((event) => event.eventTicker === eventTicker),
    now,
  );

export const currentSignals = (found: EventSignals | undefined, now: Date): Signal[] =>
  (found?.signals ?? [])
    .filter((signal) => signal.market.closeTime > now && hasShownEdge(signal))
    .toSorted((a, b) => b.edge - a.edge);

/** Or is a hedge, which is shown without its edge. */
const hasShownEdge = ({ edge, isHedge }: Signal): boolean => isHedge || edge >= LEAST_SHOWN;

export const signalsOff = (gates: number): string =>
  gates === 0
    ? 'Signals are off: no gate has been evaluated yet.'
    : `Signals are off: none of ${formatCount(gates, 'gate')} is open.`;

/** `Nothing has been learned yet.` */
export const sentence = (clause: string): string => `${clause[0]!.toUpperCase()}${clause.slice(1)}.`;

export function toSignalView(signal: Signal) {
  const { market, side, contracts, limitPrice, rest } = signal;
  const order = { side, action: 'buy', contracts, size: 'suggested' } as const;
  const terms = { timeInForce: 'good_till_cancelled', postOnly: 'yes' } as const;
  return {
    ...signal,
    title: `Buy ${side.toUpperCase()} ${bracketLabel(market.bracket)}`,
    href: ticketAddress(market.ticker, { ...order, limitPrice }),
    restHref: rest && ticketAddress(market.ticker, { ...order, ...terms, limitPrice: rest.price }),
    // Expected values are never booked, so whole cents are precise enough.
    expectedValue: floorTo(signal.expectedValue, CENT),
  };
}
