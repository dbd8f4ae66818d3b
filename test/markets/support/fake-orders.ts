import { randomUUID } from 'node:crypto';
import {
  addToBalance,
  answer,
  balanceOf,
  cents,
  count,
  hundredths,
  refuse,
  showFill,
  showOrder,
  type FakeAnswer,
  type FakeExchange,
  type FakeOrder,
} from './fake-exchange.js';
import type { WireBook } from './fake-stream.js';

type Json = Record<string, unknown>;

const required = [
  'ticker',
  'client_order_id',
  'side',
  'count',
  'price',
  'time_in_force',
  'self_trade_prevention_type',
];
const isCount = (text: unknown): text is string =>
  typeof text === 'string' && /^\d+(\.\d{1,2})?$/.test(text) && Number(text) > 0;

/**
 * Returns the shard that a write is routed to: the one named in the request, otherwise its market's, otherwise the
 * first.
 */
function routeTo(exchange: FakeExchange, index: unknown, market: unknown): number {
  if (typeof index === 'number' && index >= 0) return index;
  if (typeof market !== 'string') return 0;
  exchange.autoRouted++;
  return exchange.shardOf(market);
}

/** Returns the error in an order's body; undefined if the body is valid. */
function findFault(exchange: FakeExchange, body: Json): FakeAnswer | undefined {
  const missing = required.find((name) => typeof body[name] !== 'string');
  if (missing !== undefined) return refuse(400, 'missing_parameters', missing);
  if (!['bid', 'ask'].includes(String(body.side)) || !isCount(body.count))
    return refuse(400, 'invalid_order');
  if (!/^0\.\d{2}00$/.test(String(body.price))) return refuse(400, 'invalid_price');
  const rests = body.time_in_force === 'good_till_canceled';
  if (!rests && !['immediate_or_cancel', 'fill_or_kill'].includes(String(body.time_in_force)))
    return refuse(400, 'invalid_order', 'time_in_force');
  const expiresAt = body.expiration_time;
  const inPast = typeof expiresAt === 'number' && expiresAt * 1000 <= exchange.now();
  if (expiresAt !== undefined && (!rests || !Number.isInteger(expiresAt) || inPast))
    return refuse(400, 'invalid_order', 'expiration_time');
  if (body.reduce_only === true && rests) return refuse(400, 'invalid_order', 'reduce_only');
  if (body.post_only === true && !rests) return refuse(400, 'invalid_order', 'post_only');
  const group = body.order_group_id as string | undefined;
  if (group === undefined) return undefined;
  const { isTriggered = true, shard } = exchange.groups.get(group) ?? {};
  return isTriggered || shard !== exchange.shardOf(String(body.ticker))
    ? refuse(400, 'invalid_order', 'order group')
    : undefined;
}

export function createOrder(exchange: FakeExchange, books: Map<string, WireBook>, body: Json): FakeAnswer {
  exchange.received.push(body);
  const fault = findFault(exchange, body);
  if (fault) return fault;
  const asked = body as Record<string, string>;
  if (exchange.orders.some((other) => other.client_order_id === asked.client_order_id))
    return refuse(409, 'order_already_exists');
  const book = books.get(asked.ticker!);
  const shard = routeTo(exchange, body.exchange_index, body.ticker);
  if (!book || shard !== exchange.shardOf(asked.ticker!)) return refuse(404, 'market_not_found');
  const isBid = asked.side === 'bid';
  const order: FakeOrder = {
    order_id: randomUUID(),
    client_order_id: asked.client_order_id!,
    ticker: asked.ticker!,
    book_side: isBid ? 'bid' : 'ask',
    price: cents(asked.price!),
    count: Number(asked.count),
    filled: 0,
    remaining: Number(asked.count),
    status: 'resting',
    created_time: new Date(exchange.now()).toISOString(),
    expiresAt: body.expiration_time === undefined ? undefined : Number(body.expiration_time) * 1000,
    group: body.order_group_id as string | undefined,
    ahead: 0,
    fees: { exact: 0, charged: 0 },
  };
  const position = exchange.positions.get(order.ticker) ?? 0;
  const reducible = Math.max(0, isBid ? -position : position);
  const wanted = body.reduce_only === true ? Math.min(order.count, reducible) : order.count;
  const { taken, meetsOwn } = match(exchange, book, order, wanted);
  const filled = hundredths(taken.reduce((sum, [, contracts]) => sum + contracts, 0));
  if (body.post_only === true && (taken.length > 0 || meetsOwn))
    return refuse(400, 'invalid_order', 'post only cross');
  if (asked.time_in_force === 'fill_or_kill' && filled < wanted)
    return refuse(409, 'fill_or_kill_insufficient_resting_volume');
  const rests = asked.time_in_force === 'good_till_canceled' && filled < order.count && !meetsOwn;
  const needed = needOf(exchange, order, taken);
  if (balanceOf(exchange, shard) - heldCents(exchange, shard) < needed)
    return refuse(400, 'insufficient_balance');
  exchange.orders.push(order);
  take(book, isBid, taken);
  for (const [price, contracts] of taken) fill(exchange, order, { price, contracts, isTaker: true });
  if (rests) order.ahead = standingAt(book, order);
  else if (order.remaining > 0) end(order);
  tellOrder(exchange, order);
  return answer(201, {
    order_id: order.order_id,
    client_order_id: order.client_order_id,
    fill_count: count(order.filled),
    remaining_count: count(order.remaining),
    ...(filled > 0 ? { average_fill_price: '0.5000', average_fee_paid: '0.0100' } : {}),
    ts_ms: exchange.now(),
  });
}

function fill(
  exchange: FakeExchange,
  order: FakeOrder,
  { price, contracts, isTaker }: { price: number; contracts: number; isTaker: boolean },
): void {
  const isBid = order.book_side === 'bid';
  const position = exchange.positions.get(order.ticker) ?? 0;
  const feeCents = isTaker ? chargeFee(order, price, contracts) : 0;
  const change = cashOf(position, isBid, price, contracts);
  addToBalance(exchange, exchange.shardOf(order.ticker), change - feeCents);
  const held = hundredths(position + (isBid ? contracts : -contracts));
  if (held === 0) exchange.positions.delete(order.ticker);
  else exchange.positions.set(order.ticker, held);
  order.filled = hundredths(order.filled + contracts);
  order.remaining = hundredths(order.remaining - contracts);
  if (order.remaining === 0) order.status = 'executed';
  exchange.fills.push({
    fill_id: randomUUID(),
    order_id: order.order_id,
    ticker: order.ticker,
    book_side: order.book_side,
    price,
    count: contracts,
    feeCents,
    isTaker,
    created_time: new Date(exchange.now()).toISOString(),
  });
  const { fill_id: id, ...shown } = showFill(exchange, exchange.fills.at(-1)!);
  exchange.tell('fill', { ...shown, trade_id: id, client_order_id: order.client_order_id });
  tellOrder(exchange, order);
}

const tellOrder = (exchange: FakeExchange, order: FakeOrder): void =>
  exchange.tell('user_orders', showOrder(exchange, order));

/**
 * Fee in cents: 7% of contracts × price × (1 − price), rounded up to $0.000001. An order's total is rounded up to
 * $0.0001 only once, so an earlier overcharge reduces a later fee. Prices are whole cents, so nothing else is rounded.
 * Makers pay no fee.
 */
function chargeFee({ fees }: FakeOrder, price: number, contracts: number): number {
  const before = fees.charged;
  fees.exact += Math.ceil((7 * Math.round(contracts * 100) * price * (100 - price)) / 100);
  fees.charged = Math.ceil(fees.exact / 100);
  return (fees.charged - before) / 100;
}

/** Buying YES costs its price, and buying NO costs a dollar less that price; closing returns the same amounts. */
function cashOf(position: number, isBid: boolean, price: number, contracts: number): number {
  const closing = Math.min(contracts, Math.max(0, isBid ? -position : position));
  const opening = contracts - closing;
  return isBid ? closing * (100 - price) - opening * price : closing * price - opening * (100 - price);
}

/** An order's largest possible debit: its fills with fees, plus its resting part at the limit. */
function needOf(
  exchange: FakeExchange,
  order: FakeOrder,
  taken: [price: number, contracts: number][],
): number {
  const isBid = order.book_side === 'bid';
  let position = exchange.positions.get(order.ticker) ?? 0;
  const fees = { ...order, fees: { exact: 0, charged: 0 } };
  let needed = 0;
  let left = order.remaining;
  for (const [price, contracts] of taken) {
    needed += chargeFee(fees, price, contracts) - cashOf(position, isBid, price, contracts);
    position += isBid ? contracts : -contracts;
    left = hundredths(left - contracts);
  }
  return needed + Math.max(0, -cashOf(position, isBid, order.price, left));
}

/** Cash that a shard holds for resting orders. Orders that close a position need none. */
export const heldCents = (exchange: FakeExchange, shard: number): number =>
  hundredths(
    exchange.orders
      .filter(({ ticker, status }) => status === 'resting' && exchange.shardOf(ticker) === shard)
      .reduce((sum, order) => {
        const position = exchange.positions.get(order.ticker) ?? 0;
        const isBid = order.book_side === 'bid';
        return sum + Math.max(0, -cashOf(position, isBid, order.price, order.remaining));
      }, 0),
  );

/**
 * Returns the contracts to take from each level within the limit, at YES prices, best first. Stops at the member's own
 * orders.
 */
function match(
  { orders }: FakeExchange,
  book: WireBook,
  { ticker, book_side: side, price: limit }: FakeOrder,
  wanted: number,
): { taken: [price: number, contracts: number][]; meetsOwn: boolean } {
  const isBid = side === 'bid';
  const levels = (isBid ? book.no_dollars : book.yes_dollars) ?? [];
  const sorted = levels
    .map((level) => ({ level, price: isBid ? 100 - cents(level[0]) : cents(level[0]) }))
    .sort((a, b) => (isBid ? a.price - b.price : b.price - a.price));
  const own = orders
    .filter((other) => other.ticker === ticker && other.status === 'resting' && other.book_side !== side)
    .map(({ price }) => price)
    .filter((price) => (isBid ? price <= limit : price >= limit))
    .sort((a, b) => (isBid ? a - b : b - a))[0];
  const taken: [number, number][] = [];
  let left = wanted;
  for (const { level, price } of sorted) {
    const isPastOwn = own !== undefined && (isBid ? price >= own : price <= own);
    if (left === 0 || isPastOwn || (isBid ? price > limit : price < limit)) break;
    const contracts = Math.min(left, Number(level[1]));
    taken.push([price, contracts]);
    left = hundredths(left - contracts);
  }
  return { taken, meetsOwn: own !== undefined && left > 0 };
}

/** Removes the taken contracts from the book. */
function take(book: WireBook, isBid: boolean, taken: [number, number][]): void {
  const name = isBid ? 'no_dollars' : 'yes_dollars';
  const by = new Map(taken.map(([price, contracts]) => [isBid ? 100 - price : price, contracts]));
  book[name] = (book[name] ?? []).flatMap(([price, size]): [string, string][] => {
    const left = hundredths(Number(size) - (by.get(cents(price)) ?? 0));
    return left > 0 ? [[price, count(left)]] : [];
  });
}

/** Other traders' contracts on the order's side, at its price. */
function standingAt(book: WireBook, { book_side: side, price }: FakeOrder): number {
  const [levels, own] =
    side === 'bid' ? [book.yes_dollars, price] : ([book.no_dollars, 100 - price] as const);
  return Number(levels?.find(([level]) => cents(level) === own)?.[1] ?? 0);
}

/**
 * Lets another trader take from the book, by price, then by time. `side` is the taker's side in the single YES book,
 * and `price` the worst price that the taker accepts.
 * @returns contracts filled for the member's orders
 */
export function takeFromBook(
  exchange: FakeExchange,
  books: Map<string, WireBook>,
  {
    ticker,
    side,
    price,
    contracts,
  }: { ticker: string; side: 'bid' | 'ask'; price: number; contracts: number },
): number {
  expireOrders(exchange);
  const isBid = side === 'bid';
  const book = books.get(ticker)!;
  const name = isBid ? 'no_dollars' : 'yes_dollars';
  const ours = exchange.orders.filter(
    (order) => order.ticker === ticker && order.status === 'resting' && order.book_side !== side,
  );
  const others = (book[name] ?? []).map(([level]) => (isBid ? 100 - cents(level) : cents(level)));
  const prices = [...new Set([...others, ...ours.map((order) => order.price)])]
    .filter((level) => (isBid ? level <= price : level >= price))
    .sort((a, b) => (isBid ? a - b : b - a));
  let left = contracts;
  let filled = 0;
  for (const level of prices) {
    const queue = ours.filter((order) => order.price === level);
    const takeOthers = (some: number) => {
      const standing = standingAt(book, { book_side: isBid ? 'ask' : 'bid', price: level } as FakeOrder);
      const taken = Math.min(some, left, standing);
      if (taken > 0) take(book, isBid, [[level, taken]]);
      left = hundredths(left - taken);
      for (const order of queue) order.ahead = Math.max(0, hundredths(order.ahead - taken));
    };
    for (const order of queue) {
      takeOthers(order.ahead);
      const some = Math.min(left, order.remaining);
      if (some === 0) continue;
      fill(exchange, order, { price: level, contracts: some, isTaker: false });
      left = hundredths(left - some);
      filled = hundredths(filled + some);
    }
    takeOthers(left);
  }
  return filled;
}

function end(order: FakeOrder): void {
  order.remaining = 0;
  order.status = 'canceled';
}

export function expireOrders({ orders, now }: FakeExchange): void {
  for (const order of orders)
    if (order.status === 'resting' && order.expiresAt !== undefined && order.expiresAt <= now()) end(order);
}

/** Finds a resting order, but only on the shard to which the request is routed. */
function findResting(
  exchange: FakeExchange,
  orderId: string,
  { index, market }: { index: unknown; market: unknown },
): FakeOrder | undefined {
  const shard = routeTo(exchange, index, market);
  return exchange.orders.find(
    ({ order_id: id, status, ticker }) =>
      id === orderId && status === 'resting' && exchange.shardOf(ticker) === shard,
  );
}

const indexOf = (query: URLSearchParams): number | undefined =>
  query.has('exchange_index') ? Number(query.get('exchange_index')) : undefined;

export function cancelOrder(exchange: FakeExchange, orderId: string, query: URLSearchParams): FakeAnswer {
  const market = query.get('market_ticker');
  const order = findResting(exchange, orderId, { index: indexOf(query), market });
  if (!order) return refuse(404, 'order_not_found');
  const reduced = order.remaining;
  end(order);
  tellOrder(exchange, order);
  return answer(200, {
    order_id: orderId,
    client_order_id: order.client_order_id,
    reduced_by: count(reduced),
    ts_ms: exchange.now(),
  });
}

/** Reduces an order by, or to, a number of contracts. */
export function decreaseOrder(exchange: FakeExchange, orderId: string, body: Json): FakeAnswer {
  const order = findResting(exchange, orderId, {
    index: body.exchange_index,
    market: body.market_ticker,
  });
  if (!order) return refuse(404, 'order_not_found');
  const { reduce_by: by, reduce_to: to } = body;
  if ((by === undefined) === (to === undefined) || ![by ?? to].every(isCount))
    return refuse(400, 'invalid_parameters');
  const remaining = to === undefined ? hundredths(order.remaining - Number(by)) : Number(to);
  if (remaining < 0 || remaining > order.remaining) return refuse(400, 'invalid_parameters', 'reduce_to');
  order.remaining = remaining;
  if (remaining === 0) end(order);
  tellOrder(exchange, order);
  return answer(200, {
    order_id: orderId,
    client_order_id: order.client_order_id,
    remaining_count: count(order.remaining),
    ts_ms: exchange.now(),
  });
}

/** `count` includes filled contracts. A price that crosses the book ends the order without a fill. */
export function amendOrder(
  exchange: FakeExchange,
  books: Map<string, WireBook>,
  orderId: string,
  body: Json,
): FakeAnswer {
  const order = findResting(exchange, orderId, { index: body.exchange_index, market: body.ticker });
  if (!order) return refuse(404, 'order_not_found');
  if (!isCount(body.count) || body.side !== order.book_side || !/^0\.\d{2}00$/.test(String(body.price)))
    return refuse(400, 'invalid_parameters');
  const [price, total] = [cents(String(body.price)), Number(body.count)];
  const keepsPlace = price === order.price && total <= order.filled + order.remaining;
  order.price = price;
  order.count = total;
  order.remaining = Math.max(0, hundredths(total - order.filled));
  const expiresAt = body.expiration_time as number | undefined;
  if (expiresAt !== undefined) order.expiresAt = expiresAt === 0 ? undefined : expiresAt * 1000;
  const book = books.get(order.ticker)!;
  if (order.remaining === 0 || match(exchange, book, order, order.remaining).taken.length > 0) end(order);
  else if (!keepsPlace) order.ahead = standingAt(book, order);
  return answer(200, {
    order_id: orderId,
    client_order_id: order.client_order_id,
    remaining_count: count(order.remaining),
    fill_count: count(order.filled),
    ts_ms: exchange.now(),
  });
}

/**
 * A triggered group cancels its orders and accepts no more until it is reset; deleting a group also cancels its orders.
 */
export function changeGroup(
  exchange: FakeExchange,
  request: string,
  query: URLSearchParams,
  body: Json | undefined,
): FakeAnswer | undefined {
  if (request === 'POST /portfolio/order_groups/create') {
    const limit = Number(body?.contracts_limit);
    if (!Number.isInteger(limit) || limit < 1 || limit > 1_000_000) return refuse(400, 'invalid_parameters');
    const id = randomUUID();
    const shard = Number(body?.exchange_index ?? 0);
    exchange.groups.set(id, { limit, isTriggered: false, shard });
    return answer(201, { order_group_id: id, subaccount: 0, exchange_index: shard });
  }
  const [, method, id, change] =
    /^(GET|PUT|DELETE) \/portfolio\/order_groups\/([\w-]+)(?:\/(trigger|reset))?$/.exec(request) ?? [];
  const group = exchange.groups.get(id ?? '');
  if (!group || (method === 'PUT') !== (change !== undefined)) return refuse(404, 'not_found');
  if (method !== 'GET' && (indexOf(query) ?? 0) !== group.shard) return refuse(404, 'not_found');
  const ofGroup = exchange.orders.filter((order) => order.group === id);
  if (method === 'GET')
    return answer(200, {
      is_auto_cancel_enabled: true,
      contracts_limit_fp: count(group.limit),
      orders: ofGroup.map(({ order_id: order }) => order),
    });
  if (method === 'DELETE') exchange.groups.delete(id!);
  else group.isTriggered = change === 'trigger';
  if (change !== 'reset') for (const order of ofGroup) if (order.status === 'resting') end(order);
  return answer(200, {});
}
