import { json } from '../../core/reference/define-route.js';
import { deletedResponses, operatorRoute } from '../identity/operator/define-route.js';
import { readInput, readSlug, sendDeleted } from '../identity/operator/http.js';
import { getOrganization } from '../identity/organizations/organizations.js';
import { operatorActor } from '../identity/session/authority.js';
import { createEndpoint, deleteEndpoint, updateEndpoint } from './endpoints.js';
import { listEndpoints } from './queries.js';
import { readEndpointId } from './request.js';
import { newWebhookSchema, webhookAnswerSchema, webhookListSchema, type WebhookSchemas } from './schema.js';

const list = operatorRoute({
  method: 'get',
  path: '/operator/organizations/{slug}/webhooks',
  operationId: 'listOrganizationWebhooks',
  responses: { 200: json('All endpoints.', webhookListSchema) },
  handler: (deps) => async (req, res) => {
    const { id } = await getOrganization(deps.db.orm, readSlug(req));
    res.json({ webhooks: await listEndpoints(deps.db.orm, id) });
  },
});

const create = ({ webhookInputSchema }: WebhookSchemas) =>
  operatorRoute({
    method: 'post',
    path: '/operator/organizations/{slug}/webhooks',
    operationId: 'createOrganizationWebhook',
    body: webhookInputSchema,
    responses: { 201: json('The endpoint and its secret.', newWebhookSchema) },
    handler: (deps) => async (req, res) => {
      const slug = readSlug(req);
      const input = await readInput(req, res, webhookInputSchema);
      const { id } = await getOrganization(deps.db.orm, slug);
      const { endpoint: webhook, secret } = await createEndpoint(deps, operatorActor(req, res, id), input);
      res.status(201).json({ webhook, secret });
    },
  });

const put = ({ webhookInputSchema }: WebhookSchemas) =>
  operatorRoute({
    method: 'put',
    path: '/operator/organizations/{slug}/webhooks/{id}',
    operationId: 'putOrganizationWebhook',
    body: webhookInputSchema,
    responses: { 200: json('The endpoint as it is now.', webhookAnswerSchema) },
    handler: (deps) => async (req, res) => {
      const slug = readSlug(req);
      const endpointId = readEndpointId(req);
      const input = await readInput(req, res, webhookInputSchema);
      const { id } = await getOrganization(deps.db.orm, slug);
      res.json({ webhook: await updateEndpoint(deps, operatorActor(req, res, id), endpointId, input) });
    },
  });

const remove = operatorRoute({
  method: 'delete',
  path: '/operator/organizations/{slug}/webhooks/{id}',
  operationId: 'deleteOrganizationWebhook',
  responses: deletedResponses,
  handler: (deps) => async (req, res) => {
    const slug = readSlug(req);
    const endpointId = readEndpointId(req);
    const { id } = await getOrganization(deps.db.orm, slug);
    await deleteEndpoint(deps, operatorActor(req, res, id), endpointId);
    sendDeleted(res);
  },
});

export const operatorWebhookRoutes = (schemas: WebhookSchemas) => [
  list,
  create(schemas),
  put(schemas),
  remove,
];
