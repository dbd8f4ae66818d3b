import type { OrderStatus } from '../ledger/orders-table.js';
import { worstCost } from '../market/book.js';
import { subtractCounts, valueOf } from '../market/contracts.js';
import { feeTypes, type FeeRule } from '../market/fees.js';
import { DOLLAR, type Micros } from '../market/money.js';
import type { OrderRow } from './queries.js';

/** What the order is charged by, as it was when it was accepted. */
export const feeRuleOfOrder = ({ feeRule: { type, multiplier } }: Pick<OrderRow, 'feeRule'>): FeeRule => ({
  type: feeTypes.find((one) => one === type) ?? 'unknown',
  multiplier: BigInt(multiplier),
});

export const EXPIRED = 'Its time was over before all of it was filled.';

/** How an order ends of which no more is filled. */
export const finalStatus = ({
  contracts,
  filledContracts,
}: Pick<OrderRow, 'contracts' | 'filledContracts'>): OrderStatus =>
  filledContracts === contracts ? 'filled' : filledContracts > 0 ? 'partially_filled' : 'cancelled';

type Reserving = Pick<
  OrderRow,
  'action' | 'contracts' | 'filledContracts' | 'limitPrice' | 'reserved' | 'feeRule'
>;

/**
 * What an open order keeps back once some more of it is filled. A purchase that closes pairs keeps back less than it
 * costs, because each pair pays a dollar: the first fills close them, and bring what the later ones take.
 * @param order before
 * @param contracts that it is for from now on; fewer, if it was decreased
 */
export function reserveAfter(order: Reserving, filled: number, contracts = order.contracts): Micros {
  if (order.action === 'sell') return 0n;
  const { limitPrice, filledContracts } = order;
  const cost = (count: number): Micros =>
    count === 0 ? 0n : worstCost(feeRuleOfOrder(order), { contracts: count, limitPrice });
  const pairs = cost(subtractCounts(order.contracts, filledContracts)) - order.reserved;
  const left = pairs - valueOf(DOLLAR, filled);
  const reserve =
    cost(subtractCounts(subtractCounts(contracts, filledContracts), filled)) - (left > 0n ? left : 0n);
  return reserve > 0n ? reserve : 0n;
}
