import type { MemberAuthority } from '../../accounts/identity/session/authority.js';
import type { Side, TimeInForce } from '../market/book.js';
import type { Micros } from '../market/money.js';
import type { CancelCause, TradeMode } from './orders-table.js';
import type { KeyAuthority } from '../../accounts/api-keys/authority.js';

export type Action = 'buy' | 'sell';

/** How an order stands in the book. */
export interface RestTerms {
  /** Null: until it is cancelled. */
  expiresAt: Date | null;
  /** Never to take what stands in the book already. */
  postOnly: boolean;
  /** What takes it out of the book without being asked. */
  cancelOn: readonly CancelCause[];
}

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
  /** Of an order that may rest, and of no other. */
  rest?: RestTerms | undefined;
}
