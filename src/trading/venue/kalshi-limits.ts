import type { Logger } from 'pino';
import { z } from 'zod';
import type { Clock } from '../../core/clock.js';
import type { KalshiClient } from './kalshi-client.js';
import type { VenueBudget } from './venue-budget.js';

const bucketSchema = z.object({ refill_rate: z.number().positive(), bucket_capacity: z.number().positive() });
const limitsSchema = z.object({ read: bucketSchema, write: bucketSchema });
const costsSchema = z.object({
  default_cost: z.number().positive(),
  endpoint_costs: z.array(z.object({ method: z.string(), path: z.string(), cost: z.number().min(0) })),
});

const FRESH_MS = 60 * 60 * 1000;

/**
 * Asks once an hour what the key's account may ask, and sets the budget to it. Without a key the smallest tier's limits
 * stay; where the venue does not say, those that were known stay.
 */
export function createLimitReader({
  client,
  budget,
  clock,
  log,
}: {
  client: KalshiClient;
  budget: VenueBudget;
  clock: Clock;
  log: Pick<Logger, 'warn'>;
}): (signal: AbortSignal) => Promise<void> {
  let readAt = -Infinity;
  return async (signal) => {
    if (!client.isSigned || clock.now() - readAt < FRESH_MS) return;
    readAt = clock.now();
    try {
      const { read, write } = await client.get('/account/limits', [], limitsSchema, signal);
      const costs = await client.get('/account/endpoint_costs', [], costsSchema, signal);
      budget.setLimits({
        read: toBucket(read),
        write: toBucket(write),
        defaultCost: costs.default_cost,
        costs: costs.endpoint_costs,
      });
    } catch (error) {
      signal.throwIfAborted();
      log.warn({ err: error }, 'the venue does not say what this key may ask: the known limits stay');
    }
  };
}

const toBucket = ({ refill_rate, bucket_capacity }: z.infer<typeof bucketSchema>) => ({
  refillPerSecond: refill_rate,
  capacity: bucket_capacity,
});
