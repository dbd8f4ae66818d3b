import { randomBytes } from 'node:crypto';
import { hashToken } from '../session/session-cookie.js';

const shape = /^[\w-]{64}$/;

/** How an invitation is looked up: by its Organization, as all of a tenant's rows, and by the hash of its token. */
export interface InvitationKey {
  orgId: string;
  hashedToken: string;
}

/** The secret of an invitation's link, base64url: the Organization's id and 256 random bits. Only its hash is stored. */
export function generateInvitationToken(orgId: string): { token: string; hashedToken: string } {
  const id = Buffer.from(orgId.replaceAll('-', ''), 'hex');
  const token = Buffer.concat([id, randomBytes(32)]).toString('base64url');
  return { token, hashedToken: hashToken(token) };
}

export const isTokenShaped = (token: unknown): token is string =>
  typeof token === 'string' && shape.test(token);

/** Undefined for what cannot be a token. */
export function readInvitationToken(token: unknown): InvitationKey | undefined {
  if (!isTokenShaped(token)) return undefined;
  const id = Buffer.from(token, 'base64url').toString('hex', 0, 16);
  const orgId = id.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
  return { orgId, hashedToken: hashToken(token) };
}
