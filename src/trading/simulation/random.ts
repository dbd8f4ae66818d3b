import { hash } from 'node:crypto';
import { normalQuantile } from '../forecast/normal.js';

/**
 * A number above 0 and below 1 that belongs to a name: the same name gives the same number in every process, whatever
 * was asked before. So a simulation needs no state, only its seed and the clock.
 */
export function uniform(...name: (string | number)[]): number {
  const bits = Buffer.from(hash('sha256', name.join('|'), 'hex').slice(0, 12), 'hex').readUIntBE(0, 6);
  return (bits + 0.5) / 2 ** 48;
}

/** The same, normally distributed around 0 with standard deviation 1. */
export const gaussian = (...name: (string | number)[]): number => normalQuantile(uniform(...name));

/** Noise that changes smoothly with `t`: gaussian at the whole numbers, blended in between. */
export function smoothNoise(t: number, ...name: (string | number)[]): number {
  const knot = Math.floor(t);
  const share = t - knot;
  // Weights whose squares sum to one keep the spread the same everywhere.
  const angle = (share * Math.PI) / 2;
  return Math.cos(angle) * gaussian(...name, knot) + Math.sin(angle) * gaussian(...name, knot + 1);
}
