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
import { type OrderRouteDeps } from './order-routes.js';
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

async function findTrade({ orders }: OrderRouteDeps, req: Request, { orgId, livemode }: Principal) {
  const trade = await orders.find(orgId, readPathId(req, 'id', 'trade'));
  if (!trade || (trade.mode === 'live' && !livemode))
    throw new AppError('not_found', 'There is no such trade.');
  return trade;
}

async function findChange(deps: OrderRouteDeps, req: Request, principal: Principal) {
  const { orgId, id } = await findTrade(deps, req, principal);
  return { orgId, id, by: keyAuthority(orgId, principal.keyId, 'trading:write') };
}

const list = defineRoute({
  ...read,
  at: 'GET /trades',
  operationId: 'listTrades',
  query: listTradesSchema,
  responses: { 200: json('One page.', tradeListSchema) },
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
  at: 'GET /trades/{id}',
  operationId: 'getTrade',
  params,
  responses: { 200: json('The trade.', tradeAnswerSchema) },
  handler: (deps: OrderRouteDeps) => async (req, res) => {
    const principal = await authenticateCall(deps, readHashedSecret(req), 'trading:read');
    const trade = await findTrade(deps, req, principal);
    sendJson(res, 200, JSON.stringify({ trade: toTradeJson(trade) }));
  },
});

const cancel = defineRoute({
  ...write,
  at: 'DELETE /trades/{id}',
  operationId: 'cancelOrder',
  params,
  responses: { 200: json('The trade.', tradeAnswerSchema) },
  handler: (deps: OrderRouteDeps) => async (req, res) => {
    const principal = await authenticateCall(deps, readHashedSecret(req), 'trading:write');
    const trade = await deps.orders.cancel(await findChange(deps, req, principal));
    sendJson(res, 200, JSON.stringify({ trade: toTradeJson(trade) }));
  },
});

const decrease = defineRoute({
  ...write,
  at: 'POST /trades/{id}/decrease',
  operationId: 'decreaseOrder',
  params,
  body: { schema: decreaseSchema, maxBytes: MAX_BODY_BYTES },
  responses: { 200: json('The trade.', tradeAnswerSchema) },
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
