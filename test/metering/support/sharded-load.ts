import { setTimeout } from 'node:timers/promises';
import { hashSecret } from '../../../src/accounts/api-keys/bearer-key.js';
import type { Database } from '../../../src/core/db/client.js';
import { createMetrics } from '../../../src/core/metrics.js';
import { systemClock } from '../../../src/core/time.js';
import { toBatch } from '../../../src/metering/ingestion/batch.js';
import { createIngestion } from '../../../src/metering/ingestion/ingestion.js';
import { createMeteringMetrics } from '../../../src/metering/metrics.js';
import { createKey, createOrganization } from '../../support/fixtures.js';
import { createProduct, grant } from './products.js';

export interface Sender {
  orgId: string;
  slug: string;
  secret: string;
  productSlug: string;
}

/** Creates Organizations with one key each, which all report usage of the same product. */
export async function createSenders(db: Database, count: number): Promise<Sender[]> {
  const product = await createProduct(db);
  const senders: Sender[] = [];
  for (let i = 0; i < count; i++) {
    const { id, slug } = await createOrganization(db);
    await grant(db, id, product.id);
    const { secret } = await createKey(db, id);
    senders.push({ orgId: id, slug, secret, productSlug: product.slug });
  }
  return senders;
}

let run = 0;

export interface Load {
  readonly acknowledged: ReadonlyMap<string, number>;
  readonly failures: ReadonlyMap<string, number>;
  /** Attempts that failed sooner than any time limit could have ended them. */
  readonly early: readonly string[];
  /** Times of acknowledgement by Organization, in ms since the load began. */
  readonly times: ReadonlyMap<string, number[]>;
  /** Duration of each batch by Organization, in ms. */
  readonly took: ReadonlyMap<string, number[]>;
  stop(): Promise<void>;
}

/**
 * Shortest time after which a statement can time out. A statement for a moving group is retried with doubling pauses,
 * and fails when the next pause would end after three seconds. On a slow machine, a statement may time out.
 */
const SHORTEST_LIMIT_MS = 1_400;

/** Sends each Organization's batches in sequence and retries each until it is acknowledged. */
export function startLoad(db: Database, senders: Sender[], { batch: size = 20, pauseMs = 0 } = {}): Load {
  const ingestion = createIngestion({
    db,
    clock: systemClock,
    metrics: createMetrics([createMeteringMetrics], { ofProcess: false }),
  });
  const acknowledged = new Map<string, number>();
  const failures = new Map<string, number>();
  const early: string[] = [];
  const times = new Map<string, number[]>();
  const took = new Map<string, number[]>();
  const startedAt = performance.now();
  const mark = `${process.pid}-${++run}`;
  let isStopping = false;

  async function send({ orgId, secret, productSlug }: Sender): Promise<void> {
    times.set(orgId, []);
    took.set(orgId, []);
    for (let n = 0; !isStopping; n++) {
      const batch = toBatch({
        events: Array.from({ length: size }, (_, i) => ({
          productSlug,
          metric: 'calls',
          quantity: 1,
          idempotencyKey: `${mark}-${n}-${i}`,
        })),
        exactQuantities: new Map(),
        hashedSecret: hashSecret(secret),
        isLenient: false,
        receivedAtMs: Date.now(),
        bytes: 1,
      });
      const begunAt = performance.now();
      for (;;) {
        const triedAt = performance.now();
        try {
          const { verdicts } = await ingestion.record(batch);
          const problem = verdicts.find((verdict) => verdict?.problem != null)?.problem;
          if (problem) throw new Error(problem);
          break;
        } catch (error) {
          const { code = '', message } = error as { code?: string; message: string };
          const what = `${code} ${message.replaceAll(/\d+/g, 'n')}`.trim();
          failures.set(what, (failures.get(what) ?? 0) + 1);
          if (performance.now() - triedAt < SHORTEST_LIMIT_MS) early.push(what);
          await setTimeout(50);
        }
      }
      took.get(orgId)!.push(performance.now() - begunAt);
      times.get(orgId)!.push(performance.now() - startedAt);
      acknowledged.set(orgId, (acknowledged.get(orgId) ?? 0) + size);
      if (pauseMs > 0) await setTimeout(pauseMs);
    }
  }

  const work = Promise.all(senders.map(send));
  return {
    acknowledged,
    failures,
    early,
    times,
    took,
    async stop() {
      isStopping = true;
      await work;
      await ingestion.drain();
    },
  };
}

/** Waits until each of these Organizations has recorded `batches` more batches. */
export async function progress(load: Load, senders: Sender[], batches = 1): Promise<void> {
  const count = ({ orgId }: Sender) => load.times.get(orgId)?.length ?? 0;
  const goals = senders.map((sender) => count(sender) + batches);
  while (senders.some((sender, i) => count(sender) < goals[i]!)) await setTimeout(10);
}
