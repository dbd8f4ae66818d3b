import type { Request, Response } from 'express';
import { AppError, found } from '../../core/errors.js';
import { readPathId } from '../../core/http/request.js';
import { sessionOf } from '../identity/session/session.js';
import { isManager } from '../organizations/table.js';
import { readChangeBudget, WINDOW_SECONDS, type ChangeBudget, type KeyDeps } from './api-keys.js';
import { findKeyDetails, listScopeUse, type KeyDetails } from './queries.js';
import { toBudgetView } from './view.js';

export const readId = (req: Request): string => readPathId(req, 'id', 'API key');

/** The format that express-rate-limit uses for the other limits. */
export function setBudgetHeaders(res: Response, { limit, remaining, resetSeconds }: ChangeBudget): void {
  res.setHeader('RateLimit-Policy', `"key-changes";q=${limit};w=${WINDOW_SECONDS}`);
  res.setHeader('RateLimit', `"key-changes";r=${remaining};t=${resetSeconds}`);
}

export const SECTION = 'api-keys';

/** An Organization's people cannot change the rows of service keys. */
export async function requireOwnKeyDetails(deps: KeyDeps, orgId: string, id: string): Promise<KeyDetails> {
  const key = await requireKeyDetails(deps, orgId, id);
  if (key.serviceKeyId !== null) throw new AppError('not_found', 'There is no such API key.');
  return key;
}

export const requireKeyDetails = async ({ db }: KeyDeps, orgId: string, id: string): Promise<KeyDetails> =>
  found(await findKeyDetails(db.orm, orgId, id), 'There is no such API key.');

export async function showBudget({ db, clock, config }: KeyDeps, res: Response) {
  const now = clock.now();
  const budget = await readChangeBudget(db.orm, sessionOf(res).orgId, now, config.limits.keyChangesPerHour);
  setBudgetHeaders(res, budget);
  return toBudgetView(budget, now);
}

export async function readUsedScopes({ db }: KeyDeps, orgId: string, keys: KeyDetails[]) {
  const used = new Map<string, Set<string>>(keys.map(({ id }) => [id, new Set()]));
  if (keys.length === 0) return used;
  for (const { keyId, scope } of await listScopeUse(db.orm, orgId, [...used.keys()]))
    used.get(keyId)?.add(scope);
  return used;
}

/** For display only: the routes check permissions themselves. */
export const canManage = (res: Response): boolean => isManager(sessionOf(res).role);
