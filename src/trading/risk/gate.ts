import type { Orm } from '../../core/db/client.js';
import { AppError } from '../../core/errors.js';
import type { ListedMarket } from '../market/market.js';
import type { OrderBook } from '../market/book.js';
import type { Micros } from '../market/money.js';
import type { OrderInput } from '../orders/order.js';
import type { Snapshot } from '../snapshot/snapshot.js';
import { assessRisk } from './assess.js';
import { readRiskFacts } from './read-facts.js';
import { refuse, type Refusal } from './refusal.js';

/** What an order is judged on. Read under the lock of the account's row, so nothing of it changes before the order is written. */
export interface RiskInput {
  order: OrderInput;
  market: ListedMarket;
  /** Without what the Organization's paper orders have taken already. */
  book: OrderBook;
  snapshot: Snapshot;
  /** What the order may take from the balance at its limit price, fee included; less for one that closes pairs, 0 for a sale. */
  worstCost: Micros;
  /** What may be spent: cash without what pending orders have reserved. */
  available: Micros;
  at: Date;
}

/**
 * Lets an order pass, or says which limit stands against it, its value and what was asked. What cannot be read or
 * computed counts as a refusal; only a database that does not answer is told as what it is.
 *
 * Goes into the transaction that writes the order, after the account's row was locked: switches and limits are read there,
 * with one statement, so they bind on the next order of every instance.
 * @throws AppError risk_limit
 */
export async function assertWithinRisk(tx: Orm, input: RiskInput): Promise<void> {
  const { orgId, mode } = input.order;
  const facts = await readRiskFacts(tx, { orgId, mode, at: input.at }).catch((error: unknown) => {
    if (error instanceof RangeError) return undefined;
    throw error;
  });
  const refusal: Refusal | undefined = facts
    ? assessRisk(input, facts)
    : refuse('unknown_state', 'there is no account, or what is recorded of it makes no sense.');
  if (refusal) throw new AppError('risk_limit', refusal.detail, { cause: refusal.cause });
}
