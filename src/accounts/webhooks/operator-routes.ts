import { json } from '../../core/reference/define-route.js';
import { deletedResponses, operatorRoute } from '../identity/operator/define-route.js';
import { getOrganization } from '../identity/organizations/organizations.js';
import { operatorActor } from '../identity/session/authority.js';
import { createEndpoint, deleteEndpoint, updateEndpoint } from './endpoints.js';
import { listEndpoints } from './queries.js';
import { readEndpointId } from './request.js';
import { newWebhookSchema, webhookAnswerSchema, webhookListSchema, type WebhookSchemas } from './schema.js';

const list = operatorRoute({
  at: 'GET /operator/organizations/{slug}/webhooks',
  operationId: 'listOrganizationWebhooks',
  responses: { 200: json('All endpoints.', webhookListSchema) },
  async answer({ params }, deps) {
    const { id } = await getOrganization(deps.db.orm, params.slug);
    return { webhooks: await listEndpoints(deps.db.orm, id) };
  },
});

const create = ({ webhookInputSchema }: WebhookSchemas) =>
  operatorRoute({
    at: 'POST /operator/organizations/{slug}/webhooks',
    operationId: 'createOrganizationWebhook',
    body: webhookInputSchema,
    responses: { 201: json('The endpoint and its secret.', newWebhookSchema) },
    async answer({ params, input, req, res }, deps) {
      const { id } = await getOrganization(deps.db.orm, params.slug);
      const { endpoint: webhook, secret } = await createEndpoint(deps, operatorActor(req, res, id), input);
      return { webhook, secret };
    },
  });

const put = ({ webhookInputSchema }: WebhookSchemas) =>
  operatorRoute({
    at: 'PUT /operator/organizations/{slug}/webhooks/{id}',
    operationId: 'putOrganizationWebhook',
    body: webhookInputSchema,
    responses: { 200: json('The endpoint as it is now.', webhookAnswerSchema) },
    async answer({ params, input, req, res }, deps) {
      const endpointId = readEndpointId(req);
      const { id } = await getOrganization(deps.db.orm, params.slug);
      return { webhook: await updateEndpoint(deps, operatorActor(req, res, id), endpointId, input) };
    },
  });

const remove = operatorRoute({
  at: 'DELETE /operator/organizations/{slug}/webhooks/{id}',
  operationId: 'deleteOrganizationWebhook',
  responses: deletedResponses,
  async answer({ params, req, res }, deps) {
    const endpointId = readEndpointId(req);
    const { id } = await getOrganization(deps.db.orm, params.slug);
    await deleteEndpoint(deps, operatorActor(req, res, id), endpointId);
  },
});

export const operatorWebhookRoutes = (schemas: WebhookSchemas) => [
  list,
  create(schemas),
  put(schemas),
  remove,
];
