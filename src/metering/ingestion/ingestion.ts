import { setTimeout } from 'node:timers/promises';
import { isDatabaseUnavailable, sqlState, type ShardGroup, type Shards } from '../../core/db/client.js';
import { createGroupCoalescer } from '../../core/db/coalesce.js';
import { ShardGroupGoneError } from '../../core/db/shards.js';
import { AppError } from '../../core/errors.js';
import type { Context } from '../../core/http/context.js';
import type { Batch } from './batch.js';
import { recordBatches, type BatchOutcome } from './flush.js';
import { createHeadroom } from './headroom.js';
import type { Thresholds } from '../thresholds/thresholds.js';

export type Ingestion = ReturnType<typeof createIngestion>;

export interface RecorderDeps extends Pick<Context, 'db' | 'clock' | 'metrics'> {
  /** Left out: what is noted for them waits for the job. */
  thresholds?: Pick<Thresholds, 'noted'>;
}

/** How long a flush goes on trying while the database restarts, before its requests get 503. */
const RETRY_FOR_MS = 2_000;
const MAX_QUEUED_EVENTS = 50_000;
const MAX_QUEUED_DRY_RUNS = 200;
const MAX_QUEUED_BYTES = 32 * 1024 * 1024;

/** The ingestion engine of one process: batches that wait while a flush is in flight go together in the next one. */
export function createIngestion({ db, clock, metrics, thresholds }: RecorderDeps) {
  // The embedded database blocks the event loop for the time of a statement: shorter ones keep the process answering.
  const maxWeight = db.kind === 'embedded' ? 250 : 1_000;
  const { shards } = db;
  const queueLimit = (weight: number) => ({
    weight: shareOfQueue(shards, weight),
    bytes: shareOfQueue(shards, MAX_QUEUED_BYTES),
  });
  const recorder = createRecorder(recordOnce);
  const coalescer = createGroupCoalescer<Batch, BatchOutcome>(shards, (group) => ({
    flush: (batches) => recorder(group, batches),
    parallel: group.parallel,
    fullWeight: 100,
    maxWeight,
    weigh: (batch) => batch.keys.length,
    measure: (batch) => batch.bytes,
    queueLimit: queueLimit(MAX_QUEUED_EVENTS),
  }));

  // One at a time: until it is rolled back a dry run holds the rows that real events wait for.
  const dryRuns = createGroupCoalescer<Batch, BatchOutcome>(shards, (group) => ({
    flush: async ([batch]) => [await dryRun(group, batch!).catch(toRefusal)],
    parallel: 1,
    fullWeight: 1,
    maxWeight: 1,
    queueLimit: queueLimit(MAX_QUEUED_DRY_RUNS),
    measure: (batch) => batch.bytes,
  }));

  const headroom = createHeadroom();

  async function recordOnce(group: ShardGroup, batches: Batch[]): Promise<BatchOutcome[]> {
    const startedAt = performance.now();
    const outcomes = await recordBatches(group.run, batches, clock.now(), headroom, () =>
      thresholds?.noted(group),
    );
    metrics.flushSeconds.observe((performance.now() - startedAt) / 1000);
    metrics.flushEvents.observe(batches.reduce((sum, batch) => sum + batch.keys.length, 0));
    return outcomes;
  }

  async function dryRun(group: ShardGroup, batch: Batch): Promise<BatchOutcome> {
    const [outcome] = await group.dryRun((run) => recordBatches(run, [batch], clock.now()));
    return outcome!;
  }

  return {
    /** Records a batch; resolves after the commit. */
    record: (batch: Batch): Promise<BatchOutcome> => coalescer.submit(batch),
    /** What recording the batch would answer, with nothing recorded. */
    dryRun: (batch: Batch): Promise<BatchOutcome> => dryRuns.submit(batch),
    get waitingEvents() {
      return coalescer.waiting;
    },
    drain: () => coalescer.drain(),
  };
}

/** Of a queue for all groups: one that is blocked must not fill what all have. */
export const shareOfQueue = ({ groups }: Shards, limit: number): number => limit / Math.min(groups.length, 4);

/**
 * Records the requests of a flush, over short outages, and says of each what became of it.
 * @param recordOnce harmless when it is repeated
 */
export function createRecorder<Request, Outcome>(
  recordOnce: (group: ShardGroup, requests: Request[]) => Promise<Outcome[]>,
) {
  /** When each server was first found to be away, until it has answered. */
  const awaySince = new Map<string, number>();

  /** Something in the flush that the database itself refuses is found by halving; only its owner gets the error. */
  async function recordOrSplit(group: ShardGroup, batches: Request[]): Promise<(Outcome | Error)[]> {
    try {
      return await recordWithRetry(group, batches);
    } catch (error) {
      if (error instanceof ShardGroupGoneError) throw error;
      // Returned, not thrown: the other half of a split flush may have been committed and keeps its answers.
      if (isDatabaseUnavailable(error) || batches.length === 1) return batches.map(() => toRefusal(error));
      const middle = batches.length >> 1;
      return [
        ...(await recordOrSplit(group, batches.slice(0, middle))),
        ...(await recordOrSplit(group, batches.slice(middle))),
      ];
    }
  }

  /**
   * A repeat after a lost connection is safe: what had been committed after all is not counted again. The flushes share
   * the time they wait for the database, or a queue of requests would wait as many times as it has flushes.
   */
  async function recordWithRetry(group: ShardGroup, batches: Request[]): Promise<Outcome[]> {
    const startedAt = performance.now();
    for (let pauseMs = 20; ; pauseMs *= 2) {
      try {
        const outcomes = await recordOnce(group, batches);
        awaySince.delete(group.worker);
        return outcomes;
      } catch (error) {
        if (!isDatabaseUnavailable(error) || error instanceof ShardGroupGoneError) throw error;
        const since = awaySince.get(group.worker) ?? performance.now();
        awaySince.set(group.worker, since);
        const giveUpAt = Math.min(startedAt, since) + RETRY_FOR_MS;
        if (performance.now() + pauseMs > giveUpAt) throw error;
        await setTimeout(pauseMs);
      }
    }
  }

  return recordOrSplit;
}

/** Class 22 is data that the database cannot hold; anything else is ours. */
function toRefusal(error: unknown): Error {
  if (!sqlState(error)?.startsWith('22')) return error as Error;
  return new AppError('invalid_request', 'A value is outside what can be stored.', {
    cause: error,
  });
}
