import { AppError } from '../../core/errors.js';
import type { TradeMode } from '../ledger/orders-table.js';

/**
 * Live and test are apart: a test key sees nothing that was traded live.
 * @throws AppError live_trading_disabled
 */
export function requireLiveKey({ livemode }: { livemode: boolean }, mode: TradeMode | undefined): void {
  if (mode === 'live' && !livemode)
    throw new AppError(
      'live_trading_disabled',
      'A test key reads paper trading only. Live needs a live key.',
    );
}
