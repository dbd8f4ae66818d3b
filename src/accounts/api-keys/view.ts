import { formatCount, formatDuration } from '../../core/pages/format.js';
import { DAY_MS, MINUTE_MS } from '../../core/time.js';
import { stateOf, type ChangeBudget } from './api-keys.js';
import type { KeyDetails, KeyRow, KeyState } from './queries.js';
import type { Scope, ServiceScope } from './scopes.js';

export const stateBadges: Record<KeyState, { label: string; tone: 'good' | 'warn' | 'bad' | 'none' }> = {
  active: { label: 'Active', tone: 'good' },
  grace: { label: 'In grace', tone: 'warn' },
  expired: { label: 'Expired', tone: 'none' },
  revoked: { label: 'Revoked', tone: 'bad' },
};

export const keyStates = Object.entries(stateBadges).map(([value, { label }]) => ({ value, label }));

/** A list of keys, whose address begins those of its keys. */
export interface KeyList {
  label: string;
  href: string;
}

export const ownKeys = (home = '/dashboard'): KeyList => ({ label: 'API keys', href: `${home}/api-keys` });

/** For pages of API keys and of service keys. */
export function toShownKey(
  { prefix, livemode, ...key }: Pick<KeyRow, Exclude<keyof KeyRow, 'createdBy'>>,
  list: KeyList,
  nowMs: number,
) {
  const state = stateOf(key, nowMs);
  return {
    ...key,
    list,
    href: `${list.href}/${key.id}`,
    prefix: showPrefix(prefix),
    state,
    badge: stateBadges[state],
    mode: livemode ? 'live' : 'test',
  };
}

/** @param home the beginning of the page's links */
export function toKeyView(
  key: KeyDetails,
  usedScopes: ReadonlySet<string>,
  nowMs: number,
  home = '/dashboard',
) {
  const isService = key.serviceKeyId !== null;
  return {
    ...toShownKey(key, ownKeys(home), nowMs),
    // A portal names no people.
    creator: home === '/portal' ? undefined : toCreator(key),
    hints: isService ? [] : findHints(key, usedScopes, nowMs).map((hint) => toHint(hint, home)),
    isService,
  };
}

export const keyAddress = (id: string, home?: string): string => `${ownKeys(home).href}/${id}`;

export const showPrefix = (prefix: string): string => `${prefix}…`;

function toCreator({ createdBy, creatorName, serviceKeyId }: KeyDetails) {
  if (serviceKeyId !== null) return { name: 'the operator of this service', isPerson: false };
  if (creatorName !== null) return { name: creatorName, isPerson: true };
  const name = createdBy === null ? 'the service or a deleted account' : 'a former member';
  return { name, isPerson: false };
}

/** The key list shows the remaining budget if it is at most this many changes. */
const FEW_CHANGES = 3;

export function toBudgetView({ limit, remaining, resetSeconds }: ChangeBudget, nowMs: number) {
  const left = Math.max(0, remaining);
  return {
    left,
    text: `${left} of ${formatCount(limit, 'key change')} left this hour`,
    isLow: left <= FEW_CHANGES,
    moreAt: left < limit ? new Date(nowMs + resetSeconds * 1000) : null,
  };
}

interface Hint {
  kind: 'unused' | 'expiring' | 'unused_scope' | 'still_called';
  text: string;
  advice: string;
  action: { label: string; path: string };
}

const toHint = ({ action: { label, path }, ...hint }: Hint, home: string) => ({
  ...hint,
  action: { label, href: `${home}/api-keys/${path}` },
});

const UNUSED_AFTER_MS = 90 * DAY_MS;

const EXPIRING_WITHIN_MS = 14 * DAY_MS;

function findHints(key: KeyDetails, usedScopes: ReadonlySet<string>, nowMs: number): Hint[] {
  const state = stateOf(key, nowMs);
  if (state === 'grace') return [findStillCalled(key, nowMs)].filter((hint) => hint !== undefined);
  if (state !== 'active') return [];
  const unused = findUnused(key, nowMs);
  // A key that is never called uses none of its scopes.
  const scope = unused === undefined ? findUnusedScope(key, usedScopes, nowMs) : undefined;
  return [findExpiring(key, nowMs), unused, scope].filter((hint) => hint !== undefined);
}

function findExpiring({ id, expiresAt }: KeyDetails, nowMs: number): Hint | undefined {
  if (expiresAt === null) return undefined;
  const leftMs = expiresAt.getTime() - nowMs;
  if (leftMs > EXPIRING_WITHIN_MS) return undefined;
  return {
    kind: 'expiring',
    text: `Expires in ${formatDuration(leftMs)}.`,
    advice:
      'Calls fail after that, and a rotation keeps the same expiry. Duplicate the key with a later expiry and switch the runtime to it.',
    action: { label: 'Duplicate', path: `new?like=${id}` },
  };
}

function findUnused({ id, lastUsedAt, createdAt }: KeyDetails, nowMs: number): Hint | undefined {
  const sinceMs = nowMs - (lastUsedAt ?? createdAt).getTime();
  if (sinceMs < UNUSED_AFTER_MS) return undefined;
  const duration = formatDuration(sinceMs);
  return {
    kind: 'unused',
    text:
      lastUsedAt === null ? `Never used since it was created ${duration} ago.` : `Not used for ${duration}.`,
    advice: 'Unused keys are a risk. Revoke it.',
    action: { label: 'Revoke', path: `${id}/revoke` },
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
    advice:
      'A key with fewer scopes does less harm if it leaks. Duplicate it without them and switch the runtime to the new key.',
    action: { label: 'Duplicate with fewer scopes', path: `new?like=${id}` },
  };
}

function findStillCalled(key: KeyDetails, nowMs: number): Hint | undefined {
  const { expiresAt, lastUsedAt, successorCreatedAt, successorId } = key;
  if (expiresAt === null || lastUsedAt === null || successorCreatedAt === null) return undefined;
  const graceMs = expiresAt.getTime() - successorCreatedAt.getTime();
  const leftMs = expiresAt.getTime() - nowMs;
  const agoMs = nowMs - lastUsedAt.getTime();
  if (leftMs > Math.max(graceMs / 5, 15 * MINUTE_MS) || agoMs > Math.max(graceMs / 10, 15 * MINUTE_MS))
    return undefined;
  return {
    kind: 'still_called',
    text: `Expires in ${formatDuration(leftMs)} and was called ${agoMs < MINUTE_MS ? 'just now' : `${formatDuration(agoMs)} ago`}.`,
    advice: 'Runtimes that still use it will fail. Give them the new key.',
    action: { label: 'Watch the cut-over', path: `${successorId}/cut-over` },
  };
}

const scopeAllows: Record<Scope, string> = {
  'usage:write': 'Send usage events. For runtimes that report what they used.',
  'usage:read': 'Read what was used: sums by hour, day and month, and single events.',
  'usage:correct':
    'Correct or void wrong events. For tools that people run, not for runtimes that report usage.',
  'entitlements:read': 'Read and check entitlements: what the Organization may use, and how much is left.',
  'trading:read': 'Read the Organization’s portfolio and its trades.',
  'trading:write': 'Place orders for the Organization. Only for trading clients.',
};

export const serviceScopeAllows: Record<ServiceScope, string> = {
  'usage:write': 'Send usage events, and reserve usage.',
  'usage:read': 'Read what was used, and single events.',
  'usage:correct': 'Correct or void wrong events.',
  'usage:backfill': 'Send events that are up to 400 days old. Needs usage:write, too.',
  'entitlements:read': 'Read and check entitlements and credits.',
  'keys:verify': 'Ask whether an API key of a customer is valid.',
  'portal:create': 'Create links to the portal, where a customer sees its usage.',
  'portal:keys': 'Let an owner or admin manage API keys in the portal. Needs portal:create, too.',
};

export const whatScopeAllows = (scope: string, isService: boolean): string =>
  ((isService ? serviceScopeAllows : scopeAllows) as Record<string, string>)[scope]!;

export const guideScopes = (offered: readonly Scope[]) =>
  offered.map((scope) => ({ scope, allows: scopeAllows[scope] }));
