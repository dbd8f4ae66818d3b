import type { Request, Response } from 'express';
import { HOUR_MS } from '../core/time.js';

/** Where a browser keeps the link that it has opened. */
export interface OpenedLink {
  read(req: Request): string | undefined;
  keep(req: Request, res: Response, token: string): void;
  forget(req: Request, res: Response): void;
}

const options = (req: Request) =>
  ({ httpOnly: true, sameSite: 'lax', secure: req.secure, path: '/' }) as const;

/**
 * The link that this browser has opened. It is kept for an hour in a cookie, while its holder signs in or makes an
 * account: in an address it would get into histories, into the logs of proxies and into what is sent as a referrer.
 */
export function openedLink(cookie: string, isToken: (value: unknown) => value is string): OpenedLink {
  const nameFor = (req: Request): string => `${req.secure ? '__Host-' : ''}${cookie}`;
  return {
    read(req) {
      const name = nameFor(req);
      const pairs = (req.headers.cookie ?? '').split(/;\s*/).map((pair) => pair.split('='));
      const token = pairs.find(([key]) => key === name)?.[1];
      return isToken(token) ? token : undefined;
    },
    keep(req, res, token) {
      res.cookie(nameFor(req), token, { ...options(req), maxAge: HOUR_MS });
    },
    forget(req, res) {
      res.clearCookie(nameFor(req), options(req));
    },
  };
}
