import type { Request, RequestHandler, Response, Router } from 'express';
import type { ApiServices } from '../../mounts/api.js';
import { readHashedSecret } from '../../api-keys/bearer-key.js';
import type { Principal, Scope } from '../../api-keys/key-reader.js';
import { AppError } from '../../core/errors.js';
import { readJsonBody } from '../../core/http/json-body.js';
import { sendJson } from '../../core/http/json.js';
import { readPathId } from '../../core/http/path-id.js';
import { parseInput } from '../../core/http/validate.js';
import { requireLiveKey } from './live-mode.js';
import { parseDollars } from '../market/money.js';
import type { TradingServices } from '../services/services.js';
import type { OrderInput } from './order.js';
import { listTradesSchema, MAX_BODY_BYTES, orderSchema } from './schema.js';
import { toTradeJson } from './trade-json.js';

export interface OrderRouteDeps
  extends Pick<ApiServices, 'keys' | 'keyUse'>, Pick<TradingServices, 'orders'> {
  /** Stands before each route: only keys that exist get through, and only so many times a minute. */
  callLimit: RequestHandler;
}

/** `POST /trade`, `GET /trades`, `GET /trades/:id`: for an Organization's API key, and for no page of another site. */
export function addOrderRoutes(router: Router, { keys, keyUse, orders, callLimit }: OrderRouteDeps): void {
  async function authenticate(req: Request, scope: Scope): Promise<Principal> {
    const hashedSecret = readHashedSecret(req);
    const principal = await keys.authenticate(hashedSecret, scope);
    keyUse.touch(hashedSecret, scope);
    return principal;
  }

  router.post('/trade', callLimit, async (req, res) => {
    const principal = await authenticate(req, 'trading:write');
    const order = await readOrder(req, res, principal);
    const { trade, isRepeat } = await orders.place(order);
    sendJson(res, isRepeat ? 200 : 201, JSON.stringify({ trade: toTradeJson(trade) }));
  });

  router.get('/trades', callLimit, async (req, res) => {
    const principal = await authenticate(req, 'trading:read');
    const { limit, mode, ...filter } = parseInput(listTradesSchema, req.query);
    requireLiveKey(principal, mode);
    const { trades, nextCursor } = await orders.list({
      ...filter,
      mode: principal.livemode ? mode : 'paper',
      orgId: principal.orgId,
      limit: Number(limit ?? 50),
    });
    sendJson(res, 200, JSON.stringify({ trades: trades.map(toTradeJson), nextCursor }));
  });

  router.get('/trades/:id', callLimit, async (req, res) => {
    const principal = await authenticate(req, 'trading:read');
    const trade = await orders.find(principal.orgId, readPathId(req, 'id', 'trade'));
    // For a test key nothing was traded live.
    if (!trade || (trade.mode === 'live' && !principal.livemode))
      throw new AppError('not_found', 'There is no such trade.');
    sendJson(res, 200, JSON.stringify({ trade: toTradeJson(trade) }));
  });
}

async function readOrder(
  req: Request,
  res: Response,
  { orgId, keyId, livemode }: Principal,
): Promise<OrderInput> {
  const idempotencyKey = readIdempotencyKey(req);
  const { value } = await readJsonBody(req, res, MAX_BODY_BYTES);
  const {
    mode = 'paper',
    timeInForce = 'immediate_or_cancel',
    limitPrice,
    ...order
  } = parseInput(orderSchema, value);
  if (mode === 'live' && !livemode)
    throw new AppError(
      'live_trading_disabled',
      'A test key places paper orders only. Live orders need a live key.',
    );
  return {
    ...order,
    orgId,
    mode,
    by: { kind: 'key', orgId, keyId, scope: 'trading:write' },
    idempotencyKey,
    limitPrice: parseDollars(limitPrice),
    timeInForce,
  };
}

function readIdempotencyKey(req: Request): string {
  const key = req.headers['idempotency-key'];
  if (key === undefined)
    throw new AppError(
      'invalid_request',
      'Send the header Idempotency-Key, new for each order: with it a repeat places no second one.',
    );
  if (typeof key !== 'string' || !/^[\x21-\x7e]{1,255}$/.test(key))
    throw new AppError(
      'invalid_request',
      'The header Idempotency-Key must be 1 to 255 visible ASCII characters, sent once.',
    );
  return key;
}
