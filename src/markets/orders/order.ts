import { createHash } from 'node:crypto';
import { v5 as uuidFrom } from 'uuid';
import type { AppError } from '../../core/errors.js';
import type { OrderInput } from '../ledger/order-input.js';
import type { OrderStatus, TradeMode } from '../ledger/orders-table.js';
import { mayRest, worstCost } from '../market/book.js';
import { perContract, subtractCounts, valueOf } from '../market/contracts.js';
import { feeTypes, type FeeRule } from '../market/fees.js';
import { DOLLAR, type Micros } from '../market/money.js';
import type { FillRow, OrderRow } from './queries.js';

/**
 * What makes two orders the same order, SHA-256, hex: everything that was asked for, however it was written. An order that
 * may not rest has the hash that it had before there were others.
 */
export function requestHash(order: OrderInput): string {
  const { mode, ticker, side, action, contracts, limitPrice, timeInForce, rest } = order;
  const fields: unknown[] = [mode, ticker, side, action, contracts, String(limitPrice), timeInForce];
  if (rest) fields.push(rest.expiresAt?.toISOString() ?? null, rest.postOnly, rest.cancelOn.toSorted());
  return createHash('sha256').update(JSON.stringify(fields)).digest('hex');
}

/** What the venue knows an order by. The same order has the same one, on every instance and at any time: a UUID. */
export const clientOrderId = ({
  orgId,
  idempotencyKey,
}: Pick<OrderInput, 'orgId' | 'idempotencyKey'>): string => uuidFrom(idempotencyKey, orgId);

type TradeFill = Pick<FillRow, 'n' | 'price' | 'contracts' | 'fee' | 'filledAt' | 'balanceChange'>;

/** An order with what became of it. */
export interface Trade extends OrderRow, Pick<OrderInput, 'rest'> {
  /** Of what was filled; null if nothing was. */
  averagePrice: Micros | null;
  /** What the balance has changed by: negative for a purchase. */
  balanceChange: Micros;
  fills: readonly TradeFill[];
}

export function toTrade(order: OrderRow, fills: readonly TradeFill[]): Trade {
  const { timeInForce, expiresAt, postOnly, cancelOn, filledContracts } = order;
  const value = fills.reduce((sum, fill) => sum + valueOf(fill.price, fill.contracts), 0n);
  return {
    ...order,
    ...(mayRest(timeInForce) ? { rest: { expiresAt, postOnly, cancelOn } } : {}),
    averagePrice: filledContracts === 0 ? null : perContract(value, filledContracts),
    balanceChange: fills.reduce((sum, fill) => sum + fill.balanceChange, 0n),
    fills,
  };
}

export interface PlacedOrder {
  trade: Trade;
  /** The same key with the same order was there before: nothing was done again. */
  isRepeat: boolean;
}

export interface VenueFill {
  venueFillId: string;
  /** Of a contract of the order's side. */
  price: Micros;
  contracts: number;
  fee: Micros;
  filledAt: Date;
}

/** What is known about an order that was sent to a venue. */
export type VenueOutcome =
  /** What was not filled stands in the book. `fills`: those so far. `contracts`: what the venue takes it to be for, filled ones included. */
  | { kind: 'resting'; venueOrderId: string; fills: VenueFill[]; contracts: number }
  /**
   * Carried out as far as it could be. Without an id of the venue's if nothing was traded and the venue gave none. `contracts`:
   * where it was decreased before it was filled.
   */
  | {
      kind: 'done';
      venueOrderId: string | null;
      fills: VenueFill[];
      reason: string | null;
      contracts?: number;
    }
  | { kind: 'rejected'; reason: string }
  /** No answer came, or none that can be understood. It may have been carried out: it is looked up, never sent again. */
  | { kind: 'unknown'; reason: string };

export type LiveOrder = Pick<
  Trade,
  | 'orgId'
  | 'id'
  | 'clientOrderId'
  | 'ticker'
  | 'side'
  | 'action'
  | 'contracts'
  | 'limitPrice'
  | 'timeInForce'
  | 'rest'
  | 'createdAt'
> & { feeRule: FeeRule };

/** A live order that stands in the venue's book. */
export type RestingOrder = LiveOrder & Pick<Trade, 'venueOrderId' | 'filledContracts'>;

/** The last step of a live order: everything before it is what a paper order goes through as well. */
export interface LiveExecutor {
  /**
   * Returns once live orders may be placed.
   * @throws AppError unavailable while orders, fills, positions and cash have not been found to agree with the venue's
   */
  assertOpen(): void;
  /** Sends an order that is persisted as pending, once. */
  send(order: LiveOrder): Promise<VenueOutcome>;
  /** Takes an order out of the venue's book. A fill that crosses it wins: the answer is the venue's final word. */
  cancel(order: RestingOrder): Promise<VenueOutcome>;
  /** Leaves so many contracts in the venue's book, or fewer if more was filled meanwhile. `resting` if it did so. */
  decrease(order: RestingOrder, remaining: number): Promise<VenueOutcome>;
  /**
   * Takes everything that an Organization has resting there out of the venue's book at once, as far as the venue does that, and books
   * it. What stands there afterwards is still to be cancelled. Never rejects.
   */
  cancelAll(orgId: string): Promise<void>;
}

/** The one number that has to change for an order to pass at this moment. */
export type Remedy =
  | { field: 'contracts'; atMost: number }
  | { field: 'limitPrice'; bound: 'at most' | 'at least'; price: Micros };

export interface OrderRefusal {
  error: AppError;
  /** Null where no other number would help. */
  remedy: Remedy | null;
}

export type PaperOrder = OrderInput & { mode: 'paper' };

/** Which order is to be changed, and by whom. */
export interface OrderChange extends Pick<OrderInput, 'orgId' | 'by'> {
  id: string;
}

/** Places orders and lists them: the same for the API and for the pages. */
export interface Orders {
  /**
   * Checks an order, and carries it out or sends it. Durable when it resolves.
   * @throws AppError market_data_unavailable, market_data_stale, unknown_market, market_closed, invalid_request,
   * live_trading_disabled, unavailable, idempotency_conflict, insufficient_position, price_moved, entitlement_required, entitlement_read_only,
   * risk_limit, insufficient_funds
   */
  place(input: OrderInput): Promise<PlacedOrder>;
  /** Why a paper order would be refused at this moment; undefined if it would pass. */
  preview(input: PaperOrder): Promise<OrderRefusal | undefined>;
  /** Newest first. `cursor` is the id of the last order of the page before. */
  list(filter: {
    orgId: string;
    mode?: TradeMode | undefined;
    ticker?: string | undefined;
    cursor?: string | undefined;
    limit: number;
  }): Promise<{ trades: Trade[]; nextCursor: string | null }>;
  find(orgId: string, id: string): Promise<Trade | undefined>;
  /**
   * Takes an order out of the book. One that has ended stays as it ended, and one of which it is not known yet whether a fill
   * has crossed the cancellation stays open, with that as its reason.
   * @throws AppError not_found, unavailable, and what its author may be refused for
   */
  cancel(change: OrderChange): Promise<Trade>;
  /**
   * Leaves so many contracts to be filled, and the order where it stands; 0 cancels it.
   * @throws AppError invalid_request for more than may still be filled, and as `cancel`
   */
  decrease(change: OrderChange & { remaining: number }): Promise<Trade>;
}

/** What the order is charged by, as it was when it was accepted. */
export const feeRuleOfOrder = ({ feeRule: { type, multiplier } }: Pick<OrderRow, 'feeRule'>): FeeRule => ({
  type: feeTypes.find((one) => one === type) ?? 'unknown',
  multiplier: BigInt(multiplier),
});

export const EXPIRED = 'It expired before all of it was filled.';

/** How an order ends of which no more is filled. */
export const finalStatus = ({
  contracts,
  filledContracts,
}: Pick<OrderRow, 'contracts' | 'filledContracts'>): OrderStatus =>
  filledContracts === contracts ? 'filled' : filledContracts > 0 ? 'partially_filled' : 'cancelled';

type Reserving = Pick<
  OrderRow,
  'action' | 'contracts' | 'filledContracts' | 'limitPrice' | 'reserved' | 'feeRule'
>;

/**
 * What an open order keeps back once some more of it is filled. A purchase that closes pairs keeps back less than it
 * costs, because each pair pays a dollar: the first fills close them, and bring what the later ones take.
 * @param order before
 * @param contracts that it is for from now on; fewer, if it was decreased
 */
export function reserveAfter(order: Reserving, filled: number, contracts = order.contracts): Micros {
  if (order.action === 'sell') return 0n;
  const { limitPrice, filledContracts } = order;
  const cost = (count: number): Micros =>
    count === 0 ? 0n : worstCost(feeRuleOfOrder(order), { contracts: count, limitPrice });
  const pairs = cost(subtractCounts(order.contracts, filledContracts)) - order.reserved;
  const left = pairs - valueOf(DOLLAR, filled);
  const reserve =
    cost(subtractCounts(subtractCounts(contracts, filledContracts), filled)) - (left > 0n ? left : 0n);
  return reserve > 0n ? reserve : 0n;
}
