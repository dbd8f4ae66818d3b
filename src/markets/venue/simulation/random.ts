import { hash } from 'node:crypto';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { normalQuantile } from '../../../core/statistics/distributions.js';

const SLICE_MS = 10;

/**
 * Returns a function to await between steps of long work, so that other work can run every 10 ms.
 * @param share of time that the work may use, above 0; 1 yields but never sleeps
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

/** Other work can run between the items. */
export async function gather<T, R>(
  items: Iterable<T>,
  make: (item: T) => readonly R[],
  signal?: AbortSignal,
): Promise<R[]> {
  const pace = createPace();
  const found: R[] = [];
  for (const item of items) {
    signal?.throwIfAborted();
    found.push(...make(item));
    await pace();
  }
  return found;
}

/** Returns a uniform number in (0, 1) that depends only on the name, so a simulation needs only seed and clock. */
export function uniform(...name: (string | number)[]): number {
  const bits = Number.parseInt(hash('sha256', name.join('|'), 'hex').slice(0, 12), 16);
  return (bits + 0.5) / 2 ** 48;
}

export const gaussian = (...name: (string | number)[]): number => normalQuantile(uniform(...name));

/**
 * Returns a deterministic stream of uniform numbers in (0, 1) for a name. Meant for callers that need many numbers,
 * because a hash for each would dominate the cost. The generator is sfc32 from C. Doty-Humphrey's PractRand.
 */
export function uniformsOf(...name: (string | number)[]): () => number {
  const bits = Buffer.from(hash('sha256', name.join('|'), 'hex').slice(0, 24), 'hex');
  let [a, b, c, counter] = [bits.readInt32BE(0), bits.readInt32BE(4), bits.readInt32BE(8), 1];
  const next = (): number => {
    const sum = (((a + b) | 0) + counter) | 0;
    counter = (counter + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = (((c << 21) | (c >>> 11)) + sum) | 0;
    return ((sum >>> 0) + 0.5) / 2 ** 32;
  };
  // Warm-up rounds, which mix the bits of the seed.
  for (let i = 0; i < 12; i++) next();
  return next;
}

/** Box-Muller transform to a standard normal number: G. E. P. Box, M. E. Muller, Ann. Math. Statist. 29 (1958). */
export const nextGaussian = (next: () => number): number =>
  Math.sqrt(-2 * Math.log(next())) * Math.cos(2 * Math.PI * next());

/** Returns smooth noise in `t`: Gaussian at whole numbers, blended in between. */
export const smoothNoise = (t: number, ...name: (string | number)[]): number =>
  blend(t, (knot) => gaussian(...name, knot));

export function blend(t: number, gaussianAt: (knot: number) => number): number {
  const knot = Math.floor(t);
  const share = t - knot;
  // Weights whose squares sum to one keep the variance constant.
  const angle = (share * Math.PI) / 2;
  return Math.cos(angle) * gaussianAt(knot) + Math.sin(angle) * gaussianAt(knot + 1);
}
