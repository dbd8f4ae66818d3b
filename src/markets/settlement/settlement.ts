import { DAY_MS } from '../../core/time.js';
import { createLease } from '../../core/db/jobs.js';
import type { Context } from '../../core/http/context.js';
import type { Account } from '../ledger/queries.js';
import { MAX_TRADING_AGE_MS, type MarketSource } from '../market/source.js';
import { ageOf, type Snapshot, type SnapshotStore } from '../snapshot/snapshot.js';
import { deleteOldPaperBooks } from './queries.js';
import { createSettling, type SettleReport } from './settle.js';

interface SettlementDeps extends Pick<Context, 'db' | 'clock' | 'log'> {
  markets: MarketSource;
  snapshots: SnapshotStore;
  history: {
    /** Never rejects: the money is booked, and a curve without this point is no reason to book it again. */
    recordPoint(account: Account): Promise<void>;
    recordAll(mayGoOn: () => Promise<boolean>): Promise<void>;
    thinOut(mayGoOn: () => Promise<boolean>): Promise<void>;
  };
}

/** Longer than the pause between two passes; another instance takes over after this time. */
const LEASE_SECONDS = 90;
const STOP_MS = 5_000;
/** What paper orders took holds until the venue's next book, seconds later. */
const PAPER_BOOKS_KEPT_MS = DAY_MS;

export type Settlement = ReturnType<typeof createSettlement>;

/** What is done for all accounts by one instance at a time. None of it rejects because another instance does it. */
export function createSettlement({ db, clock, log, markets, snapshots, history }: SettlementDeps) {
  const stopping = new AbortController();
  const lease = createLease(db.orm, 'settlement', { lengthSeconds: LEASE_SECONDS });
  const mayGoOn = async () => !stopping.signal.aborted && (await lease.hold());
  const settling = createSettling({
    orm: db.orm,
    markets,
    clock,
    log,
    onMoved: (account) => history.recordPoint(account),
  });
  const running = new Set<Promise<unknown>>();

  /** Runs a piece of work to its end, or not at all. */
  async function run<T>(work: () => Promise<T>): Promise<T | undefined> {
    if (stopping.signal.aborted) return undefined;
    const ending = work().catch((error: unknown) => {
      if (!stopping.signal.aborted) throw error;
      return undefined;
    });
    running.add(ending);
    return ending.finally(() => running.delete(ending));
  }

  /** What the venue says now. An instance that does not hear it leaves the work to another. */
  async function hear(): Promise<Snapshot | undefined> {
    const { current } = snapshots;
    if (current && ageOf(current, clock.now()) <= MAX_TRADING_AGE_MS) return current;
    await lease.release();
    return undefined;
  }

  return {
    /** Books what the venue says about the ends of markets. Undefined if nothing was looked at. */
    settle: (): Promise<SettleReport | undefined> =>
      run(async () => {
        const snapshot = await hear();
        if (!snapshot || !(await mayGoOn())) return undefined;
        const report = await settling.pass(snapshot, stopping.signal, mayGoOn);
        if (report.events > 0) log.info(report, 'recorded what the venue says about settled markets');
        return report;
      }),
    /** Records what each account is worth that holds something. */
    async recordHistory(): Promise<void> {
      await run(async () => {
        if (await hear()) await history.recordAll(mayGoOn);
      });
    },
    async cleanUp(): Promise<void> {
      await run(async () => {
        await history.thinOut(mayGoOn);
        if (await mayGoOn()) await deleteOldPaperBooks(db.orm, new Date(clock.now() - PAPER_BOOKS_KEPT_MS));
      });
    },
    async stop(): Promise<void> {
      stopping.abort();
      const ended = Promise.allSettled(running)
        .then(() => lease.release())
        .catch((error: unknown) => {
          log.warn({ err: error }, 'the lease of the settlement could not be given back: it expires');
        });
      const late = new Promise<void>((resolve) => setTimeout(resolve, STOP_MS).unref());
      await Promise.race([ended, late]);
    },
  };
}
