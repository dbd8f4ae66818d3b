import { AppError } from './errors.js';

export interface CoalesceOptions<Request, Answer> {
  /** Answers the requests of one flush, in order: a value, or the error of that request alone. A rejection is everybody's. */
  flush(requests: Request[]): Promise<(Answer | Error)[]>;
  /** How many flushes may run at once. */
  parallel: number;
  /** A further flush starts beside a running one only when this much weight waits: small flushes cost more than they bring. */
  fullWeight: number;
  /** A flush takes no more than this, except for a single request that is larger. */
  maxWeight: number;
  /**
   * For flushes that cost much however little they carry: go on taking requests in, as long as each turn of the event
   * loop brings one, until `weight` waits or `ms` have passed. A lone request loses one turn, not `ms`.
   */
  gather?: { weight: number; ms: number };
  /** What a request weighs; 1 if left out. */
  weigh?(request: Request): number;
  /** What a request occupies in memory while it waits, in bytes; 0 if left out. */
  measure?(request: Request): number;
  /** Beyond either of these a request is refused at once. */
  queueLimit: { weight: number; bytes: number };
}

export interface Coalescer<Request, Answer> {
  submit(request: Request): Promise<Answer>;
  /** Weight that waits, not counting what is in flight. */
  readonly waiting: number;
  /** Resolves when nothing waits and nothing is in flight. */
  drain(): Promise<void>;
}

interface Waiter<Request, Answer> {
  request: Request;
  weight: number;
  bytes: number;
  resolve(answer: Answer): void;
  reject(error: unknown): void;
}

/**
 * Group commit: requests that arrive while a flush is in flight wait and go together in the next one. With nothing
 * in flight a request leaves at the end of the current turn of the event loop, so that a lone one never waits.
 */
export function createCoalescer<Request, Answer>(
  options: CoalesceOptions<Request, Answer>,
): Coalescer<Request, Answer> {
  const { parallel, fullWeight, maxWeight, queueLimit } = options;
  let queue: Waiter<Request, Answer>[] = [];
  let queuedWeight = 0;
  let queuedBytes = 0;
  let inFlight = 0;
  let isScheduled = false;
  /** Since when the next flush gathers, and what had come by the last turn. */
  let gatheringSince = 0;
  let seenWeight = 0;
  let idle: (() => void)[] = [];

  function takeNext(): Waiter<Request, Answer>[] {
    let weight = 0;
    let count = 0;
    while (count < queue.length && (count === 0 || weight + queue[count]!.weight <= maxWeight))
      weight += queue[count++]!.weight;
    const taken = count === queue.length ? queue : queue.slice(0, count);
    queue = count === queue.length ? [] : queue.slice(count);
    queuedWeight -= weight;
    for (const waiter of taken) queuedBytes -= waiter.bytes;
    return taken;
  }

  async function flushNext(): Promise<void> {
    const waiters = takeNext();
    inFlight++;
    try {
      const answers = await options.flush(waiters.map((waiter) => waiter.request));
      for (const [i, waiter] of waiters.entries()) {
        const answer = answers[i]!;
        if (answer instanceof Error) waiter.reject(answer);
        else waiter.resolve(answer);
      }
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
    const isGrowing = queuedWeight > seenWeight && queuedWeight < weight;
    if (isGrowing && performance.now() - gatheringSince < ms) {
      seenWeight = queuedWeight;
      setImmediate(gather);
    } else pump();
  }

  function pump(): void {
    isScheduled = false;
    while (queue.length > 0 && (inFlight === 0 || (inFlight < parallel && queuedWeight >= fullWeight)))
      void flushNext();
    if (inFlight === 0 && queue.length === 0) {
      for (const resolve of idle) resolve();
      idle = [];
    }
  }

  return {
    get waiting() {
      return queuedWeight;
    },
    submit(request) {
      const weight = options.weigh?.(request) ?? 1;
      const bytes = options.measure?.(request) ?? 0;
      if (queuedWeight + weight > queueLimit.weight || queuedBytes + bytes > queueLimit.bytes) {
        return Promise.reject(
          new AppError('unavailable', 'Too many requests are waiting. Try again shortly.', {
            retryAfterSeconds: 1,
          }),
        );
      }
      return new Promise<Answer>((resolve, reject) => {
        queue.push({ request, weight, bytes, resolve, reject });
        queuedWeight += weight;
        queuedBytes += bytes;
        schedule();
      });
    },
    drain() {
      return inFlight === 0 && queue.length === 0
        ? Promise.resolve()
        : new Promise((resolve) => idle.push(resolve));
    },
  };
}
