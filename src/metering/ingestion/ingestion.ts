import { setTimeout } from 'node:timers/promises';
import { isDatabaseUnavailable, sqlState, type ShardGroup, type Shards } from '../../core/db/client.js';
import { createGroupCoalescer } from '../../core/db/coalesce.js';
import { ShardGroupGoneError } from '../../core/db/shards.js';
import { AppError } from '../../core/errors.js';
import type { Context } from '../../core/http/context.js';
import type { Batch } from './batch.js';
import { createFlushMemory, recordBatches } from './flush.js';
import type { Thresholds } from '../thresholds/thresholds.js';
import type { BatchOutcome } from './outcome.js';

export type Ingestion = ReturnType<typeof createIngestion>;

export interface RecorderDeps extends Pick<Context, 'db' | 'clock' | 'metrics'> {
  /** If undefined, queued threshold evaluations wait for the scheduled job. */
  thresholds?: Pick<Thresholds, 'noted'>;
}

/** While the database restarts. Afterwards, requests get 503. */
const RETRY_FOR_MS = 2_000;
const MAX_QUEUED_EVENTS = 50_000;
const MAX_QUEUED_DRY_RUNS = 200;
const MAX_QUEUED_BYTES = 32 * 1024 * 1024;

/** Batches that arrive during a flush share the next one. */
export function createIngestion({ db, clock, metrics, thresholds }: RecorderDeps) {
  // The embedded database blocks the event loop during a statement.
  const maxWeight = db.kind === 'embedded' ? 250 : 1_000;
  const { shards } = db;
  const queueLimit = (weight: number) => ({
    weight: shareOfQueue(shards, weight),
    bytes: shareOfQueue(shards, MAX_QUEUED_BYTES),
  });
  const recorder = createRecorder(recordOnce);
  const openQueue = () =>
    createGroupCoalescer<Batch, BatchOutcome>(shards, (group) => ({
      flush: (batches) => recorder(group, batches),
      parallel: group.parallel,
      fullWeight: 100,
      maxWeight,
      weigh: (batch) => batch.keys.length,
      measure: (batch) => batch.bytes,
      isContinuation: (batch) => batch.isContinuation,
      queueLimit: queueLimit(MAX_QUEUED_EVENTS),
    }));
  const coalescer = openQueue();
  // Old events need another statement.
  const oldEvents = openQueue();

  // Each dry run holds locks on rows that real events need until it is rolled back.
  const dryRuns = createGroupCoalescer<Batch, BatchOutcome>(shards, (group) => ({
    flush: async ([batch]) => [await dryRun(group, batch!).catch(toRefusal)],
    parallel: 1,
    fullWeight: 1,
    maxWeight: 1,
    queueLimit: queueLimit(MAX_QUEUED_DRY_RUNS),
    measure: (batch) => batch.bytes,
  }));

  const memory = createFlushMemory();
  const oldMemory = createFlushMemory(Infinity);

  async function recordOnce(group: ShardGroup, batches: Batch[]): Promise<BatchOutcome[]> {
    const startedAt = performance.now();
    const own = batches[0]!.takesOld ? oldMemory : memory;
    const outcomes = await recordBatches(group.run, batches, clock.now(), own, () =>
      thresholds?.noted(group),
    );
    metrics.flushSeconds.observe((performance.now() - startedAt) / 1000);
    return outcomes;
  }

  async function dryRun(group: ShardGroup, batch: Batch): Promise<BatchOutcome> {
    const [outcome] = await group.dryRun((run) => recordBatches(run, [batch], clock.now()));
    return outcome!;
  }

  return {
    /** Resolves after the commit. */
    record: (batch: Batch): Promise<BatchOutcome> => (batch.takesOld ? oldEvents : coalescer).submit(batch),
    /** Returns the outcome that recording the batch would have, without recording it. */
    dryRun: (batch: Batch): Promise<BatchOutcome> => dryRuns.submit(batch),
    get waitingEvents() {
      return coalescer.waiting;
    },
    drain: async () => void (await Promise.all([coalescer.drain(), oldEvents.drain()])),
  };
}

/** A blocked group cannot fill the common queue. */
export const shareOfQueue = ({ groups }: Shards, limit: number): number => limit / Math.min(groups.length, 4);

/** @param recordOnce must be safe to repeat */
export function createRecorder<Request, Outcome>(
  recordOnce: (group: ShardGroup, requests: Request[]) => Promise<Outcome[]>,
) {
  /** When each server was first found unavailable, until it responds. */
  const awaySince = new Map<string, number>();

  /** Finds the request that the database refuses by halving. Only that request gets the error. */
  async function recordOrSplit(group: ShardGroup, batches: Request[]): Promise<(Outcome | Error)[]> {
    try {
      return await recordWithRetry(group, batches);
    } catch (error) {
      if (error instanceof ShardGroupGoneError) throw error;
      // The other half of a split flush may be committed and must still be answered.
      if (isDatabaseUnavailable(error) || batches.length === 1) return batches.map(() => toRefusal(error));
      const middle = batches.length >> 1;
      return [
        ...(await recordOrSplit(group, batches.slice(0, middle))),
        ...(await recordOrSplit(group, batches.slice(middle))),
      ];
    }
  }

  /** Committed events are not counted again. All flushes share the waiting time, so that queued requests wait once. */
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

/** Class 22: data that the database cannot store. Any other error is a fault of this service. */
function toRefusal(error: unknown): Error {
  if (!sqlState(error)?.startsWith('22')) return error as Error;
  return new AppError('invalid_request', 'A value is outside the range that can be stored.', {
    cause: error,
  });
}
