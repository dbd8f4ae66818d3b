import type { Tx } from '../../core/db/client.js';
import { matches } from '../../core/db/sql.js';
import { change, type Authority, type ChangeDeps } from '../audit/audit.js';
import { lockOrganizationId } from '../organizations/table.js';
import { findKeyProblem, keyError, type KeyIdentity } from './bearer-key.js';
import type { AnyScope } from './scopes.js';
import { apiKeys } from './table.js';

export interface KeyAuthority extends Authority {
  keyId: string;
}

const columns = {
  revokedAt: apiKeys.revokedAt,
  archivedAt: apiKeys.archivedAt,
  expiresAt: apiKeys.expiresAt,
  scopes: apiKeys.scopes,
};

export const keyAuthority = (orgId: string, keyId: string, scope: AnyScope): KeyAuthority => ({
  keyId,
  async confirm(tx, now) {
    const [key] = await tx
      .select(columns)
      .from(apiKeys)
      .where(matches(apiKeys, { orgId, id: keyId }))
      .for('share');
    const error = keyError(findKeyProblem(key, scope, now), scope);
    if (error) throw error;
  },
});

/** Locks in the order of members' changes that revoke keys. */
export const changeByKey = <T>(
  deps: ChangeDeps,
  { orgId, keyId }: KeyIdentity,
  scope: AnyScope,
  work: (tx: Tx) => Promise<T>,
): Promise<T> => {
  const lock = (tx: Tx) => lockOrganizationId(tx, orgId);
  return change(deps, { ...keyAuthority(orgId, keyId, scope), lock }, work);
};
