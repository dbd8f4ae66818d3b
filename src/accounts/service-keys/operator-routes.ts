import { z } from 'zod';
import { hasBody, readJsonBody } from '../../core/http/body.js';
import { readRange, sendPage } from '../../core/http/page.js';
import { isUuid, readPathId } from '../../core/http/request.js';
import { sendJson, toJson } from '../../core/http/json.js';
import { parseExactly } from '../../core/http/validate.js';
import { json } from '../../core/reference/define-route.js';
import { DEFAULT_GRACE_MINUTES, rotateApiKeySchema } from '../api-keys/schema.js';
import { listParts, operatorRoute } from '../identity/operator/define-route.js';
import { changeAsOperator, MAX_BODY_BYTES, readInput } from '../identity/operator/http.js';
import { listServiceKeys, type ServiceKey } from './queries.js';
import {
  newServiceKeySchema,
  rotatedServiceKeySchema,
  serviceKeyAnswerSchema,
  serviceKeyInputSchema,
  serviceKeySchema,
} from './schema.js';
import { createServiceKey, revokeServiceKey, rotateServiceKey, toServiceKeyJson } from './service-keys.js';

const cursorKeySchema = z.string().refine(isUuid);

export const serviceKeyRoutes = [
  operatorRoute({
    method: 'get',
    path: '/operator/service-keys',
    operationId: 'listServiceKeys',
    ...listParts('serviceKeys', serviceKeySchema, 'Newest first.'),
    handler: (deps) => async (req, res) => {
      const { limit, after } = readRange(req, cursorKeySchema);
      const rows = await listServiceKeys(deps.db.orm, { limit: limit + 1, after });
      const now = deps.clock.now();
      const present = (key: ServiceKey) => toServiceKeyJson(key, now);
      sendPage(res, 'serviceKeys', { rows, limit, keyOf: ({ id }: ServiceKey) => id, present });
    },
  }),
  operatorRoute({
    method: 'post',
    path: '/operator/service-keys',
    operationId: 'createServiceKey',
    body: serviceKeyInputSchema,
    responses: { 201: json('The new key and its secret.', newServiceKeySchema) },
    handler: (deps) => async (req, res) => {
      const { expiresAt, ...input } = await readInput(req, res, serviceKeyInputSchema);
      const values = { ...input, expiresAt: expiresAt ? new Date(expiresAt) : null };
      const { key, secret } = await changeAsOperator(deps, req, res, (tx, source) =>
        createServiceKey(tx, values, source),
      );
      sendJson(res, 201, toJson({ serviceKey: toServiceKeyJson(key, deps.clock.now()), secret }));
    },
  }),
  operatorRoute({
    method: 'post',
    path: '/operator/service-keys/{id}/rotate',
    operationId: 'rotateServiceKey',
    body: rotateApiKeySchema,
    isBodyOptional: true,
    responses: { 201: json('The new key, its secret, and the old key.', rotatedServiceKeySchema) },
    handler: (deps) => async (req, res) => {
      const id = readPathId(req, 'id', 'service key');
      const body = hasBody(req) ? (await readJsonBody(req, res, MAX_BODY_BYTES)).value : {};
      const { graceMinutes = DEFAULT_GRACE_MINUTES } = parseExactly(rotateApiKeySchema, body);
      const { key, secret, previous } = await changeAsOperator(deps, req, res, (tx, source) =>
        rotateServiceKey(tx, id, graceMinutes, source),
      );
      const now = deps.clock.now();
      const serviceKey = toServiceKeyJson(key, now);
      sendJson(res, 201, toJson({ serviceKey, secret, previous: toServiceKeyJson(previous, now) }));
    },
  }),
  operatorRoute({
    method: 'delete',
    path: '/operator/service-keys/{id}',
    operationId: 'revokeServiceKey',
    responses: { 200: json('The revoked key.', serviceKeyAnswerSchema) },
    handler: (deps) => async (req, res) => {
      const id = readPathId(req, 'id', 'service key');
      const key = await changeAsOperator(deps, req, res, (tx, source) => revokeServiceKey(tx, id, source));
      sendJson(res, 200, toJson({ serviceKey: toServiceKeyJson(key, deps.clock.now()) }));
    },
  }),
];
