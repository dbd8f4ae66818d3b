import type { Request, Response } from 'express';
import { sessionOf } from '../auth/session.js';
import { AppError } from '../errors.js';
import type { KeyActor } from './api-keys.js';

/** Who asks for a change, and from where. */
export function actorOf(req: Request, res: Response): KeyActor {
  const { orgId, userId } = sessionOf(res);
  return { orgId, userId, ip: req.ip, requestId: String(res.getHeader('X-Request-Id') ?? '') };
}

const uuidShape = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i;

/**
 * The id in the address. One that cannot be an id is as unknown as any other.
 * @throws AppError not_found
 */
export function readId(req: Request): string {
  const { id } = req.params;
  if (typeof id === 'string' && uuidShape.test(id)) return id.toLowerCase();
  throw new AppError('not_found', 'There is no such API key.');
}
