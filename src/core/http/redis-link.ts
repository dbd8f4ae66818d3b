import type { createClient } from 'redis';
import { shareRun } from '../steps.js';

const ANSWER_WITHIN_MS = 100;
const PROBE_EVERY_MS = 1_000;
/** Time without traffic after which a connection is closed and reopened, because its peer may be gone. */
const SILENT_FOR_MS = 5_000;
const MAX_QUEUED_COMMANDS = 10_000;

export interface RedisLinkOptions {
  url: string;
  /** Repeated every second; succeeds only if Redis can do its job. */
  probe: string[];
  /** Redis may have lost its data. */
  prepare: () => Promise<unknown>;
  /** Called once the state is known and after each change. */
  onChange: (isUp: boolean, cause?: unknown) => void;
}

export type RedisLink = ReturnType<typeof openRedisLink>;

type Reply = string | number | boolean | (string | number | boolean)[];

const clientOptions = {
  disableOfflineQueue: true,
  commandsQueueMaxLength: MAX_QUEUED_COMMANDS,
  // The client's own time limit would cost an AbortSignal per command.
  commandOptions: { timeout: 0 },
  socket: {
    connectTimeout: SILENT_FOR_MS,
    socketTimeout: SILENT_FOR_MS,
    reconnectStrategy: (retries: number) =>
      Math.min(50 * 2 ** Math.min(retries, 5), 1_000) + Math.random() * 100,
  },
};

/** Retries forever. Never throws and never blocks. */
export function openRedisLink({ url, probe, prepare, onChange }: RedisLinkOptions) {
  let client: ReturnType<typeof createClient> | undefined;
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
    // If the client is not ready, the lost connection has already been reported.
    if (isProbing || isClosed || !client?.isReady) return;
    isProbing = true;
    try {
      // The reply to a pending probe will show that Redis is back.
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
    // The client takes a third of a second and 20 MB to load.
    const { createClient } = await import('redis');
    if (isClosed) return;
    client = createClient({ url, ...clientOptions });
    client.unref();
    client.on('error', takeDown);
    client.on('ready', () => void check());
    // A connection attempt may still succeed after `close`.
    client.on('connect', () => isClosed && client?.destroy());
    await client.connect();
  }

  connect().catch(takeDown);
  const timer = setInterval(() => void check(), PROBE_EVERY_MS).unref();
  return {
    /** If false, callers with a fallback should use it. */
    get isUp() {
      return state === 'up';
    },
    /** Has no time limit. For use inside `run` and `prepare`. */
    send,
    /** Gives up after 100 ms. @throws any failure; Redis then counts as down until a probe succeeds */
    async run<T>(work: () => Promise<T>): Promise<T> {
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

/** Waits one more turn of the event loop, in case the reply arrived while this process was busy. */
function inTime<T>(work: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const giveUp = () => reject(new Error(`Redis did not answer within ${ANSWER_WITHIN_MS} ms.`));
    const timer = setTimeout(() => setImmediate(giveUp), ANSWER_WITHIN_MS);
    work.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
