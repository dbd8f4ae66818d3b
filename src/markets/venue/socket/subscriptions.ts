import { inChunks } from '../../../core/steps.js';
import { MINUTE_MS } from '../../../core/time.js';
import type { BookKeeper } from './book-keeper.js';
import type { createRepairs } from './connection.js';
import type { Frame } from './frames.js';

/** Markets per subscription and per command, to limit the number of new snapshots after a broken sequence. */
const MARKETS_PER_SUBSCRIPTION = 100;
/** Maximum pause before a refused subscription is retried. */
const MAX_PLACE_PAUSE_MS = MINUTE_MS;

/** Sends commands and tracks unanswered ones. Commands without markets are not sent. */
export function createCommands(send: (command: object) => void) {
  const pending = new Map<number, { tickers: readonly string[]; sid: number | undefined; sentAt: number }>();
  let lastId = 0;

  function command(cmd: string, params: object): number {
    send({ id: ++lastId, cmd, params });
    return lastId;
  }

  return {
    pending,
    oldestAt: (): number => Math.min(...[...pending.values()].map(({ sentAt }) => sentAt)),
    subscribeLifecycle: () => command('subscribe', { channels: ['market_lifecycle_v2'] }),
    subscribe(all: readonly string[]): void {
      for (const tickers of inChunks(all, MARKETS_PER_SUBSCRIPTION)) {
        // Set explicitly, because the venue plans to change its default at an unannounced date.
        const params = { channels: ['orderbook_delta'], market_tickers: tickers, use_yes_price: true };
        pending.set(command('subscribe', params), { tickers, sid: undefined, sentAt: performance.now() });
      }
    },
    unsubscribe: (sid: number) => command('unsubscribe', { sids: [sid] }),
    add(sid: number, tickers: readonly string[]): void {
      const id = command('update_subscription', { sid, market_tickers: tickers, action: 'add_markets' });
      pending.set(id, { tickers, sid, sentAt: performance.now() });
    },
    update(sid: number, tickers: readonly string[], action: 'get_snapshot' | 'delete_markets'): void {
      for (const market_tickers of inChunks(tickers, MARKETS_PER_SUBSCRIPTION))
        command('update_subscription', { sid, market_tickers, action });
    },
  };
}

export interface SubscriptionOptions {
  keeper: BookKeeper;
  repairs: ReturnType<typeof createRepairs>;
  /** Pause after the first refusal; doubles each time. */
  repairMs: number;
  commands: ReturnType<typeof createCommands>;
}

export function createSubscriptions({ keeper, repairs, repairMs, commands }: SubscriptionOptions) {
  let wanted: ReadonlySet<string> = new Set();
  let isOpen = false;
  let refusals = 0;
  let placeAt = 0;

  /** Subscribes to wanted markets that are neither maintained nor requested, filling existing subscriptions first. */
  function place(): void {
    if (!isOpen || performance.now() < placeAt) return;
    const asked = new Set([...commands.pending.values()].flatMap(({ tickers }) => tickers));
    const loose = [...wanted].filter((ticker) => keeper.sidOf(ticker) === undefined && !asked.has(ticker));
    for (const sid of keeper.sids) {
      const added = loose.splice(0, Math.max(0, MARKETS_PER_SUBSCRIPTION - keeper.tickersOf(sid).size));
      if (added.length === 0) continue;
      keeper.expect(sid, added);
      commands.add(sid, added);
      repairs.begin(sid);
    }
    commands.subscribe(loose);
  }

  /** Replaces a subscription, because a new one starts a new sequence with new snapshots. */
  function resubscribe(sid: number, isGone = false): void {
    const tickers = keeper.end(sid).filter((ticker) => wanted.has(ticker));
    repairs.forget(sid);
    if (!isGone) commands.unsubscribe(sid);
    commands.subscribe(tickers);
  }

  return {
    isWanted: (ticker: string): boolean => wanted.has(ticker),
    place,
    resubscribe,
    repair(sid: number): void {
      const doubtful = keeper.doubtful(sid);
      const step = repairs.next(sid, { doubtful: doubtful.length, all: keeper.tickersOf(sid).size });
      if (step === 'resubscribe') resubscribe(sid);
      else if (step === 'snapshot') commands.update(sid, doubtful, 'get_snapshot');
    },
    take({ id = 0, sid, channel }: Frame & { type: 'subscribed' }): void {
      const tickers = commands.pending.get(id)?.tickers.filter((ticker) => wanted.has(ticker)) ?? [];
      commands.pending.delete(id);
      if (channel !== 'orderbook_delta' || tickers.length === 0) return;
      refusals = 0;
      keeper.expect(sid, tickers);
      repairs.begin(sid);
    },
    refuse(id: number | undefined): void {
      const asked = commands.pending.get(id ?? 0);
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
      commands.pending.clear();
      for (const sid of keeper.sids) {
        keeper.end(sid);
        repairs.forget(sid);
      }
    },
    follow(tickers: readonly string[]): void {
      const next = new Set(tickers);
      const gone = [...wanted].filter((ticker) => !next.has(ticker));
      wanted = next;
      for (const sid of keeper.sids) {
        const own = gone.filter((ticker) => keeper.sidOf(ticker) === sid);
        commands.update(sid, own, 'delete_markets');
      }
      keeper.drop(gone);
      place();
    },
  };
}
