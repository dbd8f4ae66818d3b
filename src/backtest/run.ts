import type { Micros } from '../trading/market/money.js';
import { makeSignals } from '../trading/signals/signals.js';
import { createBroker, type Purchase } from './broker.js';
import type { Moment } from './moment.js';

export interface Trail {
  start: Micros;
  /** At each moment, positions at what they could be sold for. */
  equity: readonly { at: Date; amount: Micros }[];
  /** Cash in the end, and what is still held at what it could be sold for. */
  end: Micros;
  purchases: readonly Purchase[];
  /** Climate dates of which something was decided, in order. */
  dates: readonly string[];
  /** Events that were looked at, as often as they were; signals that were followed or withheld. */
  decisions: number;
  signals: number;
  withheld: number;
  /** Why sides of markets were not bought, and how often; numbers in a reason are left out. */
  reasons: ReadonlyMap<string, number>;
}

export interface RunOptions {
  cash: Micros;
  /** Changes what a moment's forecasts are; left out: they are what they were. */
  change?: (moment: Moment) => Moment;
  onMoment?: () => void;
}

/**
 * Goes through the moments as the service would have: settles what the venue is done with, makes signals for the account
 * as it stands, and buys what they say at the books of that moment.
 */
export async function runBacktest(
  moments: AsyncIterable<Moment> | Iterable<Moment>,
  { cash, change = (moment) => moment, onMoment }: RunOptions,
): Promise<Trail> {
  const broker = createBroker(cash);
  const equity: { at: Date; amount: Micros }[] = [];
  const counts = { decisions: 0, signals: 0, withheld: 0, reasons: new Map<string, number>() };
  const dates = new Set<string>();
  let end = cash;
  for await (const moment of moments) {
    broker.settle(moment.data.markets);
    if (moment.due.length > 0) {
      counts.decisions += moment.due.length;
      for (const { date } of moment.due) dates.add(date);
      follow(change(moment), broker, counts);
    }
    end = broker.equity(moment.data);
    equity.push({ at: moment.at, amount: end });
    onMoment?.();
  }
  return { start: cash, equity, end, purchases: broker.purchases, dates: [...dates].sort(), ...counts };
}

function follow(
  { at, data, events, due, forecasts, gates }: Moment,
  broker: ReturnType<typeof createBroker>,
  counts: Pick<Trail, 'signals' | 'withheld'> & { reasons: Map<string, number> },
): void {
  const account = { cash: broker.cash, holdings: broker.holdings };
  const isDue = new Set(due.map(({ eventTicker }) => eventTicker));
  // What is held of the others uses up the day's cap, too; without a forecast nothing more of them is sized.
  const report = makeSignals({
    data: broker.see(data),
    events,
    forecasts: onlyOf(forecasts, isDue),
    gates,
    at,
    account,
  });
  for (const { eventTicker, signals, suppressed } of report.events) {
    if (!isDue.has(eventTicker)) continue;
    counts.signals += signals.length;
    counts.withheld += suppressed.filter(({ isWithheld }) => isWithheld).length;
    for (const { reason } of suppressed) {
      const kind = reason.replace(/[+−-]?\d[\d.,:TZ-]*/g, 'N');
      counts.reasons.set(kind, (counts.reasons.get(kind) ?? 0) + 1);
    }
    for (const signal of signals) broker.buy(signal, data, at);
  }
}

const onlyOf = (forecasts: Moment['forecasts'], events: ReadonlySet<string>): Moment['forecasts'] =>
  new Map(
    [...forecasts].map(([stationId, forecast]) => [
      stationId,
      { ...forecast, days: forecast.days.filter(({ eventTicker }) => events.has(eventTicker ?? '')) },
    ]),
  );
