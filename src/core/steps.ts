import { setImmediate as nextTurn } from 'node:timers/promises';

/** Failures are not cached. */
export function once<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined;
  return () => {
    made ??= make().catch((error: unknown) => {
      made = undefined;
      throw error;
    });
    return made;
  };
}

/** A call during a run gets that run's result. */
export function shareRun<T>(work: () => Promise<T>) {
  let running: Promise<T> | undefined;
  return {
    run: () => (running ??= work().finally(() => (running = undefined))),
    get running(): Promise<T> | undefined {
      return running;
    },
  };
}

export function inChunks<T>(items: readonly T[], size: number): T[][] {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, i) =>
    items.slice(i * size, (i + 1) * size),
  );
}

/** The first failure cancels the others and rejects. */
export async function inParallel<T, R>(
  items: readonly T[],
  { width, signal }: { width: number; signal: AbortSignal },
  work: (item: T, signal: AbortSignal) => Promise<R>,
): Promise<R[]> {
  const failed = new AbortController();
  const either = AbortSignal.any([signal, failed.signal]);
  const results: R[] = [];
  let next = 0;
  async function run(): Promise<void> {
    while (next < items.length) {
      const at = next++;
      results[at] = await work(items[at]!, either);
    }
  }
  try {
    await Promise.all(Array.from({ length: Math.min(width, items.length) }, run));
    return results;
  } finally {
    failed.abort();
  }
}

/** Each step takes a few milliseconds at most. */
export type Steps<T> = Generator<undefined, T>;

const SLICE_MS = 5;

export function allAtOnce<T>(steps: Steps<T>): T {
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

/** @param mayStop stops the work if it returns true; the result is then undefined */
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
