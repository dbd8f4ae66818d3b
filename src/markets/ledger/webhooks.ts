import type { Tx } from '../../core/db/client.js';
import { queueForModes, type Listener, type NewMessage } from '../../accounts/webhooks/outbox.js';
import type { WebhookType } from '../../accounts/webhooks/types.js';
import type { TradeMode } from './orders-table.js';

/** Paper events to live and test endpoints, live events only to live ones, as keys see them. */
export const queueForTradeMode = <T extends WebhookType>(
  tx: Tx,
  mode: TradeMode,
  message: Omit<NewMessage<T>, 'livemode'>,
  listeners?: readonly Listener[],
): Promise<void> => queueForModes(tx, [message], mode === 'live' ? [true] : [true, false], listeners);
