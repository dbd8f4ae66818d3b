import type { MemberAuthority } from '../../accounts/identity/session/authority.js';
import type { MarketableOrder } from '../market/book.js';
import type { CancelCause, TradeMode } from './orders-table.js';
import type { KeyAuthority } from '../../accounts/api-keys/authority.js';

export type Action = MarketableOrder['action'];

export interface RestTerms {
  /** Null for an order that is good until cancelled. */
  expiresAt: Date | null;
  /** Never takes liquidity already in the book. */
  postOnly: boolean;
  cancelOn: readonly CancelCause[];
}

export interface OrderInput extends MarketableOrder {
  orgId: string;
  mode: TradeMode;
  /** Its authority is read again in the order's transaction. */
  by: KeyAuthority | MemberAuthority;
  idempotencyKey: string;
  ticker: string;
  /** For an order that may rest. */
  rest?: RestTerms | undefined;
  /** A resting paper order to cancel first. Nothing happens unless `filled` of its contracts are filled. */
  replaces?: { id: string; filled: number } | undefined;
}
