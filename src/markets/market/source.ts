import { HOUR_MS, MINUTE_MS } from '../../core/time.js';
import type { OrderBook, Side } from './book.js';
import type { FeeRule } from './fees.js';
import type { ListedMarket, MarketResult, Target } from './market.js';
import type { Micros } from './money.js';

/**
 * Kinds of unexpected data from a source. `contradiction`: a market contradicts itself and is not traded. `not_read`: a
 * part could not be read, so its last data is used and its markets are not traded.
 */
export const noteKinds = [
  'contradiction',
  'doubtful_report',
  'missing_field',
  'missing_model',
  'not_read',
  'unknown_kind',
  'unknown_place',
  'unknown_result',
  'unknown_status',
  'unknown_wording',
] as const;
export type NoteKind = (typeof noteKinds)[number];

export interface VenueNote {
  kind: NoteKind;
  name: string;
  count: number;
  example: string;
}

export type NoteBook = ReturnType<typeof createNoteBook>;

/**
 * Maximum number of names counted separately. Any further names share one entry, so that a complete change in the
 * venue's data cannot exhaust memory.
 */
const MAX_NAMES = 50;
const MAX_LENGTH = 200;

export function createNoteBook() {
  const notes = new Map<string, VenueNote>();
  function add(kind: NoteKind, name: string, example: string, count = 1): void {
    const isNew = !notes.has(`${kind} ${name}`);
    const shown = isNew && notes.size >= MAX_NAMES ? 'others' : name.slice(0, MAX_LENGTH);
    const found = notes.get(`${kind} ${shown}`);
    if (found) found.count += count;
    else notes.set(`${kind} ${shown}`, { kind, name: shown, count, example: example.slice(0, MAX_LENGTH) });
  }

  return {
    add,
    addAll(more: readonly VenueNote[]): void {
      for (const { kind, name, example, count } of more) add(kind, name, example, count);
    },
    list: (): VenueNote[] => [...notes].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, note]) => note),
  };
}

/** A trading pause; `until` is exclusive. */
export interface Pause {
  from: Date;
  until: Date;
}

export const TIME_TO_LIVE_MS = 30_000;
/** Orders are refused if the data is older than this. */
export const MAX_TRADING_AGE_MS = 2 * TIME_TO_LIVE_MS;

export interface MarketData {
  fetchedAt: Date;
  isTrading: boolean;
  /** Set only during a pause whose end the venue has announced. */
  resumesAt?: Date;
  /** An announced pause that is near or in progress. */
  pause?: Pause;
  /** The venue's clock minus ours, corrected for network delay; absent if the venue sends no time. */
  clockSkewMs?: number;
  /** Ordered by station, kind, day and bracket, followed by markets without a place, ordered by ticker. */
  markets: readonly ListedMarket[];
  /** Results of listed markets whose other fields contradict each other or cannot be read, by ticker. */
  results?: ReadonlyMap<string, MarketResult>;
  /** Keyed by market ticker; a market without bids has an empty book, and a book that cannot be read is left out. */
  books: ReadonlyMap<string, OrderBook>;
  /** Read times of individual books. Any other book is as old as the data, or kept current by the stream. */
  bookTimes?: ReadonlyMap<string, Date>;
  /** Books that contain only the best price and size of each side, as old as the data. */
  shallow?: ReadonlyMap<string, true>;
  /** Times since which books may be out of date, by market ticker. Each such book shows its last certain state. */
  doubts?: ReadonlyMap<string, Date>;
  /** Keyed by series, and by event for events with their own rules. Read with `feeRuleOf`. */
  feeRules: ReadonlyMap<string, FeeRule>;
  /** Data that could not be parsed or placed; absent for sources where this cannot happen. */
  notes?: readonly VenueNote[];
}

export interface MarketChanges {
  /** Reports changed markets in batches, until the returned function is called. */
  subscribe(listener: (tickers: ReadonlySet<string>) => void): () => void;
  /**
   * Applies the changes received so far; returns the same object if nothing has changed.
   * @param tickers default: all
   */
  apply(data: MarketData, tickers?: ReadonlySet<string>): MarketData;
  stop(): void;
}

export interface Print {
  id: string;
  ticker: string;
  at: Date;
  /** The YES price, whichever side the taker traded. */
  yesPrice: Micros;
  contracts: number;
  /** `yes` means that the taker bought YES or sold NO, at the best YES ask, against a resting NO bid. */
  takerSide: Side;
}

export interface PrintsRead {
  tickers: readonly string[];
  since: Date;
  /** Inclusive. */
  until: Date;
  prints: readonly Print[];
}

/** Longest period per read. A caller that is further behind continues from the end of that period. */
export const PRINTS_SPAN_MS = HOUR_MS;
/** Prints can appear late in the listing, so reads overlap by this much. */
export const LISTING_LAG_MS = MINUTE_MS;

export interface MarketSource {
  readonly name: string;
  /** Reads everything. Rejects if the response cannot be trusted, in which case the caller keeps its previous data. */
  read(signal: AbortSignal): Promise<MarketData>;
  /**
   * Finds markets, including those that `read` no longer returns: only the result of a market whose other fields cannot
   * be read. Skips unknown markets. Rejects like `read`.
   */
  find(tickers: readonly string[], signal: AbortSignal): Promise<(ListedMarket | MarketResult)[]>;
  /**
   * Reads order book prints from `since` until now, but no longer than `PRINTS_SPAN_MS`, oldest first. Omitted if the
   * source has no prints. Rejects like `read`.
   * @param since inclusive
   */
  readPrints?(tickers: readonly string[], since: Date, signal: AbortSignal): Promise<Print[]>;
  readonly changes?: MarketChanges | undefined;
  readonly history?: MarketHistory;
}

export interface SettledDay extends Target {
  /** Whole degrees for a day, hundredths for an hour. */
  temperatureF: number;
  /** When this service learned the outcome; for an outcome read from the venue's history, the time of that read. */
  knownAt: Date;
}

export interface MarketHistory {
  /**
   * Reads the final outcomes of an inclusive range of at most 31 days, including those of hourly events. Rejects like
   * `read`.
   */
  readSettledDays(range: { from: string; to: string }, signal: AbortSignal): Promise<SettledDay[]>;
}
