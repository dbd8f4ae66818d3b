import { setTimeout } from 'node:timers/promises';
import { createRecentMap } from '../../core/collections.js';
import { queryRow } from '../../core/db/sql.js';
import type { Run, ShardGroup } from '../../core/db/client.js';
import { describeOutage } from '../../core/db/outage.js';
import type { Context } from '../../core/http/context.js';
import { MINUTE_MS } from '../../core/time.js';
import type { Subject } from '../entitlements/limit-queries.js';
import { remainingOf, type LimitState } from '../entitlements/limits.js';
import { evaluate, reportRefused } from './statements.js';

export type Thresholds = ReturnType<typeof createThresholds>;

/** Evaluations queued during the pause run together. */
const PAUSE_MS = 500;

export function createThresholds({ db, clock, log }: Pick<Context, 'db' | 'clock' | 'log'>) {
  const running = new Map<ShardGroup, Promise<void>>();
  const waiting = new Set<ShardGroup>();
  let isDraining = false;

  async function evaluateGroup({ run }: ShardGroup): Promise<void> {
    const now = new Date(clock.now()).toISOString();
    for (;;) {
      const [row] = await run(evaluate, [now]);
      if (row!.taken === '0') return;
    }
  }

  async function work(group: ShardGroup): Promise<void> {
    while (waiting.delete(group)) {
      await evaluateGroup(group).catch((error: unknown) => {
        const outage = describeOutage(error);
        log.warn(
          outage === undefined ? { err: error } : { reason: outage },
          'thresholds could not be evaluated; the job tries again',
        );
      });
      if (!isDraining) await setTimeout(PAUSE_MS);
    }
    running.delete(group);
  }

  return {
    /** Call this when evaluations were queued. They run soon, or in any instance's job if this process ends first. */
    noted(group: ShardGroup): void {
      waiting.add(group);
      if (!running.has(group)) running.set(group, work(group));
    },
    async evaluateAll(): Promise<void> {
      const left = await queryRow(db.orm)`select 1 from usage_checks limit 1`;
      if (left) await Promise.all(db.shards.groups.map(evaluateGroup));
    },
    async drain(): Promise<void> {
      isDraining = true;
      await Promise.all(running.values());
    },
  };
}

export interface RefusedLimit {
  subject: Subject;
  state: LimitState;
  requested: string;
}

const MAX_RECENT_REPORTS = 10_000;

/** Skips a limit that this process reported within the last minute. */
export function createRefusalReporter() {
  const recentReports = createRecentMap<string, number>(MAX_RECENT_REPORTS);
  return async function report(run: Run, refused: readonly RefusedLimit[], nowMs: number): Promise<void> {
    const due = new Map<string, RefusedLimit>();
    for (const one of refused) {
      const { orgId, productId, livemode, metric } = one.subject;
      const { quantity, window, per } = one.state;
      const name = [orgId, productId, livemode, metric, quantity, window, per].join(' ');
      if (Math.abs(nowMs - (recentReports.get(name) ?? -Infinity)) >= MINUTE_MS) due.set(name, one);
    }
    if (due.size === 0) return;
    const rows = [...due.values()].map(({ subject, state, requested }) => ({
      ...subject,
      ...state,
      subject: state.subject,
      remaining: remainingOf(state),
      requested,
    }));
    await run(reportRefused, [JSON.stringify(rows), new Date(nowMs).toISOString()]);
    for (const name of due.keys()) recentReports.set(name, nowMs);
  };
}
