import type { Response } from 'express';
import type { Orm } from '../core/db/client.js';
import { AppError } from '../core/errors.js';
import { countKeyChanges } from './queries.js';

const WINDOW_SECONDS = 3600;

/** What is left of an Organization's key changes in the hour that slides along with the time. */
export interface ChangeBudget {
  limit: number;
  remaining: number;
  /** Seconds until one more is allowed than now; the whole window where nothing has been used. */
  resetSeconds: number;
}

/** The budget is used up. Carries it for the headers of the answer. */
export class ChangesExhausted extends AppError {
  readonly budget: ChangeBudget;
  constructor(budget: ChangeBudget) {
    super('rate_limited', `An Organization makes or rotates at most ${budget.limit} API keys an hour.`, {
      retryAfterSeconds: budget.resetSeconds,
    });
    this.budget = budget;
  }
}

/** The rows are the count, so it holds across restarts and on every instance. */
export async function readChangeBudget(
  orm: Orm,
  orgId: string,
  nowMs: number,
  limit: number,
): Promise<ChangeBudget> {
  const since = new Date(nowMs - WINDOW_SECONDS * 1000);
  const { changes, oldestAt } = await countKeyChanges(orm, orgId, since, limit);
  const resetSeconds =
    oldestAt === null
      ? WINDOW_SECONDS
      : Math.max(1, Math.ceil((oldestAt.getTime() - since.getTime()) / 1000));
  return { limit, remaining: limit - changes, resetSeconds };
}

/** The IETF fields, as express-rate-limit writes them for the other limits. */
export function setBudgetHeaders(res: Response, { limit, remaining, resetSeconds }: ChangeBudget): void {
  res.setHeader('RateLimit-Policy', `"key-changes";q=${limit};w=${WINDOW_SECONDS}`);
  res.setHeader('RateLimit', `"key-changes";r=${remaining};t=${resetSeconds}`);
}
