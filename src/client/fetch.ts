import { retryCall, type GaugeClient } from './client.js';
import {
  createGuard,
  sizeOf,
  type GuardOptions,
  type KeyNeeds,
  type LimitOptions,
  type MeterOptions,
  type VerifiedKey,
} from './guard.js';
import { checkReporter, clientFor, type Reports } from './hold.js';

export type { GuardOptions, KeyNeeds, VerifiedKey };
type Seen = [request: Request, response: Response];
export type Step = (request: Request, next: () => Promise<Response>) => Promise<Response>;

export interface FetchGuardOptions extends GuardOptions<Request> {
  /** Lets counting outlast the response, such as `waitUntil` of Workers or `after` of Next. By default, the response waits for it. */
  waitUntil?: (work: Promise<unknown>) => void;
}

export interface FetchGuard {
  /** The caller must send an API key of its Organization; handlers find it with `keyOf(request)`. */
  verifyKey(needs?: KeyNeeds): Step;
  /** The caller's Organization must be allowed to use the product. A check promises nothing; `withLimit` does. */
  requireEntitlement(productSlug: string, options?: { quantity?: number }): Step;
  /** Counts the call once it has a response. */
  meter(options: MeterOptions<Seen>): Step;
  /** Holds the most that the call may use, and settles once it has a response, or releases if that is an error. */
  withLimit(options: LimitOptions<Request, Seen>): Step;
  keyOf(request: Request): VerifiedKey | undefined;
}

export function createFetchGuard(options: FetchGuardOptions): FetchGuard {
  const { waitUntil } = options;
  const guard = createGuard(options);
  const keys = new WeakMap<Request, VerifiedKey>();

  const before =
    (check: (request: Request) => Promise<void>): Step =>
    async (request, next) => {
      try {
        await check(request);
      } catch (error) {
        const { status, headers, body } = guard.toAnswer(error);
        return new Response(body, { status, headers });
      }
      return next();
    };
  const finish = (work: Promise<void>): Promise<void> | void => (waitUntil ? waitUntil(work) : work);

  return {
    keyOf: (request) => keys.get(request),
    verifyKey: (needs = {}) =>
      before(async (request) => {
        keys.set(request, await guard.verify(request.headers.get('authorization'), needs));
      }),
    requireEntitlement: (productSlug, { quantity = 0 } = {}) =>
      before((request) => guard.requireEntitlement(request, keys.get(request), productSlug, quantity)),
    meter({ quantity, ...event }) {
      checkReporter(options, 'meter');
      return async (request, next) => {
        const response = await next();
        const report = () =>
          guard.report(request, keys.get(request), {
            ...event,
            quantity: sizeOf(quantity, request, response),
          });
        if (response.status < 400) await finish(report());
        return response;
      };
    },
    withLimit: (limit) => async (request, next) => {
      let end: ((response?: Response) => Promise<void>) | undefined;
      const hold = before(async () => {
        const held = await guard.hold(request, keys.get(request), limit);
        end = (response) => {
          const isUsed = response && response.status < 400;
          const used = () => (limit.used ? limit.used(request, response!) : sizeOf(limit.quantity, request));
          return guard.end(held, isUsed ? used() : undefined);
        };
      });
      try {
        const response = await hold(request, next);
        if (end) await finish(end(response));
        return response;
      } catch (error) {
        await end?.();
        throw error;
      }
    },
  };
}

/** A handler of Next or Workers behind steps, the first outermost. */
export const guarded =
  <Rest extends unknown[]>(
    steps: readonly Step[],
    handler: (request: Request, ...rest: Rest) => Response | Promise<Response>,
  ): ((request: Request, ...rest: Rest) => Promise<Response>) =>
  (request, ...rest) => {
    const last = async () => handler(request, ...rest);
    return steps.reduceRight<() => Promise<Response>>((next, step) => () => step(request, next), last)();
  };

/** A middleware of Hono. Its handlers find the key with `keyOf(c.req.raw)`. */
export const forHono =
  (step: Step) =>
  (c: { req: { raw: Request }; res: Response }, next: () => Promise<void>): Promise<Response> =>
    step(c.req.raw, async () => {
      await next();
      return c.res;
    });

/** For places without a disk: sends each event at once, and again for some seconds if Gauge is down. */
export const createDirectReporter = (client: GaugeClient): Reports => ({
  async report({ organization, ...event }) {
    const events = [{ idempotencyKey: crypto.randomUUID(), ...event }];
    await retryCall(() => clientFor(client, organization).POST('/api/usage/events', { body: { events } }));
  },
});
