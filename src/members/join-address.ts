import { toAddress } from '../pages/address.js';
import { isTokenShaped } from './invitation-token.js';

/** Where an invitation's link leads. */
export const JOIN = '/dashboard/join';

/** The link again, for whoever goes elsewhere on the way; the sign-in form where there was none. */
export const toJoinAddress = (token: unknown): string =>
  isTokenShaped(token) ? toAddress(JOIN, { invitation: token }) : '/login';

/** To sign in and come back. */
export const toSignInAddress = (token: unknown): string =>
  isTokenShaped(token) ? toAddress('/login', { next: toJoinAddress(token) }) : '/login';
