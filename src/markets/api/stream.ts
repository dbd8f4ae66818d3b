import { randomBytes } from 'node:crypto';
import type { Response } from 'express';
import type { Logger } from 'pino';
import { AppError } from '../../core/errors.js';
import type { Lifecycle } from '../../core/http/context.js';
import type { Metrics } from '../../core/metrics.js';
import type { SnapshotStore } from '../snapshot/snapshot.js';
import { createMarketFeed } from './market-feed.js';

const usualLimits = {
  readers: 2_000,
  readersPerAddress: 20,
  /**
   * A reader with more unread bytes is dropped: it would only fall further behind. The first event holds every market:
   * 400 KB for 1,500 markets.
   */
  unreadBytes: 1024 * 1024,
  heartbeatMs: 15_000,
};
export type StreamLimits = typeof usualLimits;

/** Randomised, because a restart disconnects all clients at the same time. */
const RETRY_MS = 2_000;
const RETRY_SPREAD_MS = 3_000;

interface StreamDeps {
  store: SnapshotStore;
  metrics: Pick<Metrics, 'streamReaders' | 'streamsDropped'>;
  log: Logger;
  lifecycle: Pick<Lifecycle, 'refusal'>;
  limits?: Partial<StreamLimits> | undefined;
}

export type MarketStream = ReturnType<typeof createMarketStream>;

interface ReaderWish {
  address: string;
  stationId: string | undefined;
  lastEventId: string | undefined;
}

interface Reader {
  res: Response;
  stationId: string | undefined;
  /** Undefined before the first refresh. */
  seen: number | undefined;
}

const heartbeat = Buffer.from(':\n\n');

/** Events are encoded once for all readers. */
export function createMarketStream({ store, metrics, log, lifecycle, limits }: StreamDeps) {
  const { readers: maxReaders, readersPerAddress, unreadBytes, heartbeatMs } = { ...usualLimits, ...limits };
  // Readers of another process start with a full snapshot.
  const instance = randomBytes(6).toString('hex');
  const feed = createMarketFeed(instance);
  const readers = new Set<Reader>();
  const perAddress = new Map<string, number>();
  let isStopped = false;
  let beat: NodeJS.Timeout | undefined;

  if (store.current) feed.take(store.current);
  const unsubscribe = store.subscribe((snapshot) => {
    feed.take(snapshot);
    for (const reader of readers) sendTo(reader);
  });

  function sendTo(reader: Reader): void {
    const { seen, stationId } = reader;
    const changes = seen === undefined ? undefined : feed.changesEvent(seen, stationId);
    send(reader, changes ?? feed.snapshotEvent(stationId));
    reader.seen = feed.sequence;
  }

  function send({ res }: Reader, bytes: Buffer): void {
    // The reader's next request can reach another instance.
    if (lifecycle.refusal) return end(res);
    if (res.writableLength > unreadBytes) {
      metrics.streamsDropped.inc();
      log.info({ unread: res.writableLength }, 'closed a stream because its reader is too slow');
      res.destroy();
      return;
    }
    res.write(bytes);
  }

  function count(address: string, by: 1 | -1): void {
    const open = (perAddress.get(address) ?? 0) + by;
    if (open === 0) perAddress.delete(address);
    else perAddress.set(address, open);
    metrics.streamReaders.set(readers.size);
    if (readers.size === 0) {
      clearInterval(beat);
      beat = undefined;
    } else {
      beat ??= setInterval(() => {
        for (const reader of readers) send(reader, heartbeat);
      }, heartbeatMs).unref();
    }
  }

  return {
    /** Until the reader disconnects or falls behind, or the stream stops. @throws AppError rate_limited, unavailable */
    open(res: Response, { address, stationId, lastEventId }: ReaderWish): void {
      if (isStopped)
        throw new AppError('unavailable', 'This instance is shutting down.', { retryAfterSeconds: 1 });
      if ((perAddress.get(address) ?? 0) >= readersPerAddress) {
        const detail = `Your address has ${readersPerAddress} open streams and cannot open more.`;
        throw new AppError('rate_limited', detail, { retryAfterSeconds: 30 });
      }
      if (readers.size >= maxReaders)
        throw new AppError('unavailable', 'Too many streams are open.', { retryAfterSeconds: 30 });
      const reader: Reader = { res, stationId, seen: readSequence(lastEventId, instance) };
      readers.add(reader);
      count(address, 1);
      res.once('close', () => {
        readers.delete(reader);
        count(address, -1);
      });
      setStreamHeaders(res);
      res.write(`retry: ${RETRY_MS + Math.floor(Math.random() * RETRY_SPREAD_MS)}\n\n`);
      if (feed.sequence > 0) sendTo(reader);
    },
    stop(): void {
      isStopped = true;
      unsubscribe();
      for (const { res } of readers) end(res);
    },
  };
}

function end(res: Response): void {
  // Unread data would keep the connection open until the shutdown times out.
  if (res.writableLength > 0) res.destroy();
  else res.end();
}

/** Proxies must not cache, transform or buffer the stream. */
export function setStreamHeaders(res: Response): void {
  res.setHeader('Content-Type', 'text/event-stream; charset=utf-8');
  res.setHeader('Cache-Control', 'no-store, no-transform');
  res.setHeader('Vary', 'Origin');
  res.setHeader('X-Accel-Buffering', 'no');
}

/** Undefined if another process issued the id. */
function readSequence(eventId: string | undefined, instance: string): number | undefined {
  const [, digits] = new RegExp(`^${instance}-(\\d{1,15})$`).exec(eventId ?? '') ?? [];
  return digits === undefined ? undefined : Number(digits);
}
