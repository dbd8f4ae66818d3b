import type { z } from 'zod';
import { AppError } from '../../core/errors.js';
import type { Tx } from '../../core/db/client.js';
import { isOpen, type TradeMode } from '../ledger/orders-table.js';
import type { Listener } from '../../accounts/webhooks/outbox.js';
import { queueForTradeMode } from '../ledger/webhooks.js';
import { subtractCounts } from '../market/contracts.js';
import { dollarsOrNull, formatDollars } from '../market/money.js';
import { findSeries } from '../market/stations.js';
import type { Trade } from './order.js';
import type { OrderRow, WrittenFill } from './queries.js';
import type { tradeSchema } from './schema.js';

export function requireLiveKey({ livemode }: { livemode: boolean }, mode: TradeMode | undefined): void {
  if (mode === 'live' && !livemode)
    throw new AppError(
      'live_trading_disabled',
      'A test key can read only paper trading. Use a live key for live trading.',
    );
}

export function toTradeJson(trade: Trade): z.output<typeof tradeSchema> {
  return {
    id: trade.id,
    mode: trade.mode,
    status: trade.status,
    reason: trade.reason,
    ticker: trade.ticker,
    eventTicker: trade.eventTicker,
    seriesTicker: trade.seriesTicker,
    station: findSeries(trade.seriesTicker)?.station.id ?? null,
    side: trade.side,
    action: trade.action,
    contracts: trade.contracts,
    limitPrice: formatDollars(trade.limitPrice),
    timeInForce: trade.timeInForce,
    filledContracts: trade.filledContracts,
    remainingContracts: isOpen(trade.status) ? subtractCounts(trade.contracts, trade.filledContracts) : 0,
    queueAhead: trade.queueAhead,
    expiresAt: trade.rest?.expiresAt?.toISOString() ?? null,
    postOnly: trade.rest?.postOnly ?? false,
    cancelOn: [...(trade.rest?.cancelOn ?? [])],
    averagePrice: dollarsOrNull(trade.averagePrice),
    fees: formatDollars(trade.fees),
    total: formatDollars(trade.balanceChange),
    fills: trade.fills.map(({ price, contracts, fee, filledAt }) => ({
      price: formatDollars(price),
      contracts,
      fee: formatDollars(fee),
      filledAt: filledAt.toISOString(),
    })),
    idempotencyKey: trade.idempotencyKey,
    clientOrderId: trade.clientOrderId,
    venueOrderId: trade.venueOrderId,
    createdAt: trade.createdAt.toISOString(),
    finishedAt: trade.finishedAt?.toISOString() ?? null,
  };
}

/** Notifies webhooks of new fills. Paper fills also go to test endpoints, because test keys see paper trades. */
export async function notifyFilled(
  tx: Tx,
  order: OrderRow,
  fills: readonly WrittenFill[],
  at: Date,
  listeners?: readonly Listener[],
): Promise<void> {
  if (fills.length === 0) return;
  const { orgId, mode, ticker, eventTicker, id, idempotencyKey, status, side, action } = order;
  const { contracts, filledContracts } = order;
  const data = {
    mode,
    ticker,
    eventTicker,
    tradeId: id,
    idempotencyKey,
    status,
    side,
    action,
    contracts,
    filledContracts,
    fills: fills.map((fill) => ({
      n: fill.n,
      price: formatDollars(fill.price),
      contracts: fill.contracts,
      fee: formatDollars(fill.fee),
      filledAt: fill.filledAt.toISOString(),
    })),
  };
  await queueForTradeMode(tx, mode, { orgId, type: 'trade.filled', data, at }, listeners);
}
