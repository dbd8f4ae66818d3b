import { constants, randomUUID, verify, type KeyObject } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import {
  amendOrder,
  cancelOrder,
  createOrder,
  decreaseOrder,
  changeGroup,
  expireOrders,
  heldCents,
} from './fake-orders.js';
import type { WireBook } from './fake-stream.js';

type Json = Record<string, unknown>;

export interface FakeOrder {
  order_id: string;
  client_order_id: string;
  ticker: string;
  book_side: 'bid' | 'ask';
  /** YES price in cents. */
  price: number;
  count: number;
  filled: number;
  remaining: number;
  status: 'resting' | 'canceled' | 'executed';
  created_time: string;
  /** Milliseconds since the epoch. */
  expiresAt?: number | undefined;
  group?: string | undefined;
  /** Other traders' contracts ahead of the order at its price. */
  ahead: number;
  /** Fees so far in hundredths of a cent: exact, and as charged. */
  fees: { exact: number; charged: number };
}

export interface FakeFill {
  fill_id: string;
  order_id: string;
  ticker: string;
  book_side: 'bid' | 'ask';
  /** YES price in cents. */
  price: number;
  count: number;
  feeCents: number;
  isTaker: boolean;
  created_time: string;
}

export interface FakeTransfer {
  transfer_id: string;
  from: number;
  to: number;
  cents: number;
  status: 'pending' | 'complete';
  /** Seconds since the epoch. */
  created_ts: number;
}

/**
 * The member side of the fake venue: one account with its orders, fills, positions and settlements. Contracts have two
 * decimals, prices are whole cents, and money is in cents with two decimals, as for a direct member. Based on the
 * venue's documentation (OpenAPI 3.32, fee rounding of October 2026), not on the service's code.
 */
export interface FakeExchange {
  /** The only accepted signer; if undefined, unsigned requests are accepted. */
  member: { keyId: string; publicKey: KeyObject } | undefined;
  now: () => number;
  /** Balance of the first shard, on which weather markets trade. */
  balanceCents: number;
  /** The other shards' balances. An order can only be paid from its market's shard. */
  otherBalances: Map<number, number>;
  shardOf: (ticker: string) => number;
  /** Oldest first. */
  transfers: FakeTransfer[];
  /** True if the key belongs to a subaccount, for which the venue does not list balances by shard. */
  isSubaccountKey: boolean;
  /** Number of writes without a shard, which the venue handles more slowly and charges to every shard's budget. */
  autoRouted: number;
  /** Contracts by market; negative for NO. */
  positions: Map<string, number>;
  orders: FakeOrder[];
  fills: FakeFill[];
  settlements: Json[];
  groups: Map<string, { limit: number; isTriggered: boolean; shard: number }>;
  /** True if the displayed balance deducts cash held for resting orders. */
  showsHolds: boolean;
  /** An outdated order list that is shown for the next `looks` reads. */
  stale: { orders: FakeOrder[]; looks: number } | undefined;
  /** All order bodies that arrived with a valid signature. */
  received: Json[];
  /** Number of upcoming reads that still list no fills. */
  fillsLag: number;
  archiveBefore: number;
  /** Sends the member's order events and the market's trades to the stream. */
  tell: (channel: 'fill' | 'user_orders' | 'trade', msg: Json) => void;
  /** Cutoff for fills; default: `archiveBefore`, the cutoff for orders. */
  fillsArchivedBefore?: number;
}

export const newExchange = (): FakeExchange => ({
  member: undefined,
  now: () => Date.now(),
  balanceCents: 100_000,
  otherBalances: new Map(),
  shardOf: () => 0,
  transfers: [],
  isSubaccountKey: false,
  autoRouted: 0,
  positions: new Map(),
  orders: [],
  fills: [],
  settlements: [],
  groups: new Map(),
  showsHolds: true,
  stale: undefined,
  received: [],
  fillsLag: 0,
  archiveBefore: 0,
  tell: () => undefined,
});

export interface FakeAnswer {
  status: number;
  body: Json | undefined;
}

export const answer = (status: number, body?: Json): FakeAnswer => ({ status, body });
export const refuse = (status: number, code: string, details?: string): FakeAnswer =>
  answer(status, { error: { code, message: code.replaceAll('_', ' '), ...(details ? { details } : {}) } });

/** Returns the response of a member endpoint; undefined for any other path. */
export function answerMember(
  exchange: FakeExchange,
  books: Map<string, WireBook>,
  req: IncomingMessage,
  path: string,
  query: URLSearchParams,
  body: Json | undefined,
): FakeAnswer | undefined {
  if (!path.startsWith('/portfolio/') && !path.startsWith('/historical/')) return undefined;
  if (!isSigned(exchange, req)) return refuse(401, 'authentication_error', 'INCORRECT_API_KEY_SIGNATURE');
  if (path === '/portfolio/orders' && req.method === 'POST')
    return refuse(410, 'deprecated_v1_order_endpoint');
  expireOrders(exchange);
  if (path === '/portfolio/orders/queue_positions') return showQueues(exchange, books, query);
  if (req.method === 'GET' && !path.startsWith('/portfolio/order_groups')) return read(exchange, path, query);
  const [, id, change] = /^\/portfolio\/events\/orders(?:\/([\w-]+)(\/[a-z]+)?)?$/.exec(path) ?? [path];
  switch (`${req.method} ${path.replace(id ?? ' ', ':id')}`) {
    case 'POST /portfolio/events/orders':
      return createOrder(exchange, books, body!);
    case 'DELETE /portfolio/events/orders/:id':
      return cancelOrder(exchange, id!, query);
    case 'POST /portfolio/events/orders/:id/decrease':
      return decreaseOrder(exchange, id!, body!);
    case 'POST /portfolio/events/orders/:id/amend':
      return amendOrder(exchange, books, id!, body!);
    default:
      return change === undefined ? changeGroup(exchange, `${req.method} ${path}`, query, body) : undefined;
  }
}

/**
 * Lists how many contracts must match before each resting order: those at better prices, and earlier orders at its own
 * price.
 */
function showQueues(
  { orders }: FakeExchange,
  books: Map<string, WireBook>,
  query: URLSearchParams,
): FakeAnswer {
  const tickers = query.get('market_tickers')?.split(',');
  const resting = orders.filter(
    ({ ticker, status }) => status === 'resting' && (tickers?.includes(ticker) ?? true),
  );
  const better = ({ ticker, book_side: side, price }: FakeOrder) => {
    const levels = (side === 'bid' ? books.get(ticker)?.yes_dollars : books.get(ticker)?.no_dollars) ?? [];
    const own = side === 'bid' ? price : 100 - price;
    return levels.filter(([level]) => cents(level) > own).reduce((sum, [, size]) => sum + Number(size), 0);
  };
  return answer(200, {
    queue_positions: resting.map((order) => ({
      order_id: order.order_id,
      market_ticker: order.ticker,
      queue_position_fp: count(hundredths(order.ahead + better(order))),
    })),
  });
}

/** Checks the RSA-PSS signature over time, method and path without the query. The time must be current. */
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

export const cents = (dollars: string) => Math.round(Number(dollars) * 100);
const dollars = (amount: number) => (amount / 100).toFixed(4);
export const count = (contracts: number) => contracts.toFixed(2);
/** Rounds to hundredths, the precision of contracts and of cents here. */
export const hundredths = (amount: number) => Math.round(amount * 100) / 100;

function read(exchange: FakeExchange, path: string, query: URLSearchParams): FakeAnswer | undefined {
  const isArchive = path.startsWith('/historical/');
  const archivedBefore = path.endsWith('/fills')
    ? (exchange.fillsArchivedBefore ?? exchange.archiveBefore)
    : exchange.archiveBefore;
  const inPart = ({ created_time: time, ...row }: { created_time: string; status?: string }) =>
    (row.status !== 'resting' && Date.parse(time) < archivedBefore) === isArchive &&
    Date.parse(time) / 1000 >= Number(query.get('min_ts') ?? 0);
  const tickers = query.get('ticker')?.split(',');
  const shard = query.has('exchange_index') ? Number(query.get('exchange_index')) : undefined;
  const isOnShard = (ticker: string) => shard === undefined || exchange.shardOf(ticker) === shard;
  const isAsked = (row: { ticker: string; order_id: string; status?: string }) =>
    (tickers?.includes(row.ticker) ?? true) &&
    isOnShard(row.ticker) &&
    (query.get('status') ?? row.status) === row.status &&
    (query.get('order_id') ?? row.order_id) === row.order_id;
  switch (path) {
    case '/portfolio/balance':
      return showBalance(exchange, shard);
    case '/portfolio/intra_exchange_instance_transfers':
      if (Number(query.get('limit') ?? 100) > 500) return refuse(400, 'invalid_parameters', 'limit');
      return page('transfers', exchange.transfers.toReversed().map(showTransfer), query);
    case '/portfolio/orders':
    case '/historical/orders':
      return page(
        'orders',
        listed(exchange)
          .filter((o) => inPart(o) && isAsked(o))
          .map((o) => showOrder(exchange, o)),
        query,
      );
    case '/portfolio/fills':
    case '/historical/fills': {
      if ((tickers?.length ?? 0) > (isArchive ? 1 : 100)) return refuse(400, 'invalid_parameters', 'ticker');
      const isListed = exchange.fillsLag-- <= 0;
      const fills = isListed ? exchange.fills.filter((fill) => inPart(fill) && isAsked(fill)) : [];
      return page(
        'fills',
        fills.map((fill) => showFill(exchange, fill)),
        query,
      );
    }
    case '/portfolio/positions': {
      const held = [...exchange.positions].filter(
        ([ticker, contracts]) => contracts !== 0 && isOnShard(ticker),
      );
      const rows = held.map((position) => showPosition(exchange, position));
      return page('market_positions', rows, query, { event_positions: [] });
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

export const balanceOf = ({ balanceCents, otherBalances }: FakeExchange, shard: number): number =>
  shard === 0 ? balanceCents : (otherBalances.get(shard) ?? 0);

export function addToBalance(exchange: FakeExchange, shard: number, change: number): void {
  const next = hundredths(balanceOf(exchange, shard) + change);
  if (shard === 0) exchange.balanceCents = next;
  else exchange.otherBalances.set(shard, next);
}

/** Shows one shard's balance, or the total and the balance of each shard. */
function showBalance(exchange: FakeExchange, shard: number | undefined): FakeAnswer {
  const shown = (of: number) =>
    hundredths(balanceOf(exchange, of) - (exchange.showsHolds ? heldCents(exchange, of) : 0));
  const shards = shard === undefined ? [0, ...exchange.otherBalances.keys()] : [shard];
  const total = hundredths(shards.reduce((sum, of) => sum + shown(of), 0));
  return answer(200, {
    balance: Math.floor(total),
    balance_dollars: dollars(total),
    portfolio_value: 0,
    updated_ts: 0,
    ...(exchange.isSubaccountKey
      ? {}
      : { balance_breakdown: shards.map((of) => ({ exchange_index: of, balance: dollars(shown(of)) })) }),
  });
}

/**
 * Begins a transfer between shards. The source is debited immediately; the target is credited when the transfer
 * completes.
 */
export function beginTransfer(
  exchange: FakeExchange,
  { from, to, cents }: Pick<FakeTransfer, 'from' | 'to' | 'cents'>,
): FakeTransfer {
  const transfer: FakeTransfer = {
    transfer_id: randomUUID(),
    from,
    to,
    cents,
    status: 'pending',
    created_ts: Math.floor(exchange.now() / 1000),
  };
  exchange.transfers.push(transfer);
  addToBalance(exchange, from, -cents);
  return transfer;
}

export function completeTransfer(exchange: FakeExchange, transfer: FakeTransfer): void {
  transfer.status = 'complete';
  addToBalance(exchange, transfer.to, transfer.cents);
}

const showTransfer = ({ from, to, cents, ...transfer }: FakeTransfer): Json => ({
  ...transfer,
  source: 'event_contract',
  destination: 'event_contract',
  source_exchange_shard: from,
  destination_exchange_shard: to,
  amount: dollars(cents),
});

/** Returns the order list, or the outdated one for its remaining reads. */
function listed({ orders, stale }: FakeExchange): FakeOrder[] {
  return stale && stale.looks-- > 0 ? stale.orders : orders;
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

export const showOrder = ({ shardOf }: FakeExchange, order: FakeOrder): Json => ({
  order_id: order.order_id,
  user_id: 'member',
  client_order_id: order.client_order_id,
  ticker: order.ticker,
  exchange_index: shardOf(order.ticker),
  side: 'yes',
  action: order.book_side === 'bid' ? 'buy' : 'sell',
  type: 'limit',
  status: order.status,
  yes_price_dollars: dollars(order.price),
  no_price_dollars: dollars(100 - order.price),
  fill_count_fp: count(order.filled),
  remaining_count_fp: count(order.remaining),
  initial_count_fp: count(order.count),
  taker_fees_dollars: '0.0000',
  maker_fees_dollars: '0.0000',
  taker_fill_cost_dollars: '0.0000',
  maker_fill_cost_dollars: '0.0000',
  created_time: order.created_time,
  ...(order.expiresAt === undefined ? {} : { expiration_time: new Date(order.expiresAt).toISOString() }),
  ...(order.group === undefined ? {} : { order_group_id: order.group }),
});

export const showFill = ({ shardOf }: FakeExchange, fill: FakeFill): Json => ({
  fill_id: fill.fill_id,
  trade_id: fill.fill_id,
  order_id: fill.order_id,
  ticker: fill.ticker,
  exchange_index: shardOf(fill.ticker),
  market_ticker: fill.ticker,
  side: 'yes',
  action: fill.book_side === 'bid' ? 'buy' : 'sell',
  count_fp: count(fill.count),
  yes_price_dollars: dollars(fill.price),
  no_price_dollars: dollars(100 - fill.price),
  is_taker: fill.isTaker,
  fee_cost: dollars(fill.feeCents),
  created_time: fill.created_time,
});

const showPosition = ({ shardOf }: FakeExchange, [ticker, contracts]: [string, number]): Json => ({
  ticker,
  exchange_index: shardOf(ticker),
  total_traded_dollars: '0.0000',
  position_fp: count(contracts),
  market_exposure_dollars: '0.0000',
  realized_pnl_dollars: '0.0000',
  resting_orders_count: 0,
  fees_paid_dollars: '0.0000',
  last_updated_ts: '2026-07-04T13:00:00Z',
});
