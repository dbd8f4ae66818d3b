import { ipKeyGenerator, rateLimit, type Options } from 'express-rate-limit';
import { AppError } from '../../core/errors.js';
import type { LimitStores } from '../../core/http/limit-store.js';

export interface JoinLimits {
  windowMs: number;
  /** Links that open nothing, in the window, after which an address gets no further. */
  wrongLinks: number;
  /** Forms for a new account in the window, from one address. Each costs the hash of a password. */
  newAccounts: number;
}

export const defaultJoinLimits: JoinLimits = { windowMs: 15 * 60 * 1000, wrongLinks: 30, newAccounts: 20 };

/** What an address may try with invitations. */
export function limitJoins(stores: LimitStores, { windowMs, wrongLinks, newAccounts }: JoinLimits) {
  const limit = (identifier: string, detail: string, options: Partial<Options>) =>
    rateLimit({
      windowMs,
      standardHeaders: 'draft-8',
      legacyHeaders: false,
      identifier,
      store: stores.create(identifier),
      passOnStoreError: true,
      keyGenerator: (req) => ipKeyGenerator(req.ip ?? '', 64),
      handler: (_req, _res, next) => next(new AppError('rate_limited', detail)),
      ...options,
    });
  return {
    wrongLinks: limit('join-links', 'Too many invitations from your address did not work. Try again later.', {
      limit: wrongLinks,
      // A request counts when it comes and is taken back when its link was good: a burst gets no further.
      skipSuccessfulRequests: true,
      requestWasSuccessful: (_req, res) => res.statusCode !== 404,
    }),
    newAccounts: limit('join-accounts', 'Too many accounts from your address. Try again later.', {
      limit: newAccounts,
    }),
  };
}
