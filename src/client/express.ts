import type { Request, RequestHandler, Response } from 'express';
import {
  createGuard,
  sizeOf,
  type GuardOptions,
  type KeyNeeds,
  type LimitOptions,
  type MeterOptions,
  type VerifiedKey,
} from './guard.js';
import { checkReporter } from './hold.js';

export type { GuardOptions, KeyNeeds, VerifiedKey };
type Seen = [req: Request, res: Response];

export interface ExpressGuard {
  /** The caller must send an API key of its Organization; later handlers find it with `keyOf(res)`. */
  verifyKey(needs?: KeyNeeds): RequestHandler;
  /** The caller's Organization must be allowed to use the product. A check promises nothing; `withLimit` does. */
  requireEntitlement(productSlug: string, options?: { quantity?: number }): RequestHandler;
  /** Counts the call after its response. */
  meter(options: MeterOptions<Seen>): RequestHandler;
  /** Holds the most that the call may use, and settles after its response, or releases if that is an error. */
  withLimit(options: LimitOptions<Request, Seen>): RequestHandler;
}

export const keyOf = (res: Response): VerifiedKey | undefined =>
  res.locals.gaugeKey as VerifiedKey | undefined;

export function createExpressGuard(options: GuardOptions<Request>): ExpressGuard {
  const guard = createGuard(options);

  const before =
    (check: (req: Request, res: Response) => Promise<void>): RequestHandler =>
    async (req, res, next) => {
      try {
        await check(req, res);
      } catch (error) {
        const { status, headers, body } = guard.toAnswer(error);
        res.status(status).set(headers).end(body);
        return;
      }
      next();
    };

  return {
    verifyKey: (needs = {}) =>
      before(async (req, res) => {
        res.locals.gaugeKey = await guard.verify(req.headers.authorization, needs);
      }),
    requireEntitlement: (productSlug, { quantity = 0 } = {}) =>
      before((req, res) => guard.requireEntitlement(req, keyOf(res), productSlug, quantity)),
    meter({ quantity, ...event }) {
      checkReporter(options, 'meter');
      return (req, res, next) => {
        res.once('close', () => {
          if (isDone(res))
            void guard.report(req, keyOf(res), { ...event, quantity: sizeOf(quantity, req, res) });
        });
        next();
      };
    },
    withLimit: (limit) =>
      before(async (req, res) => {
        const hold = await guard.hold(req, keyOf(res), limit);
        const end = () => {
          const used = () => (limit.used ? limit.used(req, res) : sizeOf(limit.quantity, req));
          void guard.end(hold, isDone(res) ? used() : undefined);
        };
        // The caller may have gone away in the meantime.
        if (res.closed) end();
        else res.once('close', end);
      }),
  };
}

const isDone = (res: Response): boolean => res.writableFinished && res.statusCode < 400;
