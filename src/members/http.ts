import type { Request, Response } from 'express';
import { readToken } from '../auth/session-cookie.js';
import type { Clock } from '../clock.js';
import { AppError } from '../errors.js';
import type { Source } from '../operator/change.js';

/** An id that cannot be one is as unknown as any other. */
export function readId(req: Request, name: string): string {
  const id = req.params[name];
  if (typeof id === 'string' && /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i.test(id)) return id.toLowerCase();
  throw new AppError('not_found', 'There is no such member or invitation.');
}

/** What a person's change is recorded with. */
export const sourceOf = (req: Request, res: Response, clock: Clock, actor: string): Source => ({
  actor,
  at: new Date(clock.now()),
  ip: req.ip,
  requestId: String(res.getHeader('X-Request-Id') ?? ''),
});

export const browserOf = (req: Request) => ({
  formerToken: readToken(req),
  ip: req.ip ?? '',
  userAgent: req.get('user-agent') ?? '',
});
