import { retryCall, type GaugeClient } from './client.js';
import { createGuard, type Guard, type GuardOptions, type KeyNeeds, type VerifiedKey } from './guard.js';
import { checkReporter, clientFor, type Hold, type Reports } from './hold.js';

export type { GuardOptions, KeyNeeds, VerifiedKey };
export type Step = (request: Request, next: () => Promise<Response>) => Promise<Response>;

export interface FetchGuardOptions extends GuardOptions<Request> {
  /** Lets counting outlast the response, such as `waitUntil` of Workers or `after` of Next. By default, the response waits for it. */
  waitUntil?: (work: Promise<unknown>) => void;
}

export interface FetchGuard extends Guard<Request, Response, Step> {
  /** After `verifyKey`. */
  keyOf(request: Request): VerifiedKey | undefined;
}

export function createFetchGuard(options: FetchGuardOptions): FetchGuard {
  const { waitUntil } = options;
  const guard = createGuard<Request, Response>(options);
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
  const finish = (work: Promise<unknown>) => (waitUntil ? waitUntil(work) : work);

  return {
    keyOf: (request) => keys.get(request),
    verifyKey: (needs = {}) =>
      before(async (request) => {
        keys.set(request, await guard.verify(request.headers.get('authorization'), needs));
      }),
    requireEntitlement: (productSlug, { quantity = 0 } = {}) =>
      before((request) => guard.requireEntitlement(request, keys.get(request), productSlug, quantity)),
    meter(event) {
      checkReporter(options, 'meter');
      return async (request, next) => {
        const response = await next();
        if (response.status < 400) await finish(guard.report(request, keys.get(request), response, event));
        return response;
      };
    },
    withLimit: (limit) => async (request, next) => {
      let hold: Hold | undefined;
      const begin = before(async () => {
        hold = await guard.hold(request, keys.get(request), limit);
      });
      const end = async (used?: () => number | undefined) => hold && guard.end(hold, used);
      try {
        const response = await begin(request, next);
        await finish(end(response.status < 400 ? () => limit.used?.(request, response) : undefined));
        return response;
      } catch (error) {
        await end();
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
