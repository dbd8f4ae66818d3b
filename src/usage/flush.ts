import { intArray, numericArray, textArray } from '../core/db/array-literal.js';
import type { Run, TextRow } from '../core/db/client.js';
import { leaveOut, totalsOf, type Batch } from './batch.js';
import { planFlush, type FlushPair } from './flush-plan.js';
import { examineRepeats, findAbove, findRepeats, hasCeilingProblem } from './repeats.js';
import { ingest } from './statements.js';

/** What the statement found about one distinct (key, product, metric). */
export interface PairVerdict {
  problem: string | null;
  orgId: string | null;
  productId: string | null;
  isLive: boolean;
  /** The metric that the product counts. */
  usageMetric: string | null;
  /** What one event of the product may count; an exact decimal. */
  maxQuantity: string | null;
}

export interface OverCap {
  slug: string;
  metric: string;
  /** Exact decimals. */
  unitCap: string;
  used: string;
  /** First day of the month. */
  period: string;
}

export interface BatchOutcome {
  /** Per pair of the batch; undefined where there was nothing to say. */
  verdicts: (PairVerdict | undefined)[];
  /** Events that were sent on and turned out to be repeats, by index. */
  repeats: number[];
  /** Repeats that differ from what their key was first used for. */
  mismatches: { index: number; isOtherMode: boolean }[];
  overCap: OverCap[];
  /** Events above what one event of their product may count, by index, with that ceiling. */
  aboveCeiling: ReadonlyMap<number, string>;
}

/**
 * Records the batches and tells each what became of it. It returns after the commit. One statement decides each batch.
 * A batch with a refused pair (a lenient one: those events) leaves nothing behind and changes nothing for the others:
 * where a quantity was above its ceiling, what shared its pair goes again without it.
 */
export async function recordBatches(run: Run, batches: Batch[], nowMs: number): Promise<BatchOutcome[]> {
  const outcomes = await recordOnce(run, batches, nowMs);
  const again: { at: number; batch: Batch }[] = [];
  for (const [at, batch] of batches.entries()) {
    const outcome = outcomes[at]!;
    if (!hasCeilingProblem(outcome)) continue;
    const above = findAbove(batch, outcome);
    if (!batch.isLenient && above.size > 0) outcome.aboveCeiling = above;
    else again.push({ at, batch: leaveOut(batch, above) });
  }
  // Each round leaves out at least one event or decides at least one batch, so this ends.
  if (again.length > 0) {
    const decided = await recordBatches(
      run,
      again.map(({ batch }) => batch),
      nowMs,
    );
    for (const [i, { at }] of again.entries()) outcomes[at] = decided[i]!;
  }
  return outcomes;
}

async function recordOnce(run: Run, batches: Batch[], nowMs: number): Promise<BatchOutcome[]> {
  const plan = planFlush(batches);
  const now = new Date(nowMs).toISOString();
  const [counts, ...rows] = await run(ingest, [
    textArray(plan.pairs.map((pair) => pair.hashedSecret)),
    textArray(plan.pairs.map((pair) => pair.slug)),
    textArray(plan.pairs.map((pair) => pair.metric)),
    intArray(plan.pairs.map((pair) => pair.group)),
    intArray(plan.eventPairs),
    textArray(plan.keys),
    numericArray(plan.quantities),
    textArray(plan.times),
    now,
    numericArray(plan.pairs.map((pair) => pair.largest)),
  ]);
  const verdicts: (PairVerdict | undefined)[] = [];
  const overCap = new Map<number, OverCap[]>();
  for (const row of rows) readPairRow(row, plan.pairs, verdicts, overCap);
  const outcomes = batches.map((batch, b): BatchOutcome => {
    const numbers = plan.pairNumbers[b]!;
    return {
      verdicts: numbers.map((n) => verdicts[n]),
      repeats: [],
      mismatches: [],
      aboveCeiling: batch.aboveCeiling,
      overCap: overCap.size === 0 ? [] : findOwnOverCap(batch, numbers, overCap),
    };
  });
  const insertedKeys = counts?.[1];
  if (insertedKeys != null) {
    const repeats = findRepeats(plan, batches, outcomes, verdicts, insertedKeys);
    if (repeats.length > 0) await examineRepeats(run, plan, batches, outcomes, verdicts, repeats);
  }
  return outcomes;
}

function readPairRow(
  row: TextRow,
  pairs: FlushPair[],
  verdicts: (PairVerdict | undefined)[],
  overCap: Map<number, OverCap[]>,
): void {
  const [place, problem, orgId, productId, livemode, usageMetric, unitCap, period, used, maxQuantity] = row;
  const number = Number(place);
  const { slug, metric } = pairs[number]!;
  verdicts[number] = {
    problem: problem ?? null,
    orgId: orgId ?? null,
    productId: productId ?? null,
    isLive: livemode === 'true',
    usageMetric: usageMetric ?? null,
    maxQuantity: maxQuantity ?? null,
  };
  if (used != null) {
    const list = overCap.get(number) ?? [];
    list.push({ slug, metric, unitCap: unitCap!, used, period: period! });
    overCap.set(number, list);
  }
}

/** A pair may be shared by batches of different months: each hears only of the totals that it has to do with. */
function findOwnOverCap(batch: Batch, numbers: number[], overCap: Map<number, OverCap[]>): OverCap[] {
  if (!numbers.some((n) => overCap.has(n))) return [];
  const own = totalsOf(batch);
  return numbers.flatMap((n, pair) =>
    (overCap.get(n) ?? []).filter(({ period }) => own.has(`${pair} ${period}`)),
  );
}
