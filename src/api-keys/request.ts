import type { Request, Response } from 'express';
import { byMember } from '../identity/session/authority.js';
import { sessionOf } from '../identity/session/session.js';
import { readPathId } from '../core/http/path-id.js';
import type { KeyActor } from './api-keys.js';

/** Who asks for a change, and from where. */
export function actorOf(req: Request, res: Response): KeyActor {
  const { orgId, userId } = sessionOf(res);
  return {
    orgId,
    userId,
    by: byMember(res),
    ip: req.ip,
    requestId: String(res.getHeader('X-Request-Id') ?? ''),
  };
}

/** @throws AppError not_found */
export const readId = (req: Request): string => readPathId(req, 'id', 'API key');
