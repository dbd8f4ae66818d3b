import type { createClient } from 'redis';
import { shareRun } from '../steps.js';

const ANSWER_WITHIN_MS = 100;
const PROBE_EVERY_MS = 1_000;
/** A connection silent for this long is closed and reopened: its peer may have vanished. */
const SILENT_FOR_MS = 5_000;
const MAX_QUEUED_COMMANDS = 10_000;

export interface RedisLinkOptions {
  url: string;
  /** A command that proves that Redis can do its job; repeated every second. */
  probe: string[];
  /** Runs before Redis is used after an absence, because it may have come back empty. */
  prepare: () => Promise<unknown>;
  /** Called once per change, and once for the first known state. `cause` is the reason why Redis is not used. */
  onChange: (isUp: boolean, cause?: unknown) => void;
}

/** A Redis that may be away or stalled at any moment; its users only notice that it is not up. */
export interface RedisLink {
  /** False while Redis is away, stalled or not yet connected: callers with a fallback must not try. */
  readonly isUp: boolean;
  /** Sends one command without a time limit; for use inside `run` and `prepare`. */
  send(command: string[]): Promise<Reply>;
  /**
   * Runs work that sends commands. It is abandoned after 100 ms; a late answer is ignored.
   * @throws any failure; Redis then counts as down until a probe succeeds
   */
  run<T>(work: () => Promise<T>): Promise<T>;
  close(): void;
}

type Client = ReturnType<typeof createClient>;
type Reply = string | number | boolean | (string | number | boolean)[];

const clientOptions = {
  disableOfflineQueue: true,
  commandsQueueMaxLength: MAX_QUEUED_COMMANDS,
  // The time limit applies to whole operations; the client's own would cost a signal per command.
  commandOptions: { timeout: 0 },
  socket: {
    connectTimeout: SILENT_FOR_MS,
    socketTimeout: SILENT_FOR_MS,
    reconnectStrategy: (retries: number) =>
      Math.min(50 * 2 ** Math.min(retries, 5), 1_000) + Math.random() * 100,
  },
};

/** Connects in the background and retries forever; never fails and never blocks. */
export function openRedisLink({ url, probe, prepare, onChange }: RedisLinkOptions): RedisLink {
  let client: Client | undefined;
  let state: 'unknown' | 'up' | 'down' = 'unknown';
  let isClosed = false;
  let isProbing = false;

  function send(command: string[]): Promise<Reply> {
    if (!client?.isReady) return Promise.reject(new Error('Redis is not connected.'));
    return client.sendCommand<Reply>(command);
  }

  const probing = shareRun(() => send(probe));

  function takeDown(cause: unknown): void {
    if (state === 'down' || isClosed) return;
    state = 'down';
    onChange(false, cause);
  }

  async function check(): Promise<void> {
    // Without a connection there is nothing to probe; its loss has been reported.
    if (isProbing || isClosed || !client?.isReady) return;
    isProbing = true;
    try {
      // A stalled Redis is probed only once: the outstanding answer also shows that it is back.
      await inTime(probing.run());
      if (state !== 'up') {
        await inTime(prepare());
        if (isClosed) return;
        state = 'up';
        onChange(true);
      }
    } catch (error) {
      takeDown(error);
    } finally {
      isProbing = false;
    }
  }

  async function connect(): Promise<void> {
    // The client takes a third of a second and 20 MB to load, so it is loaded lazily, only where Redis is used.
    const { createClient } = await import('redis');
    if (isClosed) return;
    client = createClient({ url, ...clientOptions });
    client.unref();
    client.on('error', takeDown);
    client.on('ready', () => void check());
    // A connection in progress when the link was closed may still be established now.
    client.on('connect', () => isClosed && client?.destroy());
    await client.connect();
  }

  connect().catch(takeDown);
  const timer = setInterval(() => void check(), PROBE_EVERY_MS).unref();
  return {
    get isUp() {
      return state === 'up';
    },
    send,
    async run(work) {
      try {
        return await inTime(work());
      } catch (error) {
        takeDown(error);
        throw error;
      }
    },
    close() {
      isClosed = true;
      state = 'down';
      clearInterval(timer);
      client?.destroy();
    },
  };
}

/** Rejects after the time-out. The extra turn admits an answer that arrived while this process was busy. */
function inTime<T>(work: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const giveUp = () => reject(new Error(`Redis did not answer within ${ANSWER_WITHIN_MS} ms.`));
    const timer = setTimeout(() => setImmediate(giveUp), ANSWER_WITHIN_MS);
    work.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
