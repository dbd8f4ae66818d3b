import type { Request, Response } from 'express';
import { keyAuthority } from '../../accounts/api-keys/authority.js';
import { readHashedSecret, type Principal } from '../../accounts/api-keys/bearer-key.js';
import { authenticateCall, type CallDeps } from '../../accounts/api-keys/key-use.js';
import { AppError } from '../../core/errors.js';
import { readJsonBody } from '../../core/http/body.js';
import { sendJson } from '../../core/http/json.js';
import { parseInput } from '../../core/http/validate.js';
import { defineRoute, json } from '../../core/reference/define-route.js';
import { cancelCauses } from '../ledger/orders-table.js';
import { mayRest, readTimeInForce } from '../market/book.js';
import { parseDollars } from '../market/money.js';
import type { Orders } from './order.js';
import { MAX_BODY_BYTES, orderHeaders, orderSchema, tradeAnswerSchema } from './schema.js';
import { toTradeJson } from './trade.js';

export interface OrderRouteDeps extends CallDeps {
  orders: Orders;
}

export const placeOrderRoute = defineRoute({
  tag: 'Trading',
  credential: 'apiKey',
  scope: 'trading:write',
  limit: 'trading',
  at: 'POST /trade',
  operationId: 'placeOrder',
  headers: orderHeaders,
  body: { schema: orderSchema, maxBytes: MAX_BODY_BYTES },
  responses: {
    200: json('A repeat: the current trade.', tradeAnswerSchema),
    201: json('The trade.', tradeAnswerSchema),
  },
  handler: (deps: OrderRouteDeps) => async (req, res) => {
    const principal = await authenticateCall(deps, readHashedSecret(req), 'trading:write');
    const { trade, isRepeat } = await deps.orders.place(await readOrder(req, res, principal));
    sendJson(res, isRepeat ? 200 : 201, JSON.stringify({ trade: toTradeJson(trade) }));
  },
});

async function readOrder(req: Request, res: Response, { orgId, keyId, livemode }: Principal) {
  const idempotencyKey = readIdempotencyKey(req);
  const { value } = await readJsonBody(req, res, MAX_BODY_BYTES);
  const {
    mode = 'paper',
    timeInForce: givenTime = 'immediate_or_cancel',
    limitPrice,
    expiresAt,
    postOnly = false,
    cancelOn = cancelCauses,
    ...order
  } = parseInput(orderSchema, value);
  if (mode === 'live' && !livemode)
    throw new AppError(
      'live_trading_disabled',
      'A test key can place only paper orders. Use a live key for live orders.',
    );
  const timeInForce = readTimeInForce(givenTime);
  return {
    ...order,
    orgId,
    mode,
    by: keyAuthority(orgId, keyId, 'trading:write'),
    idempotencyKey,
    limitPrice: parseDollars(limitPrice),
    timeInForce,
    ...(mayRest(timeInForce) && {
      rest: {
        expiresAt: expiresAt === undefined ? null : new Date(expiresAt),
        postOnly,
        cancelOn: [...new Set(cancelOn)],
      },
    }),
  };
}

function readIdempotencyKey(req: Request): string {
  const key = req.headers['idempotency-key'];
  if (key === undefined)
    throw new AppError(
      'invalid_request',
      'Send an Idempotency-Key header with a new value for each order. It prevents a retry from placing a second order.',
    );
  if (typeof key !== 'string' || !/^[\x21-\x7e]{1,255}$/.test(key))
    throw new AppError(
      'invalid_request',
      'The Idempotency-Key header must have 1 to 255 visible ASCII characters and appear once.',
    );
  return key;
}
