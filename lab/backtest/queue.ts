import { MINUTE_MS } from '../../src/core/time.js';
import { markFill } from '../../src/markets/execution/marker.js';
import { sumCounts } from '../../src/markets/market/contracts.js';
import type { Micros } from '../../src/markets/market/money.js';
import type { Print } from '../../src/markets/market/source.js';
import { advanceQueue, type QueuedOrder } from '../../src/markets/orders/queue.js';
import { summariseExecution, type FillMark, type PaperFill } from './look-back.js';
import { toPrint, type RecordedTrade } from './records.js';

const CONTRACTS = 10;
const LASTS_MS = 60 * MINUTE_MS;
const EVERY_MS = 15 * MINUTE_MS;

export type QueueResult = ReturnType<typeof restAmongTrades>;

/** YES bids at prices that sellers have just hit, filled by the rules for resting paper orders. */
export function restAmongTrades(
  trades: ReadonlyMap<string, readonly RecordedTrade[]>,
  queues: readonly number[],
) {
  const markets = [...trades].map(([ticker, recorded]) =>
    recorded.map((trade, i) => toPrint(ticker, trade, i)),
  );
  return {
    trades: sumCounts(markets.map((prints) => prints.length)),
    markets: markets.length,
    contracts: CONTRACTS,
    minutes: LASTS_MS / MINUTE_MS,
    rows: queues.map((queueAhead) => rest(markets, queueAhead)),
  };
}

/** @param queueAhead assumed contracts ahead of each bid, because books were not recorded */
function rest(markets: readonly (readonly Print[])[], queueAhead: number) {
  const counts = { orders: 0, filled: 0, partly: 0 };
  const fills: PaperFill[] = [];
  const marks: FillMark[] = [];
  for (const prints of markets)
    for (const bid of bidsAmong(prints, queueAhead)) {
      const filled = sumCounts(bid.fills.map(({ contracts }) => contracts));
      counts.orders++;
      if (filled === CONTRACTS) counts.filled++;
      else if (filled > 0) counts.partly++;
      for (const fill of bid.fills) {
        fills.push(fill);
        marks.push({ ...markFill(fill, prints, { bookAt: () => undefined }), hasPrints: true });
      }
    }
  // In dollars, negative if the price moved against the filled bids.
  return { queueAhead, ...counts, after: summariseExecution(fills, marks).after };
}

interface Bid {
  price: Micros;
  /** Prints from then until `endsAt` may fill the bid. */
  from: Date;
  endsAt: Date;
  fills: PaperFill[];
}

/**
 * At the price of a sale, at most once every 15 minutes.
 * @param prints of one market, oldest first
 */
export function bidsAmong(prints: readonly Print[], queueAhead: number): Bid[] {
  const bids: Bid[] = [];
  let nextMs = -Infinity;
  for (const print of prints) {
    if (print.takerSide !== 'no' || print.at.getTime() < nextMs) continue;
    nextMs = print.at.getTime() + EVERY_MS;
    bids.push(bidAt(print, prints, queueAhead));
  }
  return bids;
}

function bidAt(sale: Print, prints: readonly Print[], queueAhead: number): Bid {
  const { ticker, yesPrice: price } = sale;
  const from = new Date(sale.at.getTime() + 1);
  const endsAt = new Date(sale.at.getTime() + LASTS_MS);
  const order: QueuedOrder = {
    id: sale.id,
    bid: { side: 'yes', price },
    remaining: CONTRACTS,
    queueAhead,
    seen: { at: from.toISOString(), counted: {} },
    endsAt,
  };
  const { fills } = advanceQueue([order], { prints, through: endsAt }, undefined);
  const terms = { ticker, side: 'yes', action: 'buy', price, hasTaken: false, profit: null } as const;
  return {
    price,
    from,
    endsAt,
    fills: fills.map(({ contracts, print }) => ({ ...terms, contracts, at: print.at })),
  };
}
