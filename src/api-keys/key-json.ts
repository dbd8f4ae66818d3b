import type { KeyRow } from './queries.js';

export type KeyState = 'active' | 'grace' | 'expired' | 'revoked';

/** The state follows from the timestamps: a key that has a successor is in its grace period until it expires. */
export function stateOf(
  key: Pick<KeyRow, 'revokedAt' | 'expiresAt' | 'successorId'>,
  nowMs: number,
): KeyState {
  if (key.revokedAt !== null) return 'revoked';
  if (key.expiresAt !== null && key.expiresAt.getTime() <= nowMs) return 'expired';
  return key.successorId === null ? 'active' : 'grace';
}

/** ApiKey as the contract has it. */
export function toApiKeyJson(key: KeyRow, nowMs: number) {
  return {
    id: key.id,
    name: key.name,
    prefix: key.prefix,
    scopes: key.scopes,
    livemode: key.livemode,
    state: stateOf(key, nowMs),
    lastUsedAt: key.lastUsedAt,
    expiresAt: key.expiresAt,
    revokedAt: key.revokedAt,
    createdAt: key.createdAt,
    createdBy: key.createdBy,
    rotatedFromId: key.rotatedFromId,
  };
}
