import { toAddress } from '../../core/pages/address.js';
import { isTokenShaped } from './invitation-token.js';

/** Where an invitation's link leads. */
export const JOIN = '/dashboard/join';

/** The part of an address behind `#` never leaves the browser by itself. */
export const toInvitationLink = (origin: string, token: string): string => `${origin}${JOIN}#${token}`;

/** The invitation that was opened, for whoever goes elsewhere on the way; the sign-in form where there was none. */
export const toJoinAddress = (token: unknown): string => (isTokenShaped(token) ? JOIN : '/login');

/** To sign in and come back. */
export const toSignInAddress = (token: unknown): string =>
  isTokenShaped(token) ? toAddress('/login', { next: toJoinAddress(token) }) : '/login';
