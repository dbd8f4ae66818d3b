import type { Logger } from 'pino';
import { z } from 'zod';
import type { Clock } from '../../core/time.js';
import {
  createKalshiClient,
  readLimited,
  readPages,
  UnexpectedAnswerError,
  type PageList,
  type Query,
} from '../venue/kalshi-client.js';
import { findGap, joinRows, readRows, requireWhole, type Rows, type UnreadableRow } from '../venue/rows.js';
import type { VenueBudget } from '../venue/venue-budget.js';
import { inChunks } from '../../core/steps.js';
import { formatContracts, parseCount } from '../market/contracts.js';
import { WEATHER_SHARD } from '../market/market.js';
import { CENT, parseDollars, type Micros } from '../market/money.js';
import { signRequest, type VenueKey } from './sign.js';
import {
  balanceSchema,
  fillsPageSchema,
  ordersPageSchema,
  positionsPageSchema,
  queuePositionSchema,
  queuePositionsSchema,
  settlementsPageSchema,
  shardBalanceSchema,
  toShardTransfer,
  transferSchema,
  transfersPageSchema,
  venueFillSchema,
  venueOrderSchema,
  venuePositionSchema,
  venueSettlementSchema,
  type ShardTransfer,
  type VenueFillAnswer,
  type VenuePosition,
  type VenueSettlement,
  type WireOrder,
} from './wire.js';

export interface VenueCash {
  amount: Micros;
  /** The true amount may be higher by less than this: a millionth of a dollar if reported exactly, else a cent. */
  step: Micros;
}

export interface VenueAnswer {
  status: number;
  body: string;
  contentType: string | null;
}

export interface VenueOptions {
  /** Includes `/trade-api/v2`, without a trailing slash. */
  baseUrl: string;
  key: VenueKey;
  clock: Clock;
  /** Per attempt, including the body. */
  timeoutMs: number;
  /** Market data reads yield to account requests. */
  budget: VenueBudget;
  backoffMs: number;
  log?: Pick<Logger, 'warn'> | undefined;
  fetch?: typeof fetch | undefined;
}

export interface ShardBalance {
  exchangeIndex: number;
  balance: Micros;
}

/** The venue finds an order's shard by its market. */
export interface VenueOrderId {
  venueOrderId: string;
  ticker: string;
}

const PAGE_SIZE = 1000;
const MAX_PAGES = 50;
const TRANSFERS_PAGE_SIZE = 500;
const TICKERS_PER_CALL = 100;
/** The rate budget charges this path's cost; the venue may charge less. */
const ORDERS = '/portfolio/events/orders';
const BALANCE = '/portfolio/balance';
const GROUPS = '/portfolio/order_groups';
/** The highest limit that the venue accepts: it cancels the group if this many contracts fill within 15 seconds. */
const GROUP_LIMIT = 1_000_000;
const SHARD = { exchange_index: WEATHER_SHARD };
const isOnShard = ({ exchange_index: index = WEATHER_SHARD }: { exchange_index?: number | undefined }) =>
  index === WEATHER_SHARD;
const isElsewhere = (index: unknown): boolean => typeof index === 'number' && index !== WEATHER_SHARD;
const chooseOnShard = <T extends { exchange_index?: number | undefined }>(found: Rows<T>) => ({
  ...found,
  rows: found.rows.filter(isOnShard),
  unreadable: found.unreadable.filter(({ fields }) => !isElsewhere(fields.exchange_index)),
});

interface OrderFilter {
  ticker?: string;
  status?: 'resting';
  sinceSeconds?: number;
  isArchived?: boolean;
}

interface FillFilter {
  tickers?: readonly string[];
  orderId?: string;
  sinceSeconds?: number;
}

export type Venue = ReturnType<typeof createVenue>;

/**
 * Signed requests for the account. Orders, fills and positions come from the venue's shard for weather markets. A row that
 * cannot be read is listed apart, and a list that ended early says so, because nothing may be taken for absent.
 */
export function createVenue(options: VenueOptions) {
  const { budget } = options;
  const signed = createSignedClient(options);
  const { write, readAll, client } = signed;
  const readFills = async (
    path: string,
    filter: Filter,
    orderId: string | undefined,
    signal: AbortSignal,
  ) => {
    const { pages, cutOff } = await readAll(path, queryOf(filter), fillsPageSchema, signal);
    const fills = pages.flatMap((page) => page.fills);
    return { ...chooseFills(fills, orderId), cutOff };
  };

  return {
    /** Waits longer after the venue has reported that it is busy. */
    takeTurn: (signal: AbortSignal) => budget.take('POST', ORDERS, signal),
    /** Even if this rejects, the order may have been carried out. */
    createOrder: (order: WireOrder) => write('POST', ORDERS, '', order),
    /** Idempotent, as is `decreaseOrder`. */
    cancelOrder: ({ venueOrderId, ticker }: VenueOrderId) =>
      write(
        'DELETE',
        `${ORDERS}/${encodeURIComponent(venueOrderId)}`,
        `?exchange_index=${WEATHER_SHARD}&market_ticker=${encodeURIComponent(ticker)}`,
      ),
    decreaseOrder: ({ venueOrderId, ticker }: VenueOrderId, remaining: number) =>
      write('POST', `${ORDERS}/${encodeURIComponent(venueOrderId)}/decrease`, '', {
        reduce_to: formatContracts(remaining),
        market_ticker: ticker,
        ...SHARD,
      }),
    createOrderGroup: () => write('POST', `${GROUPS}/create`, '', { contracts_limit: GROUP_LIMIT, ...SHARD }),
    async hasOrderGroup(id: string, signal: AbortSignal) {
      const path = `${GROUPS}/${encodeURIComponent(id)}`;
      try {
        await client.get(path, [], z.object({}), signal);
        return true;
      } catch (error) {
        if (error instanceof UnexpectedAnswerError && error.httpStatus === 404) return false;
        throw error;
      }
    },
    /** Cancels the group's orders and refuses new ones. */
    deleteOrderGroup: (id: string) =>
      write('DELETE', `${GROUPS}/${encodeURIComponent(id)}`, `?exchange_index=${WEATHER_SHARD}`),
    /** `sinceSeconds` is inclusive. Old orders move to the archive, resting ones never do. */
    async listOrders({ ticker, status, sinceSeconds, isArchived }: OrderFilter, signal: AbortSignal) {
      const query = queryOf({ ticker, status, min_ts: isArchived ? undefined : sinceSeconds });
      const path = isArchived ? '/historical/orders' : '/portfolio/orders';
      const { pages, cutOff } = await readAll(path, query, ordersPageSchema, signal);
      const orders = pages.flatMap((page) => page.orders);
      return { ...chooseOnShard(readRows(venueOrderSchema, orders)), cutOff };
    },
    async listFills({ tickers, orderId, sinceSeconds }: FillFilter, signal: AbortSignal) {
      const filter = { order_id: orderId, min_ts: sinceSeconds, ...SHARD };
      const parts: Rows<VenueFillAnswer>[] = [];
      for (const some of tickers ? inChunks(tickers, TICKERS_PER_CALL) : [undefined])
        parts.push(
          await readFills('/portfolio/fills', { ...filter, ticker: some?.join(',') }, orderId, signal),
        );
      return joinRows(parts);
    },
    listArchivedFills: ({ ticker, orderId }: { ticker: string; orderId: string }, signal: AbortSignal) =>
      readFills('/historical/fills', { ticker }, orderId, signal),
    ...createAccountReads(signed, options.log),
  };
}

function createAccountReads(signed: ReturnType<typeof createSignedClient>, log: VenueOptions['log']) {
  const { client, readAll } = signed;
  const readBalanceOf = (filter: Filter, signal: AbortSignal) =>
    client.get(BALANCE, queryOf(filter), balanceSchema, signal);
  const warn = (path: string, found: Rows<unknown>) => {
    const gap = findGap(path, found);
    if (gap) log?.warn({ err: gap }, "a part of the venue's answer is left out");
  };

  return {
    /** Contracts that must match before each resting order in these markets, by the venue's order id. */
    async listQueuePositions(tickers: readonly string[], signal: AbortSignal) {
      const ahead = new Map<string, number>();
      for (const some of inChunks(tickers, TICKERS_PER_CALL)) {
        const query = queryOf({ market_tickers: some.join(',') });
        const path = '/portfolio/orders/queue_positions';
        const { queue_positions: rows } = await client.get(path, query, queuePositionsSchema, signal);
        const found = readRows(queuePositionSchema, rows ?? []);
        for (const row of found.rows) ahead.set(row.order_id, parseCount(row.queue_position_fp));
        warn(path, found);
      }
      return ahead;
    },
    async listPositions(signal: AbortSignal): Promise<Rows<VenuePosition>> {
      const query = queryOf({ count_filter: 'position', ...SHARD });
      const { pages, cutOff } = await readAll('/portfolio/positions', query, positionsPageSchema, signal);
      const positions = pages.flatMap((page) => page.market_positions);
      return { ...chooseOnShard(readRows(venuePositionSchema, positions)), cutOff };
    },
    async listSettlements(ticker: string, signal: AbortSignal): Promise<Rows<VenueSettlement>> {
      const path = '/portfolio/settlements';
      const { pages, cutOff } = await readAll(path, queryOf({ ticker }), settlementsPageSchema, signal);
      const settlements = pages.flatMap((page) => page.settlements);
      const { rows, unreadable } = readRows(venueSettlementSchema, settlements);
      return {
        cutOff,
        rows: rows.filter((one) => one.ticker === ticker),
        unreadable: unreadable.filter(({ fields }) => mayBe(fields.ticker, ticker)),
      };
    },
    async readBalance(signal: AbortSignal) {
      const { balance_breakdown: parts } = await readBalanceOf({}, signal);
      let otherShards: readonly ShardBalance[] = [];
      if (parts) {
        const found = readRows(shardBalanceSchema, parts);
        if (!found.rows.some(isOnShard)) requireWhole(BALANCE, chooseOnShard(found));
        warn(BALANCE, found);
        const shards = found.rows.map((part) => ({
          exchangeIndex: part.exchange_index,
          balance: parseDollars(part.balance),
        }));
        const own = shards.find(({ exchangeIndex }) => exchangeIndex === WEATHER_SHARD);
        otherShards = shards.filter((shard) => shard !== own && shard.balance !== 0n);
        if (own) return { amount: own.balance, step: 1n, otherShards };
      }
      // The sum may cover several shards. A breakdown without this shard does not say that its balance is zero.
      const { balance, balance_dollars: exact } = await readBalanceOf(SHARD, signal);
      const cash = exact === undefined ? BigInt(balance) * CENT : parseDollars(exact);
      return { amount: cash, step: exact === undefined ? CENT : 1n, otherShards };
    },
    async listTransfers(signal: AbortSignal): Promise<Rows<ShardTransfer>> {
      const path = '/portfolio/intra_exchange_instance_transfers';
      const { pages, cutOff } = await readAll(path, [], transfersPageSchema, signal, TRANSFERS_PAGE_SIZE);
      const transfers = pages.flatMap((page) => page.transfers);
      const { rows, unreadable } = readRows(transferSchema, transfers);
      const isBetweenOthers = ({ fields }: UnreadableRow) =>
        isElsewhere(fields.source_exchange_shard) && isElsewhere(fields.destination_exchange_shard);
      return {
        cutOff,
        rows: rows.flatMap((wire) => toShardTransfer(wire) ?? []),
        unreadable: unreadable.filter((row) => !isBetweenOthers(row)),
      };
    },
  };
}

function createSignedClient(options: VenueOptions) {
  const { baseUrl, key, clock, timeoutMs, backoffMs, budget, fetch = globalThis.fetch } = options;
  const prefix = new URL(baseUrl).pathname;
  const headers = (method: string, path: string) => signRequest(key, { atMs: clock.now(), method, path });
  const client = createKalshiClient({
    baseUrl,
    budget,
    isUrgent: true,
    timeoutMs,
    backoffMs,
    headers,
    fetch,
  });

  async function write(method: 'POST' | 'DELETE', path: string, query: string, body?: object) {
    const response = await fetch(`${baseUrl}${path}${query}`, {
      method,
      redirect: 'error',
      signal: AbortSignal.timeout(timeoutMs),
      headers: {
        accept: 'application/json',
        ...(body ? { 'content-type': 'application/json' } : {}),
        ...headers(method, `${prefix}${path}`),
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

  function readAll<T extends z.ZodType<{ cursor?: string | null | undefined }>>(
    path: string,
    query: Query,
    schema: T,
    signal: AbortSignal,
    pageSize = PAGE_SIZE,
  ): Promise<PageList<z.output<T>>> {
    return readPages({ path, maxPages: MAX_PAGES, signal }, (cursor) =>
      client.get(path, [...query, ['limit', pageSize], ...cursor], schema, signal),
    );
  }

  return { client, write, readAll };
}

/** Deduplicates fills and filters them again: if the venue ignored the filter, other orders' fills must not become ours. */
function chooseFills(fills: readonly unknown[], orderId: string | undefined): Rows<VenueFillAnswer> {
  const { rows, unreadable } = chooseOnShard(readRows(venueFillSchema, fills));
  const wanted = rows.filter((fill) => orderId === undefined || fill.order_id === orderId);
  return {
    rows: [...new Map(wanted.map((fill) => [fill.fill_id, fill])).values()],
    unreadable: unreadable.filter(({ fields }) => orderId === undefined || mayBe(fields.order_id, orderId)),
  };
}

/** Whether a field that could not be read as part of its row may have this value. */
export const mayBe = (field: unknown, value: string): boolean => typeof field !== 'string' || field === value;

type Filter = Record<string, string | number | undefined>;

const queryOf = (filter: Filter): Query =>
  Object.entries(filter).filter((entry): entry is [string, string | number] => entry[1] !== undefined);
