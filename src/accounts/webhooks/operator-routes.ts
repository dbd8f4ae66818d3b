import { json } from '../../core/reference/define-route.js';
import { invalidExample, problemExample } from '../../core/reference/problem-examples.js';
import {
  deletedResponses,
  madeId,
  notFoundExample,
  now,
  operatorRoute,
} from '../identity/operator/define-route.js';
import { readInput, readSlug, sendDeleted } from '../identity/operator/http.js';
import { getOrganization } from '../identity/organizations/organizations.js';
import { operatorActor } from '../identity/session/authority.js';
import { exampleWorld } from '../reference/example-world.js';
import { createEndpoint, deleteEndpoint, updateEndpoint } from './endpoints.js';
import { listEndpoints } from './queries.js';
import { readEndpointId } from './request.js';
import { exampleEndpoint, exampleInput, madeSecret } from './routes.js';
import { newWebhookSchema, webhookAnswerSchema, webhookListSchema, type WebhookSchemas } from './schema.js';

const { webhooks } = exampleWorld;
const params = { slug: 'acme' };
const live = { slug: 'acme', id: webhooks.live.id };
const noOrganization = 'There is no Organization "initech".';
const noEndpoint = 'There is no such endpoint.';

const list = operatorRoute({
  method: 'get',
  path: '/operator/organizations/{slug}/webhooks',
  operationId: 'listOrganizationWebhooks',
  summary: 'List the webhook endpoints of an Organization',
  description: 'All endpoints, without secrets. The URL of a chat is masked.',
  responses: { 200: json('All endpoints.', webhookListSchema) },
  examples: [
    {
      name: 'list',
      summary: 'Two endpoints, one of them disabled',
      request: { params },
      answer: { webhooks: [exampleEndpoint('live'), exampleEndpoint('disabled')] },
    },
    notFoundExample(noOrganization, { params: { slug: 'initech' } }),
  ],
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
    summary: 'Create a webhook endpoint for an Organization',
    description:
      'Only this response has the secret; owners and admins can rotate it. A repeat creates another endpoint, so list the endpoints after a lost response. An Organization can have at most 20 endpoints.',
    body: webhookInputSchema,
    responses: { 201: json('The endpoint and its secret.', newWebhookSchema) },
    examples: [
      {
        name: 'created',
        summary: 'For live mode',
        request: { params, body: exampleInput },
        answer: {
          webhook: {
            ...exampleEndpoint('live'),
            ...exampleInput,
            id: madeId,
            createdAt: now,
          },
          secret: madeSecret,
        },
      },
      invalidExample('Without types', { params, body: { ...exampleInput, types: [] } }),
      problemExample('invalid_request', {
        name: 'privateAddress',
        summary: 'A private address',
        at: '/url',
        detail: 'must not be a private or reserved address',
        request: { params, body: { ...exampleInput, url: 'https://10.0.0.7/hook' } },
      }),
      notFoundExample(noOrganization, { params: { slug: 'initech' }, body: exampleInput }),
    ],
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
    summary: 'Change a webhook endpoint of an Organization',
    description:
      'Replaces the settings of the endpoint; a repeat changes nothing. The masked URL of a chat keeps its URL. Enabling an endpoint clears its record of failures. Disabling it fails its waiting deliveries.',
    body: webhookInputSchema,
    responses: { 200: json('The endpoint as it is now.', webhookAnswerSchema) },
    good: { params: live, body: exampleInput },
    examples: [
      {
        name: 'enabled',
        summary: 'Enabled again',
        request: {
          params: { slug: 'acme', id: webhooks.disabled.id },
          body: { ...exampleInput, url: webhooks.disabled.url },
        },
        answer: { webhook: { ...exampleEndpoint('disabled'), isEnabled: true, disabledReason: null } },
      },
      notFoundExample(noEndpoint, {
        params: { slug: 'acme', id: webhooks.otherId },
        body: exampleInput,
      }),
    ],
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
  summary: 'Delete a webhook endpoint of an Organization',
  description: 'Stops all deliveries to the endpoint. Its deliveries can no longer be read.',
  responses: deletedResponses,
  examples: [
    { name: 'deleted', summary: 'Deleted', request: { params: live } },
    notFoundExample(noEndpoint, { params: { slug: 'acme', id: webhooks.otherId } }),
  ],
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
