import { hasBody } from '../../core/http/body.js';
import { json } from '../../core/reference/define-route.js';
import { memberActor } from '../identity/session/authority.js';
import { MAX_BODY_BYTES, readInput } from '../identity/operator/http.js';
import { sessionOf } from '../identity/session/session.js';
import {
  createEndpoint,
  deleteEndpoint,
  requireEndpoint,
  rotateSecret,
  updateEndpoint,
} from './endpoints.js';
import { listEndpoints } from './queries.js';
import { readEndpointId, webhookRoute } from './request.js';
import {
  newWebhookSchema,
  rotateWebhookSchema,
  webhookAnswerSchema,
  webhookListSchema,
  type WebhookSchemas,
} from './schema.js';

const list = webhookRoute({
  method: 'get',
  path: '/dashboard/webhooks',
  operationId: 'listWebhooks',
  responses: { 200: json('All endpoints.', webhookListSchema) },
  handler: (deps) => async (_req, res) => {
    res.json({ webhooks: await listEndpoints(deps.db.orm, sessionOf(res).orgId) });
  },
});

const create = ({ webhookInputSchema }: WebhookSchemas) =>
  webhookRoute({
    method: 'post',
    path: '/dashboard/webhooks',
    operationId: 'createWebhook',
    body: { schema: webhookInputSchema, maxBytes: MAX_BODY_BYTES },
    responses: { 201: json('The endpoint and its secret.', newWebhookSchema) },
    handler: (deps) => async (req, res) => {
      const given = await readInput(req, res, webhookInputSchema);
      const { endpoint: webhook, secret } = await createEndpoint(deps, memberActor(req, res), given);
      res.status(201).json({ webhook, secret });
    },
  });

const read = webhookRoute({
  method: 'get',
  path: '/dashboard/webhooks/{id}',
  operationId: 'getWebhook',
  responses: { 200: json('The endpoint.', webhookAnswerSchema) },
  handler: (deps) => async (req, res) => {
    res.json({ webhook: await requireEndpoint(deps.db.orm, sessionOf(res).orgId, readEndpointId(req)) });
  },
});

const update = ({ webhookInputSchema }: WebhookSchemas) =>
  webhookRoute({
    method: 'put',
    path: '/dashboard/webhooks/{id}',
    operationId: 'updateWebhook',
    body: { schema: webhookInputSchema, maxBytes: MAX_BODY_BYTES },
    responses: { 200: json('The endpoint as it is now.', webhookAnswerSchema) },
    handler: (deps) => async (req, res) => {
      const id = readEndpointId(req);
      const given = await readInput(req, res, webhookInputSchema);
      res.json({ webhook: await updateEndpoint(deps, memberActor(req, res), id, given) });
    },
  });

const remove = webhookRoute({
  method: 'delete',
  path: '/dashboard/webhooks/{id}',
  operationId: 'deleteWebhook',
  responses: { 200: json('The endpoint as it was.', webhookAnswerSchema) },
  handler: (deps) => async (req, res) => {
    res.json({ webhook: await deleteEndpoint(deps, memberActor(req, res), readEndpointId(req)) });
  },
});

const rotate = webhookRoute({
  method: 'post',
  path: '/dashboard/webhooks/{id}/rotate',
  operationId: 'rotateWebhookSecret',
  body: { schema: rotateWebhookSchema, isOptional: true, maxBytes: MAX_BODY_BYTES },
  responses: { 201: json('The endpoint and its new secret.', newWebhookSchema) },
  handler: (deps) => async (req, res) => {
    const id = readEndpointId(req);
    const { graceMinutes } = hasBody(req)
      ? await readInput(req, res, rotateWebhookSchema)
      : rotateWebhookSchema.parse({});
    const { endpoint: webhook, secret } = await rotateSecret(deps, memberActor(req, res), id, graceMinutes);
    res.status(201).json({ webhook, secret });
  },
});

export const webhookRoutes = (schemas: WebhookSchemas) => [
  list,
  create(schemas),
  read,
  update(schemas),
  remove,
  rotate,
];
