import { formatDollars } from '../money.js';
import type { Signal, SignalReport } from '../signals/signal.js';
import { findStation } from '../settlement/stations.js';

/**
 * The report as `/signals` shows it.
 * @param marketJson the JSON of a market by its ticker
 * @returns the beginning of a JSON object, up to its last field
 */
export function writeSignals(report: SignalReport, marketJson: (ticker: string) => string): string {
  const { bankroll, events, ...rules } = report;
  const signals = events.flatMap((event) => event.signals.map((signal) => writeSignal(signal, marketJson)));
  const overview = events.map(({ eventTicker, stationId, date, signals: found, suppressed }) => ({
    eventTicker,
    station: stationId,
    city: findStation(stationId)?.city ?? null,
    date,
    signals: found.length,
    suppressed: suppressed.map(({ ticker, side, reason }) => ({ ticker, side, reason })),
  }));
  const head = JSON.stringify({ bankroll: formatDollars(bankroll), ...rules });
  return `${head.slice(0, -1)},"signals":[${signals.join(',')}],"events":${JSON.stringify(overview)}`;
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
    reasons: signal.reasons,
    expiresAt: signal.expiresAt.toISOString(),
  });
  return `{"market":${marketJson(market.ticker)},${rest.slice(1)}`;
}
