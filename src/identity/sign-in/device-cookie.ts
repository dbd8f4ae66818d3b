import { createHash, randomBytes } from 'node:crypto';
import type { Request, Response } from 'express';
import Keygrip from 'keygrip';

const MAX_AGE_MS = 180 * 24 * 60 * 60 * 1000;
/** Accounts that are remembered of one browser, newest first. */
const MAX_ACCOUNTS = 5;

const shape = /^([\w-]{22})\.((?:[\w-]{22}~?){1,5})\.([\w-]{43})$/;

/** Browsers in which somebody has signed in before: strangers who guess at the account do not slow them down. */
export interface Devices {
  /** The id of the browser if this account has signed in there. */
  find(req: Request, email: string): string | undefined;
  /** Remembers a sign-in that was completed. */
  remember(req: Request, res: Response, email: string): void;
}

/**
 * A signed cookie with a random id and the hashes of the addresses that have signed in (OWASP, "Device cookies"). It
 * opens nothing: it only says which failures count. Signed by the first of `keys`, verified by all.
 */
export function createDevices(keys: readonly string[]): Devices {
  const keygrip = new Keygrip(keys, 'sha256');
  function read(req: Request): { id: string; accounts: string[] } | undefined {
    const name = nameOf(req);
    const value = (req.headers.cookie ?? '')
      .split(/; */)
      .find((part) => part.startsWith(`${name}=`))
      ?.slice(name.length + 1);
    const [, id, accounts, signature] = shape.exec(value ?? '') ?? [];
    if (id === undefined || !keygrip.verify(`${id}.${accounts!}`, signature!)) return undefined;
    return { id, accounts: accounts!.split('~') };
  }
  return {
    find(req, email) {
      const device = read(req);
      return device?.accounts.includes(hashAccount(email)) ? device.id : undefined;
    },
    remember(req, res, email) {
      const { id, accounts } = read(req) ?? { id: randomBytes(16).toString('base64url'), accounts: [] };
      const account = hashAccount(email);
      const known = [account, ...accounts.filter((other) => other !== account)].slice(0, MAX_ACCOUNTS);
      const text = `${id}.${known.join('~')}`;
      const options = { httpOnly: true, sameSite: 'lax', secure: req.secure, path: '/' } as const;
      res.cookie(nameOf(req), `${text}.${keygrip.sign(text)}`, { ...options, maxAge: MAX_AGE_MS });
    },
  };
}

const nameOf = (req: Request) => (req.secure ? '__Host-gauge_device' : 'gauge_device');

/** 128 bits of the address's hash: the cookie shows nobody who has signed in. */
const hashAccount = (email: string) =>
  createHash('sha256').update(`gauge device ${email}`).digest('base64url').slice(0, 22);
