import { randomBytes } from 'node:crypto';
import type { Response } from 'express';
import type { Logger } from 'pino';
import { AppError } from '../../core/errors.js';
import type { Metrics } from '../../core/metrics.js';
import type { SnapshotStore } from '../snapshot/snapshot.js';
import { createMarketFeed } from './market-feed.js';

export interface StreamLimits {
  readers: number;
  readersPerAddress: number;
  /** Who has left this much unread is dropped: it would only fall further behind. */
  unreadBytes: number;
  heartbeatMs: number;
}

const usualLimits: StreamLimits = {
  readers: 2_000,
  readersPerAddress: 20,
  // The first event tells of all markets: with 1,500 of them that is 400 KB.
  unreadBytes: 1024 * 1024,
  heartbeatMs: 15_000,
};

/** When clients come back after a lost connection: spread out, because all of them lose it together. */
const RETRY_MS = 2_000;
const RETRY_SPREAD_MS = 3_000;

export interface StreamDeps {
  store: SnapshotStore;
  metrics: Pick<Metrics, 'streamReaders' | 'streamsDropped'>;
  log: Logger;
  limits?: Partial<StreamLimits> | undefined;
}

export interface ReaderWish {
  /** Whom the stream is counted for. */
  address: string;
  stationId: string | undefined;
  lastEventId: string | undefined;
}

export interface MarketStream {
  /**
   * Sends events over the response until its reader leaves, is too slow, or the stream is stopped.
   * @throws AppError rate_limited, unavailable
   */
  open(res: Response, wish: ReaderWish): void;
  stop(): void;
}

interface Reader {
  res: Response;
  stationId: string | undefined;
  /** The last refresh that it was told of; undefined: none. */
  seen: number | undefined;
}

const heartbeat = Buffer.from(':\n\n');

/** Tells readers of each refresh. What is sent is made once for all of them. */
export function createMarketStream({ store, metrics, log, limits }: StreamDeps): MarketStream {
  const { readers: maxReaders, readersPerAddress, unreadBytes, heartbeatMs } = { ...usualLimits, ...limits };
  // Of a process, so that a reader who comes from another one or from before a restart starts anew.
  const instance = randomBytes(6).toString('hex');
  const feed = createMarketFeed(instance);
  const readers = new Set<Reader>();
  const perAddress = new Map<string, number>();
  let isStopped = false;
  let beat: NodeJS.Timeout | undefined;

  if (store.current) feed.take(store.current);
  const unsubscribe = store.subscribe((snapshot) => {
    feed.take(snapshot);
    for (const reader of readers) tell(reader);
  });

  function tell(reader: Reader): void {
    const { seen, stationId } = reader;
    const changes = seen === undefined ? undefined : feed.changesEvent(seen, stationId);
    send(reader, changes ?? feed.snapshotEvent(stationId));
    reader.seen = feed.sequence;
  }

  function send({ res }: Reader, bytes: Buffer): void {
    if (res.writableLength > unreadBytes) {
      metrics.streamsDropped.inc();
      log.info({ unread: res.writableLength }, 'a stream is closed: its reader is too slow');
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
    open(res, { address, stationId, lastEventId }) {
      if (isStopped)
        throw new AppError('unavailable', 'This instance is shutting down.', { retryAfterSeconds: 1 });
      if ((perAddress.get(address) ?? 0) >= readersPerAddress) {
        const detail = `Your address has ${readersPerAddress} streams open, and may not open more.`;
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
      res.write(`retry: ${retryMs()}\n\n`);
      if (feed.sequence > 0) tell(reader);
    },
    stop() {
      isStopped = true;
      unsubscribe();
      // What lies unread would keep its connection open until the shutdown gives up on it.
      for (const { res } of readers) {
        if (res.writableLength > 0) res.destroy();
        else res.end();
      }
    },
  };
}

/** No proxy on the way may keep, change or hold back what is sent. */
export function setStreamHeaders(res: Response): void {
  res.setHeader('Content-Type', 'text/event-stream; charset=utf-8');
  res.setHeader('Cache-Control', 'no-store, no-transform');
  res.setHeader('Vary', 'Origin');
  res.setHeader('X-Accel-Buffering', 'no');
}

const retryMs = (): number => RETRY_MS + Math.floor(Math.random() * RETRY_SPREAD_MS);

/** The refresh that an event id of this process names. */
function readSequence(eventId: string | undefined, instance: string): number | undefined {
  const [, digits] = new RegExp(`^${instance}-(\\d{1,15})$`).exec(eventId ?? '') ?? [];
  return digits === undefined ? undefined : Number(digits);
}
