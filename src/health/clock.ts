import type { Logger } from 'pino';
import type { Metrics } from '../core/metrics.js';
import { MINUTE_MS, SECOND_MS } from '../core/time.js';

/** Machines that keep their time are within milliseconds of each other. */
const NOTED_MS = 5 * SECOND_MS;
/** Entitlements, keys and sessions begin and end by the clock of the instance: beyond this it refuses what it should let pass. */
const MAX_MS = MINUTE_MS;

/** When the database looked at its clock, and when it was asked and had answered by the clock of this instance. */
interface ClockReading {
  databaseMs: number;
  askedMs: number;
  answeredMs: number;
}

interface ClockState {
  /** So far that the instance should get no traffic. */
  isOff: boolean;
  reason?: string;
}

/** Compares the clock of this machine with the database's. That they begin or cease to differ is logged once. */
export function createClockWatch({
  log,
  metrics,
}: {
  log: Logger;
  metrics: Pick<Metrics, 'clockDifferenceSeconds'>;
}): (reading: ClockReading) => ClockState {
  let differed = false;
  return (reading) => {
    const differenceMs = leastDifferenceMs(reading);
    metrics.clockDifferenceSeconds.set(differenceMs / SECOND_MS);
    const size = Math.abs(differenceMs);
    const differs = size > NOTED_MS;
    const side = differenceMs > 0 ? 'behind' : 'ahead of';
    const reason = `the clock of this instance is ${Math.round(size / SECOND_MS)} s ${side} the database's`;
    if (differs && !differed) log.warn({ reason }, 'the clocks of this instance and of the database differ');
    if (!differs && differed) log.info('the clocks of this instance and of the database agree again');
    differed = differs;
    return differs ? { isOff: size > MAX_MS, reason } : { isOff: false };
  };
}

/** Positive: this instance is behind. The database looked at its clock at some time between the question and the answer. */
function leastDifferenceMs({ databaseMs, askedMs, answeredMs }: ClockReading): number {
  if (databaseMs > answeredMs) return databaseMs - answeredMs;
  return Math.min(0, databaseMs - askedMs);
}
