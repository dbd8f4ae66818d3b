import { createHash } from 'node:crypto';
import { v5 as uuidFrom } from 'uuid';
import type { OrderInput } from './order.js';

/** What makes two orders the same order, SHA-256, hex: everything that was asked for, however it was written. */
export function requestHash(order: OrderInput): string {
  const { mode, ticker, side, action, contracts, limitPrice, timeInForce } = order;
  const fields = [mode, ticker, side, action, contracts, String(limitPrice), timeInForce];
  return createHash('sha256').update(JSON.stringify(fields)).digest('hex');
}

/** What the venue knows an order by. The same order has the same one, whoever sends it and whenever: a UUID. */
export const clientOrderId = ({
  orgId,
  idempotencyKey,
}: Pick<OrderInput, 'orgId' | 'idempotencyKey'>): string => uuidFrom(idempotencyKey, orgId);
