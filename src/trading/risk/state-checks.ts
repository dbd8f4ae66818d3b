import { MAX_TRADING_AGE_MS } from '../snapshot/snapshot.js';
import type { Deal } from './deal.js';
import { switchOwners, type SwitchOwner } from './facts.js';
import { count, refuse, seconds, type Refusal } from './refusal.js';
import { switchStates } from '../ledger/risk-table.js';

/**
 * How far this clock and the venue's may be apart. Measured without the way of the message, so anything above is a clock
 * that is wrong: ages, the day's begin and signatures would be as well. A machine that keeps its time is within milliseconds.
 */
export const MAX_CLOCK_SKEW_MS = 2_000;

const ownerNames: Record<SwitchOwner, string> = {
  service: "the service's switch",
  operator: "the operator's switch for the Organization",
  own: "the Organization's own switch",
};

/** The kill switch: `halt` lets nothing pass, `reduce_only` what gives up contracts that are held. */
export function checkSwitches({
  input: { order },
  facts: { switches },
  isReducing,
  closable,
}: Deal): Refusal | undefined {
  for (const owner of switchOwners)
    if (!switchStates.includes(switches[owner].state)) throw new RangeError(`${owner} switch is not known`);
  const halting = switchOwners.find((owner) => switches[owner].state === 'halt');
  if (halting)
    return refuse(
      'halt',
      `${ownerNames[halting]} is at halt${because(switches[halting].reason)}. No order passes.`,
    );
  const reducing = switchOwners.find((owner) => switches[owner].state === 'reduce_only');
  if (!reducing || isReducing) return undefined;
  const asked = `${order.action} ${count(order.contracts, `${order.side} contract`)} of ${order.ticker}`;
  return refuse(
    'reduce_only',
    `${ownerNames[reducing]} is at reduce_only${because(switches[reducing].reason)}. This order would ${asked}, of which ${closable} can close what is held.`,
  );
}

/** Are the data that the order is judged on current, from a clock like ours and to be trusted, and does trading go on? */
export function checkData({ input: { snapshot, at } }: Deal): Refusal | undefined {
  const ageMs = at.getTime() - snapshot.asOf.getTime();
  if (Number.isNaN(ageMs)) throw new RangeError('the age of the data is not known');
  if (ageMs < -MAX_CLOCK_SKEW_MS)
    return refuse('clock_skew', `the market data are from ${seconds(-ageMs)} in the future.`);
  if (!(ageMs <= MAX_TRADING_AGE_MS))
    return refuse(
      'data_age',
      `the market data are ${seconds(ageMs)} old, the limit is ${seconds(MAX_TRADING_AGE_MS)}.`,
    );
  const { isTrading, clockSkewMs } = snapshot.data;
  if (clockSkewMs !== undefined && !Number.isFinite(clockSkewMs))
    throw new RangeError('the difference of the clocks is not known');
  if (clockSkewMs !== undefined && Math.abs(clockSkewMs) > MAX_CLOCK_SKEW_MS)
    return refuse(
      'clock_skew',
      `the venue's clock and ours are ${seconds(Math.abs(clockSkewMs))} apart, the limit is ${seconds(MAX_CLOCK_SKEW_MS)}.`,
    );
  const source = snapshot.sources.find(({ part }) => part === 'markets');
  // A source that fails is judged by the age of what it said last; one that said something unexpected is not believed.
  if (source?.state !== 'ok' && source?.state !== 'failing')
    return refuse(
      'data_source',
      `the market data cannot be trusted at the moment: the source is ${source?.state ?? 'not known'}.`,
    );
  if (!isTrading) return refuse('exchange_paused', 'the exchange has paused trading.');
  return undefined;
}

const because = (reason: string | null): string => (reason === null ? '' : ` (${reason})`);
