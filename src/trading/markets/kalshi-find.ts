import { inChunks } from './chunks.js';
import { UnexpectedAnswerError, type KalshiClient, type Query } from './kalshi-client.js';
import { kalshiMarketsPageSchema, type KalshiMarket } from './kalshi-schema.js';

/** Names in one address: it stays below the 8 kB that servers take, and one page has room for all of them. */
const TICKERS_PER_CALL = 100;

/** Markets by name, as the venue sends them; what was settled before its cutoff is asked for where it has moved to. */
export async function findKalshiMarkets(
  client: KalshiClient,
  tickers: readonly string[],
  signal: AbortSignal,
): Promise<KalshiMarket[]> {
  // Names go into one list with commas between them.
  const named = tickers.filter((ticker) => /^[\w.-]+$/.test(ticker));
  const current = await findAt(client, '/markets', named, signal);
  const known = new Set(current.map(({ ticker }) => ticker));
  const missing = named.filter((ticker) => !known.has(ticker));
  return [...current, ...(await findAt(client, '/historical/markets', missing, signal))];
}

async function findAt(
  client: KalshiClient,
  path: '/markets' | '/historical/markets',
  tickers: readonly string[],
  signal: AbortSignal,
): Promise<KalshiMarket[]> {
  const found = new Map<string, KalshiMarket>();
  for (const asked of inChunks(tickers, TICKERS_PER_CALL)) {
    const query: Query = [
      ['tickers', asked.join(',')],
      ['limit', TICKERS_PER_CALL],
    ];
    const { markets } = await client.get(path, query, kalshiMarketsPageSchema, signal);
    for (const market of markets) {
      if (!asked.includes(market.ticker))
        throw new UnexpectedAnswerError(path, `${market.ticker} was not asked for`);
      found.set(market.ticker, market);
    }
  }
  return [...found.values()];
}
