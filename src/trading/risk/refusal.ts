import { formatDollars, type Micros } from '../market/money.js';

/** Everything that can stand against an order, in the order in which it is looked at. A refusal begins with its name. */
export const riskChecks = [
  'unknown_state',
  'halt',
  'reduce_only',
  'data_age',
  'clock_skew',
  'data_source',
  'exchange_paused',
  'not_held',
  'max_order_contracts',
  'price_collar',
  'max_open_orders',
  'max_order_cost',
  'max_position_contracts',
  'max_event_loss',
  'max_daily_loss',
] as const;
export type RiskCheck = (typeof riskChecks)[number];

export interface Refusal {
  check: RiskCheck;
  /** Which limit, its value and what was asked. */
  detail: string;
  /** Why something could not be computed. */
  cause?: unknown;
}

export const refuse = (check: RiskCheck, text: string): Refusal => ({ check, detail: `${check}: ${text}` });

/** `$250.00`, and more decimals where there are more. */
export const dollars = (micros: Micros): string =>
  formatDollars(micros)
    .replace(/^(-?)/, '$1$')
    .replace(/(\.\d\d)00$/, '$1');

export const count = (contracts: number, noun: string): string =>
  `${contracts} ${noun}${contracts === 1 ? '' : 's'}`;
export const seconds = (ms: number): string => `${Math.round(ms / 100) / 10} s`;
