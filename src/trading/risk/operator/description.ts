import type { RouteDescription } from '../../../core/reference/description.js';
import { problemExample } from '../../../core/reference/problem-examples.js';
import {
  deletedResponses,
  describeOperatorRoute,
  notFoundExample,
  now,
  putResponses,
} from '../../../identity/operator/description-parts.js';
import {
  limitsAnswerSchema,
  limitsSchema,
  serviceSwitchAnswerSchema,
  switchAnswerSchema,
  switchSchema,
} from './schema.js';

const limitsPath = '/operator/organizations/{slug}/trading/limits';
const switchPath = '/operator/organizations/{slug}/trading/switch';
const servicePath = '/operator/trading/switch';
const acme = { params: { slug: 'acme' } };
const unknown = { params: { slug: 'initech' } };
const noOrganization = 'There is no Organization "initech".';

const binds =
  'An order reads it in the transaction that writes the order, so it binds on the next order, on every instance; an order that is being carried out at that moment is not taken back.';

const defaults = {
  maxOrderContracts: 1000,
  maxOrderCost: '250.0000',
  maxPositionContracts: 1000,
  maxEventLoss: '500.0000',
  maxDailyLoss: '200.0000',
  maxOpenOrders: 20,
  priceCollar: '0.1000',
};
const nothing = {
  maxOrderContracts: null,
  maxOrderCost: null,
  maxPositionContracts: null,
  maxEventLoss: null,
  maxDailyLoss: null,
  maxOpenOrders: null,
  priceCollar: null,
};
const tighter = { maxOrderContracts: 100, maxDailyLoss: '50' };
const tight = { maxOrderContracts: 100, maxDailyLoss: '50.0000' };
const declared = {
  effective: { ...defaults, ...tight },
  declared: { ...nothing, ...tight },
  updatedAt: now,
};

const untouched = { state: 'open', reason: null, changedAt: null };
const allOpen = {
  state: 'open',
  service: untouched,
  operator: untouched,
  own: { ...untouched, by: null },
};
const halt = { state: 'halt', reason: 'Unexplained fills, under investigation.' };
const operatorPut = { credential: 'operator' as const, ...acme, body: halt };
const noReason = 'is required, unless the state is open';
const ok = (description: string, schema: RouteDescription['responses'][number]['content'] & object) => ({
  200: { description, content: schema },
});

const noReasonExample = (params: { params?: Record<string, string> }) =>
  problemExample('invalid_request', {
    summary: 'Closed without a reason',
    detail: `/reason ${noReason}`,
    errors: [{ pointer: '/reason', code: 'invalid_request', detail: noReason }],
    request: { credential: 'operator', ...params, body: { state: 'halt' } },
  });

export const tradingControlDescriptions: RouteDescription[] = [
  describeOperatorRoute({
    method: 'get',
    path: limitsPath,
    operationId: 'getTradingLimits',
    summary: "Read an Organization's risk limits",
    description:
      'What its orders are held to, in paper and live mode each by itself. `effective` is what binds; where `declared` is `null`, that is the default.',
    responses: ok('The limits.', { 'application/json': limitsAnswerSchema }),
    errors: ['not_found'],
    good: acme,
    examples: [
      {
        name: 'defaults',
        summary: 'Nothing was declared',
        request: { credential: 'operator', ...acme },
        response: { status: 200, body: { effective: defaults, declared: nothing, updatedAt: null } },
      },
      notFoundExample(noOrganization, unknown),
    ],
  }),
  describeOperatorRoute({
    method: 'put',
    path: limitsPath,
    operationId: 'putTradingLimits',
    summary: "Declare an Organization's risk limits",
    description: `Replaces them in full: what is left out or \`null\` is the default. A limit of 0 lets nothing pass that it limits, and a \`priceCollar\` of 0 no price beyond the best. Orders that only give up what is held are never refused for \`maxOrderCost\`, \`maxPositionContracts\`, \`maxEventLoss\` or \`maxDailyLoss\`. An order against a limit is answered with 422 \`risk_limit\`, whose \`detail\` begins with the limit's name. ${binds}`,
    body: { schema: limitsSchema },
    responses: putResponses(limitsAnswerSchema),
    errors: ['not_found'],
    good: { ...acme, body: tighter },
    examples: [
      {
        name: 'declared',
        summary: 'Two tighter limits, and the defaults for the rest',
        request: { credential: 'operator', ...acme, body: tighter },
        response: { status: 201, body: declared },
      },
      {
        name: 'again',
        summary: 'The same again changes nothing',
        before: [{ credential: 'operator', ...acme, body: tighter }],
        request: { credential: 'operator', ...acme, body: tighter },
        response: { status: 200, body: declared },
      },
      problemExample('invalid_request', {
        summary: 'An amount that is no text',
        detail: '/maxDailyLoss Invalid input: expected string, received number',
        errors: [
          {
            pointer: '/maxDailyLoss',
            code: 'invalid_request',
            detail: 'Invalid input: expected string, received number',
          },
        ],
        request: { credential: 'operator', ...acme, body: { maxDailyLoss: 50 } },
      }),
      notFoundExample(noOrganization, { ...unknown, body: tighter }),
    ],
  }),
  describeOperatorRoute({
    method: 'delete',
    path: limitsPath,
    operationId: 'deleteTradingLimits',
    summary: "Withdraw an Organization's risk limits",
    description: `Back to the defaults. ${binds}`,
    responses: deletedResponses,
    errors: ['not_found'],
    good: acme,
    examples: [
      {
        name: 'withdrawn',
        summary: 'The defaults bind again',
        request: { credential: 'operator', params: { slug: 'globex' } },
        response: { status: 204 },
      },
      notFoundExample('No limits were declared for the Organization "acme".', acme),
    ],
  }),
  describeOperatorRoute({
    method: 'get',
    path: switchPath,
    operationId: 'getTradingSwitch',
    summary: "Read an Organization's kill switch",
    description:
      "Three switches stand between an Organization and its orders: the service's, the operator's for this Organization, and its own. The strictest binds, in paper and live mode.",
    responses: ok('The switches.', { 'application/json': switchAnswerSchema }),
    errors: ['not_found'],
    good: acme,
    examples: [
      {
        name: 'open',
        summary: 'All are open',
        request: { credential: 'operator', ...acme },
        response: { status: 200, body: allOpen },
      },
      notFoundExample(noOrganization, unknown),
    ],
  }),
  describeOperatorRoute({
    method: 'put',
    path: switchPath,
    operationId: 'putTradingSwitch',
    summary: "Set the operator's kill switch of an Organization",
    description: `\`halt\` refuses every order of the Organization with 422 \`risk_limit\`, \`reduce_only\` all but sales of what is held and purchases that close pairs. The Organization sees state and reason and cannot open it; it has a switch of its own beside it. ${binds}`,
    body: { schema: switchSchema },
    responses: ok('As it stands now.', { 'application/json': switchAnswerSchema }),
    errors: ['not_found'],
    good: { ...acme, body: halt },
    examples: [
      {
        name: 'halted',
        summary: 'Nothing passes any more',
        request: operatorPut,
        response: {
          status: 200,
          body: { ...allOpen, state: 'halt', operator: { ...halt, changedAt: now } },
        },
      },
      {
        name: 'opened',
        summary: 'Open again',
        before: [operatorPut],
        request: { credential: 'operator', ...acme, body: { state: 'open' } },
        response: {
          status: 200,
          body: { ...allOpen, operator: { state: 'open', reason: null, changedAt: now } },
        },
      },
      noReasonExample(acme),
      notFoundExample(noOrganization, { ...unknown, body: halt }),
    ],
  }),
  describeOperatorRoute({
    method: 'get',
    path: servicePath,
    operationId: 'getServiceTradingSwitch',
    summary: 'Read the kill switch of the whole service',
    description: 'What stands between every Organization and its orders.',
    responses: ok('The switch.', { 'application/json': serviceSwitchAnswerSchema }),
    good: {},
    examples: [
      {
        name: 'open',
        summary: 'Nobody has touched it',
        request: { credential: 'operator' },
        response: { status: 200, body: untouched },
      },
    ],
  }),
  describeOperatorRoute({
    method: 'put',
    path: servicePath,
    operationId: 'putServiceTradingSwitch',
    summary: 'Set the kill switch of the whole service',
    description: `For every Organization, in paper and live mode: \`halt\` refuses every order, \`reduce_only\` all that do not reduce what is held. ${binds}`,
    body: { schema: switchSchema },
    responses: ok('As it stands now.', { 'application/json': serviceSwitchAnswerSchema }),
    good: { body: halt },
    examples: [
      {
        name: 'halted',
        summary: 'Nothing passes any more',
        request: { credential: 'operator', body: halt },
        response: { status: 200, body: { ...halt, changedAt: now } },
      },
      noReasonExample({}),
    ],
  }),
];
