import { z } from 'zod';
import { inParallel } from '../../core/steps.js';
import { parseCount } from '../market/contracts.js';
import { parseDollars } from '../market/money.js';
import { PRINTS_SPAN_MS, type NoteBook, type Print } from '../market/source.js';
import {
  readPages,
  requireAllPages,
  UnexpectedAnswerError,
  type KalshiDeps,
  type Query,
} from './kalshi-client.js';
import { time, tradedCount, tradedPrice } from './kalshi-schema.js';
import { noteUnreadable, readRows } from './rows.js';

/** A trade in the venue's list (OpenAPI 3.32). */
export const kalshiTradeSchema = z.object({
  trade_id: z.string().min(1),
  ticker: z.string().min(1),
  count_fp: tradedCount,
  yes_price_dollars: tradedPrice,
  taker_outcome_side: z.enum(['yes', 'no']),
  created_time: time,
  // Negotiated outside the order book, so the trade fills no resting order.
  is_block_trade: z.boolean(),
});
type KalshiTrade = z.infer<typeof kalshiTradeSchema>;

export const kalshiTradesPageSchema = z.object({ trades: z.array(z.unknown()), cursor: z.string() });

const PATH = '/markets/trades';
const PAGE_SIZE = 1000;
/** Maximum number of pages for one market and hour. */
const MAX_PAGES = 20;
const MARKETS_AT_ONCE = 4;

interface PrintDeps extends Pick<KalshiDeps, 'client' | 'clock'> {
  notes: Pick<NoteBook, 'add'>;
}

/** One query per market: the venue filters by one ticker only. A trade that cannot be read fills no paper order. */
export async function readKalshiPrints(
  { client, clock, notes }: PrintDeps,
  tickers: readonly string[],
  since: Date,
  signal: AbortSignal,
): Promise<Print[]> {
  const until = new Date(Math.min(clock.now(), since.getTime() + PRINTS_SPAN_MS));
  const found = await inParallel(
    [...new Set(tickers)],
    { width: MARKETS_AT_ONCE, signal },
    (ticker, either) => readMarketPrints({ client, notes }, ticker, { since, until }, either),
  );
  return found
    .flat()
    .filter(({ at }) => at >= since && at <= until)
    .sort((a, b) => a.at.getTime() - b.at.getTime());
}

/** Reads the prints of one market, oldest first. The query's bounds are whole seconds around the period. */
async function readMarketPrints(
  { client, notes }: Pick<PrintDeps, 'client' | 'notes'>,
  ticker: string,
  { since, until }: { since: Date; until: Date },
  signal: AbortSignal,
): Promise<Print[]> {
  // Keyed by id, because a trade that arrives between two pages can shift others to the next page.
  const prints = new Map<string, Print>();
  const query: Query = [
    ['ticker', ticker],
    ['min_ts', Math.floor(since.getTime() / 1000) - 1],
    ['max_ts', Math.ceil(until.getTime() / 1000) + 1],
    ['limit', PAGE_SIZE],
  ];
  const list = await readPages({ path: `${PATH} of ${ticker}`, maxPages: MAX_PAGES, signal }, (cursor) =>
    client.get(PATH, [...query, ...cursor], kalshiTradesPageSchema, signal),
  );
  for (const { trades } of requireAllPages(list)) {
    const found = readRows(kalshiTradeSchema, trades);
    noteUnreadable(notes, found, { list: 'trades', key: 'ticker' });
    const wanted = found.rows.filter((trade) => trade.ticker === ticker);
    const others = found.rows.filter((trade) => trade.ticker !== ticker);
    if (wanted.length === 0 && others.length > 0)
      throw new UnexpectedAnswerError(PATH, `${others[0]!.ticker} was not requested`);
    for (const other of others) notes.add('contradiction', 'trades', `${other.ticker} was not requested`);
    for (const trade of wanted) if (!trade.is_block_trade) prints.set(trade.trade_id, toPrint(trade));
  }
  return [...prints.values()].toReversed();
}

const toPrint = (trade: KalshiTrade): Print => ({
  id: trade.trade_id,
  ticker: trade.ticker,
  at: new Date(trade.created_time),
  yesPrice: parseDollars(trade.yes_price_dollars),
  contracts: parseCount(trade.count_fp),
  takerSide: trade.taker_outcome_side,
});
