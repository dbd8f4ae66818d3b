import { HOUR_MS, MINUTE_MS } from '../../core/time.js';
import type { OrderBook, Side } from './book.js';
import type { FeeRule } from './fees.js';
import type { ListedMarket, Target } from './market.js';
import type { Micros } from './money.js';

/** What of the venue's answers could not be read or placed. `contradiction`: a market that says two things was left out. */
export const noteKinds = [
  'contradiction',
  'missing_field',
  'missing_model',
  'unknown_kind',
  'unknown_place',
  'unknown_result',
  'unknown_status',
  'unknown_wording',
] as const;
export type NoteKind = (typeof noteKinds)[number];

/** One kind of thing that is not as expected, with how often it was met in one read. */
export interface VenueNote {
  kind: NoteKind;
  /** Details: the field, the status, the place. */
  name: string;
  count: number;
  /** The first of them, with its ticker. */
  example: string;
}

export type NoteBook = ReturnType<typeof createNoteBook>;

/** More different names than this are one name: a venue that has changed everything must not fill the memory. */
const MAX_NAMES = 50;
const MAX_LENGTH = 200;

export function createNoteBook() {
  const notes = new Map<string, VenueNote>();
  return {
    add(kind: NoteKind, name: string, example: string): void {
      const isNew = !notes.has(`${kind} ${name}`);
      const shown = isNew && notes.size >= MAX_NAMES ? 'others' : name.slice(0, MAX_LENGTH);
      const found = notes.get(`${kind} ${shown}`);
      if (found) found.count++;
      else
        notes.set(`${kind} ${shown}`, { kind, name: shown, count: 1, example: example.slice(0, MAX_LENGTH) });
    },
    /** In the order of kinds and names. */
    list: (): VenueNote[] => [...notes].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, note]) => note),
  };
}

/** A time without trading; it ends before `until`. */
export interface Pause {
  from: Date;
  until: Date;
}

export const TIME_TO_LIVE_MS = 30_000;
/** Data older than this are not traded on. */
export const MAX_TRADING_AGE_MS = 2 * TIME_TO_LIVE_MS;

export interface MarketData {
  /** When the answer was complete. */
  fetchedAt: Date;
  /** Trading goes on at all. */
  isTrading: boolean;
  /** When it goes on again, as far as the venue tells; only where it does not. */
  resumesAt?: Date;
  /** A pause that the venue has announced, where it is close or has begun. */
  pause?: Pause;
  /** How far the venue's clock is from ours, without the way of the message; left out if it does not tell the time. */
  clockSkewMs?: number;
  /** Ordered by station, kind, day and bracket; those without a place come last, by ticker. */
  markets: readonly ListedMarket[];
  /** By market; a market without bids has an empty one. */
  books: ReadonlyMap<string, OrderBook>;
  /** When a book was read; one that is not in here is as old as the data, or kept up to date between two reads. */
  bookTimes?: ReadonlyMap<string, Date>;
  /** Books of which only the best prices are known, with how much stands there: as old as the data. */
  shallow?: ReadonlyMap<string, true>;
  /** Books that may not be the venue's any more, and since when: they are the last that were certain. */
  doubts?: ReadonlyMap<string, Date>;
  /** By series, and by event for those that have rules of their own; read with `feeRuleOf`. */
  feeRules: ReadonlyMap<string, FeeRule>;
  /** What could not be read or placed; left out where that cannot happen. */
  notes?: readonly VenueNote[];
}

/** What a venue tells between two reads. */
export interface MarketChanges {
  /** Calls back with the markets that have changed, many at once, until the returned function is called. */
  subscribe(listener: (tickers: ReadonlySet<string>) => void): () => void;
  /**
   * The data with what is known of these markets by now; the same object if that is nothing new.
   * @param tickers left out: all of them
   */
  apply(data: MarketData, tickers?: ReadonlySet<string>): MarketData;
  stop(): void;
}

/** A trade that the venue has printed. */
export interface Print {
  id: string;
  ticker: string;
  at: Date;
  /** Of YES, whatever the taker bought. */
  yesPrice: Micros;
  contracts: number;
  /** What the taker went for. `yes`: YES was bought, or NO was sold, at the best ask for YES, where a bid for NO stood. */
  takerSide: Side;
}

/** Everything that some markets printed in a time, as one reading of the venue found it. */
export interface PrintsRead {
  tickers: readonly string[];
  since: Date;
  /** Included. */
  until: Date;
  prints: readonly Print[];
}

/** Prints of this time are read at once: who is further behind asks again from its end on. */
export const PRINTS_SPAN_MS = HOUR_MS;
/** The venue lists a print a moment after it: so far back it is looked for again. */
export const LISTING_LAG_MS = MINUTE_MS;

export interface MarketSource {
  readonly name: string;
  /** Asks for everything anew. Whatever cannot be trusted rejects; the caller keeps what it had. */
  read(signal: AbortSignal): Promise<MarketData>;
  /**
   * Asks for some markets by name, also for those that `read` no longer brings. One that the venue does not know, or says
   * things about that cannot be right, is left out. Rejects as `read` does.
   */
  find(tickers: readonly string[], signal: AbortSignal): Promise<ListedMarket[]>;
  /**
   * All prints of these markets in the order book from a time on, until `PRINTS_SPAN_MS` later or now, oldest first. Left out
   * where they are not known. Rejects as `read` does.
   * @param since included
   */
  readPrints?(tickers: readonly string[], since: Date, signal: AbortSignal): Promise<Print[]>;
  /** Left out where nothing is heard between two reads. */
  readonly changes?: MarketChanges | undefined;
  /** How past days came out; left out where it cannot be known any more. */
  readonly history?: MarketHistory;
}

/** The reported temperature that markets were settled by. */
export interface SettledDay extends Target {
  /** Whole degrees of a day, hundredths of an hour. */
  temperatureF: number;
  /** When it came into our hands: for what is asked for afterwards that is now. */
  knownAt: Date;
}

export interface MarketHistory {
  /** Of the days between two, both included and at most 31, and their hours: what is finally settled. Rejects as `read` does. */
  readSettledDays(range: { from: string; to: string }, signal: AbortSignal): Promise<SettledDay[]>;
}
