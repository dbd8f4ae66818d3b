import type { KeyAuthority } from '../../api-keys/authority.js';
import type { MemberAuthority } from '../../identity/session/authority.js';
import type { Side } from '../market/book.js';
import type { Micros } from '../market/money.js';
import type { FeeRule } from '../market/fees.js';
import type { OrderStatus, TradeMode } from '../ledger/orders-table.js';

export type Action = 'buy' | 'sell';
export type TimeInForce = 'immediate_or_cancel' | 'fill_or_kill';

/** An order as somebody asks for it. */
export interface OrderInput {
  orgId: string;
  mode: TradeMode;
  /** Who asks: a key of the Organization, or a person on its pages. Read again in the order's transaction. */
  by: KeyAuthority | MemberAuthority;
  idempotencyKey: string;
  ticker: string;
  side: Side;
  action: Action;
  contracts: number;
  /** The worst price to trade at, of a contract of `side`. */
  limitPrice: Micros;
  timeInForce: TimeInForce;
}

export interface TradeFill {
  n: number;
  price: Micros;
  contracts: number;
  fee: Micros;
  filledAt: Date;
}

/** An order and what became of it. */
export interface Trade extends Omit<OrderInput, 'by'> {
  id: string;
  clientOrderId: string;
  venueOrderId: string | null;
  eventTicker: string;
  seriesTicker: string;
  status: OrderStatus;
  reason: string | null;
  filledContracts: number;
  /** Of what was filled; null if nothing was. */
  averagePrice: Micros | null;
  fees: Micros;
  /** What the balance has changed by: negative for a purchase. */
  balanceChange: Micros;
  fills: TradeFill[];
  apiKeyId: string | null;
  userId: string | null;
  createdAt: Date;
  finishedAt: Date | null;
}

export interface PlacedOrder {
  trade: Trade;
  /** The same key with the same order was there before: nothing was done again. */
  isRepeat: boolean;
}

/** One fill as the venue reports it. */
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
  /** Carried out as far as it could be. Without an id of the venue's if nothing was traded and the venue gave none. */
  | { kind: 'done'; venueOrderId: string | null; fills: VenueFill[]; reason: string | null }
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
  | 'createdAt'
> & { feeRule: FeeRule };

/** The last step of a live order: everything before it is what a paper order goes through as well. */
export interface LiveExecutor {
  /**
   * Returns once live orders may be placed.
   * @throws AppError unavailable while orders, fills, positions and cash have not been found to agree with the venue's
   */
  assertOpen(): void;
  /** Sends an order that is persisted as pending, once. */
  send(order: LiveOrder): Promise<VenueOutcome>;
}

/** Places orders and lists them: the same for the API and for the pages. */
export interface Orders {
  /**
   * Judges an order, and carries it out or sends it. Durable when it resolves.
   * @throws AppError market_data_unavailable, market_data_stale, unknown_market, market_closed, invalid_request,
   * live_trading_disabled, unavailable, idempotency_conflict, insufficient_position, price_moved, risk_limit, insufficient_funds
   */
  place(input: OrderInput): Promise<PlacedOrder>;
  /** Newest first. `cursor` is the id of the last order of the page before. */
  list(filter: {
    orgId: string;
    mode?: TradeMode | undefined;
    ticker?: string | undefined;
    cursor?: string | undefined;
    limit: number;
  }): Promise<{ trades: Trade[]; nextCursor: string | null }>;
  find(orgId: string, id: string): Promise<Trade | undefined>;
}
