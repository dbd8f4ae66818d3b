import type { Request, Response } from 'express';
import type { Orm } from '../core/db/client.js';
import { readPathId } from '../core/http/path-id.js';
import { requestIdOf } from '../core/http/request-context.js';
import { byMember } from '../identity/session/authority.js';
import { sessionOf } from '../identity/session/session.js';
import { requireDelivery, type EndpointActor } from './endpoints.js';
import { listAttempts, readData, type DeliveryKey, type DeliveryRow } from './queries.js';
import { bodyOf } from './send.js';

export function actorOf(req: Request, res: Response): EndpointActor {
  const { orgId, userId } = sessionOf(res);
  return { orgId, userId, by: byMember(res), ip: req.ip, requestId: requestIdOf(res) };
}

/** @throws AppError not_found */
export const readEndpointId = (req: Request): string => readPathId(req, 'id', 'endpoint');

/** @throws AppError not_found */
export const readMessageId = (req: Request): string => readPathId(req, 'messageId', 'delivery');

export const toDeliveryJson = ({ status, nextAttemptAt, createdAt, ...row }: DeliveryRow) => ({
  ...row,
  status,
  nextAttemptAt: status === 'waiting' ? nextAttemptAt : null,
  createdAt,
});

const SHOWN_ATTEMPTS = 50;

/** @throws AppError not_found */
export async function readDeliveryDetails(orm: Orm, key: DeliveryKey) {
  const row = await requireDelivery(orm, key.orgId, key.endpointId, key.messageId);
  return {
    ...toDeliveryJson(row),
    body: bodyOf(row.type, row.createdAt, await readData(orm, key)),
    attemptLog: await listAttempts(orm, key, SHOWN_ATTEMPTS),
  };
}
