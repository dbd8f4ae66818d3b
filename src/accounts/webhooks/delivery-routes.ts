import { parseInput } from '../../core/http/validate.js';
import {
  excerpt,
  generated,
  json,
  type Example,
  type ExampleRequest,
} from '../../core/reference/define-route.js';
import { exampleWorld } from '../reference/example-world.js';
import { invalidExample, problemExample } from '../../core/reference/problem-examples.js';
import { memberActor } from '../identity/session/authority.js';
import { MAX_BODY_BYTES, readInput } from '../identity/operator/http.js';
import { sessionOf } from '../identity/session/session.js';
import { requireEndpoint, resendDelivery, resendFailed, testEndpoint } from './endpoints.js';
import {
  readDeliveries,
  readDeliveryDetails,
  readEndpointId,
  readMessageId,
  webhookRoute,
} from './request.js';
import { disabled, one } from './routes.js';
import {
  deliveryAnswerSchema,
  deliveryListSchema,
  resendWebhookSchema,
  resentAnswerSchema,
  testAnswerSchema,
  type WebhookSchemas,
} from './schema.js';

const { webhooks, now } = exampleWorld;

const delivery = {
  messageId: webhooks.message.id,
  type: 'api_key.created',
  livemode: true,
  status: 'failed',
  attempts: 1,
  lastAttemptAt: webhooks.message.createdAt,
  statusCode: 503,
  error: null,
  nextAttemptAt: null,
  createdAt: webhooks.message.createdAt,
};

const oneDelivery = { params: { id: webhooks.live.id, messageId: webhooks.message.id } };

const disabledRefused = (request: ExampleRequest): Example =>
  problemExample('invalid_request', {
    name: 'disabled',
    summary: 'The endpoint is disabled',
    detail: 'This endpoint is disabled. Enable it first.',
    request,
  });

const test = webhookRoute({
  method: 'post',
  path: '/dashboard/webhooks/{id}/test',
  operationId: 'testWebhook',
  summary: 'Send a test message',
  description:
    'Sends a message of type `webhook.test` to this endpoint only, in the same way as any other message. It appears among the deliveries.',
  responses: { 202: json('Accepted for delivery.', testAnswerSchema) },
  examples: [
    {
      name: 'sent',
      summary: 'On its way',
      request: { ...one },
      answer: { messageId: generated('019c13c7-9a00-7000-8000-4b1d0a6e2f92') },
    },
    disabledRefused(disabled),
  ],
  handler: (deps) => async (req, res) => {
    res.status(202).json({ messageId: await testEndpoint(deps, memberActor(req, res), readEndpointId(req)) });
  },
});

const deliveries = ({ listDeliveriesSchema }: WebhookSchemas) =>
  webhookRoute({
    method: 'get',
    path: '/dashboard/webhooks/{id}/deliveries',
    operationId: 'listWebhookDeliveries',
    summary: 'List deliveries',
    description: "The endpoint's messages: delivered, failed and waiting.",
    query: listDeliveriesSchema,
    responses: { 200: json('A page of deliveries.', deliveryListSchema) },
    examples: [
      {
        name: 'failed',
        summary: 'Failed deliveries',
        request: { ...one, query: { status: 'failed' } },
        answer: { deliveries: [delivery], nextCursor: null },
      },
      invalidExample('An invalid cursor', { ...one, query: { cursor: '2' } }),
    ],
    handler: (deps) => async (req, res) => {
      const { orgId } = sessionOf(res);
      const { id: endpointId } = await requireEndpoint(deps.db.orm, orgId, readEndpointId(req));
      const query = parseInput(listDeliveriesSchema, req.query);
      const { deliveries, nextCursor = null } = await readDeliveries(
        deps.db.orm,
        { orgId, endpointId },
        query,
      );
      res.json({ deliveries, nextCursor });
    },
  });

const readOne = webhookRoute({
  method: 'get',
  path: '/dashboard/webhooks/{id}/deliveries/{messageId}',
  operationId: 'getWebhookDelivery',
  summary: 'Read one delivery',
  description: 'The message and the result of each attempt.',
  responses: { 200: json('The delivery.', deliveryAnswerSchema) },
  examples: [
    {
      name: 'delivery',
      summary: 'A receiver that was down',
      request: { ...oneDelivery },
      answer: { delivery: excerpt(delivery) },
    },
  ],
  handler: (deps) => async (req, res) => {
    const { orgId } = sessionOf(res);
    const { id: endpointId } = await requireEndpoint(deps.db.orm, orgId, readEndpointId(req));
    const key = { orgId, endpointId, messageId: readMessageId(req) };
    res.json({ delivery: await readDeliveryDetails(deps.db.orm, key) });
  },
});

const resendOne = webhookRoute({
  method: 'post',
  path: '/dashboard/webhooks/{id}/deliveries/{messageId}/resend',
  operationId: 'resendWebhookDelivery',
  summary: 'Resend a delivery',
  description:
    'Resends the message at once, whatever its status, with the same `webhook-id`. The retry schedule starts again.',
  responses: { 202: json('Accepted for delivery.', deliveryAnswerSchema) },
  examples: [
    {
      name: 'resent',
      summary: 'Sent again',
      request: { ...oneDelivery },
      answer: { delivery: excerpt({ ...delivery, status: 'waiting', nextAttemptAt: now }) },
    },
    disabledRefused({ params: { ...oneDelivery.params, id: webhooks.disabled.id } }),
  ],
  handler: (deps) => async (req, res) => {
    const actor = memberActor(req, res);
    const key = { orgId: actor.orgId, endpointId: readEndpointId(req), messageId: readMessageId(req) };
    await resendDelivery(deps, actor, key.endpointId, key.messageId);
    res.status(202).json({ delivery: await readDeliveryDetails(deps.db.orm, key) });
  },
});

const resend = webhookRoute({
  method: 'post',
  path: '/dashboard/webhooks/{id}/resend',
  operationId: 'resendFailedWebhookDeliveries',
  summary: 'Resend failed deliveries',
  description: "Resends the endpoint's failed deliveries whose messages were created since the given time.",
  body: { schema: resendWebhookSchema, maxBytes: MAX_BODY_BYTES },
  responses: { 200: json('The number of messages resent.', resentAnswerSchema) },
  examples: [
    {
      name: 'resent',
      summary: 'Since a day',
      request: { ...one, body: { since: '2026-01-30T12:00:00Z' } },
      answer: { resent: 1 },
    },
    invalidExample('A time without an offset', { ...one, body: { since: '2026-01-30' } }),
  ],
  handler: (deps) => async (req, res) => {
    const id = readEndpointId(req);
    const { since } = await readInput(req, res, resendWebhookSchema);
    res.json({ resent: await resendFailed(deps, memberActor(req, res), id, new Date(since)) });
  },
});

export const deliveryRoutes = (schemas: WebhookSchemas) => [
  test,
  deliveries(schemas),
  readOne,
  resendOne,
  resend,
];
