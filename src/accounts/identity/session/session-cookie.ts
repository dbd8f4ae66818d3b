import { createHash, randomBytes } from 'node:crypto';
import cookieSession from 'cookie-session';
import type { Request, RequestHandler, Response } from 'express';
import Keygrip from 'keygrip';
import { SESSION_MS } from './queries.js';

export const sessionCookieNames = ['gauge_session', '__Host-gauge_session'] as const;

export const tokenShape = /^[\w-]{43}$/;

/** 256 random bits, base64url. */
export const generateToken = (): string => randomBytes(32).toString('base64url');

/** SHA-256 in hex, so a stolen copy of the table opens no session. */
export const hashToken = (token: string): string => createHash('sha256').update(token).digest('hex');

/** The first key signs, all verify. Browsers drop secure cookies on plain HTTP, so the name depends on the request. */
export function sessionCookie(keys: readonly string[]): RequestHandler {
  const [plainName, secureName] = sessionCookieNames;
  const options = {
    keys: new Keygrip(keys, 'sha256'),
    maxAge: SESSION_MS,
    httpOnly: true,
    sameSite: 'lax',
    path: '/',
  } as const;
  const plain = cookieSession({ ...options, name: plainName, secure: false });
  const secure = cookieSession({ ...options, name: secureName, secure: true });
  return (req, res, next) => (req.secure ? secure : plain)(req, res, next);
}

/** @param maxAge milliseconds */
export function hostCookie(cookie: string, maxAge: number) {
  const nameFor = (req: Request) => `${req.secure ? '__Host-' : ''}${cookie}`;
  const options = (req: Request) =>
    ({ httpOnly: true, sameSite: 'lax', secure: req.secure, path: '/' }) as const;
  return {
    read: (req: Request) => readCookie(req, nameFor(req)),
    keep: (req: Request, res: Response, value: string): void => {
      res.cookie(nameFor(req), value, { ...options(req), maxAge });
    },
    forget: (req: Request, res: Response): void => {
      res.clearCookie(nameFor(req), options(req));
    },
  };
}

export const readCookie = (req: Request, name: string): string | undefined =>
  (req.headers.cookie ?? '')
    .split(/;\s*/)
    .find((pair) => pair.startsWith(`${name}=`))
    ?.slice(name.length + 1);

export function readToken(req: Request): string | undefined {
  const sid: unknown = req.session?.sid;
  return typeof sid === 'string' && tokenShape.test(sid) ? sid : undefined;
}

/** Sends the cookie even if the browser has it, signed with the newest key. */
export function sendToken(req: Request, token: string): void {
  req.session = { sid: token };
}

export function clearToken(req: Request): void {
  req.session = null;
}
