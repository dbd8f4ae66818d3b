import type { Logger } from 'pino';
import type { Metrics } from '../core/metrics.js';
import { MINUTE_MS, SECOND_MS } from '../core/time.js';

/** Logged above it. Synchronized clocks differ only by milliseconds. */
const NOTED_MS = 5 * SECOND_MS;
/** Entitlements, keys and sessions depend on the instance's clock, so beyond this it would reject valid calls. */
const MAX_MS = MINUTE_MS;

/** The instance's time before and after the query. */
interface ClockReading {
  databaseMs: number;
  askedMs: number;
  answeredMs: number;
}

/** Logs when the clocks start to differ and when they agree again. */
export function createClockWatch({
  log,
  metrics,
}: {
  log: Logger;
  metrics: Pick<Metrics, 'clockDifferenceSeconds'>;
}) {
  let differed = false;
  /** If the clock is off, the instance should get no traffic. */
  return (reading: ClockReading) => {
    const differenceMs = minDifferenceMs(reading);
    metrics.clockDifferenceSeconds.set(differenceMs / SECOND_MS);
    const size = Math.abs(differenceMs);
    const differs = size > NOTED_MS;
    const side = differenceMs > 0 ? 'behind' : 'ahead of';
    const reason = `this instance's clock is ${Math.round(size / SECOND_MS)} s ${side} the database's`;
    if (differs && !differed) log.warn({ reason }, 'the clocks of this instance and the database differ');
    if (!differs && differed) log.info('the clocks of this instance and the database agree again');
    differed = differs;
    return differs ? { isOff: size > MAX_MS, reason } : { isOff: false };
  };
}

/** Consistent with the reading: the database's exact time is unknown. Positive if the instance is behind. */
function minDifferenceMs({ databaseMs, askedMs, answeredMs }: ClockReading): number {
  if (databaseMs > answeredMs) return databaseMs - answeredMs;
  return Math.min(0, databaseMs - askedMs);
}
