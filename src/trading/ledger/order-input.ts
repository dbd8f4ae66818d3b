import type { MemberAuthority } from '../../identity/session/authority.js';
import type { Side } from '../market/book.js';
import type { Micros } from '../market/money.js';
import type { TradeMode } from './orders-table.js';
import type { KeyAuthority } from '../../api-keys/authority.js';

export type Action = 'buy' | 'sell';
type TimeInForce = 'immediate_or_cancel' | 'fill_or_kill';

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
