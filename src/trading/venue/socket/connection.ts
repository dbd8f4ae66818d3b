import type { Logger } from 'pino';
import { WebSocket } from 'ws';

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

export interface Connection {
  /** Nothing is sent while it is not open: whoever connects anew begins anew. */
  send(command: object): void;
  /** Drops what is there and connects anew. */
  restart(): void;
  stop(): void;
}

/** The venue's messages are at most this long. */
const MAX_BYTES = 64 * 1024 * 1024;
/** Commands that the venue has not taken for so many bytes: it does not listen any more. */
const MAX_UNSENT_BYTES = 1024 * 1024;
const HANDSHAKE_MS = 10_000;
/** The next failure of a connection that has lasted so long is the first one again. */
const STEADY_MS = 60_000;

/**
 * A WebSocket that is always there or on its way. `ws` and not the platform's WebSocket, because that one can neither
 * sign its handshake everywhere nor tell of pings: on a quiet market they are the only sign of life.
 */
export function createConnection(options: ConnectionOptions): Connection {
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
        log.warn({ quietMs: Math.round(quietMs) }, "the venue's stream is silent: it is connected anew");
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
    send(command) {
      if (socket?.readyState !== WebSocket.OPEN) return;
      if (socket.bufferedAmount > MAX_UNSENT_BYTES) socket.terminate();
      else socket.send(JSON.stringify(command));
    },
    restart: () => socket?.terminate(),
    stop() {
      isStopped = true;
      clearTimeout(timer);
      socket?.terminate();
    },
  };
}
