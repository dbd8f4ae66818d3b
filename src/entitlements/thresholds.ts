import { z } from 'zod';

const MAX_THRESHOLDS = 10;

/** Shares of a cap or limit, in percent, of which webhooks tell where an entitlement declares none. */
export const defaultThresholds: readonly number[] = [50, 80, 100];

const thresholdMessage = 'must be a whole number from 1 to 1000';

export const thresholdsSchema = z
  .array(
    z.number(thresholdMessage).int(thresholdMessage).min(1, thresholdMessage).max(1_000, thresholdMessage),
  )
  .max(MAX_THRESHOLDS, `must hold at most ${MAX_THRESHOLDS} thresholds`)
  .refine((thresholds) => new Set(thresholds).size === thresholds.length, 'must not name a threshold twice');

export const thresholdsField = z
  .array(z.number().int())
  .describe('Shares of the cap and of each limit, in percent, of which webhooks tell.');

/** As they are stored: in their order, and null where they are the default. */
export function toStoredThresholds(declared: readonly number[] | undefined): number[] | null {
  const sorted = declared?.toSorted((a, b) => a - b);
  return sorted === undefined || sorted.join() === defaultThresholds.join() ? null : sorted;
}
