import { roles, type Role } from '../../organizations/table.js';

/** What each role is for, in the words of the pages. */
export const roleDescriptions: Record<Role, string> = {
  owner: 'Does everything, and alone decides who else is an owner.',
  admin: 'Manages API keys, members and invitations, but no owners.',
  member: 'Sees keys, usage, entitlements and members. Changes nothing.',
  billing: 'Sees the same as a member: for whoever looks after the bills.',
};

/** The roles that somebody of this role may give, and whose bearers they may change and remove. */
export function manageableRoles(role: Role): readonly Role[] {
  if (role === 'owner') return roles;
  return role === 'admin' ? roles.filter((other) => other !== 'owner') : [];
}

export const mayManage = (role: Role, other: Role): boolean => manageableRoles(role).includes(other);

/** True for who may invite, and change somebody at all. */
export const isManager = (role: Role): boolean => manageableRoles(role).length > 0;
