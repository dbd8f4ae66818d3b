import type { Side } from '../market/book.js';
import type { Micros } from '../market/money.js';
import type { RiskLimits } from './limits.js';
import type { SwitchState } from '../ledger/risk-table.js';

/** Whose switch it is, the strongest word first. */
export const switchOwners = ['service', 'operator', 'own'] as const;
export type SwitchOwner = (typeof switchOwners)[number];

export interface Switch {
  state: SwitchState;
  /** Why it is closed, as whoever did it has written. */
  reason: string | null;
}

export type Switches = Record<SwitchOwner, Switch>;

/** What is held of one market. */
export interface HeldPosition {
  ticker: string;
  eventTicker: string;
  side: Side;
  contracts: number;
  cost: Micros;
}

/** An order whose outcome is not known yet: it may still be filled, whole or in part. */
export interface PendingOrder {
  ticker: string;
  eventTicker: string;
  side: Side;
  action: 'buy' | 'sell';
  contracts: number;
  limitPrice: Micros;
}

/** What the day's loss is measured against. */
export type DayStart =
  /** What the account was worth at its last valuation before midnight (nothing, if it was opened since), and what was put in since. */
  | { kind: 'equity'; equity: Micros; deposits: Micros }
  /** The account was not valued before midnight: what was held then counts at its cost. `spent`: fees and losses booked since. */
  | { kind: 'cost'; spent: Micros };

/** What the database knows about an account, as of one moment. */
export interface RiskFacts {
  switches: Switches;
  limits: RiskLimits;
  cash: Micros;
  /** All that is held. */
  positions: readonly HeldPosition[];
  pending: readonly PendingOrder[];
  dayStart: DayStart;
}
