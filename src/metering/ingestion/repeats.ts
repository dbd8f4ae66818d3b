import { numericArray, textArray } from '../../core/db/sql.js';
import type { Run } from '../../core/db/client.js';
import { isDecimalAbove } from '../../core/decimal.js';
import { monthOf } from '../../core/time.js';
import { findOverdrawn, type OverdrawnRow } from '../credits/statements.js';
import { latestTimes, type Batch } from './batch.js';
import type { TextKind } from './extended-pairs.js';
import type { BatchOutcome, OverCap, PairVerdict } from './outcome.js';
import { NEEDS_COMBINATION, NEEDS_EXTENDED, NEEDS_PRICED } from './pair.js';
import type { FlushPlan } from './plan.js';
import { findMismatches, findOverCap, type MismatchRow, type OverCapRow } from './repeat-statements.js';

const isAboveCeiling = (verdict: BatchOutcome['verdicts'][number]) =>
  verdict?.problem === 'quantity_out_of_range';

/** In this batch or in another one that shares the pair. */
export const hasCeilingProblem = ({ verdicts }: Pick<BatchOutcome, 'verdicts'>): boolean =>
  verdicts.some(isAboveCeiling);

/** Undefined if no variant records such a pair. */
export const textAfter = (problem: string | null | undefined): TextKind | undefined =>
  problem === NEEDS_PRICED ? 'priced' : problem === NEEDS_EXTENDED ? 'extended' : undefined;

export const needsOtherText = ({ verdicts }: Pick<BatchOutcome, 'verdicts'>): boolean =>
  verdicts.some((verdict) => textAfter(verdict?.problem) !== undefined);

export const needsCombination = ({ verdicts }: Pick<BatchOutcome, 'verdicts'>): boolean =>
  verdicts.some((verdict) => verdict?.problem === NEEDS_COMBINATION);

export function findAbove(batch: Batch, { verdicts }: BatchOutcome): Map<number, string> {
  const above = new Map(batch.aboveCeiling);
  for (const [i, quantity] of batch.quantities.entries()) {
    const verdict = verdicts[batch.pairOf[i]!];
    if (isAboveCeiling(verdict) && !above.has(i) && isDecimalAbove(quantity, verdict!.maxQuantity!))
      above.set(i, verdict!.maxQuantity!);
  }
  return above;
}

/** The first event in flush order was recorded; the others are repeats. */
export function findRepeats(
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
    (batch, b) =>
      (!batch.isLenient && outcomes[b]!.verdicts.some((verdict) => verdict?.problem != null)) ||
      hasCeilingProblem(outcomes[b]!) ||
      needsOtherText(outcomes[b]!) ||
      needsCombination(outcomes[b]!),
  );
  const repeats: number[] = [];
  for (let e = 0; e < plan.keys.length; e++) {
    const { batch, event } = plan.sources[e]!;
    const verdict = verdicts[plan.eventPairs[e]!];
    if (isRefused[batch] || !verdict || verdict.problem !== null) continue;
    if (inserted.delete(`${verdict.orgId}${plan.keys[e]!}`)) continue;
    outcomes[batch]!.repeats.push(event);
    repeats.push(e);
  }
  return repeats;
}

/** Warns about the cap as for new events. */
export async function examineRepeats(
  run: Run,
  plan: FlushPlan,
  batches: Batch[],
  outcomes: BatchOutcome[],
  verdicts: (PairVerdict | undefined)[],
  repeats: number[],
): Promise<void> {
  const pairAt = (e: number) => plan.eventPairs[e]!;
  const verdictAt = (e: number) => verdicts[pairAt(e)]!;
  const totals = new Map<string, { pair: number; period: string; batches: Set<number> }>();
  for (const e of repeats) {
    const period = monthOf(Date.parse(plan.times[e]!));
    const name = `${pairAt(e)} ${period}`;
    const total = totals.get(name) ?? { pair: pairAt(e), period, batches: new Set<number>() };
    total.batches.add(plan.sources[e]!.batch);
    totals.set(name, total);
  }
  const asked = [...totals.values()];
  const [mismatches, overCap] = await Promise.all([
    run<MismatchRow>(findMismatches, [
      textArray(repeats.map((e) => verdictAt(e).orgId!)),
      textArray(repeats.map((e) => plan.keys[e]!)),
      textArray(repeats.map((e) => verdictAt(e).productId!)),
      textArray(repeats.map((e) => plan.pairs[pairAt(e)]!.metric)),
      numericArray(repeats.map((e) => plan.quantities[e]!)),
      textArray(repeats.map((e) => String(verdictAt(e).isLive))),
      textArray(repeats.map((e) => batches[plan.sources[e]!.batch]!.times[plan.sources[e]!.event] ?? null)),
      textArray(repeats.map((e) => plan.subjects[e]!)),
      textArray(repeats.map((e) => verdictAt(e).dimensions)),
    ]),
    run<OverCapRow>(findOverCap, [
      textArray(asked.map(({ pair }) => verdicts[pair]!.orgId!)),
      textArray(asked.map(({ pair }) => verdicts[pair]!.productId!)),
      textArray(asked.map(({ pair }) => plan.pairs[pair]!.metric)),
      textArray(asked.map(({ pair }) => String(verdicts[pair]!.isLive))),
      textArray(asked.map(({ period }) => period)),
    ]),
  ]);
  for (const { place, isOtherMode } of mismatches) {
    const { batch, event } = plan.sources[repeats[Number(place)]!]!;
    outcomes[batch]!.mismatches.push({ index: event, isOtherMode: isOtherMode === 'true' });
  }
  for (const { place, unitCap, used } of overCap) {
    const { pair, period, batches: among } = asked[Number(place)]!;
    const { slug, metric } = plan.pairs[pair]!;
    for (const b of among) addOverCap(outcomes[b]!.overCap, { slug, metric, period, unitCap, used });
  }
}

/** This later reading includes the batch's own events. */
export function addOverCap(list: OverCap[], found: OverCap): void {
  const known = list.find(
    (o) => o.slug === found.slug && o.metric === found.metric && o.period === found.period,
  );
  if (known) known.used = found.used;
  else list.push(found);
}

/** The statement did not change these accounts. */
export async function noteOverdrawn(run: Run, batches: Batch[], outcomes: BatchOutcome[], now: string) {
  const unread: { verdict: PairVerdict; note: (overdraft: string) => void }[] = [];
  for (const [b, { verdicts, overdrawn }] of outcomes.entries()) {
    if (!verdicts.some((verdict) => verdict?.isPriced)) continue;
    const latest = latestTimes(batches[b]!);
    for (const [pair, verdict] of verdicts.entries()) {
      const { slug } = batches[b]!.pairs[pair]!;
      if (!verdict?.isPriced || verdict.problem !== null || latest[pair] === undefined) continue;
      const note = (overdraft: string) => {
        if (isDecimalAbove(overdraft, '0') && !overdrawn.some((one) => one.slug === slug))
          overdrawn.push({ slug, overdraft });
      };
      if (verdict.overdraft === null) unread.push({ verdict, note });
      else note(verdict.overdraft);
    }
  }
  if (unread.length === 0) return;
  const rows = await run<OverdrawnRow>(findOverdrawn, [
    textArray(unread.map(({ verdict }) => verdict.orgId!)),
    textArray(unread.map(({ verdict }) => verdict.productId!)),
    textArray(unread.map(({ verdict }) => String(verdict.isLive))),
    now,
  ]);
  for (const { place, overdraft } of rows) unread[Number(place)]!.note(overdraft);
}
