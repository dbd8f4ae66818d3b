import type { Logger } from 'pino';
import { WebSocket } from 'ws';
import { MINUTE_MS } from '../../../core/time.js';

interface Repair {
  attempts: number;
  dueAt: number;
  isCondemned: boolean;
}

const MAX_PAUSE_MS = MINUTE_MS;
/** Asking for snapshots of all markets has not helped so often. */
const MAX_SNAPSHOTS = 3;

/**
 * When and how subscriptions whose books are in doubt are mended: at once, and then ever more rarely while it does not help.
 * @param pauseMs before the second attempt; it doubles
 */
export function createRepairs(pauseMs: number) {
  const bySid = new Map<number, Repair>();

  function of(sid: number): Repair {
    const known = bySid.get(sid) ?? { attempts: 0, dueAt: 0, isCondemned: false };
    bySid.set(sid, known);
    return known;
  }

  return {
    /** Snapshots are on their way: nothing is asked for until they had time to come. */
    begin(sid: number): void {
      const repair = of(sid);
      repair.dueAt = Math.max(repair.dueAt, performance.now() + 2 * pauseMs);
    },
    /** The sequence cannot be followed any further. */
    condemn: (sid: number) => void (of(sid).isCondemned = true),
    forget: (sid: number) => void bySid.delete(sid),
    /** What to do now; undefined: nothing, or not yet. */
    next(
      sid: number,
      { doubtful, all }: { doubtful: number; all: number },
    ): 'snapshot' | 'resubscribe' | undefined {
      const repair = of(sid);
      const at = performance.now();
      if (doubtful === 0 && !repair.isCondemned) {
        // What has been well for a minute may be mended at once again.
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
  /** Made anew for each handshake: what proves who asks. `path` is the whole one. */
  headers: (method: 'GET', path: string) => Record<string, string>;
  /** A connection from which nothing came for so long, not even an answer to a ping, is dead. */
  silenceMs: number;
  /** Of the first pause before a reconnect; it doubles, up to `maxBackoffMs`. */
  backoffMs: number;
  maxBackoffMs: number;
  onOpen(): void;
  onMessage(text: string): void;
  /** It is gone, and another is under way; not called after `stop`. */
  onClose(): void;
  log: Pick<Logger, 'info' | 'warn'>;
}

/** The venue's messages are at most this long. */
const MAX_BYTES = 64 * 1024 * 1024;
/** Commands that the venue has not taken for so many bytes: it does not listen any more. */
const MAX_UNSENT_BYTES = 1024 * 1024;
const HANDSHAKE_MS = 10_000;
/** The next failure of a connection that has lasted so long is the first one again. */
const STEADY_MS = MINUTE_MS;

/**
 * A WebSocket that is always there or on its way. `ws` and not the platform's WebSocket, because that one can neither
 * sign its handshake everywhere nor tell of pings: on a quiet market they are the only sign of life.
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
    });
    socket = own;
    let openedAt = Infinity;
    let heardAt = performance.now();
    const hear = () => (heardAt = performance.now());
    const watch = setInterval(() => {
      if (own.readyState !== WebSocket.OPEN) return;
      const quietMs = performance.now() - heardAt;
      if (quietMs >= silenceMs) {
        log.warn({ quietMs: Math.round(quietMs) }, "the venue's stream is silent: reconnecting");
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
      // After a restart its last messages may still come in.
      if (own === socket && !isBinary) options.onMessage((data as Buffer).toString('utf8'));
    });
    own.on('error', (error) => log.warn({ err: error }, "the venue's stream failed"));
    own.on('close', () => {
      clearInterval(watch);
      if (own === socket) again(performance.now() - openedAt >= STEADY_MS);
    });
  }

  function again(wasSteady: boolean): void {
    socket = undefined;
    if (isStopped) return;
    options.onClose();
    failures = wasSteady ? 1 : failures + 1;
    const pause = Math.min(maxBackoffMs, backoffMs * 2 ** (failures - 1));
    timer = setTimeout(connect, pause * (0.5 + Math.random()));
  }

  connect();
  return {
    /** Nothing is sent while it is not open: what connects anew begins anew. */
    send(command: object): void {
      if (socket?.readyState !== WebSocket.OPEN) return;
      if (socket.bufferedAmount > MAX_UNSENT_BYTES) socket.terminate();
      else socket.send(JSON.stringify(command));
    },
    /** Drops what is there and connects anew. */
    restart: (): void => socket?.terminate(),
    stop(): void {
      isStopped = true;
      clearTimeout(timer);
      socket?.terminate();
    },
  };
}
