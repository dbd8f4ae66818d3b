import { isCrossed, toLevels, type OrderBook, type Side } from '../../market/book.js';
import { fromHundredths } from '../../market/contracts.js';
import type { Micros } from '../../market/money.js';
import type { DeltaFrame, Frame, SnapshotFrame } from './frames.js';

export type Doubt =
  // A frame is missing.
  | 'gap'
  | 'stale'
  | 'foreign'
  // A level would become negative.
  | 'negative'
  | 'crossed'
  | 'unreadable';

export interface BookProblem {
  doubt: Doubt;
  isOfAll: boolean;
}

interface Subscription {
  lastSeq: number;
  /** True once the sequence is broken; no more frames are then trusted until the subscription ends. */
  isBroken: boolean;
  tickers: Set<string>;
}

interface Kept {
  sid: number;
  /** Hundredths of contracts by price. */
  levels: Record<Side, Map<Micros, number>>;
  isTrusted: boolean;
  /** Built on demand; undefined after a change. */
  book: OrderBook | undefined;
}

export type BookKeeper = ReturnType<typeof createBookKeeper>;

/**
 * Maintains order books from snapshots and deltas, independently of connections, commands and time. A sequence spans
 * all markets of a subscription, so a break puts all of its books in doubt, whereas a contradiction in one book affects
 * only that book. A new snapshot in sequence ends the doubt; after a repeated number, only a new subscription does. A
 * book in doubt is never returned.
 * @param onChange called when a book or its trust changes
 */
export function createBookKeeper(onChange: (ticker: string) => void = () => undefined) {
  const markets = createKeptMarkets(onChange);
  const { subscriptions, kept, setTrust, doubt, remove } = markets;

  function settle(ticker: string, market: Kept): BookProblem | undefined {
    market.book = undefined;
    if (isCrossed(bookOf(market))) return doubtOne(ticker, 'crossed');
    setTrust(ticker, market, true);
    return undefined;
  }

  function doubtOne(ticker: string, why: Doubt): BookProblem {
    doubt([ticker]);
    return { doubt: why, isOfAll: false };
  }

  function takeChange(frame: SnapshotFrame | DeltaFrame, market: Kept): BookProblem | undefined {
    // A book in doubt needs a snapshot, because applying deltas to a wrong book leaves it wrong.
    if (frame.type === 'delta' && !market.isTrusted) return undefined;
    const isPossible = frame.type === 'snapshot' ? putSnapshot(frame, market) : putDelta(frame, market);
    return isPossible ? settle(frame.ticker, market) : doubtOne(frame.ticker, 'negative');
  }

  return {
    expect: markets.expect,
    drop(tickers: Iterable<string>): void {
      for (const ticker of tickers) remove(ticker);
    },
    end: markets.end,
    take(frame: Frame): BookProblem | undefined {
      const ticker = 'ticker' in frame ? frame.ticker : undefined;
      const market = ticker === undefined ? undefined : kept.get(ticker);
      const subscription = frame.sid === undefined ? undefined : subscriptions.get(frame.sid);
      if (!subscription || frame.seq === undefined) {
        if (!market || frame.type === 'lifecycle') return undefined;
        return doubtOne(ticker!, frame.type === 'unreadable' ? 'unreadable' : 'foreign');
      }
      if (subscription.isBroken) return undefined;
      // A frame that names no market may concern any of them.
      const isLegible = frame.type !== 'unreadable' || market !== undefined;
      const why = advance(subscription, frame.seq, isLegible);
      if (why) doubt(subscription.tickers);
      const sharedProblem: BookProblem | undefined = why && { doubt: why, isOfAll: true };
      if (frame.type === 'unreadable' && market) return sharedProblem ?? doubtOne(ticker!, 'unreadable');
      if (subscription.isBroken || !market || (frame.type !== 'snapshot' && frame.type !== 'delta'))
        return sharedProblem;
      if (market.sid !== frame.sid) return sharedProblem ?? doubtOne(ticker!, 'foreign');
      const problem = takeChange(frame, market);
      return sharedProblem ?? problem;
    },
    doubt,
    /** Returns undefined if the book is in doubt or not maintained. */
    book(ticker: string): OrderBook | undefined {
      const market = kept.get(ticker);
      return market?.isTrusted ? bookOf(market) : undefined;
    },
    sidOf: (ticker: string) => kept.get(ticker)?.sid,
    has: (sid: number) => subscriptions.has(sid),
    tickersOf: (sid: number): ReadonlySet<string> => subscriptions.get(sid)?.tickers ?? new Set(),
    doubtful: (sid: number) =>
      [...(subscriptions.get(sid)?.tickers ?? [])].filter((ticker) => !kept.get(ticker)!.isTrusted),
    get sids(): number[] {
      return [...subscriptions.keys()];
    },
    get tickers(): Iterable<string> {
      return kept.keys();
    },
    get size(): number {
      return kept.size;
    },
    get trusted(): number {
      return markets.trusted;
    },
  };
}

/** Advances a sequence. A repeated number or an illegible frame breaks it. */
function advance(subscription: Subscription, seq: number, isLegible: boolean): Doubt | undefined {
  const step = seq - subscription.lastSeq;
  subscription.lastSeq = seq;
  subscription.isBroken = step <= 0 || !isLegible;
  if (!isLegible) return 'unreadable';
  if (step <= 0) return 'stale';
  return step > 1 ? 'gap' : undefined;
}

function createKeptMarkets(onChange: (ticker: string) => void) {
  const subscriptions = new Map<number, Subscription>();
  const kept = new Map<string, Kept>();
  let trusted = 0;

  function setTrust(ticker: string, market: Kept, isTrusted: boolean): void {
    if (market.isTrusted !== isTrusted) trusted += isTrusted ? 1 : -1;
    else if (!isTrusted) return;
    market.isTrusted = isTrusted;
    onChange(ticker);
  }

  function doubt(tickers: Iterable<string>): void {
    for (const ticker of tickers) {
      const market = kept.get(ticker);
      if (market) setTrust(ticker, market, false);
    }
  }

  function remove(ticker: string): void {
    const market = kept.get(ticker);
    if (!market) return;
    doubt([ticker]);
    kept.delete(ticker);
    subscriptions.get(market.sid)?.tickers.delete(ticker);
  }

  /** Assigns markets to a subscription. Their books are in doubt until their snapshots arrive. */
  function expect(sid: number, tickers: Iterable<string>): void {
    const subscription = subscriptions.get(sid) ?? { lastSeq: 0, isBroken: false, tickers: new Set() };
    subscriptions.set(sid, subscription);
    for (const ticker of tickers) {
      remove(ticker);
      subscription.tickers.add(ticker);
      const levels = { yes: new Map(), no: new Map() };
      kept.set(ticker, { sid, levels, isTrusted: false, book: undefined });
    }
  }

  function end(sid: number): string[] {
    const tickers = [...(subscriptions.get(sid)?.tickers ?? [])];
    for (const ticker of tickers) remove(ticker);
    subscriptions.delete(sid);
    return tickers;
  }

  return {
    subscriptions,
    kept,
    setTrust,
    doubt,
    remove,
    expect,
    end,
    get trusted() {
      return trusted;
    },
  };
}

const bookOf = (market: Kept): OrderBook =>
  (market.book ??= { yes: readSide(market.levels.yes), no: readSide(market.levels.no) });

function putSnapshot({ levels }: SnapshotFrame, market: Kept): boolean {
  market.levels = { yes: new Map(), no: new Map() };
  for (const side of ['yes', 'no'] as const)
    for (const { price, hundredths } of levels[side]) {
      if (hundredths < 0) return false;
      add(market.levels[side], price, hundredths);
    }
  return true;
}

const putDelta = ({ side, price, hundredths }: DeltaFrame, market: Kept): boolean =>
  add(market.levels[side], price, hundredths) >= 0;

function add(levels: Map<Micros, number>, price: Micros, hundredths: number): number {
  const left = (levels.get(price) ?? 0) + hundredths;
  if (left === 0) levels.delete(price);
  else levels.set(price, left);
  return left;
}

const readSide = (levels: ReadonlyMap<Micros, number>) =>
  toLevels([...levels].map(([price, hundredths]) => ({ price, contracts: fromHundredths(hundredths) })));
