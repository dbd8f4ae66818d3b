import { json } from '../../core/reference/define-route.js';
import {
  createEndpoint,
  deleteEndpoint,
  requireEndpoint,
  rotateSecret,
  updateEndpoint,
} from './endpoints.js';
import { listEndpoints } from './queries.js';
import { webhookRoute } from './request.js';
import {
  newWebhookSchema,
  rotateWebhookSchema,
  webhookAnswerSchema,
  webhookListSchema,
  type WebhookSchemas,
} from './schema.js';

const list = webhookRoute({
  at: 'GET /dashboard/webhooks',
  operationId: 'listWebhooks',
  responses: { 200: json('All endpoints.', webhookListSchema) },
  answer: async ({ actor }, deps) => ({ webhooks: await listEndpoints(deps.db.orm, actor.orgId) }),
});

const create = ({ webhookInputSchema }: WebhookSchemas) =>
  webhookRoute({
    at: 'POST /dashboard/webhooks',
    operationId: 'createWebhook',
    body: webhookInputSchema,
    responses: { 201: json('The endpoint and its secret.', newWebhookSchema) },
    async answer({ actor, input }, deps) {
      const { endpoint: webhook, secret } = await createEndpoint(deps, actor, input);
      return { webhook, secret };
    },
  });

const read = webhookRoute({
  at: 'GET /dashboard/webhooks/{id}',
  operationId: 'getWebhook',
  responses: { 200: json('The endpoint.', webhookAnswerSchema) },
  answer: async ({ actor, id }, deps) => ({ webhook: await requireEndpoint(deps.db.orm, actor.orgId, id) }),
});

const update = ({ webhookInputSchema }: WebhookSchemas) =>
  webhookRoute({
    at: 'PUT /dashboard/webhooks/{id}',
    operationId: 'updateWebhook',
    body: webhookInputSchema,
    responses: { 200: json('The endpoint as it is now.', webhookAnswerSchema) },
    answer: async ({ actor, id, input }, deps) => ({ webhook: await updateEndpoint(deps, actor, id, input) }),
  });

const remove = webhookRoute({
  at: 'DELETE /dashboard/webhooks/{id}',
  operationId: 'deleteWebhook',
  responses: { 200: json('The endpoint as it was.', webhookAnswerSchema) },
  answer: async ({ actor, id }, deps) => ({ webhook: await deleteEndpoint(deps, actor, id) }),
});

const rotate = webhookRoute({
  at: 'POST /dashboard/webhooks/{id}/rotate',
  operationId: 'rotateWebhookSecret',
  body: rotateWebhookSchema,
  isBodyOptional: true,
  responses: { 201: json('The endpoint and its new secret.', newWebhookSchema) },
  async answer({ actor, id, input }, deps) {
    const { endpoint: webhook, secret } = await rotateSecret(deps, actor, id, input.graceMinutes);
    return { webhook, secret };
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
