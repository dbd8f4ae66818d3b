import { sqlState, UNIQUE_VIOLATION, type Run } from '../../core/db/client.js';
import { MINUTE_MS } from '../../core/time.js';
import { addCombinations, type Combination } from '../entitlements/dimensions.js';
import type { LimitState } from '../entitlements/limits.js';
import { latestBySubject, latestTimes, leaveOut, totalsOf, type Batch } from './batch.js';
import { createExtendedPairs, joinKinds, type ExtendedPairs, type TextKind } from './extended-pairs.js';
import { createHeadroom, limitKinds, type Headroom, type LimitedUse } from './headroom.js';
import type { BatchOutcome, OverCap, PairVerdict } from './outcome.js';
import { NEEDS_COMBINATION } from './pair.js';
import { planFlush, toValues, type FlushPair, type FlushPlan } from './plan.js';
import { recordText, type IngestRow } from './record.js';
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

/** @param onNoted called when a threshold evaluation was queued */
export async function recordBatches(
  run: Run,
  batches: Batch[],
  nowMs: number,
  memory: FlushMemory = createFlushMemory(Infinity),
  onNoted: () => void = () => undefined,
): Promise<BatchOutcome[]> {
  const outcomes: BatchOutcome[] = [];
  let kind: TextKind = 'plain';
  let open = batches.map((batch, at) => ({ at, batch }));
  // Each round excludes an event, decides a batch, moves to a further variant of the statement, or lists a combination.
  while (open.length > 0) {
    const waiting = open.map(({ batch }) => batch);
    const round = await recordRound(run, waiting, { nowMs, memory, onNoted, kind });
    const again: typeof open = [];
    for (const [i, { at, batch }] of open.entries()) {
      const outcome = round[i]!;
      outcomes[at] = outcome;
      const rest = restOf(batch, outcome);
      if (rest) again.push({ at, batch: rest });
    }
    if (again.length > 0) await addCombinations(run, findUnlisted(again, outcomes));
    kind = joinKinds([kind, ...round.flatMap(kindsAfter)]);
    open = again;
  }
  return outcomes;
}

/** Returns what is left to send; undefined if the batch's outcome is final. */
function restOf(batch: Batch, outcome: BatchOutcome): Batch | undefined {
  if (needsOtherText(outcome) || needsCombination(outcome)) return batch;
  if (!hasCeilingProblem(outcome)) return undefined;
  const above = findAbove(batch, outcome);
  if (batch.isLenient || above.size === 0) return leaveOut(batch, above);
  outcome.aboveCeiling = above;
  return undefined;
}

const kindsAfter = ({ verdicts }: BatchOutcome): TextKind[] =>
  verdicts.flatMap((verdict) => textAfter(verdict?.problem) ?? []);

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

interface Round {
  nowMs: number;
  memory: FlushMemory;
  onNoted: () => void;
  /** The variant that records at least what earlier rounds found. */
  kind: TextKind;
}

/**
 * Decides all batches with one statement and returns after the commit. A batch with a refused pair records nothing and
 * does not affect the others; in a lenient batch, only that pair's events are left out.
 */
async function recordRound(run: Run, batches: Batch[], round: Round): Promise<BatchOutcome[]> {
  const { nowMs, memory, onNoted } = round;
  const plan = planFlush(batches);
  const kind = joinKinds([round.kind, memory.extendedPairs.textFor(plan.pairs, nowMs)]);
  const [first, ...rows] = await runRecord(run, plan, kind, round);
  const { inserted, noted } = first!;
  if (Number(noted) > 0) onNoted();
  const { verdicts, overCap } = readPairRows(rows, plan.pairs);
  for (const [n, verdict] of verdicts.entries()) {
    const next = textAfter(verdict?.problem);
    if (next !== undefined) memory.extendedPairs.add(plan.pairs[n]!, next, nowMs);
  }
  const outcomes = batches.map((batch, b) => outcomeOf(batch, plan.pairNumbers[b]!, verdicts, overCap));
  if (inserted !== null) {
    const repeats = findRepeats(plan, batches, outcomes, verdicts, inserted);
    if (repeats.length > 0) {
      memory.repeatedAtMs = Math.max(memory.repeatedAtMs, nowMs);
      await examineRepeats(run, plan, batches, outcomes, verdicts, repeats);
    }
  }
  if (isPriced(kind)) await noteOverdrawn(run, batches, outcomes, new Date(nowMs).toISOString());
  // Runs after the commit, so that concurrent additions count. Costs an extra statement only if an entitlement has
  // limits.
  await memory.headroom.reportExceeded(run, limitedUses(batches, outcomes), nowMs);
  return outcomes;
}

const isExtended = (kind: TextKind): boolean => kind === 'extended' || kind === 'full';
const isPriced = (kind: TextKind): boolean => kind === 'priced' || kind === 'full';

/** Runs the variant that expects only new keys unless repeats are likely, and the other one if a key was a repeat. */
async function runRecord(
  run: Run,
  plan: FlushPlan,
  kind: TextKind,
  { nowMs, memory }: Pick<Round, 'nowMs' | 'memory'>,
): Promise<IngestRow[]> {
  const { hasSubjects, hasDimensions, takesOld } = plan;
  const values = toValues(plan, new Date(nowMs).toISOString());
  const expectsNew = !isExtended(kind) && nowMs - memory.repeatedAtMs >= REPEATS_EXPECTED_MS;
  const form = {
    isExtended: isExtended(kind),
    isPriced: isPriced(kind),
    hasSubjects,
    hasDimensions,
    takesOld,
  };
  try {
    return await run<IngestRow>(recordText({ ...form, expectsNew }), values);
  } catch (error) {
    if (!expectsNew || sqlState(error) !== UNIQUE_VIOLATION) throw error;
    memory.repeatedAtMs = nowMs;
    return run<IngestRow>(recordText({ ...form, expectsNew: false }), values);
  }
}

type Verdicts = (PairVerdict | undefined)[];

const outcomeOf = (
  batch: Batch,
  numbers: number[],
  verdicts: Verdicts,
  overCap: Map<number, OverCap[]>,
): BatchOutcome => ({
  verdicts: numbers.map((n) => verdicts[n]),
  repeats: [],
  mismatches: [],
  aboveCeiling: batch.aboveCeiling,
  overCap: overCap.size === 0 ? [] : findOwnOverCap(batch, numbers, overCap),
  overLimit: [],
  overdrawn: [],
});

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

/** Both by the index of the pair. */
function readPairRows(rows: IngestRow[], pairs: FlushPair[]) {
  const verdicts: Verdicts = [];
  const overCap = new Map<number, OverCap[]>();
  for (const row of rows) {
    const number = Number(row.place);
    const { slug, metric } = pairs[number]!;
    verdicts[number] = toVerdict(row);
    const { used, unitCap, period } = row;
    if (used === null) continue;
    const list = overCap.get(number) ?? [];
    list.push({ slug, metric, unitCap: unitCap!, used, period: period! });
    overCap.set(number, list);
  }
  return { verdicts, overCap };
}

const toVerdict = ({
  problem,
  orgId,
  productId,
  usageMetric,
  maxQuantity,
  ...row
}: IngestRow): PairVerdict => ({
  problem,
  orgId,
  productId,
  isLive: row.livemode === 'true',
  usageMetric,
  maxQuantity,
  limited: row.total == null ? undefined : { declared: row.declared!, total: row.total },
  dimensions: row.dimensions ?? '',
  keys: row.keys == null ? [] : (JSON.parse(row.keys) as string[]),
  isOther: row.isOther === 'true',
  isPriced: row.isPriced === 'true',
  overdraft: row.overdraft ?? null,
});

/** Batches of different months may share a pair, so each batch gets only the totals that it affects. */
function findOwnOverCap(batch: Batch, numbers: number[], overCap: Map<number, OverCap[]>): OverCap[] {
  if (!numbers.some((n) => overCap.has(n))) return [];
  const own = totalsOf(batch);
  const found: OverCap[] = [];
  for (const [pair, n] of numbers.entries())
    for (const one of overCap.get(n) ?? [])
      if (own.has(`${pair} ${one.period}`)) addOverCap(found, { ...one });
  return found;
}
