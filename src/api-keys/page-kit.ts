import type { Response } from 'express';
import { sessionOf } from '../identity/session/session.js';
import { AppError } from '../core/errors.js';
import { readChangeBudget, setBudgetHeaders } from './change-limit.js';
import type { KeyDeps } from './api-keys.js';
import { findKeyDetails, listScopeUse, type KeyDetails } from './page-queries.js';
import { mayManage, toBudgetView } from './views.js';

/** What several pages about keys have in common. */

export const SECTION = 'api-keys';

/** @throws AppError not_found: another Organization's key does not exist here */
export async function requireKeyDetails({ db }: KeyDeps, orgId: string, id: string): Promise<KeyDetails> {
  const key = await findKeyDetails(db.orm, orgId, id);
  if (!key) throw new AppError('not_found', 'There is no such API key.');
  return key;
}

/** What is left of the hour's changes, for the page and in its headers. */
export async function showBudget({ db, clock, config }: KeyDeps, res: Response) {
  const now = clock.now();
  const budget = await readChangeBudget(db.orm, sessionOf(res).orgId, now, config.limits.keyChangesPerHour);
  setBudgetHeaders(res, budget);
  return toBudgetView(budget, now);
}

/** The scopes that each of some keys has used. */
export async function readUsedScopes({ db }: KeyDeps, orgId: string, keys: KeyDetails[]) {
  const used = new Map<string, Set<string>>(keys.map(({ id }) => [id, new Set()]));
  if (keys.length === 0) return used;
  for (const { keyId, scope } of await listScopeUse(db.orm, orgId, [...used.keys()]))
    used.get(keyId)?.add(scope);
  return used;
}

/** True if the pages offer changes to whoever looks. The routes decide by themselves. */
export const canManage = (res: Response): boolean => mayManage(sessionOf(res).role);
