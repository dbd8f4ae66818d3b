import { and, eq } from 'drizzle-orm';
import type { Authority } from '../audit/audit.js';
import { invalidKey, keyError, type KeyProblem } from './bearer-key.js';
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
    if (!key) throw invalidKey();
    const error = keyError(problemOf(key, scope, now), scope);
    if (error) throw error;
  },
});

function problemOf(
  { revokedAt, archivedAt, expiresAt, scopes }: Pick<typeof apiKeys.$inferSelect, keyof typeof columns>,
  scope: AnyScope,
  now: Date,
): KeyProblem | null {
  if (revokedAt !== null) return 'key_revoked';
  if (archivedAt !== null) return 'organization_archived';
  if (expiresAt !== null && expiresAt <= now) return 'key_expired';
  return scopes.includes(scope) ? null : 'insufficient_scope';
}
