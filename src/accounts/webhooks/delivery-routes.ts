import { parseInput } from '../../core/http/validate.js';
import { json } from '../../core/reference/define-route.js';
import { requireEndpoint, resendDelivery, resendFailed, testEndpoint } from './endpoints.js';
import { readDeliveries, readDeliveryDetails, webhookRoute } from './request.js';
import {
  deliveryAnswerSchema,
  deliveryListSchema,
  resendWebhookSchema,
  resentAnswerSchema,
  testAnswerSchema,
  type WebhookSchemas,
} from './schema.js';

const test = webhookRoute({
  at: 'POST /dashboard/webhooks/{id}/test',
  operationId: 'testWebhook',
  responses: { 202: json('Accepted for delivery.', testAnswerSchema) },
  answer: async ({ actor, id }, deps) => ({ messageId: await testEndpoint(deps, actor, id) }),
});

const deliveries = ({ listDeliveriesSchema }: WebhookSchemas) =>
  webhookRoute({
    at: 'GET /dashboard/webhooks/{id}/deliveries',
    operationId: 'listWebhookDeliveries',
    query: listDeliveriesSchema,
    responses: { 200: json('A page of deliveries.', deliveryListSchema) },
    async answer({ actor: { orgId }, id: endpointId, query }, { db: { orm } }) {
      await requireEndpoint(orm, orgId, endpointId);
      const filter = parseInput(listDeliveriesSchema, query);
      const { deliveries, nextCursor = null } = await readDeliveries(orm, { orgId, endpointId }, filter);
      return { deliveries, nextCursor };
    },
  });

const readOne = webhookRoute({
  at: 'GET /dashboard/webhooks/{id}/deliveries/{messageId}',
  operationId: 'getWebhookDelivery',
  responses: { 200: json('The delivery.', deliveryAnswerSchema) },
  async answer({ actor: { orgId }, id: endpointId, messageId }, { db: { orm } }) {
    await requireEndpoint(orm, orgId, endpointId);
    return { delivery: await readDeliveryDetails(orm, { orgId, endpointId, messageId }) };
  },
});

const resendOne = webhookRoute({
  at: 'POST /dashboard/webhooks/{id}/deliveries/{messageId}/resend',
  operationId: 'resendWebhookDelivery',
  responses: { 202: json('Accepted for delivery.', deliveryAnswerSchema) },
  async answer({ actor, id: endpointId, messageId }, deps) {
    await resendDelivery(deps, actor, endpointId, messageId);
    const key = { orgId: actor.orgId, endpointId, messageId };
    return { delivery: await readDeliveryDetails(deps.db.orm, key) };
  },
});

const resend = webhookRoute({
  at: 'POST /dashboard/webhooks/{id}/resend',
  operationId: 'resendFailedWebhookDeliveries',
  body: resendWebhookSchema,
  responses: { 200: json('The number of messages resent.', resentAnswerSchema) },
  answer: async ({ actor, id, input }, deps) => ({
    resent: await resendFailed(deps, actor, id, new Date(input.since)),
  }),
});

export const deliveryRoutes = (schemas: WebhookSchemas) => [
  test,
  deliveries(schemas),
  readOne,
  resendOne,
  resend,
];
