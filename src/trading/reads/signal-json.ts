import { formatDollars } from '../market/money.js';
import type { Gate } from '../signals/gate.js';
import { findPlace } from '../market/stations.js';
import type { EventSignals, Signal, SignalReport } from '../signals/signal.js';

/**
 * The report as `/signals` shows it.
 * @param marketJson the JSON of a market by its ticker
 * @returns the beginning of a JSON object, up to its last field
 */
export function writeSignals(report: SignalReport, marketJson: (ticker: string) => string): string {
  const { bankroll, events, ...rules } = report;
  const signals = events.flatMap((event) => event.signals.map((signal) => writeSignal(signal, marketJson)));
  const head = JSON.stringify({ bankroll: formatDollars(bankroll), ...rules });
  return `${head.slice(0, -1)},"signals":[${signals.join(',')}],"events":${JSON.stringify(events.map(toEventJson))}`;
}

function writeSignal(signal: Signal, marketJson: (ticker: string) => string): string {
  const { market } = signal;
  const rest = JSON.stringify({
    side: signal.side,
    price: formatDollars(signal.price),
    depth: signal.depth,
    probability: signal.probability,
    breakEven: signal.breakEven,
    edge: signal.edge,
    fullKelly: signal.fullKelly,
    fractionalKelly: signal.fractionalKelly,
    contracts: signal.contracts,
    limitPrice: formatDollars(signal.limitPrice),
    averagePrice: formatDollars(signal.averagePrice),
    fee: formatDollars(signal.fee),
    stake: formatDollars(signal.stake),
    expectedValue: formatDollars(signal.expectedValue),
    worstCase: formatDollars(signal.worstCase),
    isHedge: signal.isHedge,
    limitedBy: signal.limitedBy,
    reasons: signal.reasons,
    expiresAt: signal.expiresAt.toISOString(),
  });
  return `{"market":${marketJson(market.ticker)},${rest.slice(1)}`;
}

const toEventJson = (event: EventSignals) => ({
  eventTicker: event.eventTicker,
  kind: event.kind,
  station: event.stationId,
  city: findPlace(event.stationId)?.city ?? null,
  date: event.date,
  hour: event.hour ?? null,
  method: event.method,
  isCalibrated: event.isCalibrated,
  gate: toGateJson(event.gate),
  signals: event.signals.length,
  stake: formatDollars(event.stake),
  worstCase: formatDollars(event.worstCase),
  growth: event.growth,
  gap: event.gap,
  suppressed: event.suppressed.map(({ ticker, side, reason, isWithheld }) => ({
    ticker,
    side,
    reason,
    isWithheld,
  })),
});

const toGateJson = ({ isOpen, leadHours, n, difference, reason }: Gate) => ({
  state: isOpen ? 'open' : 'shut',
  leadHours,
  n,
  difference: difference?.mean ?? null,
  interval: difference && { low: difference.low, high: difference.high },
  reason,
});
