import { proxyAgent } from '../../../core/http/proxy.js';
import type { Logger } from 'pino';
import { WebSocket } from 'ws';
import { MINUTE_MS } from '../../../core/time.js';

interface Repair {
  attempts: number;
  dueAt: number;
  isCondemned: boolean;
}

const MAX_PAUSE_MS = MINUTE_MS;
/** Number of snapshot requests after which a subscription is replaced if all of its books are still in doubt. */
const MAX_SNAPSHOTS = 3;

/**
 * Schedules repairs of subscriptions with books in doubt: immediately, then with growing pauses while repairs fail.
 * @param pauseMs pause before the second attempt; doubles each time
 */
export function createRepairs(pauseMs: number) {
  const bySid = new Map<number, Repair>();

  function of(sid: number): Repair {
    const known = bySid.get(sid) ?? { attempts: 0, dueAt: 0, isCondemned: false };
    bySid.set(sid, known);
    return known;
  }

  return {
    /** Waits for the snapshots that are already on their way before requesting more. */
    begin(sid: number): void {
      const repair = of(sid);
      repair.dueAt = Math.max(repair.dueAt, performance.now() + 2 * pauseMs);
    },
    condemn: (sid: number) => void (of(sid).isCondemned = true),
    forget: (sid: number) => void bySid.delete(sid),
    next(sid: number, { doubtful, all }: { doubtful: number; all: number }) {
      const repair = of(sid);
      const at = performance.now();
      if (doubtful === 0 && !repair.isCondemned) {
        // After a minute without doubts, the next repair starts without a pause again.
        if (at > repair.dueAt + MAX_PAUSE_MS) bySid.delete(sid);
        return undefined;
      }
      if (at < repair.dueAt) return undefined;
      repair.attempts++;
      repair.dueAt = at + Math.min(MAX_PAUSE_MS, pauseMs * 2 ** repair.attempts);
      return repair.isCondemned || (repair.attempts > MAX_SNAPSHOTS && doubtful === all)
        ? 'resubscribe'
        : 'snapshot';
    },
  };
}

export interface ConnectionOptions {
  url: string;
  /** Authentication headers, created per handshake. `path` is the full path. */
  headers: (method: 'GET', path: string) => Record<string, string>;
  /** A connection that sends nothing for this long, not even pongs, counts as dead. */
  silenceMs: number;
  /** Pause before the first reconnect; doubles up to `maxBackoffMs`. */
  backoffMs: number;
  maxBackoffMs: number;
  onOpen(): void;
  onMessage(text: string): void;
  /** Called when the connection has closed and is being reopened; not called after `stop`. */
  onClose(): void;
  log: Pick<Logger, 'info' | 'warn'>;
}

const MAX_BYTES = 64 * 1024 * 1024;
/** Number of unsent bytes at which the venue is assumed to have stopped reading. */
const MAX_UNSENT_BYTES = 1024 * 1024;
const HANDSHAKE_MS = 10_000;
/** After this time, a connection's failure count is reset. */
const STEADY_MS = MINUTE_MS;

/**
 * A WebSocket that reconnects automatically. Uses `ws`, because the built-in WebSocket cannot sign its handshake on
 * every platform and does not expose pings, the only sign of life in a quiet market.
 */
export function createConnection(options: ConnectionOptions) {
  const { url, silenceMs, backoffMs, maxBackoffMs, log } = options;
  const path = new URL(url).pathname;
  let socket: WebSocket | undefined;
  let failures = 0;
  let isStopped = false;
  let timer: NodeJS.Timeout | undefined;

  function connect(): void {
    const own = new WebSocket(url, {
      headers: options.headers('GET', path),
      handshakeTimeout: HANDSHAKE_MS,
      maxPayload: MAX_BYTES,
      followRedirects: false,
      agent: proxyAgent(url),
    });
    socket = own;
    let openedAt = Infinity;
    let heardAt = performance.now();
    const hear = () => (heardAt = performance.now());
    const watch = setInterval(() => {
      if (own.readyState !== WebSocket.OPEN) return;
      const quietMs = performance.now() - heardAt;
      if (quietMs >= silenceMs) {
        log.warn({ quietMs: Math.round(quietMs) }, "the venue's stream is silent; reconnecting");
        own.terminate();
      } else if (quietMs >= silenceMs / 2) own.ping();
    }, silenceMs / 4);
    own.on('ping', hear).on('pong', hear);
    own.on('open', () => {
      openedAt = performance.now();
      hear();
      options.onOpen();
    });
    own.on('message', (data, isBinary) => {
      hear();
      // After a reconnect, the old socket may still deliver messages.
      if (own === socket && !isBinary) options.onMessage((data as Buffer).toString('utf8'));
    });
    own.on('error', (error) => log.warn({ err: error }, "the venue's stream failed"));
    own.on('close', () => {
      clearInterval(watch);
      if (own === socket) reconnect(performance.now() - openedAt >= STEADY_MS);
    });
  }

  function reconnect(wasSteady: boolean): void {
    socket = undefined;
    if (isStopped) return;
    options.onClose();
    failures = wasSteady ? 1 : failures + 1;
    const pause = Math.min(maxBackoffMs, backoffMs * 2 ** (failures - 1));
    timer = setTimeout(connect, pause * (0.5 + Math.random()));
  }

  connect();
  return {
    /** Does nothing while the connection is not open, because a reconnect starts from scratch. */
    send(command: object): void {
      if (socket?.readyState !== WebSocket.OPEN) return;
      if (socket.bufferedAmount > MAX_UNSENT_BYTES) socket.terminate();
      else socket.send(JSON.stringify(command));
    },
    restart: (): void => socket?.terminate(),
    stop(): void {
      isStopped = true;
      clearTimeout(timer);
      socket?.terminate();
    },
  };
}
