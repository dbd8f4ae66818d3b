import { isDecimalAbove } from '../../core/decimal.js';
import { intArray, numericArray, textArray } from '../../core/db/sql.js';
import type { Run, TextRow } from '../../core/db/client.js';
import type { LimitState } from '../entitlements/limits.js';
import { latestTimes, leaveOut, totalsOf, type Batch } from './batch.js';
import { createHeadroom, type Headroom, type Limited, type LimitedUse } from './headroom.js';
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
 * @param onNoted called when something is to be evaluated for thresholds
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
  // After the commit, so that what others have added is counted; a further statement only where an entitlement has limits.
  await headroom.tellExceeded(run, limitedUses(batches, outcomes), nowMs);
  return outcomes;
}

function limitedUses(batches: Batch[], outcomes: BatchOutcome[]): LimitedUse[] {
  return outcomes.flatMap(({ verdicts, overLimit }, b) => {
    if (!verdicts.some((verdict) => verdict?.limited)) return [];
    const latest = latestTimes(batches[b]!);
    return verdicts.flatMap((verdict, pair): LimitedUse[] => {
      const atMs = latest[pair];
      if (!verdict?.limited || atMs === undefined) return [];
      const { slug, metric } = batches[b]!.pairs[pair]!;
      const { orgId, productId, isLive: livemode } = verdict;
      const limited = { orgId: orgId!, productId: productId!, livemode, metric, ...verdict.limited };
      return [{ limited, atMs, tell: (state) => void overLimit.push({ slug, metric, state }) }];
    });
  });
}

function readPairRow(
  row: TextRow,
  pairs: FlushPair[],
  verdicts: (PairVerdict | undefined)[],
  overCap: Map<number, OverCap[]>,
): void {
  const [
    place,
    problem = null,
    orgId = null,
    productId = null,
    livemode,
    usageMetric = null,
    unitCap,
    period,
    used,
    maxQuantity = null,
    declared,
    total,
  ] = row;
  const number = Number(place);
  const { slug, metric } = pairs[number]!;
  verdicts[number] = {
    problem,
    orgId,
    productId,
    isLive: livemode === 'true',
    usageMetric,
    maxQuantity,
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

/** One (key, product, metric) of a flush, and the batches that have it. */
interface FlushPair {
  hashedSecret: string;
  slug: string;
  metric: string;
  /** Of a batch that has several pairs, its number; below zero if the batch is lenient. 0: a pair that batches share. */
  group: number;
  /** The largest quantity among its events, an exact decimal. */
  largest: string;
}

interface Source {
  batch: number;
  event: number;
}

/** What a flush sends, in the columns that the statement takes. */
export interface FlushPlan {
  pairs: FlushPair[];
  /** Per batch and pair of the batch: the index in `pairs`. */
  pairNumbers: number[][];
  /** Per event that may be recorded. */
  eventPairs: number[];
  keys: string[];
  quantities: string[];
  times: string[];
  sources: Source[];
}

function planFlush(batches: Batch[]): FlushPlan {
  const plan: FlushPlan = {
    pairs: [],
    pairNumbers: [],
    eventPairs: [],
    keys: [],
    quantities: [],
    times: [],
    sources: [],
  };
  const shared = new Map<string, number>();
  for (const [b, batch] of batches.entries()) {
    // What is decided over several pairs together gets pairs of its own, tied by a group.
    const group = batch.pairs.length === 1 ? 0 : batch.isLenient ? -b - 1 : b + 1;
    const numbers = batch.pairs.map(({ slug, metric, largest }) => {
      const add = () =>
        plan.pairs.push({ hashedSecret: batch.hashedSecret, slug, metric, group, largest }) - 1;
      if (group !== 0) return add();
      const name = `${batch.hashedSecret}\n${slug}\n${metric}`;
      let number = shared.get(name);
      if (number === undefined) shared.set(name, (number = add()));
      else if (isDecimalAbove(largest, plan.pairs[number]!.largest)) plan.pairs[number]!.largest = largest;
      return number;
    });
    plan.pairNumbers.push(numbers);
    addEvents(plan, batch, b, numbers);
  }
  return plan;
}

function addEvents(plan: FlushPlan, batch: Batch, b: number, numbers: number[]): void {
  const hasOutOfRange = batch.outOfRange.size > 0;
  if (hasOutOfRange && !batch.isLenient) return;
  const receivedAt = new Date(batch.receivedAtMs).toISOString();
  for (let i = 0; i < batch.keys.length; i++) {
    if ((hasOutOfRange && batch.outOfRange.has(i)) || batch.aboveCeiling.has(i)) continue;
    plan.eventPairs.push(numbers[batch.pairOf[i]!]!);
    plan.keys.push(batch.keys[i]!);
    plan.quantities.push(batch.quantities[i]!);
    plan.times.push(batch.times[i] ?? receivedAt);
    plan.sources.push({ batch: b, event: i });
  }
}
