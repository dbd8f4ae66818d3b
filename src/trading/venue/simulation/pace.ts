import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';

/** Nothing else waits longer than about this. */
const SLICE_MS = 10;

/**
 * For long work: to be awaited between its steps, so that other work gets its turn after each 10 ms.
 * @param share of the time that the work may take, above 0; 1: all that nothing else asks for
 */
export function createPace(share = 1): () => Promise<void> {
  let startedAt = performance.now();
  return async () => {
    const workedMs = performance.now() - startedAt;
    if (workedMs < SLICE_MS) return;
    await (share === 1 ? nextTurn() : sleep(Math.min(250, workedMs * (1 / share - 1))));
    startedAt = performance.now();
  };
}
