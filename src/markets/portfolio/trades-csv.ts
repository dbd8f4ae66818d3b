import type { Orm } from '../../core/db/client.js';
import { ExactNumber } from '../../core/http/json.js';
import type { CsvCell } from '../../core/pages/csv.js';
import type { TradeMode } from '../ledger/orders-table.js';
import { perContract } from '../market/contracts.js';
import { formatDollars, type Micros } from '../market/money.js';
import { listOrders, type ListedOrder } from './order-queries.js';

export const tradeColumns = [
  'order_id',
  'placed_at',
  'finished_at',
  'mode',
  'ticker',
  'action',
  'side',
  'contracts',
  'limit_price',
  'status',
  'reason',
  'filled_contracts',
  'average_price',
  'value',
  'fees',
  'cash_change',
  'realised_pnl',
  'api_key_id',
  'api_key_name',
  'person',
];

/** Round trips hardly matter, and other requests are not held up. */
const BATCH_SIZE = 500;

/** Oldest first, one statement per batch. Orders after `now` could keep the export from ending. */
export async function* exportTrades(orm: Orm, orgId: string, mode: TradeMode, now: Date) {
  const until = new Date(now.getTime() + 1);
  let after: ListedOrder | undefined;
  do {
    const page = { mode, until, sort: 'oldest', after, limit: BATCH_SIZE } as const;
    const orders = await listOrders(orm, orgId, page);
    yield orders.map(toCells);
    after = orders.length < BATCH_SIZE ? undefined : orders.at(-1);
  } while (after);
}

const dollars = (micros: Micros) => new ExactNumber(formatDollars(micros));

const toCells = (order: ListedOrder): CsvCell[] => [
  order.id,
  order.createdAt,
  order.finishedAt,
  order.mode,
  order.ticker,
  order.action,
  order.side,
  order.contracts,
  dollars(order.limitPrice),
  order.status,
  order.reason,
  order.filledContracts,
  order.filledContracts === 0 ? null : dollars(perContract(order.value, order.filledContracts)),
  dollars(order.value),
  dollars(order.fees),
  dollars(order.balanceChange),
  dollars(order.realised),
  order.apiKeyId,
  order.keyName,
  order.personName,
];
