import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { bidsAmong, restAmongTrades } from '../../backtest/queue.js';
import { readTrades, toPrint, type RecordedTrade } from '../../backtest/records.js';
import { toQueueText } from '../../backtest/text.js';
import { toHundredths } from '../../../src/markets/market/contracts.js';

const startMs = Date.parse('2025-04-15T12:00:00Z');
const trade = (minute: number, yesPrice: number, contracts: number, takerSide: 'yes' | 'no' = 'no') =>
  ({ atMs: startMs + minute * 60_000, yesPrice, contracts, takerSide }) satisfies RecordedTrade;

describe('bids among recorded trades', () => {
  const trades = new Map([
    [
      'KXHIGHNY-25APR15-B62.5',
      [
        trade(0, 40, 3),
        // A bid for ten at 40 behind a queue of five: four contracts fill, all at the limit.
        trade(10, 40, 6),
        trade(10.2, 38, 3),
        trade(10.7, 36, 1, 'yes'),
        // A taker's purchase does not fill a bid, and a sale at a higher price does not reach it.
        trade(14, 45, 99, 'yes'),
        trade(14.5, 41, 99),
        // The next bid joins a queue of its own.
        trade(30, 50, 1),
        trade(80, 50, 15),
        trade(95, 50, 1),
      ],
    ],
  ]);

  it('are filled and marked like the service’s own orders', () => {
    const { rows, ...what } = restAmongTrades(trades, [5]);
    expect(what).toEqual({ trades: 9, markets: 1, contracts: 10, minutes: 60 });
    // Orders at 0, 30, 80 and 95 minutes.
    expect(rows).toEqual([
      {
        queueAhead: 5,
        orders: 4,
        filled: 1,
        partly: 1,
        after: [
          // One fill at 40 and three more twelve seconds later; the price is 38 at first, then 36.
          { seconds: 15, fills: 1, move: expect.closeTo(-0.02) as number },
          { seconds: 30, fills: 2, move: expect.closeTo((-0.02 - 3 * 0.04) / 4) as number },
          { seconds: 60, fills: 2, move: expect.closeTo(-0.04) as number },
        ],
      },
    ]);
  });

  it('are reported as text', () => {
    const lines = toQueueText(restAmongTrades(trades, [0, 5])).split('\n');
    expect(lines[0]).toBe(
      '9 trades in 1 market: bids for 10 YES contracts after a seller hit, for 60 minutes each',
    );
    expect(lines[4]).toMatch(
      /^ +5 +4 +25\.0% +25\.0% +−2\.0 ¢ \(1 fill\) +−3\.5 ¢ \(2 fills\) +−4\.0 ¢ \(2 fills\)$/,
    );
  });

  it('are empty without trades', () => {
    expect(restAmongTrades(new Map(), [0]).rows[0]).toMatchObject({ orders: 0, filled: 0 });
    expect(toQueueText(restAmongTrades(new Map(), [0]))).toContain('unknown');
  });
});

/** Every trade on one day in five cities. The venue does not store past books, so queue lengths are assumed. */
const file = fileURLToPath(
  new URL('../../../../shared/data/kalshi/raw_trades_5cities_2025-04-15.json.gz', import.meta.url),
);

describe.skipIf(!existsSync(file))('bids among the recorded trades of a day', () => {
  it('fill more rarely behind longer queues, and filled bids lose value within a minute', async () => {
    const { rows } = restAmongTrades(await readTrades([file]), [0, 100, 1_000]);
    const shares = rows.map(({ orders, filled }) => filled / orders);
    expect(shares).toEqual(shares.toSorted((a, b) => b - a));
    expect(shares[0]).toBeLessThan(1);
    // Adverse selection: traders who sell into a bid tend to be better informed.
    for (const { after } of rows) for (const { move } of after) expect(move).toBeLessThan(0);
    expect(rows.map(({ orders }) => orders)).toEqual(rows.map(() => rows[0]!.orders));
  });

  it('never fill beyond the printed contracts minus the queue', async () => {
    for (const [ticker, trades] of await readTrades([file])) {
      const prints = trades.map((one, i) => toPrint(ticker, one, i));
      for (const queueAhead of [0, 100, 1_000])
        for (const { price, from, endsAt, fills } of bidsAmong(prints, queueAhead)) {
          const reached = prints.filter(
            ({ at, takerSide, yesPrice }) =>
              takerSide === 'no' && yesPrice <= price && at >= from && at < endsAt,
          );
          const sum = (all: readonly { contracts: number }[]) =>
            all.reduce((total, { contracts }) => total + toHundredths(contracts), 0);
          expect(sum(fills)).toBeLessThanOrEqual(Math.max(0, sum(reached) - toHundredths(queueAhead)));
        }
    }
  });
});
