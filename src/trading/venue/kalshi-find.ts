import { inChunks } from '../market/chunks.js';
import { UnexpectedAnswerError, type KalshiClient, type Query } from './kalshi-client.js';
import { kalshiMarketsPageSchema } from './kalshi-schema.js';
import type { ListedMarket } from '../market/market.js';

/** Names in one address: it stays below the 8 kB that servers take, and one page has room for all of them. */
const TICKERS_PER_CALL = 100;

interface FindDeps {
  client: KalshiClient;
  /** In our terms; undefined for one that cannot be used. */
  read: (value: unknown) => ListedMarket | undefined;
}

/** Markets by name; what was settled before the venue's cutoff is asked for where it has moved to. */
export async function findKalshiMarkets(
  deps: FindDeps,
  tickers: readonly string[],
  signal: AbortSignal,
): Promise<ListedMarket[]> {
  // Names go into one list with commas between them.
  const named = tickers.filter((ticker) => /^[\w.-]+$/.test(ticker));
  const current = await findAt(deps, '/markets', named, signal);
  const missing = named.filter((ticker) => !current.known.has(ticker));
  return [...current.found, ...(await findAt(deps, '/historical/markets', missing, signal)).found];
}

async function findAt(
  { client, read }: FindDeps,
  path: '/markets' | '/historical/markets',
  tickers: readonly string[],
  signal: AbortSignal,
): Promise<{ known: Set<string>; found: ListedMarket[] }> {
  const known = new Set<string>();
  const found = new Map<string, ListedMarket>();
  for (const asked of inChunks(tickers, TICKERS_PER_CALL)) {
    const query: Query = [
      ['tickers', asked.join(',')],
      ['limit', TICKERS_PER_CALL],
    ];
    const { markets } = await client.get(path, query, kalshiMarketsPageSchema, signal);
    for (const value of markets) {
      const { ticker } = (value ?? {}) as { ticker?: unknown };
      if (typeof ticker !== 'string' || !asked.includes(ticker))
        throw new UnexpectedAnswerError(path, `${String(ticker)} was not asked for`);
      known.add(ticker);
      const market = read(value);
      if (market) found.set(ticker, market);
    }
  }
  return { known, found: [...found.values()] };
}
