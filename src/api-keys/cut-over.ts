import type { Orm } from '../core/db/client.js';
import { chooseStep, makeCallChart, type CallChart } from './calls-chart.js';
import { stateOf, type KeyState } from './key-json.js';
import { CALLS_KEPT_MS } from './key-use-retention.js';
import { sumCalls, type KeyDetails } from './page-queries.js';

const MINUTE_MS = 60_000;
/** How long after the old key's end the new one is still shown beside it. */
const AFTERWARDS = 0.25;

/** How the calls move from an old key to its successor. */
export interface CutOver {
  startedAt: Date;
  /** When the old key ends, or ended. */
  endsAt: Date;
  isOver: boolean;
  /** How the old key ended. */
  oldState: KeyState;
  /** Undefined when the calls of that time are no longer kept. */
  chart: CallChart | undefined;
  oldCalls: number;
  newCalls: number;
  oldLastUsedAt: Date | null;
}

/** Reads the calls of both keys since the rotation. `old` has been rotated. */
export async function readCutOver(
  orm: Orm,
  orgId: string,
  { old, successor }: { old: KeyDetails; successor: KeyDetails },
  nowMs: number,
): Promise<CutOver> {
  const startedAt = successor.createdAt;
  const oldState = stateOf(old, nowMs);
  // A rotated key always ends; the earlier of its two ends counts.
  const endMs = Math.min(old.expiresAt?.getTime() ?? Infinity, old.revokedAt?.getTime() ?? Infinity);
  const chart =
    nowMs - startedAt.getTime() > CALLS_KEPT_MS - MINUTE_MS
      ? undefined
      : await readChart(orm, orgId, { old, successor }, { endMs, nowMs });
  return {
    startedAt,
    endsAt: new Date(endMs),
    isOver: oldState !== 'grace',
    oldState,
    chart,
    oldCalls: chart?.panels[0]!.total ?? 0,
    newCalls: chart?.panels[1]!.total ?? 0,
    oldLastUsedAt: old.lastUsedAt,
  };
}

async function readChart(
  orm: Orm,
  orgId: string,
  { old, successor }: { old: KeyDetails; successor: KeyDetails },
  { endMs, nowMs }: { endMs: number; nowMs: number },
): Promise<CallChart> {
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
