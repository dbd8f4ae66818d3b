import { AppError } from '../errors.js';
import type { ShardGroup, Shards } from './client.js';
import { ShardGroupGoneError } from './shards.js';

export interface CoalesceOptions<Request, Answer> {
  /** One result per request, in order. A rejection fails all of them. */
  flush(requests: Request[]): Promise<(Answer | Error)[]>;
  parallel: number;
  /** Weight that must be waiting before a second flush starts in parallel. Smaller flushes cost more than they gain. */
  fullWeight: number;
  /** A request that exceeds it is still sent, by itself. */
  maxWeight: number;
  /**
   * For flushes with a high fixed cost: waits while each turn of the event loop brings another request, up to `weight`
   * or `ms`. A lone request waits one turn, not `ms`.
   */
  gather?: { weight: number; ms: number };
  weigh?(request: Request): number;
  /** In bytes; default 0. */
  measure?(request: Request): number;
  /** Whether the request is sent together with the one before it. */
  isContinuation?(request: Request): boolean;
  queueLimit: { weight: number; bytes: number };
}

export interface Coalescer<Request, Answer> {
  submit(request: Request): Promise<Answer>;
  readonly waiting: number;
  drain(): Promise<void>;
}

interface Waiter<Request, Answer> {
  request: Request;
  weight: number;
  bytes: number;
  isContinuation: boolean;
  resolve(answer: Answer): void;
  reject(error: unknown): void;
}

class Queue<Request, Answer> {
  waiters: Waiter<Request, Answer>[] = [];
  weight = 0;
  bytes = 0;

  push(waiter: Waiter<Request, Answer>): void {
    this.waiters.push(waiter);
    this.weight += waiter.weight;
    this.bytes += waiter.bytes;
  }

  take(maxWeight: number): Waiter<Request, Answer>[] {
    const { waiters } = this;
    let weight = 0;
    let count = 0;
    const fits = ({ weight: more, isContinuation }: Waiter<Request, Answer>) =>
      count === 0 || isContinuation || weight + more <= maxWeight;
    while (count < waiters.length && fits(waiters[count]!)) weight += waiters[count++]!.weight;
    const taken = count === waiters.length ? waiters : waiters.slice(0, count);
    this.waiters = count === waiters.length ? [] : waiters.slice(count);
    this.weight -= weight;
    for (const waiter of taken) this.bytes -= waiter.bytes;
    return taken;
  }
}

function settle<Request, Answer>(waiters: Waiter<Request, Answer>[], answers: (Answer | Error)[]): void {
  for (const [i, waiter] of waiters.entries()) {
    const answer = answers[i]!;
    if (answer instanceof Error) waiter.reject(answer);
    else waiter.resolve(answer);
  }
}

/** Requests that arrive during a flush share the next one. A lone request waits until the end of the current turn. */
export function createCoalescer<Request, Answer>(
  options: CoalesceOptions<Request, Answer>,
): Coalescer<Request, Answer> {
  const { parallel, fullWeight, maxWeight, queueLimit } = options;
  const queue = new Queue<Request, Answer>();
  let inFlight = 0;
  let isScheduled = false;
  let gatheringSince = 0;
  let seenWeight = 0;
  let idle: (() => void)[] = [];

  async function flushNext(): Promise<void> {
    const waiters = queue.take(maxWeight);
    inFlight++;
    try {
      settle(waiters, await options.flush(waiters.map((waiter) => waiter.request)));
    } catch (error) {
      for (const waiter of waiters) waiter.reject(error);
    } finally {
      inFlight--;
      if (options.gather) schedule();
      else pump();
    }
  }

  function schedule(): void {
    if (isScheduled) return;
    isScheduled = true;
    gatheringSince = performance.now();
    seenWeight = 0;
    setImmediate(options.gather ? gather : pump);
  }

  function gather(): void {
    const { weight, ms } = options.gather!;
    const isGrowing = queue.weight > seenWeight && queue.weight < weight;
    if (isGrowing && performance.now() - gatheringSince < ms) {
      seenWeight = queue.weight;
      setImmediate(gather);
    } else pump();
  }

  function pump(): void {
    isScheduled = false;
    while (
      queue.waiters.length > 0 &&
      (inFlight === 0 || (inFlight < parallel && queue.weight >= fullWeight))
    )
      void flushNext();
    if (inFlight === 0 && queue.waiters.length === 0) {
      for (const resolve of idle) resolve();
      idle = [];
    }
  }

  return {
    get waiting() {
      return queue.weight;
    },
    submit(request) {
      const weight = options.weigh?.(request) ?? 1;
      const bytes = options.measure?.(request) ?? 0;
      const isContinuation = options.isContinuation?.(request) ?? false;
      if (queue.weight + weight > queueLimit.weight || queue.bytes + bytes > queueLimit.bytes)
        return Promise.reject(overloaded());
      return new Promise<Answer>((resolve, reject) => {
        queue.push({ request, weight, bytes, isContinuation, resolve, reject });
        schedule();
      });
    },
    drain() {
      return inFlight === 0 && queue.waiters.length === 0
        ? Promise.resolve()
        : new Promise((resolve) => idle.push(resolve));
    },
  };
}

const overloaded = () =>
  new AppError('unavailable', 'Too many requests are waiting. Try again shortly.', { retryAfterSeconds: 1 });

/** Creates a coalescer for each shard group, so that a blocked or unreachable group delays only its own requests. */
export function createGroupCoalescer<
  Request extends { hashedSecret: string; orgId?: string | undefined },
  Answer,
>(
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
    const { orgId, hashedSecret } = request;
    const group = orgId === undefined ? shards.locate(hashedSecret) : shards.locateOrganization(orgId);
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
