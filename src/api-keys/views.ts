import type { Role } from '../organizations/table.js';
import { formatCount } from '../core/pages/format.js';
import type { ChangeBudget } from './change-limit.js';
import { findHints, type Hint } from './hints.js';
import { stateOf, type KeyState } from './key-json.js';
import type { KeyDetails } from './page-queries.js';

/** How a state is called, and how much it should catch the eye. */
const stateBadges: Record<KeyState, { label: string; tone: 'good' | 'warn' | 'bad' | 'none' }> = {
  active: { label: 'Active', tone: 'good' },
  grace: { label: 'In grace', tone: 'warn' },
  expired: { label: 'Expired', tone: 'none' },
  revoked: { label: 'Revoked', tone: 'bad' },
};

export const keyStates = Object.entries(stateBadges).map(([value, { label }]) => ({ value, label }));

/** Roles that make, rotate and revoke keys. */
export const managingRoles = ['owner', 'admin'] as const satisfies Role[];

export const mayManage = (role: Role): boolean => (managingRoles as readonly Role[]).includes(role);

/** A key as pages show it. */
export interface KeyView {
  id: string;
  href: string;
  name: string;
  /** `org_live_abc…` */
  prefix: string;
  state: KeyState;
  badge: { label: string; tone: string };
  mode: 'live' | 'test';
  scopes: string[];
  createdAt: Date;
  lastUsedAt: Date | null;
  expiresAt: Date | null;
  revokedAt: Date | null;
  creator: { name: string; isPerson: boolean };
  hints: Hint[];
}

export function toKeyView(key: KeyDetails, usedScopes: ReadonlySet<string>, nowMs: number): KeyView {
  const { id, name, scopes, livemode, createdAt, lastUsedAt, expiresAt, revokedAt } = key;
  const state = stateOf(key, nowMs);
  return {
    id,
    href: keyAddress(id),
    name,
    prefix: showPrefix(key.prefix),
    state,
    badge: stateBadges[state],
    mode: livemode ? 'live' : 'test',
    scopes,
    createdAt,
    lastUsedAt,
    expiresAt,
    revokedAt,
    creator: toCreator(key),
    hints: findHints(key, usedScopes, nowMs),
  };
}

export const keyAddress = (id: string): string => `/dashboard/api-keys/${id}`;

/** The beginning of a secret, as far as it is stored. */
export const showPrefix = (prefix: string): string => `${prefix}…`;

/** Deleting a person's account leaves their keys as if nobody had made them. */
function toCreator({ createdBy, creatorName }: KeyDetails): KeyView['creator'] {
  if (creatorName !== null) return { name: creatorName, isPerson: true };
  const name = createdBy === null ? 'the service or a deleted account' : 'a former member';
  return { name, isPerson: false };
}

/** What is left of the hour's changes, and when one more becomes free; null when all are. */
export function toBudgetView({ limit, remaining, resetSeconds }: ChangeBudget, nowMs: number) {
  const left = Math.max(0, remaining);
  return {
    left,
    text: `${left} of ${formatCount(limit, 'key change')} left this hour`,
    moreAt: left < limit ? new Date(nowMs + resetSeconds * 1000) : null,
  };
}
