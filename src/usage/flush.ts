import type { Database, TextRow } from '../db/client.js';
import { intArray, numericArray, textArray } from '../db/array-literal.js';
import { totalsOf, type Batch } from './batch.js';
import * as statements from './statements.js';

/** What the statement found about one distinct (key, product, metric). */
export interface PairVerdict {
  problem: string | null;
  orgId: string | null;
  productId: string | null;
  isLive: boolean;
  /** The metric that the product counts. */
  usageMetric: string | null;
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

/** What became of one batch in the database. */
export interface BatchOutcome {
  /** Per pair of the batch; undefined where there was nothing to say. */
  verdicts: (PairVerdict | undefined)[];
  /** Events that were sent on and turned out to be repeats, by index. */
  repeats: number[];
  /** Repeats that differ from what their key was first used for, by index. */
  mismatches: number[];
  overCap: OverCap[];
}

/** One (key, product, metric) of a flush, and the batches that have it. */
interface FlushPair {
  hashedSecret: string;
  slug: string;
  metric: string;
  group: number;
}

/** Where an event of the flush came from. */
interface Source {
  batch: number;
  event: number;
}

/**
 * Records the batches in one statement and tells each what became of it. It returns after the commit.
 * A batch with a refused pair (a lenient one: those events) leaves nothing behind and changes nothing for the others.
 */
export async function recordBatches(
  run: Database['run'],
  batches: Batch[],
  nowMs: number,
): Promise<BatchOutcome[]> {
  const plan = planFlush(batches);
  const now = new Date(nowMs).toISOString();
  const [counts, ...rows] = await run(statements.ingest, [
    textArray(plan.pairs.map((pair) => pair.hashedSecret)),
    textArray(plan.pairs.map((pair) => pair.slug)),
    textArray(plan.pairs.map((pair) => pair.metric)),
    intArray(plan.pairs.map((pair) => pair.group)),
    intArray(plan.eventPairs),
    textArray(plan.keys),
    numericArray(plan.quantities),
    textArray(plan.times),
    now,
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

interface FlushPlan {
  pairs: FlushPair[];
  /** Per batch and pair of the batch: the index in `pairs`. */
  pairNumbers: number[][];
  /** Per event that may be recorded. `eventPairs` counts from 1, as the statement does. */
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
    // All or nothing over several pairs: such a batch gets pairs of its own, tied together by a group.
    const group = !batch.isLenient && batch.pairs.length > 1 ? b + 1 : 0;
    const numbers = batch.pairs.map(({ slug, metric }) => {
      const add = () => plan.pairs.push({ hashedSecret: batch.hashedSecret, slug, metric, group }) - 1;
      if (group > 0) return add();
      const name = `${batch.hashedSecret}\n${slug}\n${metric}`;
      let number = shared.get(name);
      if (number === undefined) shared.set(name, (number = add()));
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
    if (hasOutOfRange && batch.outOfRange.has(i)) continue;
    plan.eventPairs.push(numbers[batch.pairOf[i]!]! + 1);
    plan.keys.push(batch.keys[i]!);
    plan.quantities.push(batch.quantities[i]!);
    plan.times.push(batch.times[i] ?? receivedAt);
    plan.sources.push({ batch: b, event: i });
  }
}

function readPairRow(
  row: TextRow,
  pairs: FlushPair[],
  verdicts: (PairVerdict | undefined)[],
  overCap: Map<number, OverCap[]>,
): void {
  const [ord, problem, orgId, productId, livemode, usageMetric, unitCap, period, used] = row;
  const number = Number(ord) - 1;
  const { slug, metric } = pairs[number]!;
  verdicts[number] = {
    problem: problem ?? null,
    orgId: orgId ?? null,
    productId: productId ?? null,
    isLive: livemode === 'true',
    usageMetric: usageMetric ?? null,
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

/** The first event of each inserted key, in the order of the flush, is the one that was recorded; the others repeat it. */
function findRepeats(
  plan: FlushPlan,
  batches: Batch[],
  outcomes: BatchOutcome[],
  verdicts: (PairVerdict | undefined)[],
  insertedKeys: string,
): number[] {
  const inserted = new Set(
    (JSON.parse(insertedKeys) as [string, string][]).map(([orgId, key]) => `${orgId}${key}`),
  );
  const isRefused = batches.map(
    (batch, b) => !batch.isLenient && outcomes[b]!.verdicts.some((verdict) => verdict?.problem != null),
  );
  const repeats: number[] = [];
  for (let e = 0; e < plan.keys.length; e++) {
    const { batch, event } = plan.sources[e]!;
    const verdict = verdicts[plan.eventPairs[e]! - 1];
    if (isRefused[batch] || !verdict || verdict.problem !== null) continue;
    if (inserted.delete(`${verdict.orgId}${plan.keys[e]!}`)) continue;
    outcomes[batch]!.repeats.push(event);
    repeats.push(e);
  }
  return repeats;
}

/** Compares repeats with what was recorded first, and gives them the same word about the cap as a new event would get. */
async function examineRepeats(
  run: Database['run'],
  plan: FlushPlan,
  batches: Batch[],
  outcomes: BatchOutcome[],
  verdicts: (PairVerdict | undefined)[],
  repeats: number[],
): Promise<void> {
  const pairAt = (e: number) => plan.eventPairs[e]! - 1;
  const verdictAt = (e: number) => verdicts[pairAt(e)]!;
  const totals = new Map<string, { pair: number; period: string; batches: Set<number> }>();
  for (const e of repeats) {
    const period = `${new Date(plan.times[e]!).toISOString().slice(0, 7)}-01`;
    const name = `${pairAt(e)} ${period}`;
    const total = totals.get(name) ?? { pair: pairAt(e), period, batches: new Set<number>() };
    total.batches.add(plan.sources[e]!.batch);
    totals.set(name, total);
  }
  const asked = [...totals.values()];
  const [mismatches, overCap] = await Promise.all([
    run(statements.findMismatches, [
      textArray(repeats.map((e) => verdictAt(e).orgId!)),
      textArray(repeats.map((e) => plan.keys[e]!)),
      textArray(repeats.map((e) => verdictAt(e).productId!)),
      textArray(repeats.map((e) => plan.pairs[pairAt(e)]!.metric)),
      numericArray(repeats.map((e) => plan.quantities[e]!)),
      textArray(repeats.map((e) => String(verdictAt(e).isLive))),
      textArray(repeats.map((e) => batches[plan.sources[e]!.batch]!.times[plan.sources[e]!.event] ?? null)),
    ]),
    run(statements.findOverCap, [
      textArray(asked.map(({ pair }) => verdicts[pair]!.orgId!)),
      textArray(asked.map(({ pair }) => verdicts[pair]!.productId!)),
      textArray(asked.map(({ pair }) => plan.pairs[pair]!.metric)),
      textArray(asked.map(({ pair }) => String(verdicts[pair]!.isLive))),
      textArray(asked.map(({ period }) => period)),
    ]),
  ]);
  for (const [ord] of mismatches) {
    const { batch, event } = plan.sources[repeats[Number(ord) - 1]!]!;
    outcomes[batch]!.mismatches.push(event);
  }
  for (const [ord, unitCap, used] of overCap) {
    const { pair, period, batches: among } = asked[Number(ord) - 1]!;
    const { slug, metric } = plan.pairs[pair]!;
    for (const b of among)
      addOverCap(outcomes[b]!.overCap, { slug, metric, period, unitCap: unitCap!, used: used! });
  }
}

/** Where the batch raised the same total itself, this later reading includes what it raised. */
function addOverCap(list: OverCap[], found: OverCap): void {
  const known = list.find(
    (o) => o.slug === found.slug && o.metric === found.metric && o.period === found.period,
  );
  if (known) known.used = found.used;
  else list.push(found);
}
