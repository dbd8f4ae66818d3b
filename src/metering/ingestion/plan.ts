import { intArray, numericArray, textArray } from '../../core/db/sql.js';
import { isDecimalAbove } from '../../core/decimal.js';
import { pairName, type Batch, type BatchPair } from './batch.js';

/** The pairs of one batch. A bad pair refuses a strict batch as a whole, and only itself in a lenient one. */
interface PairGroup {
  batch: number;
  isLenient: boolean;
}

export interface FlushPair extends BatchPair {
  hashedSecret: string;
  /** The pairs that are decided together; undefined for a pair that batches may share. */
  group: PairGroup | undefined;
}

export interface FlushPlan {
  pairs: FlushPair[];
  /** For each batch, the index in `pairs` of each of its pairs. */
  pairNumbers: number[][];
  /** Columns with one value per recordable event. */
  eventPairs: number[];
  keys: string[];
  quantities: string[];
  times: string[];
  subjects: string[];
  hasSubjects: boolean;
  hasDimensions: boolean;
  /** Whether events may be 400 days old. Other batches are in other flushes. */
  takesOld: boolean;
  sources: { batch: number; event: number }[];
}

/** Lists the distinct pairs and the recordable events of a flush. */
export function planFlush(batches: Batch[]): FlushPlan {
  const plan: FlushPlan = {
    pairs: [],
    pairNumbers: [],
    eventPairs: [],
    keys: [],
    quantities: [],
    times: [],
    subjects: [],
    hasSubjects: batches.some((batch) => batch.hasSubjects),
    hasDimensions: batches.some((batch) => batch.pairs.some(({ month }) => month !== undefined)),
    takesOld: batches[0]?.takesOld ?? false,
    sources: [],
  };
  const shared = new Map<string, number>();
  for (const [b, batch] of batches.entries()) {
    const group = batch.pairs.length === 1 ? undefined : { batch: b, isLenient: batch.isLenient };
    const numbers = batch.pairs.map((pair) => {
      const { slug, metric, dimensions, month, largest } = pair;
      const { hashedSecret } = batch;
      // Copies field by field, because spreading takes longer.
      const add = () =>
        plan.pairs.push({ hashedSecret, slug, metric, dimensions, month, group, largest }) - 1;
      if (group) return add();
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

/** The values of the ingestion statement's parameters. */
export function toValues(plan: FlushPlan, now: string): string[] {
  const { pairs, hasSubjects, hasDimensions } = plan;
  return [
    textArray(pairs.map((pair) => pair.hashedSecret)),
    textArray(pairs.map((pair) => pair.slug)),
    textArray(pairs.map((pair) => pair.metric)),
    intArray(pairs.map((pair) => groupNumber(pair.group))),
    intArray(plan.eventPairs),
    textArray(plan.keys),
    numericArray(plan.quantities),
    textArray(plan.times),
    now,
    numericArray(pairs.map((pair) => pair.largest)),
    ...(hasDimensions
      ? [
          textArray(pairs.map((pair) => pair.dimensions ?? null)),
          textArray(pairs.map((pair) => pair.month ?? null)),
        ]
      : []),
    ...(hasSubjects ? [textArray(plan.subjects)] : []),
  ];
}

/** The statement's number of a group: negative if it is lenient, 0 for none. */
const groupNumber = (group: PairGroup | undefined): number =>
  group ? (group.isLenient ? -group.batch - 1 : group.batch + 1) : 0;
