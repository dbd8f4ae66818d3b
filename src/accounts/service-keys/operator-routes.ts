import { readPathId } from '../../core/http/request.js';
import { json } from '../../core/reference/define-route.js';
import { DEFAULT_GRACE_MINUTES, rotateApiKeySchema } from '../api-keys/schema.js';
import { listRoute, operatorRoute } from '../identity/operator/define-route.js';
import { listServiceKeys } from './queries.js';
import {
  newServiceKeySchema,
  rotatedServiceKeySchema,
  serviceKeyAnswerSchema,
  serviceKeyInputSchema,
  serviceKeySchema,
} from './schema.js';
import { createServiceKey, revokeServiceKey, rotateServiceKey, toServiceKeyJson } from './service-keys.js';

export const serviceKeyRoutes = [
  listRoute('serviceKeys', serviceKeySchema, 'id', {
    at: 'GET /operator/service-keys',
    operationId: 'listServiceKeys',
    read: ({ db }, { limit, after }) => listServiceKeys(db.orm, { limit: limit + 1, after }),
    present: (key, { clock }) => toServiceKeyJson(key, clock.now()),
  }),
  operatorRoute({
    at: 'POST /operator/service-keys',
    operationId: 'createServiceKey',
    body: serviceKeyInputSchema,
    responses: { 201: json('The new key and its secret.', newServiceKeySchema) },
    async answer({ input: { expiresAt, ...rest }, change }, { clock }) {
      const values = { ...rest, expiresAt: expiresAt ? new Date(expiresAt) : null };
      const { key, secret } = await change((tx, source) => createServiceKey(tx, values, source));
      return { serviceKey: toServiceKeyJson(key, clock.now()), secret };
    },
  }),
  operatorRoute({
    at: 'POST /operator/service-keys/{id}/rotate',
    operationId: 'rotateServiceKey',
    body: rotateApiKeySchema,
    isBodyOptional: true,
    responses: { 201: json('The new key, its secret, and the old key.', rotatedServiceKeySchema) },
    async answer({ req, input: { graceMinutes = DEFAULT_GRACE_MINUTES }, change }, { clock }) {
      const id = readPathId(req, 'id', 'service key');
      const { key, secret, previous } = await change((tx, source) =>
        rotateServiceKey(tx, id, graceMinutes, source),
      );
      const now = clock.now();
      return { serviceKey: toServiceKeyJson(key, now), secret, previous: toServiceKeyJson(previous, now) };
    },
  }),
  operatorRoute({
    at: 'DELETE /operator/service-keys/{id}',
    operationId: 'revokeServiceKey',
    responses: { 200: json('The revoked key.', serviceKeyAnswerSchema) },
    async answer({ req, change }, { clock }) {
      const id = readPathId(req, 'id', 'service key');
      const key = await change((tx, source) => revokeServiceKey(tx, id, source));
      return { serviceKey: toServiceKeyJson(key, clock.now()) };
    },
  }),
];
