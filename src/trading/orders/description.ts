import { z } from 'zod';
import { generated, type ExampleRequest, type RouteDescription } from '../../core/reference/description.js';
import { exampleWorld } from '../../core/reference/example-world.js';
import {
  apiKeyProblemExamples,
  apiKeyProblems,
  bodyProblemExamples,
  bodyProblems,
  problemExample,
  serviceProblemExamples,
  serviceProblems,
} from '../../core/reference/problem-examples.js';
import {
  listTradesSchema,
  MAX_BODY_BYTES,
  orderHeaders,
  orderSchema,
  tradeAnswerSchema,
  tradeListSchema,
} from './schema.js';
import { placeRefusals } from './description-refusals.js';

const read = { tag: 'Trading', security: 'apiKey', scope: 'trading:read', isLimited: true } as const;

const { today } = exampleWorld.markets;
const body = {
  ticker: today.traded.ticker,
  side: 'yes',
  action: 'buy',
  contracts: 40,
  limitPrice: '0.4600',
};
const placed = {
  id: generated('019c13a6-8a00-7b3c-9d41-2f60c5a1e7d8'),
  mode: 'paper',
  ticker: body.ticker,
  eventTicker: today.eventTicker,
  seriesTicker: 'KXHIGHNY',
  station: 'KNYC',
  side: 'yes',
  action: 'buy',
  contracts: 40,
  limitPrice: '0.4600',
  idempotencyKey: 'ny-jan31-1',
  clientOrderId: generated('c7d1f1de-6c0e-5a0b-8f35-0a1f6f5f7b52'),
  venueOrderId: null,
  createdAt: exampleWorld.now,
  finishedAt: exampleWorld.now,
};
const filled = {
  ...placed,
  status: 'filled',
  reason: null,
  timeInForce: 'immediate_or_cancel',
  filledContracts: 40,
  averagePrice: '0.4520',
  fees: '0.6936',
  total: '-18.7736',
  fills: [
    { price: '0.4500', contracts: 32, fee: '0.5544', filledAt: exampleWorld.now },
    { price: '0.4600', contracts: 8, fee: '0.1392', filledAt: exampleWorld.now },
  ],
};
const killed = {
  ...placed,
  contracts: 250,
  status: 'cancelled',
  reason:
    'The book does not hold all 250 contracts at the limit price or better, and the order was to be filled whole or not at all.',
  timeInForce: 'fill_or_kill',
  filledContracts: 0,
  averagePrice: null,
  fees: '0.0000',
  total: '0.0000',
  fills: [],
};

const order: ExampleRequest = {
  credential: 'traderKey',
  headers: { 'idempotency-key': 'ny-jan31-1' },
  body,
};
const { credential: _credential, ...anybody } = order;

const place: RouteDescription = {
  tag: 'Trading',
  security: 'apiKey',
  scope: 'trading:write',
  isLimited: true,
  method: 'post',
  path: '/trade',
  operationId: 'placeOrder',
  summary: 'Place an order',
  description: `
Buys or sells contracts of one side of a market, at once, at the limit price or better. The answer comes when it is durable: **201 says what became of the order**, not that it was received.

**Once.** \`Idempotency-Key\` names the order within the Organization. After a time-out, a 503 or a lost connection send the same request again: if it was carried out, the same trade comes back (200), also when
the market has closed since; if not, it is placed now. The same key with another order is a \`409\`.

**Paper orders** take the same way as live ones up to the last step. They walk the venue's order book level by level and take what stands there: a contract that one order of the Organization took is
gone for its next one, until the venue shows another book. They sell at the bid, and pay the venue's fee: 7 % of contracts · price · (1 − price) · the multiplier of the series or event,
up to $0.000001 for each level. Each level's balance change is rounded down to $0.0001, and what an order has overpaid by that is given back with its next ones.

**Live orders** need a live key, the live switch of the server, and the Organization named in its configuration. The order is stored before it is sent. If the venue's answer is lost it stays \`pending\` and is looked up,
never sent again: read \`GET /trades/{id}\` until \`finishedAt\` is there.

**Checks**, in this order: the market and its data, the position that is sold, the price that can be had, the Organization's limits and switches, the cash. Cash counts without what pending orders may still take.
There is no selling short: to bet against a side buy the other one. Buying the side that is not held closes pairs of YES and NO, each of which pays a dollar at once.
`.trim(),
  headers: orderHeaders,
  body: { schema: orderSchema },
  responses: {
    200: {
      description: 'A repeat: the trade as it is by now.',
      content: { 'application/json': tradeAnswerSchema },
    },
    201: { description: 'The trade.', content: { 'application/json': tradeAnswerSchema } },
  },
  errors: [
    'invalid_request',
    ...bodyProblems,
    ...apiKeyProblems('trading:write'),
    'live_trading_disabled',
    'unknown_market',
    'idempotency_conflict',
    'market_closed',
    'insufficient_funds',
    'insufficient_position',
    'risk_limit',
    'price_moved',
    'market_data_unavailable',
    'market_data_stale',
    ...serviceProblems,
  ],
  examples: [
    {
      name: 'filled',
      summary: 'Filled from two levels of the book',
      request: order,
      response: { status: 201, body: { trade: filled } },
    },
    {
      name: 'repeated',
      summary: 'The same order once more: placed once',
      before: [order],
      request: order,
      response: { status: 200, body: { trade: filled } },
    },
    {
      name: 'killed',
      summary: 'All or nothing, and the book does not hold all',
      request: { ...order, body: { ...body, contracts: 250, timeInForce: 'fill_or_kill' } },
      response: { status: 201, body: { trade: killed } },
    },
    ...placeRefusals(order, body),
    ...bodyProblemExamples(order, MAX_BODY_BYTES),
    ...apiKeyProblemExamples(anybody, 'trading:write'),
    ...serviceProblemExamples(order),
  ],
};

const { trade } = exampleWorld;
const stored = {
  ...trade,
  mode: 'paper',
  status: 'filled',
  reason: null,
  eventTicker: today.eventTicker,
  seriesTicker: 'KXHIGHNY',
  station: 'KNYC',
  side: 'yes',
  action: 'buy',
  contracts: 10,
  limitPrice: '0.4500',
  timeInForce: 'immediate_or_cancel',
  filledContracts: 10,
  averagePrice: '0.4500',
  fees: '0.1733',
  total: '-4.6733',
  fills: [{ price: '0.4500', contracts: 10, fee: '0.1733', filledAt: trade.createdAt }],
  venueOrderId: null,
  finishedAt: trade.createdAt,
};

const list: RouteDescription = {
  ...read,
  method: 'get',
  path: '/trades',
  operationId: 'listTrades',
  summary: 'List trades',
  description:
    "Every order of the key's Organization that was accepted, whoever placed it, newest first: also those that filled nothing. Refused orders are not among them. A test key lists paper trades only.",
  query: listTradesSchema,
  responses: {
    200: { description: 'A page of them.', content: { 'application/json': tradeListSchema } },
  },
  errors: ['invalid_request', ...apiKeyProblems('trading:read'), 'live_trading_disabled', ...serviceProblems],
  examples: [
    {
      name: 'list',
      summary: 'All there are',
      request: { credential: 'traderKey' },
      response: { status: 200, body: { trades: [stored], nextCursor: null } },
    },
    {
      name: 'ofMarket',
      summary: 'Live trades of one market, of which there are none',
      request: { credential: 'traderKey', query: { ticker: trade.ticker, mode: 'live' } },
      response: { status: 200, body: { trades: [], nextCursor: null } },
    },
    problemExample('invalid_request', {
      summary: 'A page of more than 100',
      detail: '/limit must be a whole number from 1 to 100',
      errors: [
        { pointer: '/limit', code: 'invalid_request', detail: 'must be a whole number from 1 to 100' },
      ],
      request: { credential: 'traderKey', query: { limit: '101' } },
    }),
    problemExample('live_trading_disabled', {
      summary: 'Live trading, with a test key',
      detail: 'A test key reads paper trading only. Live needs a live key.',
      request: { credential: 'testKey', query: { mode: 'live' } },
    }),
    ...apiKeyProblemExamples({}, 'trading:read'),
    ...serviceProblemExamples({ credential: 'traderKey' }),
  ],
};

const one: RouteDescription = {
  ...read,
  method: 'get',
  path: '/trades/{id}',
  operationId: 'getTrade',
  summary: 'Read one trade',
  description:
    'What became of an order. Of a live one that is `pending`, until `finishedAt` is there. For a test key there are paper trades only.',
  params: z.object({ id: z.string().meta({ description: 'The id of the trade.' }) }),
  responses: { 200: { description: 'The trade.', content: { 'application/json': tradeAnswerSchema } } },
  errors: [...apiKeyProblems('trading:read'), 'not_found', ...serviceProblems],
  examples: [
    {
      name: 'trade',
      summary: 'A trade of yesterday',
      request: { credential: 'traderKey', params: { id: trade.id } },
      response: { status: 200, body: { trade: stored } },
    },
    problemExample('not_found', {
      summary: 'No such trade, or one of another Organization',
      detail: 'There is no such trade.',
      request: { credential: 'traderKey', params: { id: exampleWorld.unknownId } },
    }),
    ...apiKeyProblemExamples({ params: { id: trade.id } }, 'trading:read'),
    ...serviceProblemExamples({ credential: 'traderKey', params: { id: trade.id } }),
  ],
};

export const orderDescriptions: RouteDescription[] = [place, list, one];
