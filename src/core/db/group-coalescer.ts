import { createCoalescer, type CoalesceOptions, type Coalescer } from '../coalesce.js';
import type { ShardGroup, Shards } from './client.js';
import { ShardGroupGoneError } from './shards.js';

/**
 * A coalescer for each shard group: what goes together in one statement lies in one place, and a group that is away or
 * blocked keeps only its own requests waiting.
 */
export function createGroupCoalescer<Request extends { hashedSecret: string }, Answer>(
  shards: Shards,
  optionsOf: (group: ShardGroup) => CoalesceOptions<Request, Answer>,
): Coalescer<Request, Answer> {
  const coalescers = new Map<ShardGroup, Coalescer<Request, Answer>>();

  function open(group: ShardGroup): Coalescer<Request, Answer> {
    const options = optionsOf(group);
    const coalescer = createCoalescer<Request, Answer>({
      ...options,
      async flush(requests) {
        try {
          return await options.flush(requests);
        } catch (error) {
          if (!(error instanceof ShardGroupGoneError)) throw error;
          return Promise.all(
            requests.map((request) => submit(request).catch((reason: unknown) => reason as Error)),
          );
        }
      },
    });
    coalescers.set(group, coalescer);
    return coalescer;
  }

  const submitTo = (group: ShardGroup, request: Request) =>
    (coalescers.get(group) ?? open(group)).submit(request);

  function submit(request: Request): Promise<Answer> {
    const group = shards.locate(request.hashedSecret);
    return 'then' in group ? group.then((found) => submitTo(found, request)) : submitTo(group, request);
  }

  return {
    submit,
    get waiting() {
      let waiting = 0;
      for (const coalescer of coalescers.values()) waiting += coalescer.waiting;
      return waiting;
    },
    async drain() {
      await Promise.all([...coalescers.values()].map((coalescer) => coalescer.drain()));
    },
  };
}
