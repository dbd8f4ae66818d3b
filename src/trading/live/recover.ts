import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Trade, VenueOutcome } from '../orders/order.js';
import { lookUp, type LookUpDeps } from './look-up.js';
import type { LiveOrderRow } from './queries.js';
import { SAFE_MS } from './send.js';
import type { SentOrder } from './wire.js';

/** Books an outcome, once however often it is told. */
export type RecordOutcome = (
  orgId: string,
  orderId: string,
  outcome: VenueOutcome,
  at: Date,
) => Promise<Trade>;

export interface RecoverDeps extends LookUpDeps {
  log: Logger;
  record: RecordOutcome;
  /** Before an order that the venue does not know is looked for a second time. */
  secondLookMs: number;
}

/**
 * Finds out what became of orders whose outcome is not known, and books it. An order that the venue does not know once it
 * cannot arrive any more was never sent, or never arrived: its cash is free again.
 * @throws UnexpectedAnswerError, VenueUnavailableError: the others wait for the next time
 */
export async function recoverOrders(
  deps: RecoverDeps,
  orders: readonly LiveOrderRow[],
  signal: AbortSignal,
): Promise<void> {
  for (const row of orders) {
    const outcome = await findOutcome(deps, row, signal);
    if (!outcome) continue;
    try {
      const at = new Date(deps.now());
      const { status } = await deps.record(row.orgId, row.id, outcome, at);
      deps.log.info({ orderId: row.id, status }, 'an order was found at the venue and booked');
    } catch (error) {
      // What contradicts itself is told to people by the comparison that follows.
      if (!(error instanceof RangeError)) throw error;
      deps.log.error({ err: error, orderId: row.id }, 'what the venue says about an order cannot be booked');
    }
  }
}

async function findOutcome(
  deps: RecoverDeps,
  row: LiveOrderRow,
  signal: AbortSignal,
): Promise<VenueOutcome | undefined> {
  const order: SentOrder = row;
  const isSafe = deps.now() - row.createdAt.getTime() > SAFE_MS;
  let found = await lookUp(deps, order, signal);
  if (found.kind === 'resting' && isSafe) {
    deps.log.error({ orderId: row.id }, 'an order stands in the book at the venue: it is cancelled there');
    await deps.venue.cancelOrder({ venueOrderId: found.venueOrderId, ticker: row.ticker });
    found = await lookUp(deps, order, signal);
  }
  if (found.kind === 'absent' && isSafe) {
    await sleep(deps.secondLookMs, undefined, { signal });
    found = await lookUp(deps, order, signal);
    if (found.kind === 'absent')
      return { kind: 'done', venueOrderId: null, fills: [], reason: 'never reached the venue' };
  }
  return found.kind === 'final' ? found.outcome : undefined;
}
