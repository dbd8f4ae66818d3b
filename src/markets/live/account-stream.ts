import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import type { Metrics } from '../../core/metrics.js';
import { shareRun } from '../../core/steps.js';
import { SECOND_MS, type Clock } from '../../core/time.js';
import { parseCount } from '../market/contracts.js';
import { parseDollars, type Micros } from '../market/money.js';
import { count, price } from '../venue/kalshi-schema.js';
import { createConnection, type ConnectionOptions } from '../venue/socket/connection.js';
import { id } from './wire.js';

/** Only a hint: the order is looked up, and only the result is booked. */
export interface OrderHint {
  venueOrderId: string;
  clientOrderId: string;
  /** Null if the message is about the order itself. */
  fillId: string | null;
  /** Null for a fill. */
  filled: number | null;
  remaining: number | null;
}

const contracts = count.transform(parseCount);
const sent = { sending_ts_ms: z.number().optional().catch(undefined) };

/** See the venue's AsyncAPI document. */
const messageSchema = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('fill'),
    msg: z.object({ trade_id: id, order_id: id, client_order_id: z.string().max(200).default('') }),
    ...sent,
  }),
  z.object({
    type: z.literal('user_order'),
    msg: z.object({
      order_id: id,
      client_order_id: z.string().max(200).default(''),
      fill_count_fp: contracts,
      remaining_count_fp: contracts,
    }),
    ...sent,
  }),
  z.object({ type: z.literal('trade'), msg: z.object({ market_ticker: id, yes_price_dollars: price }) }),
  z.object({ type: z.literal('subscribed'), msg: z.object({ channel: z.string(), sid: z.int() }) }),
  z.object({ type: z.literal('error'), msg: z.unknown() }),
]);
type Message = z.output<typeof messageSchema>;

const usualTimings = {
  silenceMs: 15_000,
  backoffMs: 500,
  maxBackoffMs: 30_000,
  /** Hints within this time share one lookup. */
  gatherMs: 20,
  /** The venue's lists may lag behind a hint. Doubles each time. */
  retryMs: 150,
  /** Without an answer by then, the connection is restarted. */
  answerMs: 10 * SECOND_MS,
};
export type AccountStreamTimings = typeof usualTimings;
const MAX_RETRIES = 4;

interface AccountStreamOptions extends Pick<ConnectionOptions, 'url' | 'headers' | 'log'> {
  clock: Clock;
  metrics: Pick<Metrics, 'streamLatency' | 'streamReconnects'>;
  timings?: Partial<AccountStreamTimings> | undefined;
  /** Returns the hints whose changes are not booked yet. */
  lookUp: (hints: readonly OrderHint[]) => Promise<readonly OrderHint[]>;
  /** Called when messages may have been missed: a connection opens, or a message cannot be read. */
  onMissed: () => void;
  onTrade: TradeListener;
}

export type TradeListener = (ticker: string, yesPrice: Micros) => void;

export type AccountStream = ReturnType<typeof createAccountStream>;

/** Also receives trades in the markets of resting orders. */
export function createAccountStream(options: AccountStreamOptions) {
  const { url, headers, log, metrics, clock } = options;
  const times = { ...usualTimings, ...options.timings };
  const hints = createHints(options, times);
  let lastId = 0;
  let unanswered: NodeJS.Timeout | undefined;
  let followed: readonly string[] = [];
  let tradeSid: number | undefined;

  const send = (cmd: string, params: object) => connection.send({ id: ++lastId, cmd, params });
  const subscribeTrades = () => {
    if (followed.length > 0) send('subscribe', { channels: ['trade'], market_tickers: followed });
  };

  function take(message: Message): void {
    if ('sending_ts_ms' in message && message.sending_ts_ms !== undefined)
      metrics.streamLatency.observe(Math.max(0, clock.now() - message.sending_ts_ms) / 1000);
    switch (message.type) {
      case 'fill':
      case 'user_order':
        return hints.add(toHint(message));
      case 'trade':
        return options.onTrade(message.msg.market_ticker, parseDollars(message.msg.yes_price_dollars));
      case 'subscribed':
        if (message.msg.channel === 'trade') tradeSid = message.msg.sid;
        else if (message.msg.channel === 'fill') clearTimeout(unanswered);
        return undefined;
      case 'error':
        // The venue rejected a subscription, or a buffer overflowed.
        log.warn({ msg: message.msg }, "the venue's stream of the account reports an error; reconnecting");
        connection.restart();
    }
  }

  const connection = createConnection({
    url,
    headers,
    ...times,
    log,
    onOpen() {
      send('subscribe', { channels: ['fill', 'user_orders'] });
      subscribeTrades();
      unanswered = setTimeout(() => connection.restart(), times.answerMs);
      options.onMissed();
    },
    onMessage(text) {
      const message = readMessage(text);
      if (message?.type !== 'unreadable') return message && take(message);
      log.warn({ problem: message.problem }, 'a message about an order cannot be read; all are looked up');
      options.onMissed();
    },
    onClose() {
      clearTimeout(unanswered);
      tradeSid = undefined;
      metrics.streamReconnects.inc();
    },
  });

  return {
    /** Replaces the previous markets. */
    follow(tickers: readonly string[]): void {
      if (tickers.join() === followed.join()) return;
      followed = tickers;
      if (tradeSid !== undefined) send('unsubscribe', { sids: [tradeSid] });
      tradeSid = undefined;
      subscribeTrades();
    },
    async stop(): Promise<void> {
      clearTimeout(unanswered);
      connection.stop();
      await hints.stop();
    },
  };
}

/** Undefined for other kinds of messages. */
function readMessage(text: string): Message | { type: 'unreadable'; problem: string } | undefined {
  try {
    const value = JSON.parse(text) as { type?: unknown };
    const { data, error } = messageSchema.safeParse(value);
    const isOfOrder = value.type === 'fill' || value.type === 'user_order';
    return error && isOfOrder ? { type: 'unreadable', problem: z.prettifyError(error) } : data;
  } catch {
    return undefined;
  }
}

function toHint({ type, msg }: Message & { type: 'fill' | 'user_order' }): OrderHint {
  const order = { venueOrderId: msg.order_id, clientOrderId: msg.client_order_id };
  return type === 'fill'
    ? { ...order, fillId: msg.trade_id, filled: null, remaining: null }
    : { ...order, fillId: null, filled: msg.fill_count_fp, remaining: msg.remaining_count_fp };
}

/** Looks up one batch at a time. */
function createHints({ lookUp, log }: AccountStreamOptions, { gatherMs, retryMs }: AccountStreamTimings) {
  const waiting = new Map<string, { hint: OrderHint; tries: number }>();
  const timers = new Set<NodeJS.Timeout>();
  let isStopped = false;

  const drain = shareRun(async () => {
    while (waiting.size > 0 && !isStopped) {
      await sleep(gatherMs);
      const batch = [...waiting.values()];
      waiting.clear();
      const all = batch.map(({ hint }) => hint);
      const left = new Set(
        await lookUp(all).catch((error: unknown) => {
          log.warn({ err: error }, 'an order that the venue has reported could not be looked up');
          return all;
        }),
      );
      for (const one of batch) if (left.has(one.hint)) retry(one);
    }
  });

  function retry({ hint, tries }: { hint: OrderHint; tries: number }): void {
    if (tries === MAX_RETRIES || isStopped) return;
    const timer = setTimeout(
      () => {
        timers.delete(timer);
        put({ hint, tries: tries + 1 });
      },
      retryMs * 2 ** tries,
    );
    timers.add(timer);
  }

  /** A newer message about the same fill or order replaces an older one. */
  function put(one: { hint: OrderHint; tries: number }): void {
    const key = one.hint.fillId ?? one.hint.venueOrderId;
    if (one.tries === 0 || !waiting.has(key)) waiting.set(key, one);
    void drain.run();
  }

  return {
    add: (hint: OrderHint): void => put({ hint, tries: 0 }),
    async stop(): Promise<void> {
      isStopped = true;
      for (const timer of timers) clearTimeout(timer);
      await drain.running;
    },
  };
}
