import { constants, randomUUID, verify, type KeyObject } from 'node:crypto';
import type { IncomingMessage } from 'node:http';

type Json = Record<string, unknown>;
interface Levels {
  yes_dollars: [string, string][] | null;
  no_dollars: [string, string][] | null;
}

export interface FakeOrder {
  order_id: string;
  client_order_id: string;
  ticker: string;
  book_side: 'bid' | 'ask';
  price: number;
  count: number;
  filled: number;
  status: 'resting' | 'canceled' | 'executed';
  created_time: string;
}

export interface FakeFill {
  fill_id: string;
  order_id: string;
  ticker: string;
  book_side: 'bid' | 'ask';
  /** Of YES, in cents. */
  price: number;
  count: number;
  feeCents: number;
  created_time: string;
}

/**
 * The member's part of the venue: one account, its orders, fills, positions and settlements. Contracts have hundredths, prices
 * are whole cents, and money is in cents with hundredths, as a direct member's is. Written from the documentation (OpenAPI 3.32, fee rounding of
 * October 2026) and from nothing of the service.
 */
export interface FakeExchange {
  /** Who may ask; undefined: anybody, without a signature. */
  member: { keyId: string; publicKey: KeyObject } | undefined;
  now: () => number;
  balanceCents: number;
  /** Contracts by market, negative for NO. */
  positions: Map<string, number>;
  orders: FakeOrder[];
  fills: FakeFill[];
  settlements: Json[];
  /** Every body of an order that arrived and was well signed. */
  received: Json[];
  /** Fills are listed only from the so-many-th look at them on. */
  fillsLag: number;
  archiveBefore: number;
  /** Left out: as orders. */
  fillsArchivedBefore?: number;
}

export const newExchange = (): FakeExchange => ({
  member: undefined,
  now: () => Date.now(),
  balanceCents: 100_000,
  positions: new Map(),
  orders: [],
  fills: [],
  settlements: [],
  received: [],
  fillsLag: 0,
  archiveBefore: 0,
});

export interface FakeAnswer {
  status: number;
  body: Json | undefined;
}

const answer = (status: number, body?: Json): FakeAnswer => ({ status, body });
const refuse = (status: number, code: string, details?: string): FakeAnswer =>
  answer(status, { error: { code, message: code.replaceAll('_', ' '), ...(details ? { details } : {}) } });

/** The venue's own addresses of a member; undefined for an address that is none of them. */
export function answerMember(
  exchange: FakeExchange,
  books: Map<string, Levels>,
  req: IncomingMessage,
  path: string,
  query: URLSearchParams,
  body: Json | undefined,
): FakeAnswer | undefined {
  if (!path.startsWith('/portfolio/') && !path.startsWith('/historical/')) return undefined;
  if (!isSigned(exchange, req)) return refuse(401, 'authentication_error', 'INCORRECT_API_KEY_SIGNATURE');
  if (path === '/portfolio/orders' && req.method === 'POST')
    return refuse(410, 'deprecated_v1_order_endpoint');
  if (path === '/portfolio/events/orders' && req.method === 'POST')
    return createOrder(exchange, books, body!);
  const cancelled = /^\/portfolio\/events\/orders\/([\w-]+)$/.exec(path)?.[1];
  if (cancelled !== undefined && req.method === 'DELETE')
    return cancelOrder(exchange, cancelled, query.get('market_ticker'));
  if (req.method !== 'GET') return refuse(404, 'not_found');
  return read(exchange, path, query);
}

/** RSA-PSS over time, method and path without the query; the time must be the present. */
function isSigned({ member, now }: FakeExchange, req: IncomingMessage): boolean {
  if (!member) return true;
  const time = String(req.headers['kalshi-access-timestamp']);
  if (req.headers['kalshi-access-key'] !== member.keyId || Math.abs(Number(time) - now()) > 5_000)
    return false;
  const path = req.url!.split('?')[0]!;
  const key = {
    key: member.publicKey,
    padding: constants.RSA_PKCS1_PSS_PADDING,
    saltLength: constants.RSA_PSS_SALTLEN_DIGEST,
  };
  const signature = Buffer.from(String(req.headers['kalshi-access-signature']), 'base64');
  return verify('sha256', Buffer.from(`${time}${req.method}${path}`), key, signature);
}

const cents = (dollars: string) => Math.round(Number(dollars) * 100);
const dollars = (amount: number) => (amount / 100).toFixed(4);
const count = (contracts: number) => contracts.toFixed(2);
/** To hundredths, which is all that counts and cents have here. */
const hundredths = (amount: number) => Math.round(amount * 100) / 100;

function createOrder(exchange: FakeExchange, books: Map<string, Levels>, body: Json): FakeAnswer {
  const required = [
    'ticker',
    'client_order_id',
    'side',
    'count',
    'price',
    'time_in_force',
    'self_trade_prevention_type',
  ];
  exchange.received.push(body);
  const missing = required.find((name) => typeof body[name] !== 'string');
  if (missing !== undefined) return refuse(400, 'missing_parameters', missing);
  const order = body as Record<string, string>;
  if (!['bid', 'ask'].includes(order.side!) || !/^\d+(\.\d{1,2})?$/.test(order.count!))
    return refuse(400, 'invalid_order');
  if (!/^0\.\d{2}00$/.test(order.price!)) return refuse(400, 'invalid_price');
  if (exchange.orders.some((other) => other.client_order_id === order.client_order_id))
    return refuse(409, 'order_already_exists');
  const book = books.get(order.ticker!);
  if (!book) return refuse(404, 'market_not_found');
  const isBid = order.side === 'bid';
  const [asked, limit] = [Number(order.count), cents(order.price!)];
  const position = exchange.positions.get(order.ticker!) ?? 0;
  const reducible = Math.max(0, isBid ? -position : position);
  const wanted = body.reduce_only === true ? Math.min(asked, reducible) : asked;
  const taken = match(book, isBid, limit, wanted);
  const filled = hundredths(taken.reduce((sum, [, contracts]) => sum + contracts, 0));
  if (order.time_in_force === 'fill_or_kill' && filled < wanted)
    return refuse(409, 'fill_or_kill_insufficient_resting_volume');
  const feesCents = feesOf(taken.map(([price, contracts]) => ({ price, contracts })));
  const change = taken.reduce(
    (sum, [price, contracts], i) => sum + cashOf(position, isBid, price, contracts, taken, i) - feesCents[i]!,
    0,
  );
  if (exchange.balanceCents + change < 0) return refuse(400, 'insufficient_balance');
  exchange.balanceCents = hundredths(exchange.balanceCents + change);
  take(book, isBid, taken);
  exchange.positions.set(order.ticker!, hundredths(position + (isBid ? filled : -filled)));
  if (exchange.positions.get(order.ticker!) === 0) exchange.positions.delete(order.ticker!);
  const created = new Date(exchange.now()).toISOString();
  const made: FakeOrder = {
    order_id: randomUUID(),
    client_order_id: order.client_order_id!,
    ticker: order.ticker!,
    book_side: isBid ? 'bid' : 'ask',
    price: limit,
    count: asked,
    filled,
    status: filled === asked ? 'executed' : 'canceled',
    created_time: created,
  };
  exchange.orders.push(made);
  taken.forEach(([price, contracts], i) =>
    exchange.fills.push({
      fill_id: randomUUID(),
      order_id: made.order_id,
      ticker: made.ticker,
      book_side: made.book_side,
      price,
      count: contracts,
      feeCents: feesCents[i]!,
      created_time: created,
    }),
  );
  return answer(201, {
    order_id: made.order_id,
    client_order_id: made.client_order_id,
    fill_count: count(filled),
    remaining_count: '0.00',
    ...(filled > 0 ? { average_fill_price: '0.5000', average_fee_paid: '0.0100' } : {}),
    ts_ms: exchange.now(),
  });
}

/** What stands within the limit, best first. Prices are those of YES. */
function match(
  book: Levels,
  isBid: boolean,
  limit: number,
  wanted: number,
): [price: number, contracts: number][] {
  const levels = (isBid ? book.no_dollars : book.yes_dollars) ?? [];
  const sorted = levels
    .map((level) => ({ level, price: isBid ? 100 - cents(level[0]) : cents(level[0]) }))
    .sort((a, b) => (isBid ? a.price - b.price : b.price - a.price));
  const taken: [number, number][] = [];
  let left = wanted;
  for (const { level, price } of sorted) {
    if (left === 0 || (isBid ? price > limit : price < limit)) break;
    const contracts = Math.min(left, Number(level[1]));
    taken.push([price, contracts]);
    left = hundredths(left - contracts);
  }
  return taken;
}

/** What was taken stands there no more. */
function take(book: Levels, isBid: boolean, taken: [number, number][]): void {
  const name = isBid ? 'no_dollars' : 'yes_dollars';
  const by = new Map(taken.map(([price, contracts]) => [isBid ? 100 - price : price, contracts]));
  book[name] = (book[name] ?? []).flatMap(([price, size]): [string, string][] => {
    const left = hundredths(Number(size) - (by.get(cents(price)) ?? 0));
    return left > 0 ? [[price, count(left)]] : [];
  });
}

/** A purchase of YES pays its price, one of NO the rest of the dollar; whoever closes gets the same back. */
function cashOf(
  position: number,
  isBid: boolean,
  price: number,
  contracts: number,
  taken: [number, number][],
  index: number,
): number {
  const before = taken.slice(0, index).reduce((sum, [, some]) => sum + some, 0);
  const held = isBid ? position + before : position - before;
  const closing = isBid ? Math.min(contracts, Math.max(0, -held)) : Math.min(contracts, Math.max(0, held));
  const opening = contracts - closing;
  return isBid ? closing * (100 - price) - opening * price : closing * price - opening * (100 - price);
}

/**
 * In cents, fill by fill: 7 % of contracts × price × (1 − price), up to $0.000001, and the sum of an order's fees up to $0.0001 once: what an
 * earlier fill was charged too much is missing from the later one's fee. Prices are cents, so nothing else is rounded.
 */
function feesOf(fills: { price: number; contracts: number }[]): number[] {
  let [exact, charged] = [0, 0];
  return fills.map(({ price, contracts }) => {
    const before = charged;
    exact += Math.ceil((7 * Math.round(contracts * 100) * price * (100 - price)) / 100);
    charged = Math.ceil(exact / 100);
    return (charged - before) / 100;
  });
}

/** An id does not say which shard has the order: its market does. */
function cancelOrder(exchange: FakeExchange, orderId: string, market: string | null): FakeAnswer {
  const order = exchange.orders.find(({ order_id: id }) => id === orderId);
  if (order?.status !== 'resting' || order.ticker !== market) return refuse(404, 'order_not_found');
  order.status = 'canceled';
  const reduced = order.count - order.filled;
  return answer(200, {
    order_id: orderId,
    client_order_id: order.client_order_id,
    reduced_by: count(reduced),
    ts_ms: exchange.now(),
  });
}

function read(exchange: FakeExchange, path: string, query: URLSearchParams): FakeAnswer | undefined {
  const isArchive = path.startsWith('/historical/');
  const archivedBefore = path.endsWith('/fills')
    ? (exchange.fillsArchivedBefore ?? exchange.archiveBefore)
    : exchange.archiveBefore;
  const inPart = ({ created_time: time }: { created_time: string }) =>
    Date.parse(time) < archivedBefore === isArchive &&
    Date.parse(time) / 1000 >= Number(query.get('min_ts') ?? 0);
  const isAsked = (row: { ticker: string; order_id: string }) =>
    (query.get('ticker') ?? row.ticker) === row.ticker &&
    (query.get('order_id') ?? row.order_id) === row.order_id;
  switch (path) {
    case '/portfolio/balance':
      return answer(200, {
        balance: Math.floor(exchange.balanceCents),
        balance_dollars: dollars(exchange.balanceCents),
        portfolio_value: 0,
        updated_ts: 0,
      });
    case '/portfolio/orders':
    case '/historical/orders':
      return page('orders', exchange.orders.filter((o) => inPart(o) && isAsked(o)).map(showOrder), query);
    case '/portfolio/fills':
    case '/historical/fills': {
      const isListed = exchange.fillsLag-- <= 0;
      const fills = isListed ? exchange.fills.filter((fill) => inPart(fill) && isAsked(fill)) : [];
      return page('fills', fills.map(showFill), query);
    }
    case '/portfolio/positions': {
      const held = [...exchange.positions].filter(([, contracts]) => contracts !== 0);
      return page('market_positions', held.map(showPosition), query, { event_positions: [] });
    }
    case '/portfolio/settlements': {
      const ticker = query.get('ticker');
      return page(
        'settlements',
        exchange.settlements.filter((one) => ticker === null || one.ticker === ticker),
        query,
      );
    }
    default:
      return undefined;
  }
}

function page(name: string, rows: Json[], query: URLSearchParams, more: Json = {}): FakeAnswer {
  const start = Number(query.get('cursor') || 0);
  const end = start + Number(query.get('limit') ?? 100);
  return answer(200, {
    [name]: rows.slice(start, end),
    cursor: end < rows.length ? String(end) : '',
    ...more,
  });
}

const showOrder = (order: FakeOrder): Json => ({
  order_id: order.order_id,
  user_id: 'member',
  client_order_id: order.client_order_id,
  ticker: order.ticker,
  side: 'yes',
  action: order.book_side === 'bid' ? 'buy' : 'sell',
  type: 'limit',
  status: order.status,
  yes_price_dollars: dollars(order.price),
  no_price_dollars: dollars(100 - order.price),
  fill_count_fp: count(order.filled),
  remaining_count_fp: count(order.status === 'resting' ? order.count - order.filled : 0),
  initial_count_fp: count(order.count),
  taker_fees_dollars: '0.0000',
  maker_fees_dollars: '0.0000',
  taker_fill_cost_dollars: '0.0000',
  maker_fill_cost_dollars: '0.0000',
  created_time: order.created_time,
});

const showFill = (fill: FakeFill): Json => ({
  fill_id: fill.fill_id,
  trade_id: fill.fill_id,
  order_id: fill.order_id,
  ticker: fill.ticker,
  market_ticker: fill.ticker,
  side: 'yes',
  action: fill.book_side === 'bid' ? 'buy' : 'sell',
  count_fp: count(fill.count),
  yes_price_dollars: dollars(fill.price),
  no_price_dollars: dollars(100 - fill.price),
  is_taker: true,
  fee_cost: dollars(fill.feeCents),
  created_time: fill.created_time,
});

const showPosition = ([ticker, contracts]: [string, number]): Json => ({
  ticker,
  total_traded_dollars: '0.0000',
  position_fp: count(contracts),
  market_exposure_dollars: '0.0000',
  realized_pnl_dollars: '0.0000',
  resting_orders_count: 0,
  fees_paid_dollars: '0.0000',
  last_updated_ts: '2026-07-04T13:00:00Z',
});
