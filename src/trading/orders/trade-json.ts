import type { z } from 'zod';
import { formatDollars } from '../market/money.js';
import { findSeries } from '../market/stations.js';
import type { Trade } from './order.js';
import type { tradeSchema } from './schema.js';

/** A trade as the API answers with it. Whose it is, and through which key, goes without saying. */
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
    averagePrice: trade.averagePrice === null ? null : formatDollars(trade.averagePrice),
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
