import type { Logger } from 'pino';
import type { Clock } from '../../clock.js';
import { emptyBook } from './book.js';
import type { KalshiClient } from './kalshi-client.js';
import { readKalshiBooks } from './kalshi-books.js';
import { findKalshiMarkets } from './kalshi-find.js';
import { createKalshiHistory } from './kalshi-history.js';
import { shareTemperatures, toMarket, UnusableMarketError } from './kalshi-market.js';
import { readMarketPages } from './kalshi-pages.js';
import { kalshiExchangeStatusSchema, type KalshiMarket } from './kalshi-schema.js';
import type { Market } from './market.js';
import type { MarketSource } from './source.js';
import { createKalshiFees } from './kalshi-fees.js';
import { createKalshiPauses } from './kalshi-pauses.js';

/** Markets stay in view for as long after their close as the venue may take to settle them. */
const LOOK_BACK_MS = 3 * 24 * 60 * 60 * 1000;

export interface KalshiSourceOptions {
  client: KalshiClient;
  series: readonly string[];
  clock: Clock;
  log: Logger;
}

/** The venue itself: markets page by page, the books of those that are traded, fees of each series once an hour. */
export function createKalshiSource({ client, series, clock, log }: KalshiSourceOptions): MarketSource {
  const fees = createKalshiFees({ client, clock, log });
  const readTrading = createKalshiPauses({ client, clock, log });

  async function readSeries(seriesTicker: string, signal: AbortSignal): Promise<Market[]> {
    const minClose = Math.floor((clock.now() - LOOK_BACK_MS) / 1000);
    const found = await readMarketPages(
      client,
      '/markets',
      [
        ['series_ticker', seriesTicker],
        ['min_close_ts', minClose],
      ],
      signal,
    );
    return found.flatMap(usable);
  }

  /** A market that contradicts itself is left out; the others are as good as before. */
  function usable(wire: KalshiMarket): Market[] {
    try {
      return [toMarket(wire)];
    } catch (error) {
      if (!(error instanceof UnusableMarketError)) throw error;
      log.warn({ err: error }, 'a market of the venue is left out');
      return [];
    }
  }

  return {
    name: 'kalshi',
    async read(signal) {
      const status = await client.get('/exchange/status', [], kalshiExchangeStatusSchema, signal);
      const trading = await readTrading(status, signal);
      const feeRules = await fees.read(series, signal);
      const markets: Market[] = [];
      for (const ticker of series) markets.push(...(await readSeries(ticker, signal)));
      const active = markets.filter((market) => market.status === 'active').map(({ ticker }) => ticker);
      const read = await readKalshiBooks(client, active, signal);
      return {
        fetchedAt: new Date(clock.now()),
        ...trading,
        markets: shareTemperatures(markets).sort(inOrder),
        ...(client.clockSkewMs === undefined ? {} : { clockSkewMs: client.clockSkewMs }),
        books: new Map(markets.map(({ ticker }) => [ticker, read.get(ticker) ?? emptyBook])),
        feeRules,
      };
    },
    find: async (tickers, signal) => (await findKalshiMarkets(client, tickers, signal)).flatMap(usable),
    history: createKalshiHistory({ client, series, clock, usable }),
  };
}

/** By station, day and what is paid for. */
function inOrder(a: Market, b: Market): number {
  const key = ({ station, date }: Market) => `${station.id} ${date}`;
  const order = key(a).localeCompare(key(b), 'en');
  return order !== 0 ? order : lowestOf(a) - lowestOf(b);
}

const lowestOf = ({ bracket }: Market): number => (bracket.kind === 'less' ? -Infinity : bracket.floor);
