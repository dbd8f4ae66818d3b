import { isDecimalAbove } from '../core/decimal.js';
import type { Batch } from './batch.js';

/** One (key, product, metric) of a flush, and the batches that have it. */
export interface FlushPair {
  hashedSecret: string;
  slug: string;
  metric: string;
  /** Of a batch that has several pairs, its number; below zero if the batch is lenient. 0: a pair that batches share. */
  group: number;
  /** The largest quantity among its events, an exact decimal. */
  largest: string;
}

export interface Source {
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

export function planFlush(batches: Batch[]): FlushPlan {
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
