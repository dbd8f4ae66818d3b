import { isDecimalAbove } from '../../core/decimal.js';
import { intArray, numericArray, textArray } from '../../core/db/sql.js';
import { sqlState, UNIQUE_VIOLATION, type Run } from '../../core/db/client.js';
import { MINUTE_MS } from '../../core/time.js';
import type { LimitState } from '../entitlements/limits.js';
import { latestBySubject, latestTimes, leaveOut, pairName, totalsOf, type Batch } from './batch.js';
import { addCombinations, type Combination } from '../entitlements/dimensions.js';
import { createExtendedPairs, joinKinds, type ExtendedPairs, type TextKind } from './extended-pairs.js';
import { createHeadroom, limitKinds, type Headroom, type LimitedUse } from './headroom.js';
import {
  addOverCap,
  examineRepeats,
  findAbove,
  findRepeats,
  hasCeilingProblem,
  needsCombination,
  needsOtherText,
  noteOverdrawn,
  textAfter,
} from './repeats.js';
import { ingestText, NEEDS_COMBINATION, type IngestRow } from './statements.js';
import type { FlushPlan, BatchOutcome, OverCap, PairVerdict, FlushPair } from './outcome.js';

export interface FlushMemory {
  headroom: Headroom;
  extendedPairs: ExtendedPairs;
  /** Infinity if no statement may fail, because an error would abort the surrounding transaction. */
  repeatedAtMs: number;
}

export const createFlushMemory = (repeatedAtMs = -Infinity): FlushMemory => ({
  headroom: createHeadroom(),
  extendedPairs: createExtendedPairs(),
  repeatedAtMs,
});

/** After a repeat, further repeats are likely for this long. */
const REPEATS_EXPECTED_MS = MINUTE_MS;

/**
 * One statement decides all batches. A batch with a refused pair records nothing and does not affect the others; in a
 * lenient batch, only that pair's events are left out. Three kinds of batch are sent again: those that had an event
 * above its product's maximum (without that event), those that only another variant records, and those whose
 * combination of dimensions had to be listed first.
 * @param onNoted called when a threshold evaluation was queued
 */
export async function recordBatches(
  run: Run,
  batches: Batch[],
  nowMs: number,
  memory: FlushMemory = createFlushMemory(Infinity),
  onNoted: () => void = () => undefined,
  least: TextKind = 'plain',
): Promise<BatchOutcome[]> {
  const outcomes = await recordOnce(run, batches, nowMs, memory, onNoted, least);
  const again: { at: number; batch: Batch }[] = [];
  for (const [at, batch] of batches.entries()) {
    const outcome = outcomes[at]!;
    if (needsOtherText(outcome) || needsCombination(outcome)) {
      again.push({ at, batch });
      continue;
    }
    if (!hasCeilingProblem(outcome)) continue;
    const above = findAbove(batch, outcome);
    if (!batch.isLenient && above.size > 0) outcome.aboveCeiling = above;
    else again.push({ at, batch: leaveOut(batch, above) });
  }
  // Terminates: each round excludes an event, decides a batch, moves to a further variant, or lists a combination.
  if (again.length > 0) {
    await addCombinations(run, findUnlisted(again, outcomes));
    const decided = await recordBatches(
      run,
      again.map(({ batch }) => batch),
      nowMs,
      memory,
      onNoted,
      joinKinds([
        least,
        ...outcomes.flatMap(({ verdicts }) => verdicts.map((v) => textAfter(v?.problem) ?? least)),
      ]),
    );
    for (const [i, { at }] of again.entries()) outcomes[at] = decided[i]!;
  }
  return outcomes;
}

function findUnlisted(again: { at: number; batch: Batch }[], outcomes: BatchOutcome[]): Combination[] {
  return again.flatMap(({ at, batch }) =>
    outcomes[at]!.verdicts.flatMap((verdict, pair) => {
      if (verdict?.problem !== NEEDS_COMBINATION) return [];
      const { orgId, productId, isLive: livemode, dimensions } = verdict;
      const period = batch.pairs[pair]!.month!;
      return [{ orgId: orgId!, productId: productId!, livemode, period, dimensions }];
    }),
  );
}

async function recordOnce(
  run: Run,
  batches: Batch[],
  nowMs: number,
  memory: FlushMemory,
  onNoted: () => void,
  least: TextKind,
): Promise<BatchOutcome[]> {
  const { headroom, extendedPairs } = memory;
  const plan = planFlush(batches);
  const kind = joinKinds([least, extendedPairs.textFor(plan.pairs, nowMs)]);
  const now = new Date(nowMs).toISOString();
  const values = [
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
  ];
  const { hasSubjects, hasDimensions } = plan;
  if (hasDimensions)
    values.push(
      textArray(plan.pairs.map((pair) => pair.dimensions ?? null)),
      textArray(plan.pairs.map((pair) => pair.month ?? null)),
    );
  if (hasSubjects) values.push(textArray(plan.subjects));
  const isExtended = kind === 'extended' || kind === 'full';
  const isPriced = kind === 'priced' || kind === 'full';
  const expectsNew = !isExtended && nowMs - memory.repeatedAtMs >= REPEATS_EXPECTED_MS;
  const form = { isExtended, isPriced, hasSubjects, hasDimensions, expectsNew };
  const [first, ...rows] = await run<IngestRow>(ingestText(form), values).catch((error: unknown) => {
    if (!expectsNew || sqlState(error) !== UNIQUE_VIOLATION) throw error;
    memory.repeatedAtMs = nowMs;
    return run<IngestRow>(ingestText({ ...form, expectsNew: false }), values);
  });
  if (Number(first!.noted) > 0) onNoted();
  const verdicts: (PairVerdict | undefined)[] = [];
  const overCap = new Map<number, OverCap[]>();
  for (const row of rows) {
    readPairRow(row, plan.pairs, verdicts, overCap);
    const next = textAfter(row.problem);
    if (next !== undefined) extendedPairs.add(plan.pairs[Number(row.place)]!, next, nowMs);
  }
  const outcomes = batches.map((batch, b): BatchOutcome => {
    const numbers = plan.pairNumbers[b]!;
    return {
      verdicts: numbers.map((n) => verdicts[n]),
      repeats: [],
      mismatches: [],
      aboveCeiling: batch.aboveCeiling,
      overCap: overCap.size === 0 ? [] : findOwnOverCap(batch, numbers, overCap),
      overLimit: [],
      overdrawn: [],
    };
  });
  const { inserted } = first!;
  if (inserted !== null) {
    const repeats = findRepeats(plan, batches, outcomes, verdicts, inserted);
    if (repeats.length > 0) {
      memory.repeatedAtMs = Math.max(memory.repeatedAtMs, nowMs);
      await examineRepeats(run, plan, batches, outcomes, verdicts, repeats);
    }
  }
  if (isPriced) await noteOverdrawn(run, batches, outcomes, now);
  // After the commit, so that concurrent additions count. An extra statement only if an entitlement has limits.
  await headroom.reportExceeded(run, limitedUses(batches, outcomes), nowMs);
  return outcomes;
}

function limitedUses(batches: Batch[], outcomes: BatchOutcome[]): LimitedUse[] {
  return outcomes.flatMap(({ verdicts, overLimit }, b) => {
    if (!verdicts.some((verdict) => verdict?.limited)) return [];
    const latest = latestTimes(batches[b]!);
    // Pairs that differ only by dimensions share limits.
    const uses = new Map<string, LimitedUse>();
    for (const [pair, verdict] of verdicts.entries()) {
      const atMs = latest[pair];
      if (!verdict?.limited || atMs === undefined) continue;
      const { slug, metric } = batches[b]!.pairs[pair]!;
      const { orgId, productId, isLive: livemode } = verdict;
      const limited = { orgId: orgId!, productId: productId!, livemode, metric, ...verdict.limited };
      const { isWhole, isPerSubject } = limitKinds(limited.declared);
      const add = (atMs: number, subject?: string) => {
        const name = `${slug}\n${metric}\n${subject ?? ''}`;
        const known = uses.get(name);
        const report = (state: LimitState) => void overLimit.push({ slug, metric, state });
        if (known) known.atMs = Math.max(known.atMs, atMs);
        else uses.set(name, { limited: { ...limited, subject }, atMs, report });
      };
      if (isWhole) add(atMs);
      if (isPerSubject) for (const [subject, ms] of latestBySubject(batches[b]!, pair)) add(ms, subject);
    }
    return [...uses.values()];
  });
}

function readPairRow(
  row: IngestRow,
  pairs: FlushPair[],
  verdicts: (PairVerdict | undefined)[],
  overCap: Map<number, OverCap[]>,
): void {
  const { problem, orgId, productId, usageMetric, maxQuantity, used, total } = row;
  const number = Number(row.place);
  const { slug, metric } = pairs[number]!;
  verdicts[number] = {
    problem,
    orgId,
    productId,
    isLive: row.livemode === 'true',
    usageMetric,
    maxQuantity,
    limited: total == null ? undefined : { declared: row.declared!, total },
    dimensions: row.dimensions ?? '',
    keys: row.keys == null ? [] : (JSON.parse(row.keys) as string[]),
    isOther: row.isOther === 'true',
    isPriced: row.isPriced === 'true',
    overdraft: row.overdraft ?? null,
  };
  if (used !== null) {
    const list = overCap.get(number) ?? [];
    list.push({ slug, metric, unitCap: row.unitCap!, used, period: row.period! });
    overCap.set(number, list);
  }
}

/** Batches of different months may share a pair. */
function findOwnOverCap(batch: Batch, numbers: number[], overCap: Map<number, OverCap[]>): OverCap[] {
  if (!numbers.some((n) => overCap.has(n))) return [];
  const own = totalsOf(batch);
  const found: OverCap[] = [];
  for (const [pair, n] of numbers.entries())
    for (const one of overCap.get(n) ?? [])
      if (own.has(`${pair} ${one.period}`)) addOverCap(found, { ...one });
  return found;
}

function planFlush(batches: Batch[]): FlushPlan {
  const plan: FlushPlan = {
    pairs: [],
    pairNumbers: [],
    eventPairs: [],
    keys: [],
    quantities: [],
    times: [],
    subjects: [],
    hasSubjects: batches.some((batch) => batch.hasSubjects),
    hasDimensions: batches.some((batch) => batch.pairs.some(({ dimensions }) => dimensions !== undefined)),
    sources: [],
  };
  const shared = new Map<string, number>();
  for (const [b, batch] of batches.entries()) {
    // Their group ties pairs together that must be decided together.
    const group = batch.pairs.length === 1 ? 0 : batch.isLenient ? -b - 1 : b + 1;
    const numbers = batch.pairs.map((pair) => {
      const { slug, metric, dimensions, month, largest } = pair;
      const { hashedSecret } = batch;
      // Spreading takes longer.
      const add = () =>
        plan.pairs.push({ hashedSecret, slug, metric, dimensions, month, group, largest }) - 1;
      if (group !== 0) return add();
      const name = `${hashedSecret}\n${pairName(pair)}`;
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
    plan.subjects.push(batch.subjects[i]!);
    plan.sources.push({ batch: b, event: i });
  }
}
