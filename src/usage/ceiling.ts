import { isDecimalAbove } from '../core/decimal.js';
import type { Batch } from './batch.js';
import type { BatchOutcome } from './flush.js';

const isOfCeiling = (verdict: BatchOutcome['verdicts'][number]) =>
  verdict?.problem === 'quantity_out_of_range';

/** True if a pair of the batch had an event above its ceiling, its own or, where the pair is shared, another batch's. */
export const hasCeilingProblem = ({ verdicts }: Pick<BatchOutcome, 'verdicts'>): boolean =>
  verdicts.some(isOfCeiling);

/** The batch's own events above their ceiling, with those found before. */
export function findAbove(batch: Batch, { verdicts }: BatchOutcome): Map<number, string> {
  const above = new Map(batch.aboveCeiling);
  for (const [i, quantity] of batch.quantities.entries()) {
    const verdict = verdicts[batch.pairOf[i]!];
    if (isOfCeiling(verdict) && !above.has(i) && isDecimalAbove(quantity, verdict!.maxQuantity!))
      above.set(i, verdict!.maxQuantity!);
  }
  return above;
}
