import { z } from 'zod';
import { toLevels, type Level, type OrderBook } from '../../trading/market/book.js';
import { CENT } from '../../trading/market/money.js';
import { readBytes, RecordError } from './read-events.js';

const tradeSchema = z.object({
  count: z.int().positive(),
  created_time: z.iso.datetime({ offset: true }),
  yes_price: z.int().min(1).max(99),
  no_price: z.int().min(1).max(99),
  taker_side: z.enum(['yes', 'no']),
});
const fileSchema = z.record(z.string(), z.record(z.string(), z.array(tradeSchema)));

export interface RecordedTrade {
  atMs: number;
  /** Cents. */
  yesPrice: number;
  contracts: number;
  takerSide: 'yes' | 'no';
}

/** Reads `{series: {ticker: [trade]}}` in whole cents, plain or gzipped; each market's trades in the order of time. @throws RecordError */
export async function readTrades(files: readonly string[]): Promise<Map<string, RecordedTrade[]>> {
  const trades = new Map<string, RecordedTrade[]>();
  for (const file of files) {
    const parsed = fileSchema.safeParse(readJson(await readBytes(file), file));
    if (!parsed.success) {
      const [issue] = parsed.error.issues;
      throw new RecordError(`${file}: ${issue!.path.join('.')}: ${issue!.message}`);
    }
    for (const [ticker, ofMarket] of Object.values(parsed.data).flatMap((series) => Object.entries(series)))
      trades.set(ticker, [...(trades.get(ticker) ?? []), ...ofMarket.map(toTrade)]);
  }
  for (const ofMarket of trades.values()) ofMarket.sort((a, b) => a.atMs - b.atMs);
  return trades;
}

function readJson(bytes: Buffer, file: string): unknown {
  try {
    return JSON.parse(bytes.toString('utf8'));
  } catch {
    throw new RecordError(`${file}: not JSON`);
  }
}

const toTrade = (trade: z.output<typeof tradeSchema>): RecordedTrade => ({
  atMs: Date.parse(trade.created_time),
  yesPrice: trade.yes_price,
  contracts: trade.count,
  takerSide: trade.taker_side,
});

/**
 * The part of an order book that trades prove: who bought YES at a price found as many contracts asked there, and who
 * bought NO found them bid for. What stood behind them nobody knows, so it is not there. The best offer is taken first: whoever
 * paid more than earlier buyers found nothing left of what those had paid.
 */
export function bookOfTrades(trades: readonly RecordedTrade[], fromMs: number, toMs: number): OrderBook {
  const recent = trades.filter(({ atMs }) => atMs > fromMs && atMs <= toMs);
  const bids = (taker: 'yes' | 'no', price: (trade: RecordedTrade) => number) =>
    toLevels(
      stillThere(
        recent
          .filter(({ takerSide }) => takerSide === taker)
          .map((trade) => ({ price: BigInt(price(trade)) * CENT, contracts: trade.contracts })),
      ),
    );
  return { yes: bids('no', ({ yesPrice }) => yesPrice), no: bids('yes', ({ yesPrice }) => 100 - yesPrice) };
}

/** @param bids in the order of their trades: one that is higher than a later one had been used up by then */
function stillThere(bids: readonly Level[]): Level[] {
  const kept: Level[] = [];
  for (const bid of bids.toReversed()) if (bid.price <= (kept.at(-1)?.price ?? bid.price)) kept.push(bid);
  return kept;
}
