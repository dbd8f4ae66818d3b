import type { Request, RequestHandler, Response } from 'express';
import { createGuard, type Guard, type GuardOptions, type KeyNeeds, type VerifiedKey } from './guard.js';
import { checkReporter } from './hold.js';

export type { GuardOptions, KeyNeeds, VerifiedKey };
export type ExpressGuard = Guard<Request, Response, RequestHandler>;

export const keyOf = (res: Response): VerifiedKey | undefined =>
  res.locals.gaugeKey as VerifiedKey | undefined;

/** Later handlers find the verified key with `keyOf(res)`. */
export function createExpressGuard(options: GuardOptions<Request>): ExpressGuard {
  const guard = createGuard<Request, Response>(options);

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
    meter(event) {
      checkReporter(options, 'meter');
      return (req, res, next) => {
        res.once('close', () => {
          if (isDone(res)) void guard.report(req, keyOf(res), res, event);
        });
        next();
      };
    },
    withLimit: (limit) =>
      before(async (req, res) => {
        const hold = await guard.hold(req, keyOf(res), limit);
        const end = () => void guard.end(hold, isDone(res) ? () => limit.used?.(req, res) : undefined);
        // The caller may have gone away in the meantime.
        if (res.closed) end();
        else res.once('close', end);
      }),
  };
}

const isDone = (res: Response): boolean => res.writableFinished && res.statusCode < 400;
