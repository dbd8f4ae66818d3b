import type { Tx } from '../../core/db/client.js';
import { queueForModes, type Listener, type NewMessage } from '../../accounts/webhooks/outbox.js';
import type { WebhookType } from '../../accounts/webhooks/types.js';
import type { TradeMode } from './orders-table.js';

/**
 * Sends paper events to live and test endpoints, and live events only to live endpoints, matching what keys can see.
 * @param listeners see `queueForModes`
 */
export const queueForTradeMode = <T extends WebhookType>(
  tx: Tx,
  mode: TradeMode,
  message: Omit<NewMessage<T>, 'livemode'>,
  listeners?: readonly Listener[],
): Promise<void> => queueForModes(tx, message, mode === 'live' ? [true] : [true, false], listeners);
