import { expect, it } from 'vitest';
import { isStale } from '../../../src/markets/pages/freshness.js';

it('prices are stale once two refreshes are missing', () => {
  expect([20_000, 20_001].map((ageMs) => isStale(ageMs, 10))).toEqual([false, true]);
});
