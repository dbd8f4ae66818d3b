import { z } from 'zod';
import type { Clock } from '../../core/time.js';
import {
  createKalshiClient,
  readLimited,
  UnexpectedAnswerError,
  type Query,
} from '../venue/kalshi-client.js';
import type { VenueBudget } from '../venue/venue-budget.js';
import { inChunks } from '../../core/steps.js';
import { formatContracts } from '../market/contracts.js';
import { WEATHER_SHARD } from '../market/market.js';
import { CENT, parseDollars, type Micros } from '../market/money.js';
import type { VenueCash } from './compare.js';
import { signRequest, type VenueKey } from './sign.js';
import {
  balanceSchema,
  fillsPageSchema,
  ordersPageSchema,
  positionsPageSchema,
  settlementsPageSchema,
  toShardTransfer,
  transfersPageSchema,
  type ShardTransfer,
  type VenueFillAnswer,
  type VenueOrder,
  type VenuePosition,
  type VenueSettlement,
  type WireOrder,
} from './wire.js';

/** What came back, whatever it says. */
export interface VenueAnswer {
  status: number;
  body: string;
  contentType: string | null;
}

export interface VenueOptions {
  /** With `/trade-api/v2`, without a slash at the end. */
  baseUrl: string;
  key: VenueKey;
  clock: Clock;
  /** For one attempt, body included. */
  timeoutMs: number;
  /** Shared with the reads of market data, which wait for those of the account. */
  budget: VenueBudget;
  /** Of the first pause before a read is repeated. */
  backoffMs: number;
}

/** The account at the venue: every request signed. Of orders, fills and positions it has those of the shard that trades the weather. */
export interface Venue {
  /** Waits for this caller's turn to write; longer after the venue has said that it is too busy. */
  takeTurn(signal: AbortSignal): Promise<void>;
  /** Sends an order, once. Whatever goes wrong on the way rejects: the order may have been carried out. */
  createOrder(order: WireOrder): Promise<VenueAnswer>;
  /** The same again does nothing more: nor does it of a decrease. */
  cancelOrder(order: VenueOrderId): Promise<VenueAnswer>;
  /** Leaves so many contracts in the book, or fewer if fewer are there. */
  decreaseOrder(order: VenueOrderId, remaining: number): Promise<VenueAnswer>;
  /** Orders that one request can cancel. */
  createOrderGroup(): Promise<VenueAnswer>;
  hasOrderGroup(id: string, signal: AbortSignal): Promise<boolean>;
  /** Cancels its orders, and takes none any more. */
  deleteOrderGroup(id: string): Promise<VenueAnswer>;
  /** `since` is inclusive, in seconds. Orders from long ago are in the archive; what rests is never. */
  listOrders(
    filter: { ticker?: string; status?: 'resting'; sinceSeconds?: number; isArchived?: boolean },
    signal: AbortSignal,
  ): Promise<VenueOrder[]>;
  listFills(
    filter: { tickers?: readonly string[]; orderId?: string; sinceSeconds?: number },
    signal: AbortSignal,
  ): Promise<VenueFillAnswer[]>;
  listArchivedFills(
    filter: { ticker: string; orderId: string },
    signal: AbortSignal,
  ): Promise<VenueFillAnswer[]>;
  /** Markets in which something is held. */
  listPositions(signal: AbortSignal): Promise<VenuePosition[]>;
  listSettlements(ticker: string, signal: AbortSignal): Promise<VenueSettlement[]>;
  readBalance(signal: AbortSignal): Promise<VenueBalance>;
  /** To and from the shard that trades the weather. */
  listTransfers(signal: AbortSignal): Promise<ShardTransfer[]>;
}

/** Cash on one of the venue's exchange shards. */
export interface ShardBalance {
  exchangeIndex: number;
  balance: Micros;
}

/** Cash that can be spent on the weather, and what lies on other shards, as far as the venue says. */
export interface VenueBalance extends VenueCash {
  otherShards: readonly ShardBalance[];
}

/** An id does not say where an order is: its shard and its market do. */
export interface VenueOrderId {
  venueOrderId: string;
  ticker: string;
}

const PAGE_SIZE = 1000;
const MAX_PAGES = 50;
const TRANSFERS_PAGE_SIZE = 500;
/** Fills of so many markets come with one request. */
const TICKERS_PER_CALL = 100;
/** What orders and their cancellations are charged as; the venue may charge these less. */
const ORDERS = '/portfolio/events/orders';
const GROUPS = '/portfolio/order_groups';
/** Contracts in 15 seconds at which the venue would cancel a group without being asked: the most that it takes. */
const GROUP_LIMIT = 1_000_000;
/** Named in every write. */
const SHARD = { exchange_index: WEATHER_SHARD };
const isOnShard = ({ exchange_index: index = WEATHER_SHARD }: { exchange_index?: number | undefined }) =>
  index === WEATHER_SHARD;

export function createVenue(options: VenueOptions): Venue {
  const { budget } = options;
  const signed = createSignedClient(options);
  const { write, readAll, client } = signed;
  const readFills = async (path: string, filter: Filter, signal: AbortSignal) =>
    (await readAll(path, queryOf(filter), fillsPageSchema, signal)).flatMap(({ fills }) => fills);

  return {
    takeTurn: (signal) => budget.take('POST', ORDERS, signal),
    createOrder: (order) => write('POST', ORDERS, '', order),
    cancelOrder: ({ venueOrderId, ticker }) =>
      write(
        'DELETE',
        `${ORDERS}/${encodeURIComponent(venueOrderId)}`,
        `?exchange_index=${WEATHER_SHARD}&market_ticker=${encodeURIComponent(ticker)}`,
      ),
    decreaseOrder: ({ venueOrderId, ticker }, remaining) =>
      write('POST', `${ORDERS}/${encodeURIComponent(venueOrderId)}/decrease`, '', {
        reduce_to: formatContracts(remaining),
        market_ticker: ticker,
        ...SHARD,
      }),
    createOrderGroup: () => write('POST', `${GROUPS}/create`, '', { contracts_limit: GROUP_LIMIT, ...SHARD }),
    async hasOrderGroup(id, signal) {
      const path = `${GROUPS}/${encodeURIComponent(id)}`;
      try {
        await client.get(path, [], z.object({}), signal);
        return true;
      } catch (error) {
        if (error instanceof UnexpectedAnswerError && error.httpStatus === 404) return false;
        throw error;
      }
    },
    deleteOrderGroup: (id) =>
      write('DELETE', `${GROUPS}/${encodeURIComponent(id)}`, `?exchange_index=${WEATHER_SHARD}`),
    async listOrders({ ticker, status, sinceSeconds, isArchived }, signal) {
      const query = queryOf({ ticker, status, min_ts: isArchived ? undefined : sinceSeconds });
      const path = isArchived ? '/historical/orders' : '/portfolio/orders';
      const pages = await readAll(path, query, ordersPageSchema, signal);
      return pages.flatMap(({ orders }) => orders).filter(isOnShard);
    },
    async listFills({ tickers, orderId, sinceSeconds }, signal) {
      const filter = { order_id: orderId, min_ts: sinceSeconds, ...SHARD };
      const fills: VenueFillAnswer[] = [];
      for (const some of tickers ? inChunks(tickers, TICKERS_PER_CALL) : [undefined])
        fills.push(...(await readFills('/portfolio/fills', { ...filter, ticker: some?.join(',') }, signal)));
      return chooseFills(fills, orderId);
    },
    async listArchivedFills({ ticker, orderId }, signal) {
      return chooseFills(await readFills('/historical/fills', { ticker }, signal), orderId);
    },
    ...createAccountReads(signed),
  };
}

/** What the account has, apart from its orders and their fills. */
function createAccountReads({ client, readAll }: ReturnType<typeof createSignedClient>): AccountReads {
  const readBalanceOf = (filter: Filter, signal: AbortSignal) =>
    client.get('/portfolio/balance', queryOf(filter), balanceSchema, signal);

  return {
    async listPositions(signal) {
      const query = queryOf({ count_filter: 'position', ...SHARD });
      const pages = await readAll('/portfolio/positions', query, positionsPageSchema, signal);
      return pages.flatMap((page) => page.market_positions).filter(isOnShard);
    },
    async listSettlements(ticker, signal) {
      const pages = await readAll(
        '/portfolio/settlements',
        [['ticker', ticker]],
        settlementsPageSchema,
        signal,
      );
      return pages.flatMap(({ settlements }) => settlements).filter((one) => one.ticker === ticker);
    },
    async readBalance(signal) {
      const { balance_breakdown: parts } = await readBalanceOf({}, signal);
      if (parts) {
        const shards = parts.map((part) => ({
          exchangeIndex: part.exchange_index,
          balance: parseDollars(part.balance),
        }));
        const own = shards.find(({ exchangeIndex }) => exchangeIndex === WEATHER_SHARD);
        const otherShards = shards.filter((shard) => shard !== own && shard.balance !== 0n);
        return { amount: own?.balance ?? 0n, step: 1n, otherShards };
      }
      // Without a breakdown the sum may be of several shards.
      const { balance, balance_dollars: exact } = await readBalanceOf(SHARD, signal);
      const cash = exact === undefined ? BigInt(balance) * CENT : parseDollars(exact);
      return { amount: cash, step: exact === undefined ? CENT : 1n, otherShards: [] };
    },
    async listTransfers(signal) {
      const path = '/portfolio/intra_exchange_instance_transfers';
      const pages = await readAll(path, [], transfersPageSchema, signal, TRANSFERS_PAGE_SIZE);
      return pages.flatMap(({ transfers }) => transfers).flatMap((wire) => toShardTransfer(wire) ?? []);
    },
  };
}

type AccountReads = Pick<Venue, 'listPositions' | 'listSettlements' | 'readBalance' | 'listTransfers'>;

function createSignedClient({ baseUrl, key, clock, timeoutMs, backoffMs, budget }: VenueOptions) {
  const prefix = new URL(baseUrl).pathname;
  const headersOf = (method: string, path: string) => signRequest(key, { atMs: clock.now(), method, path });
  const client = createKalshiClient({
    baseUrl,
    budget,
    isUrgent: true,
    timeoutMs,
    backoffMs,
    headers: headersOf,
  });

  async function write(method: 'POST' | 'DELETE', path: string, query: string, body?: object) {
    const response = await fetch(`${baseUrl}${path}${query}`, {
      method,
      redirect: 'error',
      signal: AbortSignal.timeout(timeoutMs),
      headers: {
        accept: 'application/json',
        ...(body ? { 'content-type': 'application/json' } : {}),
        ...headersOf(method, `${prefix}${path}`),
      },
      ...(body ? { body: JSON.stringify(body) } : {}),
    });
    if (response.status === 429) budget.refused(method);
    return {
      status: response.status,
      body: await readLimited(response, path),
      contentType: response.headers.get('content-type'),
    };
  }

  /** Pages to the end, of which there must be one. */
  async function readAll<T extends z.ZodType<{ cursor?: string | null | undefined }>>(
    path: string,
    query: Query,
    schema: T,
    signal: AbortSignal,
    pageSize = PAGE_SIZE,
  ): Promise<z.output<T>[]> {
    const pages: z.output<T>[] = [];
    let cursor = '';
    do {
      if (pages.length === MAX_PAGES) throw new UnexpectedAnswerError(path, `more than ${MAX_PAGES} pages`);
      const next: Query = cursor === '' ? [] : [['cursor', cursor]];
      const page = await client.get(path, [...query, ['limit', pageSize], ...next], schema, signal);
      pages.push(page);
      cursor = page.cursor ?? '';
    } while (cursor !== '');
    return pages;
  }

  return { client, write, readAll };
}

/** Each once. A filter that the venue has not applied must not make other orders' fills ours. */
function chooseFills(fills: readonly VenueFillAnswer[], orderId: string | undefined): VenueFillAnswer[] {
  const wanted = fills.filter(
    (fill) => isOnShard(fill) && (orderId === undefined || fill.order_id === orderId),
  );
  return [...new Map(wanted.map((fill) => [fill.fill_id, fill])).values()];
}

type Filter = Record<string, string | number | undefined>;

const queryOf = (filter: Filter): Query =>
  Object.entries(filter).filter((entry): entry is [string, string | number] => entry[1] !== undefined);
