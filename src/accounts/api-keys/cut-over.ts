import type { Orm } from '../../core/db/client.js';
import { formatCount } from '../../core/pages/format.js';
import { DAY_MS, MINUTE_MS } from '../../core/time.js';
import { stateOf } from './api-keys.js';
import { CALLS_KEPT_MS } from './key-use-queries.js';
import { sumCalls, type KeyDetails } from './queries.js';

/** A key without calls for so long is probably no longer in use. */
const QUIET_MINUTES = 15;

/** A key that is being replaced needs only to have gone quiet. Another one may work once a day. */
export const recentUse = (state: ReturnType<typeof stateOf>) =>
  state === 'grace'
    ? { ms: QUIET_MINUTES * MINUTE_MS, name: `${QUIET_MINUTES} minutes` }
    : { ms: DAY_MS, name: '24 hours' };

/** Fraction of the grace period. */
const AFTERWARDS = 0.25;

export async function readCutOver(
  orm: Orm,
  orgId: string,
  { old, successor }: { old: KeyDetails; successor: KeyDetails },
  nowMs: number,
) {
  const startedAt = successor.createdAt;
  const oldState = stateOf(old, nowMs);
  // A rotated key always ends: when it expires or when it is revoked, whichever comes first.
  const endMs = Math.min(old.expiresAt?.getTime() ?? Infinity, old.revokedAt?.getTime() ?? Infinity);
  // Some call counts of an old cut-over may have been deleted.
  const chart =
    nowMs - startedAt.getTime() > CALLS_KEPT_MS - MINUTE_MS
      ? undefined
      : await readChart(orm, orgId, { old, successor }, { endMs, nowMs });
  const newCalls = chart?.panels[1]!.total ?? 0;
  const quietSinceMs = nowMs - QUIET_MINUTES * MINUTE_MS;
  const isQuiet = old.lastUsedAt === null || old.lastUsedAt.getTime() <= quietSinceMs;
  return {
    startedAt,
    step: newCalls === 0 && successor.lastUsedAt === null ? 'unused' : isQuiet ? 'ready' : 'both',
    quietMinutes: QUIET_MINUTES,
    endsAt: new Date(endMs),
    isOver: oldState !== 'grace',
    oldState,
    chart,
    oldCalls: chart?.panels[0]!.total ?? 0,
    newCalls,
    oldLastUsedAt: old.lastUsedAt,
  };
}

async function readChart(
  orm: Orm,
  orgId: string,
  { old, successor }: { old: KeyDetails; successor: KeyDetails },
  { endMs, nowMs }: { endMs: number; nowMs: number },
) {
  const startMs = successor.createdAt.getTime();
  const fromMs = startMs - (startMs % MINUTE_MS);
  const lastMs = endMs + Math.max((endMs - startMs) * AFTERWARDS, 10 * MINUTE_MS);
  const toMs = Math.max(fromMs, Math.min(nowMs, lastMs));
  const stepMs = chooseStep(toMs - fromMs);
  const keys = [
    { id: old.id, label: 'Old key' },
    { id: successor.id, label: 'New key' },
  ];
  const found = await sumCalls(orm, orgId, [old.id, successor.id], { from: new Date(fromMs), stepMs });
  return makeCallChart(keys, found, { fromMs, toMs, stepMs });
}

const stepsMs = [1, 2, 5, 10, 15, 30, 60, 120, 180, 360].map((minutes) => minutes * MINUTE_MS);

const MAX_STEPS = 60;

/** `sumCalls` aligns its steps to the same time. */
const ORIGIN_MS = Date.UTC(2000, 0, 1);

const GAP = 0.15;

const chooseStep = (spanMs: number): number =>
  stepsMs.find((stepMs) => spanMs / stepMs <= MAX_STEPS - 1) ?? stepsMs.at(-1)!;

export const startOfStep = (ms: number, stepMs: number): number =>
  ORIGIN_MS + Math.floor((ms - ORIGIN_MS) / stepMs) * stepMs;

/**
 * One panel per key on a common scale, so that keys are not distinguished by colour alone.
 * @param found steps without calls are absent
 */
export function makeCallChart(
  keys: { id: string; label: string }[],
  found: { keyId: string; startMs: number; calls: number }[],
  { fromMs, toMs, stepMs }: { fromMs: number; toMs: number; stepMs: number },
) {
  const firstMs = startOfStep(fromMs, stepMs);
  const steps = Math.max(1, Math.floor((startOfStep(toMs, stepMs) - firstMs) / stepMs) + 1);
  const series = keys.map(({ label }) => ({ label, calls: Array<number>(steps).fill(0) }));
  for (const { keyId, startMs, calls } of found) {
    const step = Math.round((startMs - firstMs) / stepMs);
    const of = series[keys.findIndex(({ id }) => id === keyId)];
    if (of && step >= 0 && step < steps) of.calls[step]! += calls;
  }
  const starts = Array.from({ length: steps }, (_, i) => new Date(firstMs + i * stepMs));
  const most = Math.max(...series.flatMap(({ calls }) => calls));
  return {
    panels: series.map(({ label, calls }) => ({
      label,
      total: calls.reduce((sum, count) => sum + count, 0),
      bars: calls.map((count, i) => toBar(count, i, most, starts[i]!)),
    })),
    /** Also the width of the chart in units. */
    steps,
    stepMs,
    most,
    from: starts[0]!,
    to: new Date(Math.min(toMs, firstMs + steps * stepMs)),
    rows: starts.map((at, i) => ({ at, calls: series.map(({ calls }) => calls[i]!) })),
  };
}

/** The chart is 100 units high; y is measured from the top. */
function toBar(calls: number, step: number, most: number, start: Date) {
  // The bar for a single call must be visible next to bars for thousands.
  const height = calls === 0 ? 0 : Math.max(2, (calls / most) * 100);
  const time = start.toISOString().slice(0, 16).replace('T', ' ');
  return {
    x: step + GAP / 2,
    y: round(100 - height),
    width: 1 - GAP,
    height: round(height),
    title: `${time} UTC: ${formatCount(calls, 'call')}`,
  };
}

const round = (value: number): number => Math.round(value * 100) / 100;
