import type { Request } from 'express';
import { z } from 'zod';
import { keyAuthority } from '../../accounts/api-keys/authority.js';
import { readHashedSecret, type Principal } from '../../accounts/api-keys/bearer-key.js';
import { authenticateCall } from '../../accounts/api-keys/key-use.js';
import { AppError } from '../../core/errors.js';
import { readJsonBody } from '../../core/http/body.js';
import { sendJson } from '../../core/http/json.js';
import { readPathId } from '../../core/http/request.js';
import { parseInput } from '../../core/http/validate.js';
import { defineRoute, json } from '../../core/reference/define-route.js';
import { exampleWorld } from '../reference/example-world.js';
import { invalidExample, problemExample } from '../../core/reference/problem-examples.js';
import { filledOrder, type OrderRouteDeps } from './order-routes.js';
import {
  decreaseSchema,
  listTradesSchema,
  MAX_BODY_BYTES,
  tradeAnswerSchema,
  tradeListSchema,
} from './schema.js';
import { requireLiveKey, toTradeJson } from './trade.js';

const common = { tag: 'Trading', credential: 'apiKey', limit: 'trading' } as const;
const read = { ...common, scope: 'trading:read' } as const;
const write = { ...common, scope: 'trading:write' } as const;
const params = z.object({ id: z.string().meta({ description: 'The id of the trade.' }) });

const { trade, resting, now, unknownId } = exampleWorld;
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

const { queueAhead, ...named } = resting;
const restingExample = {
  ...filledOrder,
  ...named,
  status: 'resting',
  contracts: 40,
  limitPrice: '0.3300',
  timeInForce: 'good_till_cancelled',
  cancelOn: ['observation', 'stale'],
  filledContracts: 0,
  remainingContracts: 40,
  queueAhead,
  averagePrice: null,
  fees: '0.0000',
  total: '0.0000',
  fills: [],
  finishedAt: null,
};
const cancelled = {
  ...restingExample,
  status: 'cancelled',
  reason: 'Cancelled on request.',
  remainingContracts: 0,
  queueAhead: null,
  finishedAt: now,
};
const rests = { circumstance: 'order_rests' } as const;
const toIt = { params: { id: resting.id } };
const noSuchTrade = problemExample('not_found', {
  summary: 'No such trade, or one of another Organization',
  detail: 'There is no such trade.',
  request: { params: { id: unknownId } },
});

/** @throws AppError not_found, also for a live trade requested with a test key */
async function findTrade({ orders }: OrderRouteDeps, req: Request, { orgId, livemode }: Principal) {
  const trade = await orders.find(orgId, readPathId(req, 'id', 'trade'));
  if (!trade || (trade.mode === 'live' && !livemode))
    throw new AppError('not_found', 'There is no such trade.');
  return trade;
}

/** @throws AppError not_found */
async function findChange(deps: OrderRouteDeps, req: Request, principal: Principal) {
  const { orgId, id } = await findTrade(deps, req, principal);
  return { orgId, id, by: keyAuthority(orgId, principal.keyId, 'trading:write') };
}

const list = defineRoute({
  ...read,
  method: 'get',
  path: '/trades',
  operationId: 'listTrades',
  summary: 'List trades',
  description:
    "All accepted orders of the key's Organization, from all its keys and people, newest first, including orders without fills. Refused orders are not listed. A test key lists only paper trades.",
  query: listTradesSchema,
  responses: {
    200: json('One page.', tradeListSchema),
  },
  examples: [
    { name: 'list', summary: 'All trades', request: {}, answer: { trades: [stored], nextCursor: null } },
    {
      name: 'ofMarket',
      summary: 'Live trades of a market, with no results',
      request: { query: { ticker: trade.ticker, mode: 'live' } },
      answer: { trades: [], nextCursor: null },
    },
    invalidExample('A page of more than 100', { query: { limit: '101' } }),
    problemExample('live_trading_disabled', {
      summary: 'Live trading, with a test key',
      detail: 'A test key can read only paper trading. Use a live key for live trading.',
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
    'The outcome of an order. For a `pending` live order, repeat the request until `finishedAt` is set. A test key can read only paper trades.',
  params,
  responses: { 200: json('The trade.', tradeAnswerSchema) },
  examples: [
    {
      name: 'trade',
      summary: 'A trade of yesterday',
      request: { params: { id: trade.id } },
      answer: { trade: stored },
    },
    noSuchTrade,
  ],
  handler: (deps: OrderRouteDeps) => async (req, res) => {
    const principal = await authenticateCall(deps, readHashedSecret(req), 'trading:read');
    const trade = await findTrade(deps, req, principal);
    sendJson(res, 200, JSON.stringify({ trade: toTradeJson(trade) }));
  },
});

const cancel = defineRoute({
  ...write,
  method: 'delete',
  path: '/trades/{id}',
  operationId: 'cancelOrder',
  summary: 'Cancel an order',
  description: `
Removes the unfilled contracts from the book. The response is the trade at that time, even if it had already ended. **It includes a fill that crossed the cancellation.**

A paper order is first filled by the trades up to the cancellation. A live order is cancelled at the venue, whose response is final. While the venue's response or the market's trades are unknown,
the trade stays \`resting\` with a \`reason\`, and ends later. Repeating the request changes nothing.
`.trim(),
  params,
  responses: { 200: json('The trade.', tradeAnswerSchema) },
  examples: [
    {
      name: 'cancelled',
      summary: 'Nothing was filled',
      ...rests,
      request: toIt,
      answer: { trade: cancelled },
    },
    {
      name: 'repeated',
      summary: 'Again: nothing changes',
      ...rests,
      before: [toIt],
      request: toIt,
      answer: { trade: cancelled },
    },
    noSuchTrade,
  ],
  handler: (deps: OrderRouteDeps) => async (req, res) => {
    const principal = await authenticateCall(deps, readHashedSecret(req), 'trading:write');
    const trade = await deps.orders.cancel(await findChange(deps, req, principal));
    sendJson(res, 200, JSON.stringify({ trade: toTradeJson(trade) }));
  },
});

const decrease = defineRoute({
  ...write,
  method: 'post',
  path: '/trades/{id}/decrease',
  operationId: 'decreaseOrder',
  summary: 'Decrease an order',
  description: `
Reduces the contracts that can still be filled. The order keeps its place in the queue. Its \`contracts\` become the filled plus the remaining contracts; cash reserved for the rest is released.

The same request again changes nothing. A larger number is refused; to buy more, place another order.
`.trim(),
  params,
  body: { schema: decreaseSchema, maxBytes: MAX_BODY_BYTES },
  responses: { 200: json('The trade.', tradeAnswerSchema) },
  examples: [
    {
      name: 'decreased',
      summary: 'To a quarter, at the same place in the queue',
      ...rests,
      request: { ...toIt, body: { remainingContracts: 10 } },
      answer: { trade: { ...restingExample, contracts: 10, remainingContracts: 10 } },
    },
    {
      name: 'toNothing',
      summary: 'To 0, which cancels it',
      ...rests,
      request: { ...toIt, body: { remainingContracts: 0 } },
      answer: { trade: cancelled },
    },
    problemExample('invalid_request', {
      summary: 'To more than can still be filled',
      ...rests,
      at: '/remainingContracts',
      detail: 'must be at most 40, the number that can still be filled',
      request: { ...toIt, body: { remainingContracts: 50 } },
    }),
    { ...noSuchTrade, request: { ...noSuchTrade.request, body: { remainingContracts: 10 } } },
  ],
  handler: (deps: OrderRouteDeps) => async (req, res) => {
    const principal = await authenticateCall(deps, readHashedSecret(req), 'trading:write');
    const { value } = await readJsonBody(req, res, MAX_BODY_BYTES);
    const { remainingContracts: remaining } = parseInput(decreaseSchema, value);
    const change = await findChange(deps, req, principal);
    const trade = await deps.orders.decrease({ ...change, remaining });
    sendJson(res, 200, JSON.stringify({ trade: toTradeJson(trade) }));
  },
});

export const tradeRoutes = [list, one];
export const changeOrderRoutes = [decrease, cancel];
