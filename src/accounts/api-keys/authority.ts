import { and, eq } from 'drizzle-orm';
import type { Authority } from '../audit/audit.js';
import { findKeyProblem, keyError } from './bearer-key.js';
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
      .where(and(eq(apiKeys.orgId, orgId), eq(apiKeys.id, keyId)))
      .for('share');
    const error = keyError(findKeyProblem(key, scope, now), scope);
    if (error) throw error;
  },
});
