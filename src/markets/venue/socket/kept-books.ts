import type { Metrics } from '../../../core/metrics.js';
import type { Clock } from '../../../core/time.js';
import { createBookKeeper, type BookProblem } from './book-keeper.js';
import { createConnection, createRepairs, type ConnectionOptions } from './connection.js';
import { createCommands, createSubscriptions, type SubscriptionOptions } from './subscriptions.js';
import { readFrame, type Frame, type LifecycleFrame } from './frames.js';

const usualTimings = {
  silenceMs: 15_000,
  backoffMs: 500,
  maxBackoffMs: 30_000,
  /** Changes within this time are reported together. */
  gatherMs: 30,
  /** A command that is unanswered for this long is considered lost with its connection. */
  answerMs: 10_000,
  tendMs: 1_000,
  /** Pause before a repair is first repeated; doubles up to a minute. */
  repairMs: 1_000,
};
export type KeptBooksTimings = typeof usualTimings;

export interface KeptBooksOptions extends Pick<ConnectionOptions, 'url' | 'headers' | 'log'> {
  metrics: Pick<Metrics, 'streamLatency' | 'streamProblems' | 'streamReconnects' | 'keptBooks'>;
  clock: Clock;
  /** The venue's clock minus ours; undefined if unknown. */
  clockSkewMs?: (() => number | undefined) | undefined;
  timings?: Partial<KeptBooksTimings> | undefined;
}

export type KeptBooks = ReturnType<typeof createKeptBooks>;

/** Older messages are late. The venue's clock is known to a second only, as its HTTP responses give whole seconds. */
const MAX_MESSAGE_AGE_MS = 2_000;

/** Error code: the venue dropped a subscription because its frames were not consumed in time. */
const OVERFLOW = 25;

export function createKeptBooks(options: KeptBooksOptions) {
  const { url, headers, log, metrics, timings } = options;
  const times = { ...usualTimings, ...timings };
  const news = createNews(times.gatherMs, () => {
    metrics.keptBooks.set({ state: 'kept' }, keeper.trusted);
    metrics.keptBooks.set({ state: 'in_doubt' }, keeper.size - keeper.trusted);
  });
  const keeper = createBookKeeper(news.noteChange);
  const repairs = createRepairs(times.repairMs);
  const commands = createCommands((command) => connection.send(command));
  const subscriptions = createSubscriptions({ keeper, repairs, repairMs: times.repairMs, commands });
  const restart = () => connection.restart();
  const lateness = createLateness(options, () => {
    for (const ticker of keeper.tickers) news.noteChange(ticker);
  });
  const onMessage = createReceiver({
    keeper,
    repairs,
    commands,
    subscriptions,
    news,
    log,
    metrics,
    lateness,
    restart,
  });

  function tend(): void {
    if (performance.now() - commands.oldestAt() > times.answerMs) {
      log.warn("the venue's stream does not respond; reconnecting");
      restart();
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
      commands.subscribeLifecycle();
      subscriptions.open();
    },
    onMessage,
    onClose() {
      metrics.streamReconnects.inc();
      subscriptions.close();
      lateness.end();
    },
  });
  const tending = setInterval(tend, times.tendMs).unref();

  return {
    follow: (tickers: readonly string[]) => subscriptions.follow(tickers),
    /** While the stream is late: by our clock, when the venue sent the first late message. No book is certain since then. */
    get lateSince() {
      return lateness.since;
    },
    book: (ticker: string) => (lateness.since === undefined ? keeper.book(ticker) : undefined),
    subscribe: (listener: Listener) => news.subscribe(listener),
    watch: (listener: (ticker: string) => void) => news.watch(listener),
    refute(tickers: readonly string[]): void {
      metrics.streamProblems.inc({ kind: 'mismatch' }, tickers.length);
      keeper.doubt(tickers);
      for (const sid of new Set(tickers.map((ticker) => keeper.sidOf(ticker))))
        if (sid !== undefined) subscriptions.repair(sid);
    },
    stop(): void {
      clearInterval(tending);
      news.stop();
      connection.stop();
    },
  };
}

interface ReceiverOptions
  extends Pick<KeptBooksOptions, 'log' | 'metrics'>, Omit<SubscriptionOptions, 'repairMs'> {
  lateness: ReturnType<typeof createLateness>;
  subscriptions: ReturnType<typeof createSubscriptions>;
  news: ReturnType<typeof createNews>;
  restart: () => void;
}

function createReceiver(options: ReceiverOptions): (text: string) => void {
  const { keeper, repairs, commands, subscriptions, news, log, metrics, lateness, restart } = options;

  function noteProblem({ doubt, isOfAll }: BookProblem, frame: Frame): void {
    metrics.streamProblems.inc({ kind: doubt });
    const detail = frame.type === 'unreadable' ? frame.problem : undefined;
    log.warn({ doubt, sid: frame.sid, seq: frame.seq, detail }, 'kept order books are in doubt');
    const sid =
      isOfAll || !('ticker' in frame) || frame.ticker === undefined ? frame.sid : keeper.sidOf(frame.ticker);
    if (sid === undefined || !keeper.has(sid)) return;
    // Only a gap can be repaired without a new subscription.
    if (isOfAll && doubt !== 'gap') repairs.condemn(sid);
    subscriptions.repair(sid);
  }

  function takeError({ id, code, message, sid }: Frame & { type: 'error' }): void {
    log.warn({ code, message, sid }, "the venue's stream refused a request");
    if (code !== OVERFLOW) return subscriptions.refuse(id);
    metrics.streamProblems.inc({ kind: 'overflow' });
    if (sid === undefined || !keeper.has(sid)) restart();
    else subscriptions.resubscribe(sid, true);
  }

  return (text) => {
    const frame = readFrame(text);
    if (frame.sentAtMs !== undefined) lateness.note(frame.sentAtMs);
    if (frame.type === 'subscribed') {
      subscriptions.take(frame);
      return;
    }
    if (frame.type === 'unreadable' && frame.sid === undefined && frame.ticker === undefined) {
      log.warn({ problem: frame.problem }, "the venue's stream cannot be read; reconnecting");
      metrics.streamProblems.inc({ kind: 'unreadable' });
      restart();
      return;
    }
    const problem = keeper.take(frame);
    if (problem) noteProblem(problem, frame);
    if (frame.type === 'lifecycle' && subscriptions.isWanted(frame.ticker)) news.noteLife(frame);
    if (frame.type === 'error') takeError(frame);
    if (frame.id !== undefined && frame.type !== 'snapshot') commands.pending.delete(frame.id);
  };
}

/**
 * Measures how far the stream is behind. All books of a connection share its delay, even those without a message of
 * their own.
 * @param onTurn called when the stream becomes late or current again
 */
function createLateness(
  { clock, clockSkewMs, log, metrics }: Pick<KeptBooksOptions, 'clock' | 'clockSkewMs' | 'log' | 'metrics'>,
  onTurn: () => void,
) {
  let since: number | undefined;
  return {
    get since() {
      return since;
    },
    note(sentAtMs: number): void {
      const sentAt = sentAtMs - (clockSkewMs?.() ?? 0);
      const ageMs = clock.now() - sentAt;
      metrics.streamLatency.observe(Math.max(0, ageMs) / 1000);
      const isLate = ageMs > MAX_MESSAGE_AGE_MS;
      if (isLate === (since !== undefined)) return;
      since = isLate ? sentAt : undefined;
      if (isLate) {
        metrics.streamProblems.inc({ kind: 'late' });
        log.warn({ ageMs }, "the venue's stream is late: its order books are in doubt");
      } else log.info({ ageMs }, "the venue's stream is current again");
      onTurn();
    },
    end(): void {
      since = undefined;
    },
  };
}

type Listener = (tickers: ReadonlySet<string>, lives: readonly LifecycleFrame[]) => void;

function createNews(gatherMs: number, beforeNotify: () => void) {
  const listeners = new Set<Listener>();
  const watchers = new Set<(ticker: string) => void>();
  const changed = new Set<string>();
  const lives: LifecycleFrame[] = [];
  let timer: NodeJS.Timeout | undefined;

  function emitChanges(): void {
    timer = undefined;
    const tickers = new Set(changed);
    const frames = lives.splice(0);
    changed.clear();
    beforeNotify();
    for (const listener of listeners) listener(tickers, frames);
  }

  function noteChange(ticker: string): void {
    changed.add(ticker);
    timer ??= setTimeout(emitChanges, gatherMs);
    for (const watcher of watchers) watcher(ticker);
  }

  return {
    noteChange,
    noteLife(frame: LifecycleFrame): void {
      lives.push(frame);
      noteChange(frame.ticker);
    },
    /** Reports markets whose book, trust or lifecycle has changed, until the returned function is called. */
    subscribe(listener: Listener): () => void {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    /** Like `subscribe`, but called after every individual book change. */
    watch(listener: (ticker: string) => void): () => void {
      watchers.add(listener);
      return () => void watchers.delete(listener);
    },
    stop: () => clearTimeout(timer),
  };
}
