import type { RouteDescription } from '../../core/reference/description.js';
import { problemExample } from '../../core/reference/problem-examples.js';
import { describeOperatorRoute, notFoundExample } from '../../identity/operator/description-parts.js';
import { exampleWorld } from '../../core/reference/example-world.js';
import { acceptedSchema, acceptSchema, reconciliationSchema } from './schema.js';

const path = '/operator/organizations/{slug}/trading/reconciliation';
const params = { slug: 'acme' };
const unknown = 'There is no Organization "initech".';
const disabled = 'The Organization "acme" does not trade live on this server.';

export const reconciliationDescriptions: RouteDescription[] = [
  describeOperatorRoute({
    method: 'get',
    path,
    operationId: 'getReconciliation',
    summary: 'Compare the live account with the venue',
    description:
      'How orders, fills, positions and cash of the Organization compare with what the venue says, as this instance saw it last: at its start and every minute since. Live trading is closed until both agree.',
    responses: {
      200: { description: 'How things stand.', content: { 'application/json': reconciliationSchema } },
    },
    errors: ['not_found'],
    good: { params },
    examples: [
      {
        name: 'off',
        summary: 'An Organization that does not trade live',
        request: { credential: 'operator', params },
        response: {
          status: 200,
          body: {
            organization: 'acme',
            state: 'off',
            reason: null,
            comparedAt: null,
            agreedAt: null,
            differences: [],
            pendingOrders: 0,
            settling: [],
            foreign: { orders: [], fills: [], positions: [] },
          },
        },
      },
      notFoundExample(unknown, { params: { slug: 'initech' } }),
    ],
  }),
  describeOperatorRoute({
    method: 'put',
    path,
    operationId: 'acceptReconciliation',
    summary: 'Take the venue’s word for what differs',
    description:
      'Compares anew and accepts every difference: cash is corrected by an `adjustment` in the ledger, contracts beyond ours count as those of others, and differing orders are not told again. An audit row says what was accepted. Also reopens trading after the venue said something that was not understood. Where both agree, nothing changes. 503 `unavailable` while the venue cannot be read or the outcome of an order is not known yet.',
    body: { schema: acceptSchema },
    responses: {
      200: { description: 'What was accepted.', content: { 'application/json': acceptedSchema } },
    },
    errors: ['not_found', 'live_trading_disabled'],
    good: { params, body: { accept: true } },
    examples: [
      {
        name: 'accepted',
        summary: 'Cash that was taken out at the venue',
        circumstance: 'trading_live',
        request: { credential: 'operator', params, body: { accept: true } },
        response: {
          status: 200,
          body: {
            accepted: [{ kind: 'cash', subject: 'cash', ours: '1000.0000', venues: '990.0000' }],
            reconciliation: {
              organization: 'acme',
              state: 'open',
              reason: null,
              comparedAt: exampleWorld.now,
              agreedAt: exampleWorld.now,
              differences: [],
              pendingOrders: 0,
              settling: [],
              foreign: { orders: [], fills: [], positions: [] },
            },
          },
        },
      },
      problemExample('live_trading_disabled', {
        summary: 'An Organization that does not trade live',
        detail: disabled,
        request: { credential: 'operator', params, body: { accept: true } },
      }),
      problemExample('invalid_request', {
        summary: 'Nothing is accepted by halves',
        detail: '/accept Invalid input: expected true',
        errors: [{ pointer: '/accept', code: 'invalid_request', detail: 'Invalid input: expected true' }],
        request: { credential: 'operator', params, body: { accept: false } },
      }),
      notFoundExample(unknown, { params: { slug: 'initech' }, body: { accept: true } }),
    ],
  }),
];
