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
import { mayRest, readTimeInForce } from '../market/book.js';
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
  contracts: 12,
  limitPrice: '0.3700',
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
  contracts: 12,
  limitPrice: '0.3700',
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
  filledContracts: 12,
  averagePrice: '0.3625',
  fees: '0.1942',
  total: '-4.5442',
  fills: [
    { price: '0.3600', contracts: 9, fee: '0.1452', filledAt: exampleWorld.now },
    { price: '0.3700', contracts: 3, fee: '0.0490', filledAt: exampleWorld.now },
  ],
};
const killed = {
  ...placed,
  contracts: 250,
  status: 'cancelled',
  reason:
    'The book does not have all 250 contracts at the limit price or better, and the order is fill or kill.',
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
Buys or sells contracts of one side of a market at the limit price or better, at once or by resting in the book. The response is sent after the commit: **201 has the outcome of the order**, not just its receipt.

**Retries.** \`Idempotency-Key\` identifies the order within the Organization. After a time-out, a 503 or a lost connection, send the same request again. If the order was placed, you get the same trade (200), even if
the market has closed since; if not, it is placed now. The same key with another order is a \`409\`.

**Paper orders** are processed like live orders up to the last step. They fill against the venue's order book level by level. A contract that one order of the Organization took is
not available to its next order until the venue shows another book. They sell at the bid and pay the venue's fee: 7% of contracts · price · (1 − price) · the multiplier of the series or event,
rounded up to $0.000001 for each level. Each level's balance change is rounded down to $0.0001; the overpaid rounding is refunded with the next fills.

A paper order is delayed like a live order (\`PAPER_LATENCY_MS\` of the service's configuration, 250 ms): it is checked, delayed, and then matched with the current book. Contracts that are gone by then
are a miss: the trade is \`cancelled\` or \`partially_filled\`, and its \`reason\` has the number. A repeat gets its response without delay.

**Resting orders** (\`good_till_cancelled\`, \`good_till_time\`) take what they can at once, unless \`postOnly\`. The rest is \`resting\`, and \`DELETE /trades/{id}\` cancels it. A paper order queues behind all contracts in the book at its price
and is filled only by the venue's trades: takers on the other side, at its price or through it, after the queue ahead has traded. It pays the maker's fee. Until it ends, its cash or contracts stay reserved.

**Live orders** need a live key, the live switch of the server, and the Organization named in its configuration. The order is stored before it is sent. If the venue's response is lost, the order stays \`pending\` and is looked up,
never sent again: read \`GET /trades/{id}\` until \`finishedAt\` is set.

**Checks**, in this order: the market and its data, the position to sell, the available price, the Organization's access to markets, its limits and switches, the cash. Cash excludes what is reserved for pending orders.
An Organization with read access to markets can still close positions. Short selling is not possible: to bet against a side, buy the other. Buying the opposite of a held side closes pairs of YES and NO; each pair pays a dollar at once.
`.trim(),
  headers: orderHeaders,
  body: { schema: orderSchema, maxBytes: MAX_BODY_BYTES },
  responses: {
    200: json('A repeat: the current trade.', tradeAnswerSchema),
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
      summary: 'The same order again: placed once',
      before: [order],
      request: order,
      answer: { trade: filledOrder },
    },
    {
      name: 'killed',
      summary: 'Fill or kill, with too few contracts in the book',
      request: { ...order, body: { ...body, contracts: 250, timeInForce: 'fill_or_kill' } },
      status: 201,
      answer: { trade: killed },
    },
    problemExample('entitlement_read_only', {
      summary: 'A purchase by an Organization with read access to markets',
      circumstance: 'read_market_access',
      detail: `The Organization can read markets and close positions only. This order would buy 12 yes contracts of ${body.ticker}, of which 0 would close a position.`,
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
      summary: 'More cash than the account has',
      circumstance: 'small_account',
      detail: 'The order can cost $4.6359 at its limit price, including the fee. $1.0000 is available.',
      request: order,
    }),
    problemExample('invalid_request', {
      summary: "A price that is not a multiple of the market's price step",
      at: '/limitPrice',
      detail: tick,
      request: but({ limitPrice: '0.3650' }),
    }),
    problemExample('invalid_request', {
      name: 'noIdempotencyKey',
      summary: 'Without an idempotency key',
      detail:
        'Send an Idempotency-Key header with a new value for each order. It prevents a retry from placing a second order.',
      request: { ...order, headers: {} },
    }),
    problemExample('live_trading_disabled', {
      summary: 'A live order while live trading is off',
      detail: 'Live trading is off on this server.',
      request: but({ mode: 'live' }),
    }),
    problemExample('unknown_market', {
      summary: 'No such market',
      detail: `There is no market ${today.unknown.ticker}.`,
      request: but({ ticker: today.unknown.ticker }),
    }),
    problemExample('idempotency_conflict', {
      summary: 'The idempotency key of another order',
      detail: 'This idempotency key was used for another order. Use a new key for each order.',
      before: [order],
      request: but({ contracts: 13 }),
    }),
    problemExample('market_closed', {
      summary: 'A market of yesterday',
      detail: `${yesterday.lowest.ticker} does not accept orders: its status is closed.`,
      request: but({ ticker: yesterday.lowest.ticker }),
    }),
    problemExample('insufficient_position', {
      summary: 'A sale of contracts that are not held',
      detail: `The order sells 12 NO of ${ticker}, but 0 are held.`,
      request: but({ side: 'no', action: 'sell' }),
    }),
    problemExample('risk_limit', {
      summary: 'An order above a limit of the Organization',
      detail: `max_order_contracts: this order is for 5000 contracts of ${ticker}, the limit is 1000.`,
      request: but({ contracts: 5_000 }),
    }),
    problemExample('price_moved', {
      summary: 'No contracts at the limit price or better',
      detail: `YES of ${ticker} is offered at 36¢ at best (9 contracts). The limit price is 35¢.`,
      request: but({ limitPrice: '0.3500' }),
    }),
    problemExample('market_data_unavailable', {
      summary: 'Before the first market data',
      circumstance: 'no_market_data',
      detail: 'No market data has been loaded yet.',
      request: order,
    }),
    problemExample('market_data_stale', {
      summary: 'Market data too old for trading',
      circumstance: 'old_market_data',
      detail: 'The market data is 61 s old. Orders need data that is at most 60 s old.',
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
      'Send an Idempotency-Key header with a new value for each order. It prevents a retry from placing a second order.',
    );
  if (typeof key !== 'string' || !/^[\x21-\x7e]{1,255}$/.test(key))
    throw new AppError(
      'invalid_request',
      'The Idempotency-Key header must have 1 to 255 visible ASCII characters and appear once.',
    );
  return key;
}
