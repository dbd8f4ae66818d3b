import type { Example, ExampleRequest } from '../../core/reference/description.js';
import { exampleWorld } from '../../core/reference/example-world.js';
import { problemExample } from '../../core/reference/problem-examples.js';

const { yesterday, today } = exampleWorld.markets;

/** What `POST /trade` answers to an order that it can read and does not place. */
export function placeRefusals(order: ExampleRequest, body: Record<string, unknown>): Example[] {
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
      detail: 'The order may take $19.0956 at its limit price, fee included; $1.0000 can be spent.',
      request: order,
    }),
    problemExample('invalid_request', {
      summary: 'A price between two steps of the market',
      detail: `/limitPrice ${tick}`,
      errors: [{ pointer: '/limitPrice', code: 'invalid_request', detail: tick }],
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
      detail: 'This idempotency key was used for another order. Send each order with a key of its own.',
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
      summary: 'Nothing stands at the limit price or better',
      detail: `YES of ${ticker} is offered at $0.4500 at best (32 contracts); the limit is $0.4400.`,
      request: but({ limitPrice: '0.4400' }),
    }),
    problemExample('market_data_unavailable', {
      summary: 'Before the first market data',
      circumstance: 'no_market_data',
      detail: 'No market data has been loaded yet.',
      request: order,
    }),
    problemExample('market_data_stale', {
      summary: 'Market data that nobody should trade on',
      circumstance: 'old_market_data',
      detail: 'The market data is 61 s old; orders are taken on data of at most 60 s.',
      request: order,
    }),
  ];
}
