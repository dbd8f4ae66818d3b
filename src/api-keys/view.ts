import type { apiKeys } from './table.js';

export type KeyState = 'active' | 'grace' | 'expired' | 'revoked';

export type ApiKeyRow = Omit<typeof apiKeys.$inferSelect, 'hashedSecret' | 'orgId'>;

/** A key as people and clients see it: never its secret, nor the hash of it. */
export interface ApiKeyView {
  id: string;
  name: string;
  prefix: string;
  scopes: string[];
  livemode: boolean;
  state: KeyState;
  lastUsedAt: string | null;
  expiresAt: string | null;
  revokedAt: string | null;
  createdAt: string;
  createdBy: string | null;
  rotatedFromId: string | null;
}

/** @param hasSuccessor whether the key has been rotated: until it expires it is in grace */
export function toApiKeyView(key: ApiKeyRow, hasSuccessor: boolean, nowMs: number): ApiKeyView {
  return {
    id: key.id,
    name: key.name,
    prefix: key.prefix,
    scopes: key.scopes,
    livemode: key.livemode,
    state: stateOf(key, hasSuccessor, nowMs),
    lastUsedAt: key.lastUsedAt?.toISOString() ?? null,
    expiresAt: key.expiresAt?.toISOString() ?? null,
    revokedAt: key.revokedAt?.toISOString() ?? null,
    createdAt: key.createdAt.toISOString(),
    createdBy: key.createdBy,
    rotatedFromId: key.rotatedFromId,
  };
}

/** The state follows from the timestamps; nothing stores it. */
export function stateOf(
  key: Pick<ApiKeyRow, 'revokedAt' | 'expiresAt'>,
  hasSuccessor: boolean,
  nowMs: number,
): KeyState {
  if (key.revokedAt !== null) return 'revoked';
  if (key.expiresAt !== null && key.expiresAt.getTime() <= nowMs) return 'expired';
  return hasSuccessor ? 'grace' : 'active';
}
