import { formatDuration } from '../core/pages/format.js';
import { stateOf } from './key-json.js';
import type { KeyDetails } from './page-queries.js';

/** Something about a key that its Organization should look at, and what to do about it. */
export interface Hint {
  kind: 'unused' | 'expiring' | 'unused_scope' | 'still_called';
  text: string;
  advice: string;
  /** Where that is done. */
  action: { label: string; href: string };
}

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;
const UNUSED_AFTER_MS = 90 * DAY_MS;
const EXPIRING_WITHIN_MS = 14 * DAY_MS;

/** The hints of a key that works. `usedScopes` are the scopes that its calls needed so far. */
export function findHints(key: KeyDetails, usedScopes: ReadonlySet<string>, nowMs: number): Hint[] {
  const state = stateOf(key, nowMs);
  if (state === 'grace') return [stillCalled(key, nowMs)].filter((hint) => hint !== undefined);
  if (state !== 'active') return [];
  const unused = findUnused(key, nowMs);
  // A key that nobody calls uses none of its scopes; one word about it is enough.
  const scope = unused === undefined ? findUnusedScope(key, usedScopes, nowMs) : undefined;
  return [findExpiring(key, nowMs), unused, scope].filter((hint) => hint !== undefined);
}

function findExpiring({ id, expiresAt }: KeyDetails, nowMs: number): Hint | undefined {
  if (expiresAt === null) return undefined;
  const leftMs = expiresAt.getTime() - nowMs;
  if (leftMs > EXPIRING_WITHIN_MS) return undefined;
  return {
    kind: 'expiring',
    text: `Ends in ${formatDuration(leftMs)}.`,
    advice:
      'Its calls fail from then on, and a rotation would keep that end: make a new key with a later one and move the runtime over.',
    action: { label: 'Make one like it', href: `/dashboard/api-keys/new?like=${id}` },
  };
}

function findUnused({ id, lastUsedAt, createdAt }: KeyDetails, nowMs: number): Hint | undefined {
  const sinceMs = nowMs - (lastUsedAt ?? createdAt).getTime();
  if (sinceMs < UNUSED_AFTER_MS) return undefined;
  const duration = formatDuration(sinceMs);
  return {
    kind: 'unused',
    text: lastUsedAt === null ? `Never used since it was made ${duration} ago.` : `Not used for ${duration}.`,
    advice: 'A key that nobody needs can only leak: revoke it.',
    action: { label: 'Revoke', href: `/dashboard/api-keys/${id}/revoke` },
  };
}

function findUnusedScope(
  { id, scopes, createdAt }: KeyDetails,
  usedScopes: ReadonlySet<string>,
  nowMs: number,
): Hint | undefined {
  const ageMs = nowMs - createdAt.getTime();
  const unused = scopes.filter((scope) => !usedScopes.has(scope));
  if (ageMs < UNUSED_AFTER_MS || unused.length === 0) return undefined;
  return {
    kind: 'unused_scope',
    text: `Never used ${unused.join(' and ')} in ${formatDuration(ageMs)}.`,
    advice: 'A key that may do less can do less harm: make one without, and move the runtime over.',
    action: { label: 'Make one with less', href: `/dashboard/api-keys/new?like=${id}` },
  };
}

/** An old key whose grace is nearly over although somebody called with it a short while ago. */
function stillCalled(key: KeyDetails, nowMs: number): Hint | undefined {
  const { expiresAt, lastUsedAt, successorCreatedAt, successorId } = key;
  if (expiresAt === null || lastUsedAt === null || successorCreatedAt === null) return undefined;
  const graceMs = expiresAt.getTime() - successorCreatedAt.getTime();
  const leftMs = expiresAt.getTime() - nowMs;
  const agoMs = nowMs - lastUsedAt.getTime();
  if (leftMs > Math.max(graceMs / 5, 15 * MINUTE_MS) || agoMs > Math.max(graceMs / 10, 15 * MINUTE_MS))
    return undefined;
  return {
    kind: 'still_called',
    text: `Ends in ${formatDuration(leftMs)} and was called ${agoMs < MINUTE_MS ? 'just now' : `${formatDuration(agoMs)} ago`}.`,
    advice: 'Whoever still calls with it will fail: give them the new key.',
    action: { label: 'Watch the cut-over', href: `/dashboard/api-keys/${successorId}/cut-over` },
  };
}
