import { AppError } from '../../core/errors.js';
import type { Clock } from '../../core/clock.js';

export interface TurnsOptions {
  clock: Clock;
  /** How much may run at once. */
  parallel: number;
  /** How much may wait; more is refused at once. */
  maxWaiting: number;
  /** Who has waited longer is refused: nobody wants an order carried out that long after it was sent. */
  maxWaitMs: number;
}

export interface Turns {
  /**
   * Runs `work` when it is its turn: one after the other for the same key, in the order of the calls.
   * @throws AppError unavailable if too many wait
   */
  take<T>(key: string, work: () => Promise<T>): Promise<T>;
}

interface Waiting {
  key: string;
  since: number;
  start: (isInTime: boolean) => void;
}

/**
 * Lets work on the same thing queue up in memory, not in the database, where each that waits for a lock would keep a
 * connection from the others. Only spares connections: what must not happen at once is prevented by locks on rows.
 */
export function createTurns({ clock, parallel, maxWaiting, maxWaitMs }: TurnsOptions): Turns {
  const waiting: Waiting[] = [];
  const busy = new Set<string>();

  function startNext(): void {
    for (let i = 0; i < waiting.length && busy.size < parallel;) {
      const { key, since, start } = waiting[i]!;
      if (busy.has(key)) {
        i++;
        continue;
      }
      waiting.splice(i, 1);
      const isInTime = clock.now() - since <= maxWaitMs;
      if (isInTime) busy.add(key);
      start(isInTime);
    }
  }

  return {
    async take(key, work) {
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
  new AppError('unavailable', 'Too many orders wait to be carried out. This one was not.', {
    retryAfterSeconds: 1,
  });
