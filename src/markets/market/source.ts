import { HOUR_MS, MINUTE_MS } from '../../core/time.js';
import type { OrderBook, Side } from './book.js';
import type { FeeRule } from './fees.js';
import type { ListedMarket, MarketResult, Target } from './market.js';
import type { Micros } from './money.js';

/** Neither a market with a `contradiction` nor one that was `not_read` is traded; the latter keeps its last data. */
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

/** Further names share one entry, so that a complete change in the venue's data cannot exhaust memory. */
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

/** `until` is exclusive. */
export interface Pause {
  from: Date;
  until: Date;
}

export const TIME_TO_LIVE_MS = 30_000;
/** Orders are refused on older data. */
export const MAX_TRADING_AGE_MS = 2 * TIME_TO_LIVE_MS;

export interface MarketData {
  fetchedAt: Date;
  isTrading: boolean;
  /** During a pause whose end the venue has announced. */
  resumesAt?: Date;
  /** A pause that is near or in progress. */
  pause?: Pause;
  /** Minus ours, corrected for network delay; undefined if the venue sends no time. */
  clockSkewMs?: number;
  /** By station, kind, day and bracket, followed by markets without a place, by ticker. */
  markets: readonly ListedMarket[];
  /** Only markets whose other fields contradict each other or cannot be read. */
  results?: ReadonlyMap<string, MarketResult>;
  /** By ticker; without bids, an empty book; a book that cannot be read is left out. */
  books: ReadonlyMap<string, OrderBook>;
  /** Any other book is as old as the data, or kept current by the stream. */
  bookTimes?: ReadonlyMap<string, Date>;
  /** Only the best price and size of each side, as old as the data. */
  shallow?: ReadonlyMap<string, true>;
  /** Times since which books may be out of date. They show their last certain state. */
  doubts?: ReadonlyMap<string, Date>;
  /** By series, and by event for events with their own rules. Read with `feeRuleOf`. */
  feeRules: ReadonlyMap<string, FeeRule>;
  /** Could not be parsed or placed. */
  notes?: readonly VenueNote[];
}

export interface MarketChanges {
  /** In batches, until the returned function is called. */
  subscribe(listener: (tickers: ReadonlySet<string>) => void): () => void;
  /**
   * Returns the same object if nothing has changed.
   * @param tickers default: all
   */
  apply(data: MarketData, tickers?: ReadonlySet<string>): MarketData;
  stop(): void;
}

export interface Print {
  id: string;
  ticker: string;
  at: Date;
  /** Whichever side the taker traded. */
  yesPrice: Micros;
  contracts: number;
  /** `yes`: the taker bought YES or sold NO, at the best YES ask, against a resting NO bid. */
  takerSide: Side;
}

export interface PrintsRead {
  tickers: readonly string[];
  since: Date;
  /** Inclusive. */
  until: Date;
  prints: readonly Print[];
}

/** Per read. A caller that is further behind continues from there. */
export const PRINTS_SPAN_MS = HOUR_MS;
/** Prints can appear late in the listing, so reads overlap. */
export const LISTING_LAG_MS = MINUTE_MS;

export interface MarketSource {
  readonly name: string;
  /** Rejects if the response cannot be trusted; the caller keeps its previous data. */
  read(signal: AbortSignal): Promise<MarketData>;
  /** Also finds markets that `read` omits by now, or only their result. Skips unknown ones. Rejects like `read`. */
  find(tickers: readonly string[], signal: AbortSignal): Promise<(ListedMarket | MarketResult)[]>;
  /**
   * Until now, but no longer than `PRINTS_SPAN_MS`, oldest first. Undefined if the source has no prints. Rejects like
   * `read`.
   * @param since inclusive
   */
  readPrints?(tickers: readonly string[], since: Date, signal: AbortSignal): Promise<Print[]>;
  readonly changes?: MarketChanges | undefined;
  readonly history?: MarketHistory;
}

export interface SettledDay extends Target {
  /** Whole degrees for a day, hundredths for an hour. */
  temperatureF: number;
  /** When this service learned the outcome, or read it from the venue's history. */
  knownAt: Date;
}

export interface MarketHistory {
  /** An inclusive range of at most 31 days, including hourly events. Rejects like `read`. */
  readSettledDays(range: { from: string; to: string }, signal: AbortSignal): Promise<SettledDay[]>;
}
