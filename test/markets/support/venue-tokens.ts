import { basicLimits, createVenueBudget, type VenueBudget } from '../../../src/markets/venue/venue-budget.js';

/** A budget with more tokens than any test uses. */
export const plentyOfTokens = (): VenueBudget => {
  const bucket = { refillPerSecond: 1_000_000, capacity: 1_000_000 };
  return createVenueBudget({ ...basicLimits, read: bucket, write: bucket });
};
