import type { Request, Response } from 'express';
import { isTokenShaped } from './invitation-token.js';

const HOUR_MS = 3_600_000;
const nameFor = (req: Request): string => `${req.secure ? '__Host-' : ''}gauge_invitation`;
const options = (req: Request) =>
  ({ httpOnly: true, sameSite: 'lax', secure: req.secure, path: '/' }) as const;

/**
 * The invitation that this browser has opened. It is kept for an hour in a cookie, while its holder signs in or makes an
 * account: in an address it would get into histories, into the logs of proxies and into what is sent as a referrer.
 */
export function readOpened(req: Request): string | undefined {
  const name = nameFor(req);
  const pairs = (req.headers.cookie ?? '').split(/;\s*/).map((pair) => pair.split('='));
  const token = pairs.find(([key]) => key === name)?.[1];
  return isTokenShaped(token) ? token : undefined;
}

export function keepOpened(req: Request, res: Response, token: string): void {
  res.cookie(nameFor(req), token, { ...options(req), maxAge: HOUR_MS });
}

export function forgetOpened(req: Request, res: Response): void {
  res.clearCookie(nameFor(req), options(req));
}
