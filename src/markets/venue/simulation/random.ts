import { hash } from 'node:crypto';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { normalQuantile } from '../../../core/statistics/distributions.js';

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

/**
 * A number above 0 and below 1 that belongs to a name: the same name gives the same number in every process, whatever
 * was asked before. So a simulation needs no state, only its seed and the clock.
 */
export function uniform(...name: (string | number)[]): number {
  const bits = Number.parseInt(hash('sha256', name.join('|'), 'hex').slice(0, 12), 16);
  return (bits + 0.5) / 2 ** 48;
}

/** The same, normally distributed around 0 with standard deviation 1. */
export const gaussian = (...name: (string | number)[]): number => normalQuantile(uniform(...name));

/**
 * Any number of numbers above 0 and below 1 that belong to a name, one with each call: for what needs many of them, because
 * a hash takes longer than all the rest. The generator is sfc32 of C. Doty-Humphrey's PractRand.
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
  // Until every bit of the name has met every other.
  for (let i = 0; i < 12; i++) next();
  return next;
}

/** A standard normal number of two uniform ones: G. E. P. Box, M. E. Muller, Ann. Math. Statist. 29 (1958). */
export const nextGaussian = (next: () => number): number =>
  Math.sqrt(-2 * Math.log(next())) * Math.cos(2 * Math.PI * next());

/** Noise that changes smoothly with `t`: gaussian at the whole numbers, blended in between. */
export const smoothNoise = (t: number, ...name: (string | number)[]): number =>
  blend(t, (knot) => gaussian(...name, knot));

/** The same of knots that are known otherwise. */
export function blend(t: number, gaussianAt: (knot: number) => number): number {
  const knot = Math.floor(t);
  const share = t - knot;
  // Weights whose squares sum to one keep the spread the same everywhere.
  const angle = (share * Math.PI) / 2;
  return Math.cos(angle) * gaussianAt(knot) + Math.sin(angle) * gaussianAt(knot + 1);
}
