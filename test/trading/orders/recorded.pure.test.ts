import { existsSync, readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { toHundredths } from '../../../src/trading/market/contracts.js';
import { CENT } from '../../../src/trading/market/money.js';
import type { Print } from '../../../src/trading/market/source.js';
import { advanceQueue, type QueuedOrder } from '../../../src/trading/orders/queue.js';

/** Every trade of one day's markets in five cities, as the venue lists them. It keeps no books: what stands before an order is assumed. */
const file = new URL('../../../shared/data/kalshi/raw_trades_5cities_2025-04-15.json.gz', import.meta.url);

interface RecordedTrade {
  trade_id: string;
  ticker: string;
  count: number;
  created_time: string;
  yes_price: number;
  taker_side: 'yes' | 'no';
}

function readPrints(): Print[][] {
  const series = JSON.parse(gunzipSync(readFileSync(file)).toString()) as Record<
    string,
    Record<string, RecordedTrade[]>
  >;
  return Object.values(series)
    .flatMap((markets) => Object.values(markets))
    .map((trades) =>
      trades
        .map((trade): Print => ({
          id: trade.trade_id,
          ticker: trade.ticker,
          at: new Date(trade.created_time),
          yesPrice: BigInt(trade.yes_price) * CENT,
          contracts: trade.count,
          takerSide: trade.taker_side,
        }))
        .sort((a, b) => a.at.getTime() - b.at.getTime()),
    );
}

const MINUTE_MS = 60_000;
const CONTRACTS = 10;
const LASTS_MS = 60 * MINUTE_MS;

/** Bids for ten contracts where sellers have just hit, each for an hour: one a quarter of an hour and market. */
function replay(markets: readonly Print[][], queueAhead: number) {
  const all = { orders: 0, filled: 0, contracts: 0, printed: 0, moves: [] as number[] };
  for (const prints of markets) {
    let next = 0;
    for (const sale of prints.filter(({ takerSide }) => takerSide === 'no')) {
      if (sale.at.getTime() < next) continue;
      next = sale.at.getTime() + 15 * MINUTE_MS;
      const order: QueuedOrder = {
        id: 'a',
        bid: { side: 'yes', price: sale.yesPrice },
        remaining: CONTRACTS,
        queueAhead,
        seen: { at: new Date(sale.at.getTime() + 1).toISOString(), counted: {} },
        endsAt: new Date(sale.at.getTime() + LASTS_MS),
      };
      const { fills } = advanceQueue([order], { prints, through: prints.at(-1)!.at }, undefined);
      const reached = prints.filter(
        ({ at, takerSide, yesPrice }) =>
          takerSide === 'no' && yesPrice <= sale.yesPrice && at > sale.at && at < order.endsAt!,
      );
      const filled = fills.reduce((sum, { contracts }) => sum + toHundredths(contracts), 0);
      const printed = reached.reduce((sum, { contracts }) => sum + toHundredths(contracts), 0);
      expect(filled).toBeLessThanOrEqual(Math.max(0, printed - toHundredths(queueAhead)));
      all.orders++;
      if (filled === toHundredths(CONTRACTS)) all.filled++;
      const last = fills.at(-1);
      if (!last) continue;
      const after = prints.findLast(({ at }) => at.getTime() <= last.print.at.getTime() + MINUTE_MS)!;
      all.moves.push(Number(after.yesPrice - sale.yesPrice) / Number(CENT));
    }
  }
  const mean = all.moves.reduce((sum, move) => sum + move, 0) / all.moves.length;
  return { orders: all.orders, share: all.filled / all.orders, moveCents: mean };
}

describe.skipIf(!existsSync(file))('bids among the recorded trades of a day', () => {
  it('are filled more rarely the more stands before them, and what is filled has fallen a minute later', () => {
    const markets = readPrints();
    const results = [0, 100, 1_000].map((queueAhead) => replay(markets, queueAhead));
    const shares = results.map(({ share }) => share);
    expect(shares).toEqual(shares.toSorted((a, b) => b - a));
    expect(shares[0]).toBeLessThan(1);
    // Adverse: those who sell to a bid know more than it does.
    for (const { moveCents } of results) expect(moveCents).toBeLessThan(0);
    expect(results.map(({ orders }) => orders)).toEqual(results.map(() => results[0]!.orders));
  });
});
