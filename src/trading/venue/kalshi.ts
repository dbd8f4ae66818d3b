import type { Logger } from 'pino';
import type { Clock } from '../../core/clock.js';
import { places } from '../market/stations.js';
import { emptyBook } from '../market/book.js';
import { inParallel } from '../market/chunks.js';
import { lowestOf } from '../market/event.js';
import { createCatalogue } from './kalshi-catalogue.js';
import type { KalshiClient } from './kalshi-client.js';
import { findKalshiMarkets } from './kalshi-find.js';
import { createKalshiHistory } from './kalshi-history.js';
import { readMarket, shareTemperatures } from './kalshi-market.js';
import { readMarketPages } from './kalshi-pages.js';
import { kalshiExchangeStatusSchema } from './kalshi-schema.js';
import { isPlaced, temperatureKinds, type ListedMarket } from '../market/market.js';
import { createBookReader } from './kalshi-read-books.js';
import { createLimitReader } from './kalshi-limits.js';
import { createMarketReader } from './market-reader.js';
import { createNoteBook, type VenueNote } from '../market/notes.js';
import { createKalshiChanges } from './socket/changes.js';
import type { KeptBooks } from './socket/kept-books.js';
import type { MarketSource } from '../market/source.js';
import type { VenueBudget } from './venue-budget.js';
import { createKalshiFees } from './kalshi-fees.js';
import { createKalshiPauses } from './kalshi-pauses.js';

/** Markets stay in view for as long after their close as the venue may take to settle them; hours settle within one. */
const LOOK_BACK_MS = { daily: 3 * 24 * 60 * 60 * 1000, hourly: 6 * 60 * 60 * 1000 };
/** Series without a market that are looked at with each read: all of some 300 within a few minutes. */
const DORMANT_AT_ONCE = 40;
const SERIES_AT_ONCE = 8;

export interface KalshiSourceOptions {
  client: KalshiClient;
  /** Only these series; undefined: all of the venue's climate category. */
  series: readonly string[] | undefined;
  /** Learns what a key's account may ask. */
  budget?: VenueBudget | undefined;
  /** Books that the venue's stream keeps, begun with the first read; left out: books are as old as the last read of them. */
  keepBooks?: (() => KeptBooks) | undefined;
  /** Markets whose books are read first where not all can be. */
  interest?: (() => ReadonlySet<string>) | undefined;
  clock: Clock;
  log: Logger;
}

/** What the last read of a series has found. */
interface SeenSeries {
  hasMarkets: boolean;
  isHourly: boolean;
}

/** The venue itself: series from its catalogue, their markets page by page, the books of those that are traded. */
export function createKalshiSource(options: KalshiSourceOptions): MarketSource {
  const { client, series, budget, keepBooks, interest = () => new Set<string>(), clock, log } = options;
  let notes = createNoteBook();
  const reader = createMarketReader();
  const readLimits = budget && createLimitReader({ client, budget, clock, log });
  const changes = keepBooks && createKalshiChanges({ keepBooks, clock });
  const topOf = (ticker: string) => reader.topOf(ticker);
  const readBooks = createBookReader({ client, clock, interest, topOf, changes });
  const seen = new Map<string, SeenSeries>();
  const fees = createKalshiFees({ client, clock, log });
  const readTrading = createKalshiPauses({ client, clock, log });
  let nextDormant = 0;
  const told = new Set<string>();
  const catalogue = createCatalogue({
    client,
    clock,
    only: series,
    notes: () => notes,
    onFailure: (error) =>
      log.warn({ err: error }, "the venue's list of series could not be read: the last one is kept"),
  });

  async function readSeries(ticker: string, signal: AbortSignal): Promise<ListedMarket[]> {
    const lookBackMs = seen.get(ticker)?.isHourly ? LOOK_BACK_MS.hourly : LOOK_BACK_MS.daily;
    const found = await readMarketPages(
      client,
      '/markets',
      [
        ['series_ticker', ticker],
        ['min_close_ts', Math.floor((clock.now() - lookBackMs) / 1000)],
      ],
      signal,
    );
    const markets = found.flatMap((value) => reader.read(value, notes) ?? []);
    seen.set(ticker, {
      hasMarkets: found.length > 0,
      isHourly: markets.some(({ kind }) => kind === 'hourly'),
    });
    return markets;
  }

  /** Those that had markets, those that were never looked at, and some of the others. */
  function chooseSeries(all: readonly string[]): string[] {
    const active = all.filter((ticker) => seen.get(ticker)?.hasMarkets);
    const others = all.filter((ticker) => !seen.get(ticker)?.hasMarkets);
    const isFirst = seen.size === 0;
    const some = Array.from(
      { length: Math.min(isFirst ? 2 * DORMANT_AT_ONCE : DORMANT_AT_ONCE, others.length) },
      (_, i) => others[(nextDormant + i) % others.length]!,
    );
    nextDormant = others.length === 0 ? 0 : (nextDormant + some.length) % others.length;
    return [...active, ...some];
  }

  /** A market that no refresh brings. */
  function readAlone(value: unknown): ListedMarket | undefined {
    const alone = createNoteBook();
    const market = readMarket(value, alone);
    tell(alone.list());
    return market;
  }

  /** Once for each thing, not with every read. */
  function tell(found: readonly VenueNote[]): void {
    for (const note of found) {
      const key = `${note.kind} ${note.name}`;
      if (told.has(key) || note.kind === 'unknown_kind') continue;
      if (told.size < 1_000) told.add(key);
      log.warn(note, 'the venue says something that is not understood');
    }
  }

  async function list(tickers: readonly string[], signal: AbortSignal): Promise<ListedMarket[]> {
    const chosen = chooseSeries(tickers);
    const found = await inParallel(chosen, { width: SERIES_AT_ONCE, signal }, readSeries);
    const markets = shareTemperatures(found.flat()).sort(inOrder);
    reader.keep(markets.map(({ ticker }) => ticker));
    return markets;
  }

  return {
    name: 'kalshi',
    async read(signal) {
      notes = createNoteBook();
      const status = await client.get('/exchange/status', [], kalshiExchangeStatusSchema, signal);
      await readLimits?.(signal);
      const trading = await readTrading(status, signal);
      const listed = await catalogue.read(signal);
      const feeRules = await fees.read(listed, signal);
      const tickers = listed.series.map(({ ticker }) => ticker);
      const { markets, books, ...rest } = await readBooks(() => list(tickers, signal), signal);
      const said = notes.list();
      tell(said);
      return {
        fetchedAt: new Date(clock.now()),
        ...trading,
        markets,
        ...(client.clockSkewMs === undefined ? {} : { clockSkewMs: client.clockSkewMs }),
        books: new Map(markets.map(({ ticker }) => [ticker, books.get(ticker) ?? emptyBook])),
        ...rest,
        feeRules,
        notes: said,
      };
    },
    changes,
    find: (tickers, signal) => findKalshiMarkets({ client, read: readAlone }, tickers, signal),
    history: createKalshiHistory({ client, series, clock, read: readAlone }),
  };
}

const placeOrder = new Map(places.map(({ id }, i) => [id, i]));

/** By station, kind, day and what is paid for; those without a place last, by ticker. */
export function inOrder(a: ListedMarket, b: ListedMarket): number {
  if (!isPlaced(a) || !isPlaced(b)) {
    const order = Number(isPlaced(b)) - Number(isPlaced(a));
    return order !== 0 ? order : compare(a.ticker, b.ticker);
  }
  return (
    placeOrder.get(a.station.id)! - placeOrder.get(b.station.id)! ||
    temperatureKinds.indexOf(a.kind) - temperatureKinds.indexOf(b.kind) ||
    compare(a.date, b.date) ||
    (a.hour ?? 0) - (b.hour ?? 0) ||
    lowestOf(a) - lowestOf(b)
  );
}

const compare = (a: string, b: string): number => (a === b ? 0 : a < b ? -1 : 1);
