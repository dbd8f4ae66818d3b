import { parseInput } from '../../core/http/validate.js';
import { json } from '../../core/reference/define-route.js';
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
import {
  deliveryAnswerSchema,
  deliveryListSchema,
  resendWebhookSchema,
  resentAnswerSchema,
  testAnswerSchema,
  type WebhookSchemas,
} from './schema.js';

const test = webhookRoute({
  method: 'post',
  path: '/dashboard/webhooks/{id}/test',
  operationId: 'testWebhook',
  responses: { 202: json('Accepted for delivery.', testAnswerSchema) },
  handler: (deps) => async (req, res) => {
    res.status(202).json({ messageId: await testEndpoint(deps, memberActor(req, res), readEndpointId(req)) });
  },
});

const deliveries = ({ listDeliveriesSchema }: WebhookSchemas) =>
  webhookRoute({
    method: 'get',
    path: '/dashboard/webhooks/{id}/deliveries',
    operationId: 'listWebhookDeliveries',
    query: listDeliveriesSchema,
    responses: { 200: json('A page of deliveries.', deliveryListSchema) },
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
  responses: { 200: json('The delivery.', deliveryAnswerSchema) },
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
  responses: { 202: json('Accepted for delivery.', deliveryAnswerSchema) },
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
  body: { schema: resendWebhookSchema, maxBytes: MAX_BODY_BYTES },
  responses: { 200: json('The number of messages resent.', resentAnswerSchema) },
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
