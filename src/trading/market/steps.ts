import { setImmediate as nextTurn } from 'node:timers/promises';

/** Work that can be left between its steps, each of which takes a few milliseconds at the most. */
export type Steps<T> = Generator<undefined, T>;

/** How long the event loop is kept before others have their turn. */
const SLICE_MS = 5;

/** The work without pauses. */
export function allAtOnce<T>(steps: Steps<T>): T {
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

/**
 * The same with turns for everybody else in between.
 * @param mayStop undefined is returned once it is true
 */
export async function inSlices<T>(steps: Steps<T>): Promise<T>;
export async function inSlices<T>(steps: Steps<T>, mayStop: () => boolean): Promise<T | undefined>;
export async function inSlices<T>(steps: Steps<T>, mayStop?: () => boolean): Promise<T | undefined> {
  for (let begunMs = performance.now(); ;) {
    if (mayStop?.()) return undefined;
    const { done, value } = steps.next();
    if (done) return value;
    if (performance.now() - begunMs < SLICE_MS) continue;
    await nextTurn();
    begunMs = performance.now();
  }
}
