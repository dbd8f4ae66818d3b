import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Random } from '../random.js';

/**
 * Simulates the venue's trading API for one member. Written only from the venue's OpenAPI document (3.32); imports
 * nothing from the service. Amounts are integers: contracts in hundredths, money in millionths of a dollar. Requests
 * with unknown or missing fields are refused.
 */

type Json = Record<string, unknown>;

export interface StrictOrder {
  id: string;
  name: string;
  ticker: string;
  isBid: boolean;
  /** The price of YES. */
  price: bigint;
  initial: number;
  filled: number;
  remaining: number;
  status: 'resting' | 'canceled' | 'executed';
  createdMs: number;
  /** Taker fees before and after rounding to $0.0001. */
  exactFees: bigint;
  chargedFees: bigint;
}

export interface StrictFill {
  id: string;
  orderId: string;
  ticker: string;
  isBid: boolean;
  price: bigint;
  contracts: number;
  fee: bigint;
  isTaker: boolean;
  createdMs: number;
}

/** Other members sell YES at 0.45 and buy it at 0.44. */
const ASK = 450_000n;
const BID = 440_000n;

const createFields = {
  required: [
    'ticker',
    'client_order_id',
    'side',
    'count',
    'price',
    'time_in_force',
    'self_trade_prevention_type',
  ],
  optional: [
    'expiration_time',
    'post_only',
    'cancel_order_on_pause',
    'reduce_only',
    'subaccount',
    'order_group_id',
    'exchange_index',
  ],
};
const decreaseFields = {
  required: [],
  optional: ['reduce_by', 'reduce_to', 'exchange_index', 'market_ticker', 'subaccount'],
};

interface Reply {
  status: number;
  body: Json;
}

const reply = (status: number, body: Json): Reply => ({ status, body });
const refuse = (status: number, code: string): Reply =>
  reply(status, { error: { code, message: code.replaceAll('_', ' '), service: 'exchange' } });

const countText = (hundredths: number) =>
  `${Math.floor(hundredths / 100)}.${String(hundredths % 100).padStart(2, '0')}`;
function dollarText(micros: bigint): string {
  const size = micros < 0n ? -micros : micros;
  return `${micros < 0n ? '-' : ''}${size / 1_000_000n}.${String(size % 1_000_000n).padStart(6, '0')}`;
}
const readCount = (text: unknown): number | undefined =>
  typeof text === 'string' && /^\d{1,9}(\.\d{1,2})?$/.test(text) ? Math.round(Number(text) * 100) : undefined;
const readPrice = (text: unknown): bigint | undefined =>
  typeof text === 'string' && /^0\.\d{2}(00)?$/.test(text) ? BigInt(text.slice(2, 4)) * 10_000n : undefined;

export type StrictExchange = ReturnType<typeof createStrictExchange>;

export function createStrictExchange(
  now: () => number,
  random: Random,
  tell: (channel: 'fill' | 'user_orders', msg: Json) => void,
) {
  let cash = 5_000_000_000n;
  const orders: StrictOrder[] = [];
  const fills: StrictFill[] = [];
  const positions = new Map<string, number>();
  const groups = new Set<string>();
  /** Number of times an order arrived, by client order id. */
  const arrivals = new Map<string, number>();
  const refusals: string[] = [];

  function fill(order: StrictOrder, price: bigint, contracts: number, isTaker: boolean): void {
    const held = positions.get(order.ticker) ?? 0;
    const closing = Math.min(contracts, Math.max(0, order.isBid ? -held : held));
    const [own, other] = order.isBid ? [price, 1_000_000n - price] : [1_000_000n - price, price];
    const worth = (each: bigint, count: number) => (each * BigInt(count)) / 100n;
    let fee = 0n;
    if (isTaker) {
      const before = order.chargedFees;
      // The fee is 7% of contracts × price × (1 − price), rounded up to a millionth; the sum over the order is rounded
      // up to $0.0001.
      const product = 7n * BigInt(contracts) * price * (1_000_000n - price);
      const divisor = 100n * 100n * 1_000_000n;
      order.exactFees += (product + divisor - 1n) / divisor;
      order.chargedFees = ((order.exactFees + 99n) / 100n) * 100n;
      fee = order.chargedFees - before;
    }
    cash += worth(other, closing) - worth(own, contracts - closing) - fee;
    positions.set(order.ticker, held + (order.isBid ? contracts : -contracts));
    order.filled += contracts;
    order.remaining -= contracts;
    if (order.remaining === 0) order.status = 'executed';
    const made: StrictFill = {
      id: randomUUID(),
      orderId: order.id,
      ticker: order.ticker,
      isBid: order.isBid,
      price,
      contracts,
      fee,
      isTaker,
      createdMs: now(),
    };
    fills.push(made);
    tell('fill', { ...showFill(made), client_order_id: order.name, ts_ms: now() });
    tell('user_orders', showOrder(order));
  }

  function check(body: Json, { required, optional }: typeof createFields): Reply | undefined {
    const missing = required.find((name) => body[name] === undefined);
    const extra = Object.keys(body).find((name) => ![...required, ...optional].includes(name));
    if (missing === undefined && extra === undefined) return undefined;
    refusals.push(`missing ${missing}, extra ${extra}`);
    return refuse(400, 'invalid_parameters');
  }

  function create(body: Json): Reply {
    const name = String(body.client_order_id);
    arrivals.set(name, (arrivals.get(name) ?? 0) + 1);
    const wrong = check(body, createFields);
    if (wrong) return wrong;
    const [count, price] = [readCount(body.count), readPrice(body.price)];
    const times = ['fill_or_kill', 'good_till_canceled', 'immediate_or_cancel'];
    if (!count || price === undefined || !times.includes(String(body.time_in_force)))
      return refuse(400, 'invalid_order');
    if (!['bid', 'ask'].includes(String(body.side)) || (body.exchange_index ?? 0) !== 0)
      return refuse(400, 'invalid_order');
    if (orders.some((one) => one.name === name)) return refuse(409, 'order_already_exists');
    const order: StrictOrder = {
      id: randomUUID(),
      name,
      ticker: String(body.ticker),
      isBid: body.side === 'bid',
      price,
      initial: count,
      filled: 0,
      remaining: count,
      status: 'resting',
      createdMs: now(),
      exactFees: 0n,
      chargedFees: 0n,
    };
    const held = positions.get(order.ticker) ?? 0;
    const reducible = Math.max(0, order.isBid ? -held : held);
    const wanted = body.reduce_only === true ? Math.min(count, reducible) : count;
    const isCrossing = order.isBid ? price >= ASK : price <= BID;
    orders.push(order);
    if (isCrossing && wanted > 0) {
      // Fills all or part of the order, in one or two fills.
      const filled = random.chance(0.7) ? wanted : random.between(1, wanted);
      const first = random.between(1, filled);
      for (const part of [first, filled - first])
        if (part > 0) fill(order, order.isBid ? ASK : BID, part, true);
    }
    if (order.remaining > 0 && body.time_in_force !== 'good_till_canceled') {
      order.status = 'canceled';
      order.remaining = 0;
    }
    tell('user_orders', showOrder(order));
    return reply(201, {
      order_id: order.id,
      client_order_id: name,
      fill_count: countText(order.filled),
      remaining_count: countText(order.remaining),
      ts_ms: now(),
    });
  }

  const findResting = (id: string, ticker: unknown) =>
    orders.find((one) => one.id === id && one.status === 'resting' && one.ticker === ticker);

  function cancel(id: string, ticker: unknown): Reply {
    const order = findResting(id, ticker);
    if (!order) return refuse(404, 'order_not_found');
    const reduced = order.remaining;
    order.status = 'canceled';
    order.remaining = 0;
    tell('user_orders', showOrder(order));
    return reply(200, {
      order_id: id,
      client_order_id: order.name,
      reduced_by: countText(reduced),
      ts_ms: now(),
    });
  }

  function decrease(id: string, body: Json): Reply {
    const wrong = check(body, decreaseFields);
    if (wrong) return wrong;
    const order = findResting(id, body.market_ticker);
    if (!order) return refuse(404, 'order_not_found');
    const to = readCount(body.reduce_to);
    if (to === undefined || to > order.remaining) return refuse(400, 'invalid_order_size');
    order.remaining = to;
    if (to === 0) order.status = 'canceled';
    tell('user_orders', showOrder(order));
    return reply(200, {
      order_id: id,
      client_order_id: order.name,
      remaining_count: countText(to),
      ts_ms: now(),
    });
  }

  function page(name: string, rows: Json[], query: URLSearchParams): Reply {
    const start = Number(query.get('cursor') || 0);
    const end = start + Number(query.get('limit') ?? 100);
    const shown = rows.slice(start, end);
    // Lists a row twice, as happens when a row moves between two pages.
    if (shown.length > 0 && random.chance(0.1)) shown.push(random.pick(shown));
    return reply(200, { [name]: shown, cursor: end < rows.length ? String(end) : '' });
  }

  function read(path: string, query: URLSearchParams): Reply {
    const tickers = query.get('ticker')?.split(',');
    const min = Number(query.get('min_ts') ?? 0) * 1000;
    const isAsked = (one: { ticker: string; createdMs: number }) =>
      (tickers?.includes(one.ticker) ?? true) && one.createdMs >= min;
    switch (path) {
      case '/portfolio/balance':
        return reply(200, {
          balance: Number(cash / 10_000n),
          balance_dollars: dollarText(cash),
          portfolio_value: 0,
          updated_ts: 0,
          balance_breakdown: [{ exchange_index: 0, balance: dollarText(cash) }],
        });
      case '/portfolio/orders': {
        const status = query.get('status');
        const found = orders.filter((one) => isAsked(one) && (status === null || one.status === status));
        return page('orders', found.toReversed().map(showOrder), query);
      }
      case '/portfolio/fills': {
        const id = query.get('order_id');
        const found = fills.filter((one) => isAsked(one) && (id === null || one.orderId === id));
        return page('fills', found.toReversed().map(showFill), query);
      }
      case '/portfolio/positions':
        return page(
          'market_positions',
          [...positions].filter(([, held]) => held !== 0).map(showPosition),
          query,
        );
      case '/portfolio/orders/queue_positions':
        return reply(200, {
          queue_positions: orders
            .filter(({ status }) => status === 'resting')
            .map(({ id, ticker }) => ({ order_id: id, market_ticker: ticker, queue_position_fp: '0.00' })),
        });
      case '/portfolio/settlements':
        return page('settlements', [], query);
      case '/portfolio/intra_exchange_instance_transfers':
        return page('transfers', [], query);
      default: {
        const group = /^\/portfolio\/order_groups\/([\w-]+)$/.exec(path)?.[1];
        if (group === undefined || !groups.has(group)) return refuse(404, 'not_found');
        return reply(200, { is_auto_cancel_enabled: false, orders: [], contracts_limit_fp: '1000000.00' });
      }
    }
  }

  function answer(method: string, path: string, query: URLSearchParams, body: Json): Reply {
    if (method === 'GET') return read(path, query);
    if (method === 'POST' && path === '/portfolio/events/orders') return create(body);
    if (method === 'POST' && path === '/portfolio/order_groups/create') {
      const id = randomUUID();
      groups.add(id);
      return reply(201, { order_group_id: id, subaccount: 0, exchange_index: 0 });
    }
    const [, id, isDecrease] = /^\/portfolio\/events\/orders\/([\w-]+)(\/decrease)?$/.exec(path) ?? [];
    if (id !== undefined && method === 'DELETE') return cancel(id, query.get('market_ticker'));
    if (id !== undefined && method === 'POST' && isDecrease !== undefined) return decrease(id, body);
    refusals.push(`${method} ${path}`);
    return refuse(404, 'not_found');
  }

  return {
    orders,
    fills,
    positions,
    arrivals,
    /** Requests that the venue's documentation does not describe. */
    refusals,
    get cash() {
      return cash;
    },
    answer,
    /** Lets another member fill all or part of a resting order. */
    fillResting(order: StrictOrder): void {
      if (order.status === 'resting')
        fill(
          order,
          order.price,
          random.chance(0.5) ? order.remaining : random.between(1, order.remaining),
          false,
        );
    },
  };
}

const showOrder = (order: StrictOrder): Json => ({
  order_id: order.id,
  user_id: 'member',
  client_order_id: order.name,
  ticker: order.ticker,
  exchange_index: 0,
  outcome_side: order.isBid ? 'yes' : 'no',
  book_side: order.isBid ? 'bid' : 'ask',
  type: 'limit',
  status: order.status,
  yes_price_dollars: dollarText(order.price),
  no_price_dollars: dollarText(1_000_000n - order.price),
  fill_count_fp: countText(order.filled),
  remaining_count_fp: countText(order.remaining),
  initial_count_fp: countText(order.initial),
  taker_fill_cost_dollars: '0.000000',
  maker_fill_cost_dollars: '0.000000',
  taker_fees_dollars: dollarText(order.chargedFees),
  maker_fees_dollars: '0.000000',
  created_time: new Date(order.createdMs).toISOString(),
  last_update_time: null,
});

const showFill = (fill: StrictFill): Json => ({
  fill_id: fill.id,
  trade_id: fill.id,
  order_id: fill.orderId,
  ticker: fill.ticker,
  market_ticker: fill.ticker,
  exchange_index: 0,
  outcome_side: fill.isBid ? 'yes' : 'no',
  book_side: fill.isBid ? 'bid' : 'ask',
  count_fp: countText(fill.contracts),
  yes_price_dollars: dollarText(fill.price),
  no_price_dollars: dollarText(1_000_000n - fill.price),
  is_taker: fill.isTaker,
  fee_cost: dollarText(fill.fee),
  created_time: new Date(fill.createdMs).toISOString(),
});

const showPosition = ([ticker, held]: [string, number]): Json => ({
  ticker,
  exchange_index: 0,
  total_traded_dollars: '0.000000',
  position_fp: `${held < 0 ? '-' : ''}${countText(Math.abs(held))}`,
  market_exposure_dollars: '0.000000',
  realized_pnl_dollars: '0.000000',
  fees_paid_dollars: '0.000000',
  last_updated_ts: new Date(0).toISOString(),
});

const writeFaults = [
  'none',
  'none',
  'none',
  'none',
  'none',
  'drop before',
  'drop after',
  'drop after',
  '500 before',
  '502 after',
  '503 before',
  '429 before',
  'late before',
  'late after',
  'late after',
  '409 before',
  '409 after',
] as const;

export interface FaultCounts {
  writes: number;
  byFault: Record<string, number>;
  readFaults: number;
  /** Number of cancellations and decreases that crossed with a fill in flight. */
  crossings: number;
}

interface FaultOptions {
  exchange: StrictExchange;
  random: Random;
  /** The client's time-out. */
  timeoutMs: number;
  /** Called when a write arrives and again when it has been carried out. */
  onWrite: (when: 'before' | 'after') => void;
}

/** Answers the member's requests with random faults until `isCalm` is set. */
export function createFaultyMember({ exchange, random, timeoutMs, onWrite }: FaultOptions) {
  const counts: FaultCounts = { writes: 0, byFault: {}, readFaults: 0, crossings: 0 };
  const member = {
    counts,
    isCalm: false,
    async handle(req: IncomingMessage, res: ServerResponse, path: string, body: Json): Promise<void> {
      const query = new URL(req.url!, 'http://venue').searchParams;
      const method = req.method!;
      const act = () => exchange.answer(method, path, query, body);
      const isWrite = method !== 'GET' && path.startsWith('/portfolio/events/orders');
      if (member.isCalm || !isWrite) {
        if (!member.isCalm && random.chance(0.04)) {
          counts.readFaults++;
          return failRead(req, res, random, timeoutMs);
        }
        return send(res, act());
      }
      counts.writes++;
      onWrite('before');
      const fault = random.pick(writeFaults);
      counts.byFault[fault] = (counts.byFault[fault] ?? 0) + 1;
      const [kind, when] = fault.split(' ');
      if (when === 'before') {
        if (kind === 'late') {
          // The write is carried out only after the client's time-out.
          await sleep(timeoutMs + random.between(50, 600));
          cross(path);
          act();
          req.socket.destroy();
        } else if (kind === 'drop') req.socket.destroy();
        else send(res, refuse(Number(kind), kind === '409' ? 'conflict' : 'internal_error'));
        return;
      }
      cross(path);
      const done = act();
      onWrite('after');
      if (kind === 'drop') req.socket.destroy();
      else if (kind === '502')
        res.writeHead(502, { 'content-type': 'text/html' }).end('<html>Bad gateway</html>');
      else if (kind === '409')
        send(res, refuse(409, path.endsWith('/orders') ? 'order_already_exists' : 'conflict'));
      else {
        if (kind === 'late') await sleep(timeoutMs + random.between(50, 600));
        send(res, done);
      }
    },
  };

  /** Fills the order while a cancellation or a decrease is in flight. */
  function cross(path: string): void {
    const id = /^\/portfolio\/events\/orders\/([\w-]+)/.exec(path)?.[1];
    const order = exchange.orders.find((one) => one.id === id && one.status === 'resting');
    if (!order || !random.chance(0.9)) return;
    exchange.fillResting(order);
    counts.crossings++;
  }

  return member;
}

function send(res: ServerResponse, { status, body }: Reply): void {
  if (res.destroyed) return;
  res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

async function failRead(
  req: IncomingMessage,
  res: ServerResponse,
  random: Random,
  timeoutMs: number,
): Promise<void> {
  const kind = random.pick(['500', '503', 'drop', 'late'] as const);
  if (kind === 'late') await sleep(timeoutMs + 100);
  if (kind === 'late' || kind === 'drop') req.socket.destroy();
  else send(res, refuse(Number(kind), 'internal_error'));
}
