import { createHash } from 'node:crypto';
import { v5 as uuidFrom } from 'uuid';
import type { AppError } from '../../core/errors.js';
import { formatDecimal, formatPrice } from '../../core/pages/format.js';
import { MINUTE_MS } from '../../core/time.js';
import type { OrderInput } from '../ledger/order-input.js';
import { isOpen, type OrderStatus } from '../ledger/orders-table.js';
import { mayRest, worstCost } from '../market/book.js';
import { perContract, subtractCounts, valueOf } from '../market/contracts.js';
import { feeTypes, type FeeRule } from '../market/fees.js';
import { DOLLAR, type Micros } from '../market/money.js';
import type { Snapshot } from '../snapshot/snapshot.js';
import type { FillRow, ListFilter, OrderRow } from './queries.js';

/**
 * SHA-256 in hex of every requested field, which identifies the terms of an order. The hash of an order that may not
 * rest omits the `rest` fields, so that hashes from before resting orders stay valid.
 */
export function requestHash(order: OrderInput): string {
  const { mode, ticker, side, action, contracts, limitPrice, timeInForce, rest } = order;
  const fields: unknown[] = [mode, ticker, side, action, contracts, String(limitPrice), timeInForce];
  if (rest) fields.push(rest.expiresAt?.toISOString() ?? null, rest.postOnly, rest.cancelOn.toSorted());
  return createHash('sha256').update(JSON.stringify(fields)).digest('hex');
}

/** Sent to the venue with the order. Every instance derives it from the Organization and the idempotency key. */
export const clientOrderId = ({ orgId, idempotencyKey }: Pick<OrderInput, 'orgId' | 'idempotencyKey'>) =>
  uuidFrom(idempotencyKey, orgId);

type TradeFill = Pick<FillRow, 'n' | 'price' | 'contracts' | 'fee' | 'filledAt' | 'balanceChange'>;

export interface Trade extends OrderRow, Pick<OrderInput, 'rest'> {
  averagePrice: Micros | null;
  /** Negative for a purchase. */
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
  /** True if an earlier request with this idempotency key placed the order, so nothing was done. */
  isRepeat: boolean;
}

/** At the price per contract of the order's side. */
export interface VenueFill extends Pick<FillRow, 'price' | 'contracts' | 'fee' | 'filledAt'> {
  venueFillId: string;
}

export type VenueOutcome =
  /** The unfilled part is in the book. `contracts` is the order's size at the venue, including filled contracts. */
  | { kind: 'resting'; venueOrderId: string; fills: VenueFill[]; contracts: number }
  /**
   * Carried out as far as possible. The venue may return no id if nothing was traded. `contracts` is set if the order
   * was decreased before it ended.
   */
  | {
      kind: 'done';
      venueOrderId: string | null;
      fills: VenueFill[];
      reason: string | null;
      contracts?: number;
    }
  | { kind: 'rejected'; reason: string }
  /** No intelligible response arrived. The order may have been carried out, so it is looked up and never sent again. */
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

export type RestingOrder = LiveOrder & Pick<Trade, 'venueOrderId' | 'filledContracts'>;

/** Time after which an order can no longer arrive: longer than a request to the venue can be in flight. */
export const SAFE_MS = MINUTE_MS;

/** The last step of a live order; paper orders share everything before it. */
export interface LiveExecutor {
  /**
   * @throws AppError unavailable until a comparison has found that orders, fills, positions and cash agree with the
   * venue's
   */
  assertOpen(): void;
  /** Sends an order exactly once. The order is already stored as pending. */
  send(order: LiveOrder): Promise<VenueOutcome>;
  /** Cancels an order in the venue's book. The outcome includes any fill that beat the cancellation. */
  cancel(order: RestingOrder): Promise<VenueOutcome>;
  /** Leaves at most `remaining` contracts in the venue's book. The outcome is `resting` if that worked. */
  decrease(order: RestingOrder, remaining: number): Promise<VenueOutcome>;
  /**
   * Cancels all of an Organization's resting orders with one request, as far as the venue supports that, and books the result.
   * Orders that still rest afterwards must be cancelled one by one. Never rejects.
   */
  cancelAll(orgId: string): Promise<void>;
}

/** The change to one number that would let the order pass now. */
export type Remedy =
  /** With one more contract, `error` would refuse the order. */
  | { field: 'contracts'; atMost: number; error: AppError | undefined }
  | { field: 'limitPrice'; bound: 'at most' | 'at least'; price: Micros };

export interface OrderRefusal {
  error: AppError;
  remedy: Remedy | null;
}

export type OrderPreview =
  | { reserve: Micros; refusal?: undefined }
  | { reserve: null; refusal: OrderRefusal };

export type PaperOrder = OrderInput & { mode: 'paper' };

export interface OrderChange extends Pick<OrderInput, 'orgId' | 'by'> {
  id: string;
}

export interface Orders {
  /**
   * Checks an order, then fills it on paper or sends it. The order is durable once this resolves.
   * @throws AppError market_data_unavailable, market_data_stale, unknown_market, market_closed, invalid_request,
   * live_trading_disabled, unavailable, idempotency_conflict, insufficient_position, price_moved, entitlement_required,
   * entitlement_read_only, risk_limit, insufficient_funds
   */
  place(input: OrderInput): Promise<PlacedOrder>;
  /** On the caller's snapshot, so that a page does not contradict its own prices. */
  preview(input: PaperOrder, snapshot: Snapshot): Promise<OrderPreview>;
  /** Newest first. `cursor` is the id of the previous page's last order. */
  list(filter: ListFilter): Promise<{ trades: Trade[]; nextCursor: string | null }>;
  find(orgId: string, id: string): Promise<Trade | undefined>;
  /**
   * Cancels an order. An order that has ended stays unchanged. If the venue has not confirmed whether a fill beat the
   * cancellation, the order stays open and its reason says so.
   * @throws AppError not_found, unavailable, or the refusal if the author lacks the authority
   */
  cancel(change: OrderChange): Promise<Trade>;
  /**
   * Reduces the contracts still to be filled without losing the order's place in the queue; 0 cancels the order.
   * @throws AppError invalid_request if `remaining` exceeds the contracts that may still fill, and everything that
   * `cancel` throws
   */
  decrease(change: OrderChange & { remaining: number }): Promise<Trade>;
}

/** The fee rule that applied when the order was accepted. */
export const feeRuleOfOrder = ({ feeRule: { type, multiplier } }: Pick<OrderRow, 'feeRule'>): FeeRule => ({
  type: feeTypes.find((one) => one === type) ?? 'unknown',
  multiplier: BigInt(multiplier),
});

export const EXPIRED = 'The order expired before it was filled completely.';

export const finalStatus = ({
  contracts,
  filledContracts,
}: Pick<OrderRow, 'contracts' | 'filledContracts'>): OrderStatus =>
  filledContracts === contracts ? 'filled' : filledContracts > 0 ? 'partially_filled' : 'cancelled';

type Shown = Omit<OrderRow, 'requestHash' | 'exact' | 'booked' | 'printsSeen' | 'feeRule'>;

/** A new live order would need a live key, which people do not have. */
export const mayReplace = ({ mode, status, cancelRequestedAt }: Shown): boolean =>
  mode === 'paper' && status === 'resting' && cancelRequestedAt === null;

/** With the contracts that remain, if any do. */
export function nameOrder({ action, side, contracts, filledContracts, limitPrice }: Shown): string {
  const count = subtractCounts(contracts, filledContracts) || contracts;
  return `your order to ${action} ${formatDecimal(count)} ${side.toUpperCase()} at ${formatPrice(limitPrice)}`;
}

/** Why an order is not replaced. */
export function describeMissed(order: Shown): string {
  const { status, contracts, filledContracts } = order;
  const open = order.cancelRequestedAt ? 'is being cancelled' : 'stays in the book';
  const became = isOpen(status) ? open : `was ${status === 'filled' ? 'filled' : 'cancelled'}`;
  return `Y${nameOrder(order).slice(1)} ${became}. ${formatDecimal(filledContracts)} of its ${formatDecimal(contracts)} contracts have filled. No other order was placed.`;
}

type Reserving = Pick<
  OrderRow,
  'action' | 'contracts' | 'filledContracts' | 'limitPrice' | 'reserved' | 'feeRule'
>;

/**
 * The amount to reserve for an open order after `filled` more contracts. A purchase that closes pairs reserves less
 * than its cost because each pair pays a dollar; the first fills close the pairs and so fund the later ones.
 * @param order before the fill
 * @param contracts the order's new size, smaller if it was decreased
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
