import { z } from 'zod';
import { hasBody, readJsonBody } from '../core/http/json-body.js';
import { parseInput } from '../core/http/validate.js';
import {
  defineRoute,
  generated,
  json,
  type Example,
  type ExampleRequest,
} from '../core/reference/define-route.js';
import { exampleWorld } from '../core/reference/example-world.js';
import { problemExample } from '../core/reference/problem-examples.js';
import { requireRole, sessionOf } from '../identity/session/session.js';
import { managingRoles } from '../organizations/table.js';
import {
  createEndpoint,
  deleteEndpoint,
  requireEndpoint,
  rotateSecret,
  updateEndpoint,
  type EndpointDeps,
} from './endpoints.js';
import { listEndpoints } from './queries.js';
import { actorOf, readEndpointId } from './request.js';
import {
  MAX_BODY_BYTES,
  newWebhookSchema,
  rotateWebhookSchema,
  webhookAnswerSchema,
  webhookInputSchema,
  webhookListSchema,
} from './schema.js';

/** Owners and admins alone: an address may hold a credential of its receiver. */
export const mayManage = requireRole(...managingRoles);

const { webhooks, createdAt, now, unknownId } = exampleWorld;

const view = (name: 'live' | 'disabled') => ({
  ...webhooks[name],
  types: ['api_key.created'],
  livemode: true,
  isEnabled: name === 'live',
  disabledReason: name === 'live' ? null : 'gone',
  failingSince: null,
  previousSecretEndsAt: null,
  createdAt,
});

const madeSecret = generated('whsec_vQe1XxkMYmgVJkJZq0m3pA9rjJm6g8v5n2wq7b4c1dE=');
const input = { url: 'https://hooks.acme.example/usage', types: ['api_key.created'], livemode: true };
export const common = { tag: 'Webhooks', credential: 'session' } as const;
export const idParams = z.object({ id: z.string().meta({ description: 'The id of the endpoint.' }) });
export const one = { params: { id: webhooks.live.id } };
export const disabled = { params: { id: webhooks.disabled.id } };

export const memberRefused = (request: ExampleRequest): Example =>
  problemExample('forbidden_role', {
    summary: 'A member may not manage webhooks',
    detail: 'You are member of Acme; this needs the role owner or admin.',
    request: { ...request, credential: 'memberSession' },
  });

export const notFound = (request: ExampleRequest): Example[] =>
  [
    { name: 'notFound', summary: 'No such endpoint', id: unknownId },
    {
      name: 'endpointOfAnother',
      summary: "Another Organization's does not exist here",
      id: webhooks.otherId,
    },
  ].map(({ name, summary, id }) =>
    problemExample('not_found', {
      name,
      summary,
      detail: 'There is no such endpoint.',
      request: { ...request, params: { ...request.params, id } },
    }),
  );

const list = defineRoute({
  ...common,
  method: 'get',
  path: '/dashboard/webhooks',
  operationId: 'listWebhooks',
  summary: 'List webhook endpoints',
  description: "The Organization's endpoints. Never a secret.",
  responses: { 200: json('All of them.', webhookListSchema) },
  examples: [
    {
      name: 'list',
      summary: 'Two, of which one was disabled',
      request: {},
      answer: { webhooks: [view('live'), view('disabled')] },
    },
    memberRefused({}),
  ],
  handler: ({ db }: EndpointDeps) => [
    mayManage,
    async (_req, res) => {
      res.json({ webhooks: (await listEndpoints(db.orm, sessionOf(res).orgId)).map(toJson) });
    },
  ],
});

const create = defineRoute({
  ...common,
  method: 'post',
  path: '/dashboard/webhooks',
  operationId: 'createWebhook',
  summary: 'Create a webhook endpoint',
  description:
    'The secret is in this answer and in no other one. It is told of what happens from now on. An Organization has at most 20 endpoints.',
  body: { schema: webhookInputSchema, maxBytes: MAX_BODY_BYTES },
  responses: { 201: json('The endpoint and its secret.', newWebhookSchema) },
  errors: ['invalid_request'],
  examples: [
    {
      name: 'created',
      summary: 'For live mode',
      request: { body: input },
      answer: {
        webhook: {
          ...view('live'),
          ...input,
          id: generated('019c13c7-9a00-7000-8000-4b1d0a6e2f91'),
          createdAt: now,
        },
        secret: madeSecret,
      },
    },
    problemExample('invalid_request', {
      summary: 'A private address',
      at: '/url',
      detail: 'must not be a private or reserved address',
      request: { body: { ...input, url: 'https://10.0.0.7/hook' } },
    }),
    memberRefused({ body: input }),
  ],
  handler: (deps: EndpointDeps) => [
    mayManage,
    async (req, res) => {
      const { value } = await readJsonBody(req, res, MAX_BODY_BYTES);
      const made = await createEndpoint(deps, actorOf(req, res), parseInput(webhookInputSchema, value));
      res.status(201).json({ webhook: toJson(made.endpoint), secret: made.secret });
    },
  ],
});

const read = defineRoute({
  ...common,
  method: 'get',
  path: '/dashboard/webhooks/{id}',
  operationId: 'getWebhook',
  summary: 'Read one webhook endpoint',
  description: 'How an endpoint stands. Never its secret.',
  params: idParams,
  responses: { 200: json('The endpoint.', webhookAnswerSchema) },
  errors: ['not_found'],
  examples: [
    { name: 'webhook', summary: 'One for live mode', request: { ...one }, answer: { webhook: view('live') } },
    ...notFound({}),
    memberRefused(one),
  ],
  handler: ({ db }: EndpointDeps) => [
    mayManage,
    async (req, res) => {
      const endpoint = await requireEndpoint(db.orm, sessionOf(res).orgId, readEndpointId(req));
      res.json({ webhook: toJson(endpoint) });
    },
  ],
});

const update = defineRoute({
  ...common,
  method: 'put',
  path: '/dashboard/webhooks/{id}',
  operationId: 'updateWebhook',
  summary: 'Change a webhook endpoint',
  description:
    'States how the endpoint shall be; the same again changes nothing. Enabled again it has a clean record. What waits for an endpoint that is disabled is given up.',
  params: idParams,
  body: { schema: webhookInputSchema, maxBytes: MAX_BODY_BYTES },
  responses: { 200: json('The endpoint as it is now.', webhookAnswerSchema) },
  errors: ['invalid_request', 'not_found'],
  examples: [
    {
      name: 'enabled',
      summary: 'Enabled again',
      request: { ...disabled, body: { ...input, url: webhooks.disabled.url, isEnabled: true } },
      answer: { webhook: { ...view('disabled'), isEnabled: true, disabledReason: null } },
    },
    problemExample('invalid_request', {
      summary: 'Plain http',
      at: '/url',
      detail: 'must be https',
      request: { ...one, body: { ...input, url: 'http://hooks.acme.example/usage' } },
    }),
    ...notFound({ body: input }),
    memberRefused({ ...one, body: input }),
  ],
  handler: (deps: EndpointDeps) => [
    mayManage,
    async (req, res) => {
      const id = readEndpointId(req);
      const { value } = await readJsonBody(req, res, MAX_BODY_BYTES);
      const endpoint = await updateEndpoint(
        deps,
        actorOf(req, res),
        id,
        parseInput(webhookInputSchema, value),
      );
      res.json({ webhook: toJson(endpoint) });
    },
  ],
});

const remove = defineRoute({
  ...common,
  method: 'delete',
  path: '/dashboard/webhooks/{id}',
  operationId: 'deleteWebhook',
  summary: 'Delete a webhook endpoint',
  description: 'Nothing is sent to it from now on, and its deliveries cannot be read any more.',
  params: idParams,
  responses: { 200: json('The endpoint as it was.', webhookAnswerSchema) },
  errors: ['not_found'],
  examples: [
    { name: 'deleted', summary: 'Deleted now', request: { ...one }, answer: { webhook: view('live') } },
    ...notFound({}),
    memberRefused(one),
  ],
  handler: (deps: EndpointDeps) => [
    mayManage,
    async (req, res) => {
      res.json({ webhook: toJson(await deleteEndpoint(deps, actorOf(req, res), readEndpointId(req))) });
    },
  ],
});

const rotate = defineRoute({
  ...common,
  method: 'post',
  path: '/dashboard/webhooks/{id}/rotate',
  operationId: 'rotateWebhookSecret',
  summary: 'Rotate the secret of a webhook endpoint',
  description: `
Makes a new secret. For \`graceMinutes\` each message carries two signatures, one of each secret, so the receiver can be given the new one without a gap; \`0\` ends the
old one at once. A secret from before the last rotation ends in any case. The body may be left out.
`.trim(),
  params: idParams,
  body: { schema: rotateWebhookSchema, isOptional: true, maxBytes: MAX_BODY_BYTES },
  responses: { 201: json('The endpoint and its new secret.', newWebhookSchema) },
  errors: ['invalid_request', 'not_found'],
  examples: [
    {
      name: 'rotated',
      summary: 'With two hours for the receiver',
      request: { ...one, body: { graceMinutes: 120 } },
      answer: {
        webhook: { ...view('live'), previousSecretEndsAt: '2026-01-31T14:00:00.000Z' },
        secret: madeSecret,
      },
    },
    {
      name: 'rotatedWithDefaults',
      summary: 'With a day',
      request: { ...one },
      answer: {
        webhook: { ...view('live'), previousSecretEndsAt: '2026-02-01T12:00:00.000Z' },
        secret: madeSecret,
      },
    },
    problemExample('invalid_request', {
      summary: 'More than a week of grace',
      at: '/graceMinutes',
      detail: 'must be at most 10080',
      request: { ...one, body: { graceMinutes: 10_081 } },
    }),
    ...notFound({}),
    memberRefused(one),
  ],
  handler: (deps: EndpointDeps) => [
    mayManage,
    async (req, res) => {
      const id = readEndpointId(req);
      const body = hasBody(req) ? (await readJsonBody(req, res, MAX_BODY_BYTES)).value : {};
      const { graceMinutes } = parseInput(rotateWebhookSchema, body);
      const made = await rotateSecret(deps, actorOf(req, res), id, graceMinutes);
      res.status(201).json({ webhook: toJson(made.endpoint), secret: made.secret });
    },
  ],
});

/** An endpoint as people and clients see it. */
const toJson = ({ id, url, types, livemode, ...rest }: Awaited<ReturnType<typeof requireEndpoint>>) => ({
  id,
  url,
  types,
  livemode,
  isEnabled: rest.isEnabled,
  disabledReason: rest.disabledReason,
  failingSince: rest.failingSince,
  previousSecretEndsAt: rest.previousSecretEndsAt,
  createdAt: rest.createdAt,
});

/** `/dashboard/webhooks`, for owner and admin; what was sent is in `delivery-routes.ts`. */
export const webhookRoutes = [list, create, read, update, remove, rotate];
