import type { Request, Response } from 'express';
import { keyAuthority } from '../../accounts/api-keys/authority.js';
import { readHashedSecret, type KeyReader, type Principal } from '../../accounts/api-keys/bearer-key.js';
import { authenticateCall, type KeyUse } from '../../accounts/api-keys/key-use.js';
import { AppError } from '../../core/errors.js';
import { readJsonBody } from '../../core/http/body.js';
import { sendJson } from '../../core/http/json.js';
import { parseInput } from '../../core/http/validate.js';
import {
  defineRoute,
  type Example,
  type ExampleRequest,
  generated,
  json,
} from '../../core/reference/define-route.js';
import { exampleWorld } from '../reference/example-world.js';
import { problemExample } from '../../core/reference/problem-examples.js';
import { cancelCauses } from '../ledger/orders-table.js';
import { mayRest } from '../market/book.js';
import { parseDollars } from '../market/money.js';
import type { Orders } from './order.js';
import { MAX_BODY_BYTES, orderHeaders, orderSchema, tradeAnswerSchema } from './schema.js';
import { toTradeJson } from './trade.js';
import type { OrderInput } from '../ledger/order-input.js';

export interface OrderRouteDeps {
  keys: KeyReader;
  keyUse: KeyUse;
  orders: Orders;
}

const { yesterday, today } = exampleWorld.markets;
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
const immediate = { expiresAt: null, postOnly: false, cancelOn: [], remainingContracts: 0, queueAhead: null };
export const filledOrder = {
  ...placed,
  status: 'filled',
  reason: null,
  timeInForce: 'immediate_or_cancel',
  ...immediate,
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
  ...immediate,
  filledContracts: 0,
  averagePrice: null,
  fees: '0.0000',
  total: '0.0000',
  fills: [],
};

const order: ExampleRequest = {
  headers: { 'idempotency-key': 'ny-jan31-1' },
  body,
};
export const placeOrderRoute = defineRoute({
  tag: 'Trading',
  credential: 'apiKey',
  scope: 'trading:write',
  limit: 'trading',
  method: 'post',
  path: '/trade',
  operationId: 'placeOrder',
  summary: 'Place an order',
  description: `
Buys or sells contracts of one side of a market at the limit price or better: at once, or by waiting in the book. The answer comes when it is durable: **201 says what became of the order**, not that it was received.

**Once.** \`Idempotency-Key\` names the order within the Organization. After a time-out, a 503 or a lost connection send the same request again: if it was carried out, the same trade comes back (200), also when
the market has closed since; if not, it is placed now. The same key with another order is a \`409\`.

**Paper orders** take the same way as live ones up to the last step. They walk the venue's order book level by level and take what stands there: a contract that one order of the Organization took is
gone for its next one, until the venue shows another book. They sell at the bid, and pay the venue's fee: 7% of contracts · price · (1 − price) · the multiplier of the series or event,
up to $0.000001 for each level. Each level's balance change is rounded down to $0.0001, and what an order has overpaid by that is given back with its next ones.

A paper order is on its way for a moment (\`PAPER_LATENCY_MS\` of the service's configuration, 250 ms), as a live one is: it is checked, travels, and is matched with the book as it stands then. What has gone meanwhile is
a miss: the trade is \`cancelled\` or \`partially_filled\`, and its \`reason\` says how much was gone. A repeat is answered at once.

**Orders that wait** (\`good_till_cancelled\`, \`good_till_time\`) take what they can at once, unless \`postOnly\`; the rest is \`resting\`, and \`DELETE /trades/{id}\` cancels it. On paper it stands behind all that the book shows at its price,
and is filled by the venue's prints alone: those of takers on the other side, at its price or through it, once what stood before it is traded. It pays the fee of a maker. Until it ends it keeps back its money or contracts.

**Live orders** need a live key, the live switch of the server, and the Organization named in its configuration. The order is stored before it is sent. If the venue's answer is lost it stays \`pending\` and is looked up,
never sent again: read \`GET /trades/{id}\` until \`finishedAt\` is there.

**Checks**, in this order: the market and its data, the position that is sold, the price that can be had, the Organization's access to markets, its limits and switches, the cash. Cash counts without what pending orders may still take.
Where an Organization may only read markets, orders pass that close what it holds. There is no selling short: to bet against a side buy the other one. Buying the side that is not held closes pairs of YES and NO, each of which pays a dollar at once.
`.trim(),
  headers: orderHeaders,
  body: { schema: orderSchema, maxBytes: MAX_BODY_BYTES },
  responses: {
    200: json('A repeat: the trade as it is now.', tradeAnswerSchema),
    201: json('The trade.', tradeAnswerSchema),
  },
  examples: [
    {
      name: 'filled',
      summary: 'Filled from two levels of the book',
      request: order,
      status: 201,
      answer: { trade: filledOrder },
    },
    {
      name: 'repeated',
      summary: 'The same order once more: placed once',
      before: [order],
      request: order,
      answer: { trade: filledOrder },
    },
    {
      name: 'killed',
      summary: 'All or nothing, and the book does not hold all',
      request: { ...order, body: { ...body, contracts: 250, timeInForce: 'fill_or_kill' } },
      status: 201,
      answer: { trade: killed },
    },
    problemExample('entitlement_read_only', {
      summary: 'A purchase by an Organization that may read markets only',
      circumstance: 'read_market_access',
      detail: `The Organization may read markets and close what it holds. This order would buy 40 yes contracts of ${body.ticker}, of which 0 can close what is held.`,
      request: order,
    }),
    ...placeRefusals(order, body),
  ],
  handler: (deps: OrderRouteDeps) => async (req, res) => {
    const principal = await authenticateCall(deps, readHashedSecret(req), 'trading:write');
    const order = await readOrder(req, res, principal);
    const { trade, isRepeat } = await deps.orders.place(order);
    sendJson(res, isRepeat ? 200 : 201, JSON.stringify({ trade: toTradeJson(trade) }));
  },
});

function placeRefusals(order: ExampleRequest, body: Record<string, unknown>): Example[] {
  const but = (change: Record<string, unknown>): ExampleRequest => ({
    ...order,
    body: { ...body, ...change },
  });
  const ticker = String(body.ticker);
  const tick = 'must be above $0 and below $1, and a multiple of $0.0100 from $0.0000 to $1.0000';
  return [
    problemExample('insufficient_funds', {
      summary: 'More than the account holds',
      circumstance: 'small_account',
      detail: 'The order may cost $19.0956 at its limit price, fee included; $1.0000 can be spent.',
      request: order,
    }),
    problemExample('invalid_request', {
      summary: 'A price between two steps of the market',
      at: '/limitPrice',
      detail: tick,
      request: but({ limitPrice: '0.4650' }),
    }),
    problemExample('invalid_request', {
      name: 'noIdempotencyKey',
      summary: 'Without an idempotency key',
      detail: 'Send the header Idempotency-Key, new for each order: with it a repeat places no second one.',
      request: { ...order, headers: {} },
    }),
    problemExample('live_trading_disabled', {
      summary: 'A live order where live trading is off',
      detail: 'Live trading is switched off on this server.',
      request: but({ mode: 'live' }),
    }),
    problemExample('unknown_market', {
      summary: 'No such market',
      detail: `There is no market ${today.unknown.ticker}.`,
      request: but({ ticker: today.unknown.ticker }),
    }),
    problemExample('idempotency_conflict', {
      summary: 'The key of another order',
      detail: 'This idempotency key was used for another order. Give each order its own key.',
      before: [order],
      request: but({ contracts: 41 }),
    }),
    problemExample('market_closed', {
      summary: 'A market of yesterday',
      detail: `${yesterday.lowest.ticker} takes no orders: its status is closed.`,
      request: but({ ticker: yesterday.lowest.ticker }),
    }),
    problemExample('insufficient_position', {
      summary: 'A sale of what is not held',
      detail: `40 NO of ${ticker} are to be sold and 0 are held.`,
      request: but({ side: 'no', action: 'sell' }),
    }),
    problemExample('risk_limit', {
      summary: 'Beyond a limit of the Organization',
      detail: `max_order_contracts: this order is for 5000 contracts of ${ticker}, the limit is 1000.`,
      request: but({ contracts: 5_000 }),
    }),
    problemExample('price_moved', {
      summary: 'The book has nothing at the limit price or better',
      detail: `YES of ${ticker} is offered at 45¢ at best (32 contracts); the limit is 44¢.`,
      request: but({ limitPrice: '0.4400' }),
    }),
    problemExample('market_data_unavailable', {
      summary: 'Before the first market data',
      circumstance: 'no_market_data',
      detail: 'No market data has been loaded yet.',
      request: order,
    }),
    problemExample('market_data_stale', {
      summary: 'Market data that is too old to trade on',
      circumstance: 'old_market_data',
      detail: 'The market data is 61 s old; orders are taken on data of at most 60 s.',
      request: order,
    }),
  ];
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
    expiresAt,
    postOnly = false,
    cancelOn = cancelCauses,
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
    by: keyAuthority(orgId, keyId, 'trading:write'),
    idempotencyKey,
    limitPrice: parseDollars(limitPrice),
    timeInForce,
    ...(mayRest(timeInForce)
      ? {
          rest: {
            expiresAt: expiresAt === undefined ? null : new Date(expiresAt),
            postOnly,
            cancelOn: [...new Set(cancelOn)],
          },
        }
      : {}),
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
