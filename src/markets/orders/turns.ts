import { AppError } from '../../core/errors.js';
import type { Clock } from '../../core/time.js';

interface TurnsOptions {
  clock: Clock;
  parallel: number;
  /** Calls beyond this number are refused immediately. */
  maxWaiting: number;
  /** An order that has waited longer is refused, because prices may have moved. */
  maxWaitMs: number;
}

interface WaitingOrder {
  key: string;
  since: number;
  start: (isInTime: boolean) => void;
}

/** Callers waiting for one row lock would each hold a connection. The row locks themselves guarantee the exclusion. */
export function createTurns({ clock, parallel, maxWaiting, maxWaitMs }: TurnsOptions) {
  const waiting: WaitingOrder[] = [];
  const busy = new Set<string>();

  function startNext(): void {
    while (busy.size < parallel) {
      const i = waiting.findIndex(({ key }) => !busy.has(key));
      if (i < 0) return;
      const [{ key, since, start }] = waiting.splice(i, 1) as [WaitingOrder];
      const isInTime = clock.now() - since <= maxWaitMs;
      if (isInTime) busy.add(key);
      start(isInTime);
    }
  }

  return {
    /**
     * Runs calls with the same key one at a time, in order.
     * @throws AppError unavailable if too many calls are waiting or the call waits too long
     */
    async take<T>(key: string, work: () => Promise<T>): Promise<T> {
      if (waiting.length >= maxWaiting) throw tooBusy();
      const isInTime = await new Promise<boolean>((resolve) => {
        waiting.push({ key, since: clock.now(), start: resolve });
        startNext();
      });
      if (!isInTime) throw tooBusy();
      try {
        return await work();
      } finally {
        busy.delete(key);
        startNext();
      }
    },
  };
}

const tooBusy = (): AppError =>
  new AppError('unavailable', 'Too many orders are waiting. This one was not placed.', {
    retryAfterSeconds: 1,
  });
