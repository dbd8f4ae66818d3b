import type { Logger } from 'pino';
import { DAY_MS, HOUR_MS, MINUTE_MS, type Clock } from '../../core/time.js';
import { inChunks, inParallel } from '../../core/steps.js';
import { emptyBook, type OrderBook } from '../market/book.js';
import { lowestOf } from '../market/event.js';
import { isPlaced, temperatureKinds, type ListedMarket } from '../market/market.js';
import { createNoteBook, type MarketSource, type NoteBook, type VenueNote } from '../market/source.js';
import { places } from '../market/stations.js';
import { createBookReader } from './kalshi-books.js';
import { createCatalogue, createKalshiFees } from './kalshi-fees.js';
import {
  UnexpectedAnswerError,
  readMarketPages,
  type KalshiClient,
  type Query,
  createLimitReader,
} from './kalshi-client.js';
import { createKalshiHistory } from './kalshi-history.js';
import { readMarket, shareTemperatures, toTopOfBook } from './kalshi-market.js';
import { readKalshiPrints } from './kalshi-prints.js';
import { createKalshiPauses } from './kalshi-pauses.js';
import { createKalshiChanges } from './socket/changes.js';
import type { KeptBooks } from './socket/kept-books.js';
import type { VenueBudget } from './venue-budget.js';
import { kalshiMarketsPageSchema, kalshiExchangeStatusSchema } from './kalshi-schema.js';

interface Known {
  text: string;
  market: ListedMarket | undefined;
  top: OrderBook | undefined;
  notes: readonly VenueNote[];
}

/**
 * Caches parsed markets: parsing costs ten times as much as a lookup, and identical objects keep derived values valid.
 */
function createMarketReader() {
  let known = new Map<string, Known>();

  function parseListed(value: unknown, text: string): Known {
    const own = createNoteBook();
    const market = readMarket(value, own);
    return { text, market, top: market && toTopOfBook(value), notes: own.list() };
  }

  return {
    read(value: unknown, notes: Pick<NoteBook, 'add'>): ListedMarket | undefined {
      const { ticker } = (value ?? {}) as { ticker?: unknown };
      if (typeof ticker !== 'string') return readMarket(value, notes);
      const text = JSON.stringify(value);
      const before = known.get(ticker);
      const found = before?.text === text ? before : parseListed(value, text);
      known.set(ticker, found);
      for (const { kind, name, example } of found.notes) notes.add(kind, name, example);
      return found.market;
    },
    topOf: (ticker: string): OrderBook | undefined => known.get(ticker)?.top,
    keep(tickers: Iterable<string>): void {
      known = new Map(
        [...tickers].flatMap((ticker) => {
          const found = known.get(ticker);
          return found ? [[ticker, found] as const] : [];
        }),
      );
    },
  };
}

/** Tickers per request: few enough that the URL stays below the usual 8 kB limit and one page holds all results. */
const TICKERS_PER_CALL = 100;

interface FindDeps {
  client: KalshiClient;
  read: (value: unknown) => ListedMarket | undefined;
}

/** Finds markets by ticker. Markets settled before the venue's cutoff are read from the archive. */
async function findKalshiMarkets(
  deps: FindDeps,
  tickers: readonly string[],
  signal: AbortSignal,
): Promise<ListedMarket[]> {
  // Tickers with other characters are dropped, because tickers are sent as a comma-separated list.
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
        throw new UnexpectedAnswerError(path, `${String(ticker)} was not requested`);
      known.add(ticker);
      const market = read(value);
      if (market) found.set(ticker, market);
    }
  }
  return { known, found: [...found.values()] };
}

/** Markets stay listed after their close for as long as settlement may take; hourly markets settle within an hour. */
const LOOK_BACK_MS = { daily: 3 * DAY_MS, hourly: 6 * HOUR_MS };
/** Number of inactive series checked per read: all of them, about 300, are checked within a few minutes. */
const DORMANT_AT_ONCE = 40;
const SERIES_AT_ONCE = 8;

export interface KalshiSourceOptions {
  client: KalshiClient;
  /** Default: the venue's whole climate category. */
  series: readonly string[] | undefined;
  budget?: VenueBudget | undefined;
  /**
   * Called at the first read to start maintaining books from the stream. If omitted, books are as old as the last read.
   */
  keepBooks?: (() => KeptBooks) | undefined;
  interest?: (() => ReadonlySet<string>) | undefined;
  clock: Clock;
  log: Logger;
}

/** How long an empty list is not trusted, because open markets do not vanish before they close. */
const NOT_EMPTY_MS = 5 * MINUTE_MS;

interface SeenSeries {
  hasMarkets: boolean;
  isHourly: boolean;
  hasOpen: boolean;
  at: number;
}

/** Reads the live venue: the series in its catalog, their markets page by page, and the books of open markets. */
export function createKalshiSource(options: KalshiSourceOptions): MarketSource {
  const { client, series, budget, keepBooks, interest = () => new Set<string>(), clock, log } = options;
  let notes = createNoteBook();
  const reader = createMarketReader();
  const readLimits = budget && createLimitReader({ client, budget, clock, log });
  const changes = keepBooks && createKalshiChanges({ keepBooks, clock });
  const readBooks = createBookReader({ client, clock, interest, topOf: reader.topOf, changes });
  const seen = new Map<string, SeenSeries>();
  const fees = createKalshiFees({ client, clock, notes: () => notes, log });
  const readTrading = createKalshiPauses({ client, clock, log });
  const chooseSeries = createSeriesChooser(seen);
  const readSeries = createSeriesReader(seen, {
    client,
    clock,
    read: (value) => reader.read(value, notes),
  });
  const logNotes = createNoteLogger(log);
  const readOne = (value: unknown) => readAlone(value, logNotes);
  const catalogue = createCatalogue({
    client,
    clock,
    only: series,
    notes: () => notes,
    onFailure: (error) =>
      log.warn({ err: error }, "the venue's list of series could not be read: the last one is kept"),
  });

  async function list(tickers: readonly string[], signal: AbortSignal): Promise<ListedMarket[]> {
    const chosen = chooseSeries(tickers);
    const found = await inParallel(chosen, { width: SERIES_AT_ONCE, signal }, readSeries);
    const markets = shareTemperatures(found.flat()).sort(compareMarkets);
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
      const noted = notes.list();
      logNotes(noted);
      return {
        fetchedAt: new Date(clock.now()),
        ...trading,
        markets,
        ...(client.clockSkewMs === undefined ? {} : { clockSkewMs: client.clockSkewMs }),
        books: new Map(markets.map(({ ticker }) => [ticker, books.get(ticker) ?? emptyBook])),
        ...rest,
        feeRules,
        notes: noted,
      };
    },
    changes,
    find: (tickers, signal) => findKalshiMarkets({ client, read: readOne }, tickers, signal),
    readPrints: (tickers, since, signal) => readKalshiPrints({ client, clock }, tickers, since, signal),
    history: createKalshiHistory({ client, series, clock, read: readOne }),
  };
}

function readAlone(
  value: unknown,
  logNotes: (found: readonly VenueNote[]) => void,
): ListedMarket | undefined {
  const notes = createNoteBook();
  const market = readMarket(value, notes);
  logNotes(notes.list());
  return market;
}

function createSeriesReader(
  seen: Map<string, SeenSeries>,
  { client, clock, read }: FindDeps & { clock: Clock },
): (ticker: string, signal: AbortSignal) => Promise<ListedMarket[]> {
  return async (ticker, signal) => {
    const before = seen.get(ticker);
    const at = clock.now();
    const lookBackMs = before?.isHourly ? LOOK_BACK_MS.hourly : LOOK_BACK_MS.daily;
    const found = await readMarketPages(
      client,
      '/markets',
      [
        ['series_ticker', ticker],
        ['min_close_ts', Math.floor((at - lookBackMs) / 1000)],
      ],
      signal,
    );
    if (found.length === 0 && before?.hasOpen && Math.abs(at - before.at) < NOT_EMPTY_MS)
      throw new UnexpectedAnswerError('/markets', `none of ${ticker}, which had open markets`);
    const markets = found.flatMap((value) => read(value) ?? []);
    seen.set(ticker, {
      hasMarkets: found.length > 0,
      isHourly: markets.some(({ kind }) => kind === 'hourly'),
      hasOpen: markets.some(({ status }) => status === 'active'),
      at,
    });
    return markets;
  };
}

function createSeriesChooser(seen: ReadonlyMap<string, SeenSeries>): (all: readonly string[]) => string[] {
  let nextDormant = 0;
  return (all) => {
    const active = all.filter((ticker) => seen.get(ticker)?.hasMarkets);
    const others = all.filter((ticker) => !seen.get(ticker)?.hasMarkets);
    const isFirst = seen.size === 0;
    const some = Array.from(
      { length: Math.min(isFirst ? 2 * DORMANT_AT_ONCE : DORMANT_AT_ONCE, others.length) },
      (_, i) => others[(nextDormant + i) % others.length]!,
    );
    nextDormant = others.length === 0 ? 0 : (nextDormant + some.length) % others.length;
    return [...active, ...some];
  };
}

function createNoteLogger(log: Logger): (found: readonly VenueNote[]) => void {
  const logged = new Set<string>();
  return (found) => {
    for (const note of found) {
      const key = `${note.kind} ${note.name}`;
      if (logged.has(key) || note.kind === 'unknown_kind') continue;
      if (logged.size < 1_000) logged.add(key);
      log.warn(note, 'a response of the venue could not be understood');
    }
  };
}

const placeOrder = new Map(places.map(({ id }, i) => [id, i]));

function compareMarkets(a: ListedMarket, b: ListedMarket): number {
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
