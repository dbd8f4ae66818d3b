import { z } from 'zod';
import { authenticateCall } from '../../api-keys/key-use.js';
import { readHashedSecret } from '../../api-keys/bearer-key.js';
import { AppError } from '../../core/errors.js';
import { sendJson } from '../../core/http/json.js';
import { readPathId } from '../../core/http/path-id.js';
import { parseInput } from '../../core/http/validate.js';
import { defineRoute, json } from '../../core/reference/define-route.js';
import { exampleWorld } from '../../core/reference/example-world.js';
import { problemExample } from '../../core/reference/problem-examples.js';
import { requireLiveKey, toTradeJson } from './trade.js';
import { filledOrder, type OrderRouteDeps } from './order-routes.js';
import { listTradesSchema, tradeAnswerSchema, tradeListSchema } from './schema.js';

const read = { tag: 'Trading', credential: 'apiKey', scope: 'trading:read', limit: 'trading' } as const;

const { trade } = exampleWorld;
const stored = {
  ...filledOrder,
  ...trade,
  contracts: 10,
  limitPrice: '0.4500',
  filledContracts: 10,
  averagePrice: '0.4500',
  fees: '0.1733',
  total: '-4.6733',
  fills: [{ price: '0.4500', contracts: 10, fee: '0.1733', filledAt: trade.createdAt }],
  finishedAt: trade.createdAt,
};

const list = defineRoute({
  ...read,
  method: 'get',
  path: '/trades',
  operationId: 'listTrades',
  summary: 'List trades',
  description:
    "Every order of the key's Organization that was accepted, of all its keys and people, newest first: also those that filled nothing. Refused orders are not among them. A test key lists paper trades only.",
  query: listTradesSchema,
  responses: {
    200: json('A page of them.', tradeListSchema),
  },
  errors: ['invalid_request', 'live_trading_disabled'],
  examples: [
    { name: 'list', summary: 'All there are', request: {}, answer: { trades: [stored], nextCursor: null } },
    {
      name: 'ofMarket',
      summary: 'Live trades of one market, of which there are none',
      request: { query: { ticker: trade.ticker, mode: 'live' } },
      answer: { trades: [], nextCursor: null },
    },
    problemExample('invalid_request', {
      summary: 'A page of more than 100',
      at: '/limit',
      detail: 'must be a whole number from 1 to 100',
      request: { query: { limit: '101' } },
    }),
    problemExample('live_trading_disabled', {
      summary: 'Live trading, with a test key',
      detail: 'A test key reads paper trading only. Live needs a live key.',
      request: { credential: 'testKey', query: { mode: 'live' } },
    }),
  ],
  handler: (deps: OrderRouteDeps) => async (req, res) => {
    const principal = await authenticateCall(deps, readHashedSecret(req), 'trading:read');
    const { limit, mode, ...filter } = parseInput(listTradesSchema, req.query);
    requireLiveKey(principal, mode);
    const { trades, nextCursor } = await deps.orders.list({
      ...filter,
      mode: principal.livemode ? mode : 'paper',
      orgId: principal.orgId,
      limit: Number(limit ?? 50),
    });
    sendJson(res, 200, JSON.stringify({ trades: trades.map(toTradeJson), nextCursor }));
  },
});

const one = defineRoute({
  ...read,
  method: 'get',
  path: '/trades/{id}',
  operationId: 'getTrade',
  summary: 'Read one trade',
  description:
    'What became of an order. Of a live one that is `pending`, until `finishedAt` is there. For a test key there are paper trades only.',
  params: z.object({ id: z.string().meta({ description: 'The id of the trade.' }) }),
  responses: { 200: json('The trade.', tradeAnswerSchema) },
  errors: ['not_found'],
  examples: [
    {
      name: 'trade',
      summary: 'A trade of yesterday',
      request: { params: { id: trade.id } },
      answer: { trade: stored },
    },
    problemExample('not_found', {
      summary: 'No such trade, or one of another Organization',
      detail: 'There is no such trade.',
      request: { params: { id: exampleWorld.unknownId } },
    }),
  ],
  handler: (deps: OrderRouteDeps) => async (req, res) => {
    const principal = await authenticateCall(deps, readHashedSecret(req), 'trading:read');
    const trade = await deps.orders.find(principal.orgId, readPathId(req, 'id', 'trade'));
    // For a test key nothing was traded live.
    if (!trade || (trade.mode === 'live' && !principal.livemode))
      throw new AppError('not_found', 'There is no such trade.');
    sendJson(res, 200, JSON.stringify({ trade: toTradeJson(trade) }));
  },
});

export const tradeRoutes = [list, one];
