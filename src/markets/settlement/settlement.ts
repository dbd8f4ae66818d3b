import { DAY_MS } from '../../core/time.js';
import { createLease } from '../../core/db/jobs.js';
import type { Context } from '../../core/http/context.js';
import type { Account } from '../ledger/queries.js';
import { MAX_TRADING_AGE_MS, type MarketSource } from '../market/source.js';
import { ageOf, type Snapshot, type SnapshotStore } from '../snapshot/snapshot.js';
import { deleteOldPaperBooks, deleteOldQueuePositions } from './queries.js';
import { createSettling, type SettleReport } from './settle.js';

interface SettlementDeps extends Pick<Context, 'db' | 'clock' | 'log' | 'lifecycle'> {
  markets: MarketSource;
  snapshots: SnapshotStore;
  history: {
    /** Never rejects: the money is already booked, and a missing point must not cause a second booking. */
    recordPoint(account: Account): Promise<void>;
    recordAll(mayContinue: () => Promise<boolean>): Promise<void>;
    thinOut(mayContinue: () => Promise<boolean>): Promise<void>;
  };
}

/** Longer than the pause between two passes. */
const LEASE_SECONDS = 90;
const STOP_MS = 5_000;
/** Contracts taken by paper orders count only until the venue's next book, seconds later. */
const PAPER_BOOKS_KEPT_MS = DAY_MS;
/** Longer than the period of an execution report. */
const QUEUE_POSITIONS_KEPT_MS = 100 * DAY_MS;

export type Settlement = ReturnType<typeof createSettlement>;

/** One instance at a time. Without the lease, an instance silently skips the work. */
export function createSettlement(deps: SettlementDeps) {
  const { db, clock, log, markets, snapshots, history } = deps;
  const stopping = new AbortController();
  const lease = createLease(deps, 'settlement', { lengthSeconds: LEASE_SECONDS });
  const mayContinue = async () => !stopping.signal.aborted && (await lease.hold());
  const settling = createSettling({
    orm: db.orm,
    markets,
    clock,
    log,
    onMoved: (account) => history.recordPoint(account),
  });
  const running = new Set<Promise<unknown>>();

  /** `stop` waits for the work to end. */
  async function run<T>(work: () => Promise<T>): Promise<T | undefined> {
    if (stopping.signal.aborted) return undefined;
    const ending = work().catch((error: unknown) => {
      if (!stopping.signal.aborted) throw error;
      return undefined;
    });
    running.add(ending);
    return ending.finally(() => running.delete(ending));
  }

  /** Without a fresh snapshot, releases the lease to another instance. */
  async function findFreshSnapshot(): Promise<Snapshot | undefined> {
    const { current } = snapshots;
    if (current && ageOf(current, clock.now()) <= MAX_TRADING_AGE_MS) return current;
    await lease.release();
    return undefined;
  }

  return {
    /** Undefined if this instance did nothing. */
    settle: (): Promise<SettleReport | undefined> =>
      run(async () => {
        const snapshot = await findFreshSnapshot();
        if (!snapshot || !(await mayContinue())) return undefined;
        const report = await settling.pass(snapshot, stopping.signal, mayContinue);
        if (report.events > 0) log.info(report, "recorded the venue's results of settled markets");
        return report;
      }),
    async recordHistory(): Promise<void> {
      await run(async () => {
        if (await findFreshSnapshot()) await history.recordAll(mayContinue);
      });
    },
    async cleanUp(): Promise<void> {
      await run(async () => {
        await history.thinOut(mayContinue);
        if (await mayContinue())
          await deleteOldPaperBooks(db.orm, new Date(clock.now() - PAPER_BOOKS_KEPT_MS));
        if (await mayContinue())
          await deleteOldQueuePositions(db.orm, new Date(clock.now() - QUEUE_POSITIONS_KEPT_MS));
      });
    },
    async stop(): Promise<void> {
      stopping.abort();
      const ended = Promise.allSettled(running).then(() => lease.release());
      const late = new Promise<void>((resolve) => setTimeout(resolve, STOP_MS).unref());
      await Promise.race([ended, late]);
    },
  };
}
