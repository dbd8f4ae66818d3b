import type { Logger } from 'pino';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../core/time.js';
import { inChunks, inParallel } from '../../core/steps.js';
import type { OrderBook } from '../market/book.js';
import { lowestOf } from '../market/event.js';
import { isPlaced, temperatureKinds, type ListedMarket, type MarketResult } from '../market/market.js';
import { createNoteBook, type MarketSource, type NoteBook, type VenueNote } from '../market/source.js';
import { places } from '../market/stations.js';
import { createBookReader, type Listing } from './kalshi-books.js';
import { createCatalogue, createKalshiFees } from './kalshi-fees.js';
import {
  UnexpectedAnswerError,
  readMarketPages,
  type KalshiDeps,
  type Query,
  createLimitReader,
} from './kalshi-client.js';
import { createKalshiHistory } from './kalshi-history.js';
import {
  isListed,
  readMarketOrResult,
  readOutcome,
  shareTemperatures,
  toTopOfBook,
} from './kalshi-market.js';
import { readKalshiPrints } from './kalshi-prints.js';
import { createKalshiPauses } from './kalshi-pauses.js';
import { createKalshiChanges } from './socket/changes.js';
import type { KeptBooks } from './socket/kept-books.js';
import type { VenueBudget } from './venue-budget.js';
import { kalshiMarketsPageSchema, kalshiExchangeStatusSchema } from './kalshi-schema.js';

type Found = ListedMarket | MarketResult;

interface Known {
  text: string;
  found: Found | undefined;
  top: OrderBook | undefined;
  notes: readonly VenueNote[];
}

/** Parsing costs ten times as much as a lookup, and identical objects keep derived values valid. */
function createMarketReader() {
  let known = new Map<string, Known>();

  function parseListed(value: unknown, text: string): Known {
    const own = createNoteBook();
    const found = readMarketOrResult(value, own);
    return { text, found, top: toTopOfBook(value), notes: own.list() };
  }

  return {
    read(value: unknown, notes: NoteBook): Found | undefined {
      const { ticker } = (value ?? {}) as { ticker?: unknown };
      if (typeof ticker !== 'string') return readMarketOrResult(value, notes);
      const text = JSON.stringify(value);
      const before = known.get(ticker);
      const found = before?.text === text ? before : parseListed(value, text);
      known.set(ticker, found);
      notes.addAll(found.notes);
      return found.found;
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

interface FindDeps extends Pick<KalshiDeps, 'client' | 'log'> {
  read: (value: unknown) => Found | undefined;
}

/**
 * Finds markets by ticker. Markets settled before the venue's cutoff are read from the archive. A request that fails does
 * not affect the others.
 * @throws the first error if no request succeeds
 */
async function findKalshiMarkets(deps: FindDeps, tickers: readonly string[], signal: AbortSignal) {
  // Tickers with other characters are dropped, because tickers are sent as a comma-separated list.
  const named = tickers.filter((ticker) => /^[\w.-]+$/.test(ticker));
  const current = await findAt(deps, '/markets', named, signal);
  const missing = named.filter((ticker) => !current.known.has(ticker));
  const past = await findAt(deps, '/historical/markets', missing, signal);
  const failures = [...current.failures, ...past.failures];
  if (failures.length > 0 && !current.isAnyRead && !past.isAnyRead) throw failures[0];
  return [...current.found, ...past.found];
}

async function findAt(
  { client, read, log }: FindDeps,
  path: '/markets' | '/historical/markets',
  tickers: readonly string[],
  signal: AbortSignal,
) {
  const failures: unknown[] = [];
  let isAnyRead = false;
  const known = new Set<string>();
  const found = new Map<string, Found>();
  async function readChunk(asked: readonly string[]): Promise<void> {
    const query: Query = [
      ['tickers', asked.join(',')],
      ['limit', TICKERS_PER_CALL],
    ];
    const { markets } = await client.get(path, query, kalshiMarketsPageSchema, signal);
    const isAsked = (value: unknown) =>
      asked.includes(String((value as { ticker?: unknown } | null)?.ticker));
    if (markets.length > 0 && !markets.some(isAsked))
      throw new UnexpectedAnswerError(path, 'none of the markets was requested');
    for (const value of markets.filter(isAsked)) {
      const { ticker } = value as { ticker: string };
      known.add(ticker);
      const market = read(value);
      if (market) found.set(ticker, market);
    }
  }

  for (const asked of inChunks(tickers, TICKERS_PER_CALL))
    try {
      await readChunk(asked);
      isAnyRead = true;
    } catch (error) {
      signal.throwIfAborted();
      failures.push(error);
      log.warn({ err: error, path, tickers: asked }, 'some markets could not be found; the others are used');
      for (const ticker of asked) known.add(ticker);
    }
  return { known, found: [...found.values()], failures, isAnyRead };
}

/** Markets stay listed after their close for as long as settlement may take; hourly markets settle within an hour. */
const LOOK_BACK_MS = { daily: 3 * DAY_MS, hourly: 6 * HOUR_MS };
/** Number of inactive series checked per read: all of them, about 300, are checked within a few minutes. */
const DORMANT_AT_ONCE = 40;
const SERIES_AT_ONCE = 8;

export interface KalshiSourceOptions extends KalshiDeps {
  /** Default: the venue's whole climate category. */
  series: readonly string[] | undefined;
  budget?: VenueBudget | undefined;
  /** Called at the first read, to maintain books from the stream. Without it, books are as old as the last read. */
  keepBooks?: (() => KeptBooks) | undefined;
  interest?: (() => ReadonlySet<string>) | undefined;
}

/** How long an empty list is not trusted, because open markets do not vanish before they close. */
const NOT_EMPTY_MS = 5 * MINUTE_MS;

interface SeenSeries {
  hasMarkets: boolean;
  found: readonly Found[];
  at: number;
}

const neverRead: SeenSeries = { hasMarkets: true, found: [], at: -Infinity };

/** Reads the live venue: the series in its catalog, their markets page by page, and the books of open markets. */
export function createKalshiSource(options: KalshiSourceOptions): MarketSource {
  const { client, series, budget, keepBooks, interest = () => new Set<string>(), clock, log } = options;
  let notes = createNoteBook();
  /** Notes made between two reads. */
  let noted = createNoteBook();
  const reader = createMarketReader();
  const readLimits = budget && createLimitReader({ client, budget, clock, log });
  const changes = keepBooks && createKalshiChanges({ keepBooks, clock });
  const readBooks = createBookReader({
    client,
    clock,
    interest,
    topOf: reader.topOf,
    changes,
    notes: () => notes,
  });
  const fees = createKalshiFees({ client, clock, notes: () => notes, log });
  const readTrading = createKalshiPauses({ client, clock, log });
  const list = createLister({ client, clock, reader });
  const logNotes = createNoteLogger(log);
  const readOne = <T>(read: (value: unknown, notes: NoteBook) => T) => readAlone(read, logNotes);
  const catalogue = createCatalogue({
    client,
    clock,
    only: series,
    notes: () => notes,
    onFailure: (error) =>
      log.warn({ err: error }, "the venue's list of series could not be read: the last one is kept"),
  });

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
      const { markets, ...rest } = await readBooks(() => list(tickers, notes, signal), signal);
      notes.addAll(noted.list());
      noted = createNoteBook();
      const listedNotes = notes.list();
      logNotes(listedNotes);
      return {
        fetchedAt: new Date(clock.now()),
        ...trading,
        markets,
        ...(client.clockSkewMs === undefined ? {} : { clockSkewMs: client.clockSkewMs }),
        ...rest,
        feeRules,
        notes: listedNotes,
      };
    },
    changes,
    find: (tickers, signal) =>
      findKalshiMarkets({ client, log, read: readOne(readMarketOrResult) }, tickers, signal),
    readPrints: (tickers, since, signal) =>
      readKalshiPrints({ client, clock, notes: noted }, tickers, since, signal),
    history: createKalshiHistory({ client, series, clock, log, read: readOne(readOutcome) }),
  };
}

interface ListerDeps extends Pick<KalshiDeps, 'client' | 'clock'> {
  reader: ReturnType<typeof createMarketReader>;
}

/** Lists the markets of series. A series that cannot be read keeps its last markets, which are in doubt. */
function createLister({ client, clock, reader }: ListerDeps) {
  const seen = new Map<string, SeenSeries>();
  const chooseSeries = createSeriesChooser(seen);

  async function readSeries(ticker: string, notes: NoteBook, signal: AbortSignal): Promise<readonly Found[]> {
    const before = seen.get(ticker) ?? neverRead;
    seen.set(ticker, before);
    const at = clock.now();
    const isHourly = before.found.some((one) => isListed(one) && one.kind === 'hourly');
    const since = Math.floor((at - LOOK_BACK_MS[isHourly ? 'hourly' : 'daily']) / 1000);
    const query: Query = [
      ['series_ticker', ticker],
      ['min_close_ts', since],
    ];
    const wire = await readMarketPages(client, '/markets', query, signal);
    const hadOpen = before.found.some(({ status }) => status === 'active');
    if (wire.length === 0 && hadOpen && Math.abs(at - before.at) < NOT_EMPTY_MS)
      throw new UnexpectedAnswerError('/markets', `none of ${ticker}, which had open markets`);
    const found = wire.flatMap((value) => reader.read(value, notes) ?? []);
    seen.set(ticker, { hasMarkets: wire.length > 0, found, at });
    return found;
  }

  return async (tickers: readonly string[], notes: NoteBook, signal: AbortSignal): Promise<Listing> => {
    const failures: unknown[] = [];
    const unsure = new Map<string, Date>();
    let isAnyRead = false;
    const read = async (ticker: string, either: AbortSignal) => {
      try {
        const found = await readSeries(ticker, notes, either);
        isAnyRead ||= found.length > 0;
        return found;
      } catch (error) {
        either.throwIfAborted();
        failures.push(error);
        notes.add('not_read', ticker, (error as Error).message);
        const { found, at } = seen.get(ticker)!;
        for (const market of found) unsure.set(market.ticker, new Date(at));
        return found;
      }
    };
    const found = (await inParallel(chooseSeries(tickers), { width: SERIES_AT_ONCE, signal }, read)).flat();
    if (failures.length > 0 && !isAnyRead) throw failures[0];
    reader.keep(found.map(({ ticker }) => ticker));
    return { ...toListing(found), unsure };
  };
}

const readAlone =
  <T>(read: (value: unknown, notes: NoteBook) => T, logNotes: (found: readonly VenueNote[]) => void) =>
  (value: unknown): T => {
    const notes = createNoteBook();
    const found = read(value, notes);
    logNotes(notes.list());
    return found;
  };

/** A market that moves between two pages while they are read is listed twice; the later state counts. */
function toListing(found: readonly Found[]): Omit<Listing, 'unsure'> {
  const all = [...new Map(found.map((one) => [one.ticker, one])).values()];
  const results = all.filter((one) => !isListed(one));
  return {
    markets: shareTemperatures(all.filter(isListed)).sort(compareMarkets),
    ...(results.length > 0 && { results: new Map(results.map((one) => [one.ticker, one])) }),
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
