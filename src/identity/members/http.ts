import type { Request, Response } from 'express';
import { readToken } from '../session/session-cookie.js';
import type { Clock } from '../../core/clock.js';
import { readPathId } from '../../core/http/path-id.js';
import type { Source } from '../operator/change.js';

/** @throws AppError not_found */
export const readId = (req: Request, name: string): string => readPathId(req, name, 'member or invitation');

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
