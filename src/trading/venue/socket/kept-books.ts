import type { Logger } from 'pino';
import { MINUTE_MS } from '../../../core/time.js';
import type { Metrics } from '../../../core/metrics.js';
import type { OrderBook } from '../../market/book.js';
import { inChunks } from '../../../core/steps.js';
import { createBookKeeper, type BookKeeper, type Problem } from './book-keeper.js';
import { createConnection, createRepairs, type ConnectionOptions } from './connection.js';
import { readFrame, type Frame, type LifecycleFrame } from './frames.js';

export interface KeptBooksTimings {
  silenceMs: number;
  backoffMs: number;
  maxBackoffMs: number;
  /** Changes of so long are told together. */
  gatherMs: number;
  /** A command that the venue has not answered within this was lost with its connection. */
  answerMs: number;
  /** How often what is in doubt is repaired. */
  tendMs: number;
  /** Of the first pause before a repair is repeated; it doubles, up to a minute. */
  repairMs: number;
}

const usualTimings: KeptBooksTimings = {
  silenceMs: 15_000,
  backoffMs: 500,
  maxBackoffMs: 30_000,
  gatherMs: 30,
  answerMs: 10_000,
  tendMs: 1_000,
  repairMs: 1_000,
};

export interface KeptBooksOptions extends Pick<ConnectionOptions, 'url' | 'headers'> {
  log: Pick<Logger, 'info' | 'warn'>;
  metrics: Pick<Metrics, 'streamFrames' | 'streamProblems' | 'streamReconnects' | 'keptBooks'>;
  timings?: Partial<KeptBooksTimings> | undefined;
}

/** Books that the venue's WebSocket keeps, and what it says about markets between two reads of them. */
export interface KeptBooks {
  /** Keeps the books of these markets and of no others. */
  follow(tickers: readonly string[]): void;
  /** Undefined while it is in doubt, or not kept. */
  book(ticker: string): OrderBook | undefined;
  /** Calls back with the markets whose book, trust or life has changed, until the returned function is called. */
  subscribe(listener: (tickers: ReadonlySet<string>, lives: readonly LifecycleFrame[]) => void): () => void;
  /** The same for one book after each single change, while the returned function is not called. */
  watch(listener: (ticker: string) => void): () => void;
  /** A read has shown that these are not the venue's books. */
  refute(tickers: readonly string[]): void;
  stop(): void;
}

/** Markets of one subscription, and of one command: a broken sequence costs no more than these new snapshots. */
const MARKETS_PER_SUBSCRIPTION = 100;
/** The venue has dropped a subscription whose frames were not taken in time. */
const OVERFLOW = 25;

/** Markets that the venue refuses to subscribe are asked for again, ever more rarely. */
const MAX_PLACE_PAUSE_MS = MINUTE_MS;

interface Pending {
  tickers: readonly string[];
  /** Of the subscription that the markets are added to. */
  sid: number | undefined;
  sentAt: number;
}

export function createKeptBooks({ url, headers, log, metrics, timings }: KeptBooksOptions): KeptBooks {
  const times = { ...usualTimings, ...timings };
  const news = createNews(times.gatherMs, () => {
    metrics.keptBooks.set({ state: 'kept' }, keeper.trusted);
    metrics.keptBooks.set({ state: 'in_doubt' }, keeper.size - keeper.trusted);
  });
  const keeper = createBookKeeper(news.noteChange);
  const repairs = createRepairs(times.repairMs);
  const subscriptions = createSubscriptions({ keeper, repairs, repairMs: times.repairMs, command });
  let lastId = 0;

  function command(cmd: string, params: object): number {
    connection.send({ id: ++lastId, cmd, params });
    return lastId;
  }

  function noteProblem({ doubt, isOfAll }: Problem, frame: Frame): void {
    metrics.streamProblems.inc({ kind: doubt });
    const detail = frame.type === 'unreadable' ? frame.problem : undefined;
    log.warn({ doubt, sid: frame.sid, seq: frame.seq, detail }, 'kept order books are in doubt');
    const sid =
      isOfAll || !('ticker' in frame) || frame.ticker === undefined ? frame.sid : keeper.sidOf(frame.ticker);
    if (sid === undefined || !keeper.has(sid)) return;
    // A sequence that is not what it was cannot be followed any further.
    if (isOfAll && doubt !== 'gap') repairs.condemn(sid);
    subscriptions.repair(sid);
  }

  function take(text: string): void {
    const frame = readFrame(text);
    metrics.streamFrames.inc({ type: frame.type });
    if (frame.type === 'subscribed') {
      subscriptions.take(frame);
      return;
    }
    if (frame.type === 'unreadable' && frame.sid === undefined && frame.ticker === undefined) {
      log.warn({ problem: frame.problem }, "the venue's stream cannot be read: it is connected anew");
      metrics.streamProblems.inc({ kind: 'unreadable' });
      connection.restart();
      return;
    }
    const problem = keeper.take(frame);
    if (problem) noteProblem(problem, frame);
    if (frame.type === 'lifecycle' && subscriptions.isWanted(frame.ticker)) news.noteLife(frame);
    if (frame.type === 'error') takeError(frame);
    if (frame.id !== undefined && frame.type !== 'snapshot') subscriptions.pending.delete(frame.id);
  }

  function takeError({ id, code, message, sid }: Frame & { type: 'error' }): void {
    log.warn({ code, message, sid }, "the venue's stream refuses something");
    if (code !== OVERFLOW) return subscriptions.refuse(id);
    metrics.streamProblems.inc({ kind: 'overflow' });
    if (sid === undefined || !keeper.has(sid)) connection.restart();
    else subscriptions.resubscribe(sid, true);
  }

  function tend(): void {
    const oldest = Math.min(...[...subscriptions.pending.values()].map(({ sentAt }) => sentAt));
    if (performance.now() - oldest > times.answerMs) {
      log.warn("the venue's stream does not answer: it is connected anew");
      connection.restart();
      return;
    }
    for (const sid of keeper.sids) subscriptions.repair(sid);
    subscriptions.place();
  }

  const connection = createConnection({
    url,
    headers,
    ...times,
    log,
    onOpen() {
      command('subscribe', { channels: ['market_lifecycle_v2'] });
      subscriptions.open();
    },
    onMessage: take,
    onClose() {
      metrics.streamReconnects.inc();
      subscriptions.close();
    },
  });
  const tending = setInterval(tend, times.tendMs).unref();

  return {
    follow: (tickers) => subscriptions.follow(tickers),
    book: (ticker) => keeper.book(ticker),
    subscribe: (listener) => news.subscribe(listener),
    watch: (listener) => news.watch(listener),
    refute(tickers) {
      metrics.streamProblems.inc({ kind: 'mismatch' }, tickers.length);
      keeper.doubt(tickers);
      for (const sid of new Set(tickers.map((ticker) => keeper.sidOf(ticker))))
        if (sid !== undefined) subscriptions.repair(sid);
    },
    stop() {
      clearInterval(tending);
      news.stop();
      connection.stop();
    },
  };
}

type Listener = Parameters<KeptBooks['subscribe']>[0];

/** Tells listeners of changes, those of `gatherMs` together. */
function createNews(gatherMs: number, onTell: () => void) {
  const listeners = new Set<Listener>();
  const watchers = new Set<(ticker: string) => void>();
  const changed = new Set<string>();
  const lives: LifecycleFrame[] = [];
  let telling: NodeJS.Timeout | undefined;

  function tell(): void {
    telling = undefined;
    const tickers = new Set(changed);
    const told = lives.splice(0);
    changed.clear();
    onTell();
    for (const listener of listeners) listener(tickers, told);
  }

  function noteChange(ticker: string): void {
    changed.add(ticker);
    telling ??= setTimeout(tell, gatherMs);
    for (const watcher of watchers) watcher(ticker);
  }

  return {
    noteChange,
    noteLife(frame: LifecycleFrame): void {
      lives.push(frame);
      noteChange(frame.ticker);
    },
    subscribe(listener: Listener): () => void {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    watch(listener: (ticker: string) => void): () => void {
      watchers.add(listener);
      return () => void watchers.delete(listener);
    },
    stop: () => clearTimeout(telling),
  };
}

interface SubscriptionOptions {
  keeper: BookKeeper;
  repairs: ReturnType<typeof createRepairs>;
  /** Of the first pause after a refusal; it doubles. */
  repairMs: number;
  /** @returns the id under which the venue answers */
  command: (cmd: string, params: object) => number;
}

/** Which markets are wanted, asked for, and subscribed. */
function createSubscriptions({ keeper, repairs, repairMs, command }: SubscriptionOptions) {
  const pending = new Map<number, Pending>();
  let wanted: ReadonlySet<string> = new Set();
  let isOpen = false;
  let refusals = 0;
  let placeAt = 0;

  /** Subscribes what is wanted and neither kept nor asked for: subscriptions are filled up before there are more. */
  function place(): void {
    if (!isOpen || performance.now() < placeAt) return;
    const asked = new Set([...pending.values()].flatMap(({ tickers }) => tickers));
    let loose = [...wanted].filter((ticker) => keeper.sidOf(ticker) === undefined && !asked.has(ticker));
    for (const sid of keeper.sids) {
      const space = Math.max(0, MARKETS_PER_SUBSCRIPTION - keeper.tickersOf(sid).size);
      const added = loose.slice(0, space);
      if (added.length === 0) continue;
      loose = loose.slice(space);
      keeper.expect(sid, added);
      const id = command('update_subscription', { sid, market_tickers: added, action: 'add_markets' });
      pending.set(id, { tickers: added, sid, sentAt: performance.now() });
      repairs.begin(sid);
    }
    subscribe(loose);
  }

  function subscribe(all: readonly string[]): void {
    for (const tickers of inChunks(all, MARKETS_PER_SUBSCRIPTION)) {
      // The default of `use_yes_price` is about to change at a day that is not announced.
      const params = { channels: ['orderbook_delta'], market_tickers: tickers, use_yes_price: true };
      pending.set(command('subscribe', params), { tickers, sid: undefined, sentAt: performance.now() });
    }
  }

  /** A new subscription begins a new sequence with new snapshots. */
  function resubscribe(sid: number, isGone = false): void {
    const tickers = keeper.end(sid).filter((ticker) => wanted.has(ticker));
    repairs.forget(sid);
    if (!isGone) command('unsubscribe', { sids: [sid] });
    subscribe(tickers);
  }

  function update(sid: number, tickers: readonly string[], action: 'get_snapshot' | 'delete_markets'): void {
    for (const market_tickers of inChunks(tickers, MARKETS_PER_SUBSCRIPTION))
      command('update_subscription', { sid, market_tickers, action });
  }

  return {
    pending: pending as Pick<typeof pending, 'delete' | 'values'>,
    isWanted: (ticker: string): boolean => wanted.has(ticker),
    place,
    resubscribe,
    repair(sid: number): void {
      const doubtful = keeper.doubtful(sid);
      const step = repairs.next(sid, { doubtful: doubtful.length, all: keeper.tickersOf(sid).size });
      if (step === 'resubscribe') resubscribe(sid);
      else if (step === 'snapshot') update(sid, doubtful, 'get_snapshot');
    },
    take({ id = 0, sid, channel }: Frame & { type: 'subscribed' }): void {
      const tickers = pending.get(id)?.tickers.filter((ticker) => wanted.has(ticker)) ?? [];
      pending.delete(id);
      if (channel !== 'orderbook_delta' || tickers.length === 0) return;
      refusals = 0;
      keeper.expect(sid, tickers);
      repairs.begin(sid);
    },
    /** What the venue does not take is asked for again after a pause. */
    refuse(id: number | undefined): void {
      const asked = pending.get(id ?? 0);
      if (!asked) return;
      if (asked.sid !== undefined) keeper.drop(asked.tickers);
      placeAt = performance.now() + Math.min(MAX_PLACE_PAUSE_MS, repairMs * 2 ** refusals++);
    },
    open(): void {
      isOpen = true;
      place();
    },
    close(): void {
      isOpen = false;
      placeAt = 0;
      pending.clear();
      for (const sid of keeper.sids) {
        keeper.end(sid);
        repairs.forget(sid);
      }
    },
    follow(tickers: readonly string[]): void {
      const next = new Set(tickers);
      const gone = [...wanted].filter((ticker) => !next.has(ticker));
      wanted = next;
      for (const sid of keeper.sids)
        update(
          sid,
          gone.filter((ticker) => keeper.sidOf(ticker) === sid),
          'delete_markets',
        );
      keeper.drop(gone);
      place();
    },
  };
}
