import { intArray, numericArray, textArray } from '../core/db/array-literal.js';
import type { Run, TextRow } from '../core/db/client.js';
import { startOfWindow, type LimitState } from '../entitlements/limits.js';
import { latestTimes, leaveOut, totalsOf, type Batch } from './batch.js';
import { planFlush, type FlushPair, type FlushPlan } from './flush-plan.js';
import { createHeadroom, type Headroom, type Limited } from './headroom.js';
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
  /** Of an entitlement with limits that events are recorded for. */
  limited: Pick<Limited, 'declared' | 'total'> | undefined;
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

export interface OverLimit {
  slug: string;
  metric: string;
  state: LimitState;
}

export interface BatchOutcome {
  /** Per pair of the batch; undefined where there was nothing to say. */
  verdicts: (PairVerdict | undefined)[];
  /** Events that were sent on and turned out to be repeats, by index. */
  repeats: number[];
  /** Repeats that differ from what their key was first used for. */
  mismatches: { index: number; isOtherMode: boolean }[];
  overCap: OverCap[];
  /** Limits that are exceeded, of the windows that are open now and that an event of the batch lies in. */
  overLimit: OverLimit[];
  /** Events above what one event of their product may count, by index, with that ceiling. */
  aboveCeiling: ReadonlyMap<number, string>;
}

/**
 * Records the batches and tells each what became of it. It returns after the commit. One statement decides each batch.
 * A batch with a refused pair (a lenient one: those events) leaves nothing behind and changes nothing for the others:
 * where a quantity was above its ceiling, what shared its pair goes again without it.
 * @param onNoted called when something is to be judged for thresholds
 */
export async function recordBatches(
  run: Run,
  batches: Batch[],
  nowMs: number,
  headroom: Headroom = createHeadroom(),
  onNoted: () => void = () => undefined,
): Promise<BatchOutcome[]> {
  const outcomes = await recordOnce(run, batches, nowMs, headroom, onNoted);
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
      headroom,
      onNoted,
    );
    for (const [i, { at }] of again.entries()) outcomes[at] = decided[i]!;
  }
  return outcomes;
}

async function recordOnce(
  run: Run,
  batches: Batch[],
  nowMs: number,
  headroom: Headroom,
  onNoted: () => void,
): Promise<BatchOutcome[]> {
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
  if (counts![2] !== '0') onNoted();
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
      overLimit: [],
    };
  });
  const insertedKeys = counts?.[1];
  if (insertedKeys != null) {
    const repeats = findRepeats(plan, batches, outcomes, verdicts, insertedKeys);
    if (repeats.length > 0) await examineRepeats(run, plan, batches, outcomes, verdicts, repeats);
  }
  await findOverLimit(run, plan, batches, outcomes, nowMs, headroom);
  return outcomes;
}

/** After the commit, so that what others have added is counted; a further statement only where an entitlement has limits. */
async function findOverLimit(
  run: Run,
  plan: FlushPlan,
  batches: Batch[],
  outcomes: BatchOutcome[],
  nowMs: number,
  headroom: Headroom,
): Promise<void> {
  const asked: (Limited & { pair: FlushPair; hears: { batch: number; latestMs: number }[] })[] = [];
  const bySubject = new Map<string, number>();
  for (const [b, { verdicts }] of outcomes.entries()) {
    if (!verdicts.some((verdict) => verdict?.limited)) continue;
    const latest = latestTimes(batches[b]!);
    for (const [pair, verdict] of verdicts.entries()) {
      if (!verdict?.limited || latest[pair] === undefined) continue;
      const own = plan.pairs[plan.pairNumbers[b]![pair]!]!;
      const { orgId, productId, isLive: livemode, limited } = verdict;
      const name = `${orgId} ${productId} ${livemode}`;
      let number = bySubject.get(name);
      if (number === undefined) {
        const subject = { orgId: orgId!, productId: productId!, livemode, metric: own.metric, ...limited };
        bySubject.set(name, (number = asked.push({ ...subject, pair: own, hears: [] }) - 1));
      }
      asked[number]!.hears.push({ batch: b, latestMs: latest[pair] });
    }
  }
  const exceeded = await headroom.readExceeded(run, asked, nowMs);
  for (const [number, { pair, hears }] of asked.entries()) {
    const { slug, metric } = pair;
    for (const state of exceeded[number]!) {
      const startMs = startOfWindow(state.window, nowMs);
      for (const { batch, latestMs } of hears)
        if (latestMs >= startMs) outcomes[batch]!.overLimit.push({ slug, metric, state });
    }
  }
}

function readPairRow(
  row: TextRow,
  pairs: FlushPair[],
  verdicts: (PairVerdict | undefined)[],
  overCap: Map<number, OverCap[]>,
): void {
  const [
    place,
    problem,
    orgId,
    productId,
    livemode,
    usageMetric,
    unitCap,
    period,
    used,
    maxQuantity,
    declared,
    total,
  ] = row;
  const number = Number(place);
  const { slug, metric } = pairs[number]!;
  verdicts[number] = {
    problem: problem ?? null,
    orgId: orgId ?? null,
    productId: productId ?? null,
    isLive: livemode === 'true',
    usageMetric: usageMetric ?? null,
    maxQuantity: maxQuantity ?? null,
    limited: total == null ? undefined : { declared: declared!, total },
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
