import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createGaugeClient, type Connection, type Credential, type UsageEvent } from './client.js';
import { inChunks } from '../core/steps.js';
import { DirectoryInUseError } from '../core/db/directory-lock.js';
import {
  createPost,
  deliverEvents,
  DeliveryError,
  REQUEST_TIMEOUT_MS,
  type DeliveryResult,
  type Post,
  type EventRefusal,
  type Sendable,
} from './delivery.js';
import { openSpool, readLines, SpoolFullError, type Segment, type Spool } from './spool.js';

export { DirectoryInUseError, SpoolFullError };

/** With a service key, an event names its Organization. */
export type SpooledEvent = UsageEvent & { organization?: string };

/** An event to report. Missing keys and times are filled in. */
export type ReportedEvent = Omit<SpooledEvent, 'idempotencyKey'> &
  Partial<Pick<SpooledEvent, 'idempotencyKey'>>;

export type UsageReporterOptions = Omit<Connection, 'timeoutMs'> & Credential & ReporterOptions;

interface ReporterOptions {
  /** Folder for unsent events. It must survive restarts and be used by only one process at a time. */
  directory: string;
  /** In bytes; default 256 MiB. */
  maxBytes?: number;
  /** In ms; default 1,000. */
  intervalMs?: number;
  /** `report()` then throws until some events have been sent. */
  onFull?(state: { bytes: number; maxBytes: number }): void;
  /** Rejected events are also stored in `refused.ndjson`. After a crash, the same events may be passed again. */
  onRefused?(events: RefusedEvent[]): void;
  /** Once when the service begins to refuse the key. Default: a warning of the process. */
  onKeyRefused?(reason: string): void;
  /** After each failed attempt. The reporter retries indefinitely. */
  onRetry?(reason: string, waitMs: number): void;
}

export interface RefusedEvent {
  /** Undefined if the stored line is corrupt. */
  event: SpooledEvent | undefined;
  code: string;
  detail: string;
}

export interface UsageReporter {
  /**
   * Resolves once the event is on disk: it is then counted exactly once, even after a crash.
   * @throws SpoolFullError, TypeError, RangeError or a file system error; the event was then not accepted
   */
  report(event: ReportedEvent): Promise<SpooledEvent>;
  /** True once each event has an answer, false after `timeoutMs` (default 30,000). */
  flush(options?: { timeoutMs?: number }): Promise<boolean>;
  /** Stops accepting events, flushes, and releases the directory. Unsent events are sent after the next start. */
  close(options?: { timeoutMs?: number }): Promise<boolean>;
  readonly bytes: number;
}

const MAX_BATCH = 500;
const PARALLEL = 4;
const MAX_EVENT_BYTES = 64 * 1024;
const BACKOFF_MS = 250;
/** After an error that a person must fix, such as a wrong key or URL. */
const BLOCKED_MS = 1_000;
const MAX_BLOCKED_MS = 60_000;
/** If only some events cannot be sent, the others wait no longer. */
const MAX_LEFT_MS = 5_000;

/** Accepted events survive service outages and crashes of this process. Requires Node. */
export async function createUsageReporter(options: UsageReporterOptions): Promise<UsageReporter> {
  const { directory, maxBytes = 256 * 1024 * 1024 } = options;
  const spool = await openSpool(directory, maxBytes);
  const stop = new AbortController();
  const sender = createSender(options, spool, stop.signal);
  let isFull = false;
  let closing: Promise<boolean> | undefined;

  async function append(line: string): Promise<void> {
    try {
      await spool.append(line);
      isFull = false;
    } catch (error) {
      if (error instanceof SpoolFullError && !isFull) {
        isFull = true;
        const state = { bytes: spool.bytes, maxBytes };
        notify(() => options.onFull?.(state));
      }
      throw error;
    }
    sender.wake();
  }

  async function close(timeoutMs: number): Promise<boolean> {
    const isSent = await sender.flush(timeoutMs);
    stop.abort();
    await sender.ended;
    await spool.close();
    return isSent;
  }

  return {
    async report(reported) {
      if (closing) throw new Error('The reporter is closed.');
      if ((options.serviceKey === undefined) !== (reported.organization === undefined))
        throw new TypeError(
          options.serviceKey === undefined
            ? 'organization needs a serviceKey. With an apiKey, the Organization is its own.'
            : 'organization is missing. With a serviceKey, each event names its Organization.',
        );
      const event = complete(reported);
      const line = JSON.stringify(event);
      if (Buffer.byteLength(line) > MAX_EVENT_BYTES)
        throw new RangeError(`An event can have at most ${MAX_EVENT_BYTES} bytes.`);
      await append(line);
      return event;
    },
    flush: ({ timeoutMs = 30_000 } = {}) => sender.flush(timeoutMs),
    close: ({ timeoutMs = 30_000 } = {}) => (closing ??= close(timeoutMs)),
    get bytes() {
      return spool.bytes;
    },
  };
}

/** Checks only the quantity; the service rejects events with any other error. */
function complete({ quantity, ...event }: ReportedEvent): SpooledEvent {
  if (quantity !== undefined && !(Number.isFinite(quantity) && quantity >= 0))
    throw new RangeError('A quantity must be a finite number of at least 0.');
  return {
    ...event,
    ...(quantity === undefined ? {} : { quantity }),
    // Without a time, the service would use the time of receipt, which may be days later.
    occurredAt: event.occurredAt ?? new Date().toISOString(),
    idempotencyKey: event.idempotencyKey ?? randomUUID(),
  };
}

function openPost(
  options: UsageReporterOptions,
  onRetry: (reason: string, waitMs: number) => void,
  signal: AbortSignal,
): Post {
  return createPost({
    client: createGaugeClient({ ...options, timeoutMs: REQUEST_TIMEOUT_MS }),
    isForMany: options.serviceKey !== undefined,
    leavesParts: true,
    address: options.baseUrl,
    addressName: 'baseUrl',
    maxAttempts: 0,
    backoffMs: BACKOFF_MS,
    signal,
    onRetry,
  });
}

/** One at a time. A segment is removed once all its events have an answer. */
function createSender(options: UsageReporterOptions, spool: Spool, signal: AbortSignal) {
  const { intervalMs = 1_000 } = options;
  const onRetry = (reason: string, waitMs: number) => notify(() => options.onRetry?.(reason, waitMs));
  let isKeyRefused = false;
  function onFailure(error: unknown, waitMs: number): void {
    const { message } = error as Error;
    onRetry(message, waitMs);
    const isRefused = error instanceof DeliveryError && error.keyStatus !== undefined;
    if (isRefused && !isKeyRefused)
      notify(() => {
        if (options.onKeyRefused) options.onKeyRefused(message);
        else process.emitWarning(`Gauge refuses the key: ${message}`);
      });
    isKeyRefused ||= isRefused;
  }
  const onRefused = (events: RefusedEvent[]) => notify(() => options.onRefused?.(events));
  const post = openPost(options, onRetry, signal);
  let flushes: (() => void)[] = [];
  let ring = () => {};
  let isIdle = false;

  /** `ring()` ends the pause early. */
  const pause = (ms?: number) =>
    new Promise<void>((resolve) => {
      const timer = ms === undefined ? undefined : setTimeout(resolve, ms);
      ring = () => {
        clearTimeout(timer);
        resolve();
      };
    });

  async function sendAll(): Promise<void> {
    await spool.seal();
    let failure: unknown;
    for (const segment of spool.segments)
      failure = (await sendSegment(segment, spool, post, onRefused)) ?? failure;
    if (failure !== undefined) throw failure;
  }

  async function run(): Promise<void> {
    while (!signal.aborted) {
      isIdle = spool.bytes === 0 && flushes.length === 0;
      if (isIdle) await pause();
      else {
        if (flushes.length === 0) await pause(intervalMs);
        const served = flushes;
        flushes = [];
        await retryUntilDone(sendAll, onFailure, signal);
        isKeyRefused = false;
        for (const resolve of served) resolve();
      }
    }
  }

  const ended = run().catch(() => undefined);
  signal.addEventListener('abort', () => ring(), { once: true });
  return {
    ended,
    wake() {
      if (isIdle) ring();
    },
    async flush(timeoutMs: number): Promise<boolean> {
      const isSent = new Promise<true>((resolve) => flushes.push(() => resolve(true)));
      ring();
      const done = new AbortController();
      const either = AbortSignal.any([done.signal, signal]);
      const isLate = sleep(timeoutMs, false, { signal: either }).catch(() => false);
      return Promise.race([isSent, isLate]).finally(() => done.abort());
    },
  };
}

/** Events that cannot be recorded now, or refused and not set aside, stay in the segment. Returns the reason. */
async function sendSegment(
  segment: Segment,
  spool: Spool,
  post: Post,
  onRefused: (events: RefusedEvent[]) => void,
): Promise<unknown> {
  const lines = await readLines(segment);
  const { refused, left } = await sendLines(post, lines);
  let failure = left[0] && new Error(`${left[0].event.organization}: ${left[0].code}: ${left[0].detail}`);
  const events = refused.map(toRefusedEvent);
  const at = new Date().toISOString();
  try {
    if (events.length > 0) await spool.putAside(events.map((event) => JSON.stringify({ at, ...event })));
    if (events.length > 0) onRefused(events);
  } catch (error) {
    left.push(...refused);
    failure = error as Error;
  }
  if (!failure) await spool.remove(segment);
  else {
    const kept = new Set(left.map(({ event }) => event.json));
    await spool.keepOnly(
      segment,
      lines.filter((line) => kept.has(line)),
    );
  }
  return failure;
}

async function sendLines(
  post: Post,
  lines: readonly string[],
): Promise<Pick<DeliveryResult<Sendable>, 'refused' | 'left'>> {
  const batches = inChunks(lines, MAX_BATCH).map((chunk) => chunk.map(toSendable));
  const refused: EventRefusal<Sendable>[] = [];
  const left: EventRefusal<Sendable>[] = [];
  const work = async () => {
    for (let batch = batches.shift(); batch; batch = batches.shift()) {
      const delivered = await deliverEvents(post, batch);
      refused.push(...delivered.refused);
      left.push(...delivered.left);
    }
  };
  const ends = await Promise.allSettled(Array.from({ length: PARALLEL }, work));
  for (const end of ends) if (end.status === 'rejected') throw end.reason;
  return { refused, left };
}

async function retryUntilDone(
  task: () => Promise<void>,
  onFailure: (error: unknown, waitMs: number) => void,
  signal: AbortSignal,
): Promise<void> {
  for (let failures = 0; ; failures++) {
    try {
      return await task();
    } catch (error) {
      signal.throwIfAborted();
      const longestMs = error instanceof DeliveryError ? MAX_BLOCKED_MS : MAX_LEFT_MS;
      const waitMs = Math.min(BLOCKED_MS * 2 ** failures, longestMs);
      onFailure(error, waitMs);
      await sleep(waitMs, undefined, { signal });
    }
  }
}

/** An error in a callback does not reach the reporter. */
const notify = (callback: () => void): void => queueMicrotask(callback);

const toRefusedEvent = ({ event: { json }, code, detail }: EventRefusal<Sendable>): RefusedEvent => ({
  code,
  detail,
  event: readEvent(json),
});

const toSendable = (json: string): Sendable => ({ json, organization: readEvent(json)?.organization });

/** Undefined if the line is corrupt. */
function readEvent(json: string): SpooledEvent | undefined {
  try {
    return JSON.parse(json) as SpooledEvent;
  } catch {
    return undefined;
  }
}
