import type { Response } from 'express';
import { roles as allRoles, type Role } from '../organizations/table.js';
import type { Scope } from '../scopes.js';
import { personOf, sessionOf } from './session.js';

/** A member in a session, with one of the roles that the route asks for. */
export interface MemberAuthority {
  kind: 'member';
  orgId: string;
  userId: string;
  /** The hash of the session's token. */
  sessionId: string;
  roles: readonly Role[];
}

/** A person in a session, whatever they belong to. */
export interface PersonAuthority {
  kind: 'person';
  userId: string;
  sessionId: string;
}

export interface KeyAuthority {
  kind: 'key';
  orgId: string;
  keyId: string;
  scope: Scope;
}

export interface OperatorAuthority {
  kind: 'operator';
  /** What the audit log calls them. */
  actor: string;
  /** False once the token that was sent is no longer in the configuration. */
  isConfigured: () => boolean;
}

/**
 * On what a change rests. It is read again in the transaction of the change, under locks that keep it until the commit.
 * `proof`: the change itself checks a password, a code or the secret of a link in its transaction. `service`: jobs,
 * commands and the demo.
 */
export type Authority =
  | MemberAuthority
  | PersonAuthority
  | KeyAuthority
  | OperatorAuthority
  | { kind: 'proof' }
  | { kind: 'service' };

/** The member behind a request, with the roles that `requireRole` has asked for. */
export function byMember(res: Response): MemberAuthority {
  const { orgId, userId, sessionId } = sessionOf(res);
  const roles = (res.locals.requiredRoles as readonly Role[] | undefined) ?? allRoles;
  return { kind: 'member', orgId, userId, sessionId, roles };
}

export function byPerson(res: Response): PersonAuthority {
  const { userId, sessionId } = personOf(res);
  return { kind: 'person', userId, sessionId };
}

/** The operator behind a request that `requireOperator` has let through. */
export function byOperator(res: Response): OperatorAuthority {
  const operator = res.locals.operator as OperatorAuthority | undefined;
  if (!operator) throw new Error('this route is not behind requireOperator');
  return operator;
}
