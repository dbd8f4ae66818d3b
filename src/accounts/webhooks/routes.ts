import { hasBody } from '../../core/http/body.js';
import { generated, json } from '../../core/reference/define-route.js';
import { exampleWorld } from '../reference/example-world.js';
import { invalidExample, problemExample } from '../../core/reference/problem-examples.js';
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

const { webhooks, createdAt, now } = exampleWorld;

export const exampleEndpoint = (name: 'live' | 'disabled') => ({
  ...webhooks[name],
  format: 'standard',
  types: ['api_key.created'],
  livemode: true,
  isEnabled: name === 'live',
  disabledReason: name === 'live' ? null : 'gone',
  failingSince: null,
  previousSecretEndsAt: null,
  createdAt,
});

export const madeSecret = generated('whsec_vQe1XxkMYmgVJkJZq0m3pA9rjJm6g8v5n2wq7b4c1dE=');
export const exampleInput = {
  url: 'https://hooks.acme.example/usage',
  types: ['api_key.created'],
  livemode: true,
};
const slackUrl = 'https://hooks.slack.example/services/T0ACME/B0USAGE/x4bXyZ';
export const one = { params: { id: webhooks.live.id } };
export const disabled = { params: { id: webhooks.disabled.id } };

const list = webhookRoute({
  method: 'get',
  path: '/dashboard/webhooks',
  operationId: 'listWebhooks',
  summary: 'List webhook endpoints',
  description: "The Organization's endpoints, without secrets.",
  responses: { 200: json('All endpoints.', webhookListSchema) },
  examples: [
    {
      name: 'list',
      summary: 'Two endpoints, one of them disabled',
      request: {},
      answer: { webhooks: [exampleEndpoint('live'), exampleEndpoint('disabled')] },
    },
  ],
  handler: (deps) => async (_req, res) => {
    res.json({ webhooks: await listEndpoints(deps.db.orm, sessionOf(res).orgId) });
  },
});

const create = ({ webhookInputSchema }: WebhookSchemas) =>
  webhookRoute({
    method: 'post',
    path: '/dashboard/webhooks',
    operationId: 'createWebhook',
    summary: 'Create a webhook endpoint',
    description:
      'The secret is returned only in this response. The endpoint receives messages created from now on. An Organization can have at most 20 endpoints.',
    body: { schema: webhookInputSchema, maxBytes: MAX_BODY_BYTES },
    responses: { 201: json('The endpoint and its secret.', newWebhookSchema) },
    examples: [
      {
        name: 'created',
        summary: 'For live mode',
        request: { body: exampleInput },
        answer: {
          webhook: {
            ...exampleEndpoint('live'),
            ...exampleInput,
            id: generated('019c13c7-9a00-7000-8000-4b1d0a6e2f91'),
            createdAt: now,
          },
          secret: madeSecret,
        },
      },
      {
        name: 'slack',
        summary: 'For a channel in Slack',
        request: { body: { ...exampleInput, format: 'slack', url: slackUrl } },
        answer: {
          webhook: {
            ...exampleEndpoint('live'),
            ...exampleInput,
            format: 'slack',
            url: 'https://hooks.slack.example/…bXyZ',
            id: generated('019c13c7-9a00-7000-8000-4b1d0a6e2f92'),
            createdAt: now,
          },
          secret: null,
        },
      },
      problemExample('invalid_request', {
        summary: 'A private address',
        at: '/url',
        detail: 'must not be a private or reserved address',
        request: { body: { ...exampleInput, url: 'https://10.0.0.7/hook' } },
      }),
    ],
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
  summary: 'Read one webhook endpoint',
  description: 'The endpoint and its state, without its secret.',
  responses: { 200: json('The endpoint.', webhookAnswerSchema) },
  examples: [
    {
      name: 'webhook',
      summary: 'A live endpoint',
      request: { ...one },
      answer: { webhook: exampleEndpoint('live') },
    },
  ],
  handler: (deps) => async (req, res) => {
    res.json({ webhook: await requireEndpoint(deps.db.orm, sessionOf(res).orgId, readEndpointId(req)) });
  },
});

const update = ({ webhookInputSchema }: WebhookSchemas) =>
  webhookRoute({
    method: 'put',
    path: '/dashboard/webhooks/{id}',
    operationId: 'updateWebhook',
    summary: 'Change a webhook endpoint',
    description:
      'Replaces the settings of the endpoint; a repeat changes nothing. Enabling an endpoint clears its record of failures. Disabling it fails its waiting deliveries.',
    body: { schema: webhookInputSchema, maxBytes: MAX_BODY_BYTES },
    responses: { 200: json('The endpoint as it is now.', webhookAnswerSchema) },
    refused: { ...one, body: exampleInput },
    examples: [
      {
        name: 'enabled',
        summary: 'Enabled again',
        request: { ...disabled, body: { ...exampleInput, url: webhooks.disabled.url, isEnabled: true } },
        answer: { webhook: { ...exampleEndpoint('disabled'), isEnabled: true, disabledReason: null } },
      },
      problemExample('invalid_request', {
        summary: 'Plain http',
        at: '/url',
        detail: 'must be https',
        request: { ...one, body: { ...exampleInput, url: 'http://hooks.acme.example/usage' } },
      }),
    ],
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
  summary: 'Delete a webhook endpoint',
  description: 'Stops all deliveries to the endpoint. Its deliveries can no longer be read.',
  responses: { 200: json('The endpoint as it was.', webhookAnswerSchema) },
  examples: [
    {
      name: 'deleted',
      summary: 'Deleted now',
      request: { ...one },
      answer: { webhook: exampleEndpoint('live') },
    },
  ],
  handler: (deps) => async (req, res) => {
    res.json({ webhook: await deleteEndpoint(deps, memberActor(req, res), readEndpointId(req)) });
  },
});

const rotate = webhookRoute({
  method: 'post',
  path: '/dashboard/webhooks/{id}/rotate',
  operationId: 'rotateWebhookSecret',
  summary: 'Rotate the secret of a webhook endpoint',
  description: `
Creates a new secret. For \`graceMinutes\`, each message has two signatures, one per secret, so you can change the secret at the receiver without a gap. \`0\` ends the
old secret at once. Any earlier secret ends at once. The body is optional.
`.trim(),
  body: { schema: rotateWebhookSchema, isOptional: true, maxBytes: MAX_BODY_BYTES },
  responses: { 201: json('The endpoint and its new secret.', newWebhookSchema) },
  refused: one,
  examples: [
    {
      name: 'rotated',
      summary: 'With a grace period of two hours',
      request: { ...one, body: { graceMinutes: 120 } },
      answer: {
        webhook: { ...exampleEndpoint('live'), previousSecretEndsAt: '2026-01-31T14:00:00.000Z' },
        secret: madeSecret,
      },
    },
    {
      name: 'rotatedWithDefaults',
      summary: 'With a grace period of a day',
      request: { ...one },
      answer: {
        webhook: { ...exampleEndpoint('live'), previousSecretEndsAt: '2026-02-01T12:00:00.000Z' },
        secret: madeSecret,
      },
    },
    invalidExample('A grace period of more than a week', { ...one, body: { graceMinutes: 10_081 } }),
  ],
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
