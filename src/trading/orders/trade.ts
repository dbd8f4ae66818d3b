import type { Trade, TradeFill } from './order.js';
import type { FillRow, OrderRow } from './queries.js';
import { perContract, valueOf } from '../market/contracts.js';

/** What money moved with a fill is part of a trade, not of each of its fills. */
type FillOfTrade = TradeFill & Pick<FillRow, 'balanceChange'>;

/** An order as everybody sees it. */
export function toTrade(order: OrderRow, fills: readonly FillOfTrade[]): Trade {
  const { orgId, id, mode, idempotencyKey, clientOrderId, venueOrderId, status, reason } = order;
  const { ticker, eventTicker, seriesTicker, side, action, contracts, limitPrice, timeInForce } = order;
  const { filledContracts, fees, apiKeyId, userId, createdAt, finishedAt } = order;
  const value = fills.reduce((sum, fill) => sum + valueOf(fill.price, fill.contracts), 0n);
  return {
    orgId,
    id,
    mode,
    idempotencyKey,
    clientOrderId,
    venueOrderId,
    status,
    reason,
    ticker,
    eventTicker,
    seriesTicker,
    side,
    action,
    contracts,
    limitPrice,
    timeInForce,
    filledContracts,
    averagePrice: filledContracts === 0 ? null : perContract(value, filledContracts),
    fees,
    balanceChange: fills.reduce((sum, fill) => sum + fill.balanceChange, 0n),
    fills: fills.map(({ n, price, contracts: count, fee, filledAt }) => ({
      n,
      price,
      contracts: count,
      fee,
      filledAt,
    })),
    apiKeyId,
    userId,
    createdAt,
    finishedAt,
  };
}
