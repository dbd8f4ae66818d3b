import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, open, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import { createGunzip, gzipSync } from 'node:zlib';
import { addDecimals } from '../../core/decimal.js';
import type { EventPosition } from '../events/event-queries.js';
import type { ArchivedEvent, MetricSum, Month, Sum } from './queries.js';

/** A person must intervene. */
export class ArchiveError extends Error {
  override name = 'ArchiveError';
}

/** `2025-10/acme-live`. A month's folder can be moved to other storage as a whole. */
export const baseNameOf = (slug: string, { period, livemode }: Month): string =>
  `${period.slice(0, 7)}/${slug}-${livemode ? 'live' : 'test'}`;

export function addTo(sums: Map<string, Sum>, name: string, quantity: string, events = 1): void {
  const sum = sums.get(name);
  if (sum === undefined) sums.set(name, { quantity, events });
  else {
    sum.quantity = addDecimals(sum.quantity, quantity);
    sum.events += events;
  }
}

/** All or nothing: the name appears once the contents are on disk. Each piece is a gzip member, which bounds memory. */
export async function writePieces(dir: string, base: string, pieces: AsyncIterable<string>) {
  const hash = createHash('sha256');
  /** Relative to the archive folder. The name ends with the start of the hash, so no file overwrites another. */
  const written = { file: '', sha256: '', bytes: 0 };
  await writeWhole(dir, base, async (write) => {
    for await (const piece of pieces) {
      const packed = gzipSync(piece, { level: 3 });
      hash.update(packed);
      written.bytes += packed.length;
      await write(packed);
    }
    written.sha256 = hash.digest('hex');
    return (written.file = `${base}-${written.sha256.slice(0, 12)}.ndjson.gz`);
  });
  return written;
}

export async function writeWhole(
  dir: string,
  base: string,
  fill: (write: (data: Buffer) => Promise<unknown>) => Promise<string>,
): Promise<void> {
  // Overwrites a partial file left behind by a killed run.
  const part = join(dir, `${base}.part`);
  await mkdir(dirname(part), { recursive: true, mode: 0o700 });
  const handle = await open(part, 'w', 0o600);
  let name: string;
  try {
    name = await fill((data) => handle.write(data));
    await handle.sync();
  } catch (error) {
    await rm(part, { force: true });
    throw error;
  } finally {
    await handle.close();
  }
  await rename(part, join(dir, name));
  const folder = await open(dirname(part), 'r');
  await folder.sync().finally(() => folder.close());
}

export const toLine = ({ subject, dimensions, creditPrice, ...event }: ArchivedEvent): string =>
  `${JSON.stringify({ ...event, ...(subject ? { subject } : {}), ...(dimensions ? { dimensions } : {}), ...(creditPrice ? { creditPrice } : {}) })}\n`;

/** In file order. @param onBytes receives the compressed bytes */
async function* readEvents(path: string, onBytes: (bytes: Buffer) => void): AsyncGenerator<ArchivedEvent[]> {
  async function* packed() {
    for await (const chunk of createReadStream(path, { highWaterMark: 1 << 18 })) {
      onBytes(chunk as Buffer);
      yield chunk as Buffer;
    }
  }
  const raw = Readable.from(packed(), { objectMode: false });
  const text = createGunzip();
  raw.on('error', (error) => text.destroy(error));
  raw.pipe(text).setEncoding('utf8');
  let rest = '';
  for await (const chunk of text) {
    const lines = (rest + (chunk as string)).split('\n');
    rest = lines.pop()!;
    yield lines.map((line) => JSON.parse(line) as ArchivedEvent);
  }
  if (rest !== '') throw new ArchiveError(`${path} ends in the middle of a line.`);
}

export interface Chunk {
  productId: string;
  first: EventPosition;
  last: EventPosition;
  /** Keyed by `pricedName`. */
  sums: Map<string, Sum>;
  events: number;
}

export interface ProductSums {
  productId: string;
  totals: Map<string, Sum>;
  /** Keyed by `hourName`. */
  hours: Map<string, Sum>;
}

export const hourName = (hour: string, apiKeyId: string, metric: string, dimensions = ''): string =>
  `${hour} ${apiKeyId} ${metric}${dimensions === '' ? '' : `\n${dimensions}`}`;

export const pricedName = (metric: string, creditPrice = '0'): string => `${metric}\n${creditPrice}`;

interface ReadOptions {
  /** Events that an earlier run has deleted. */
  skip: number;
  chunkSize: number;
  /** Called with complete sums. */
  onProduct: (sums: ProductSums) => Promise<void>;
  onEvents: (count: number) => void;
}

export async function readArchive(path: string, { skip, chunkSize, onProduct, onEvents }: ReadOptions) {
  const hash = createHash('sha256');
  const sums: MetricSum[] = [];
  /** After the first `skip` events, in file order. */
  const chunks: Chunk[] = [];
  let read = 0;
  let product: ProductSums | undefined;
  let chunk: Chunk | undefined;
  async function endProduct() {
    if (!product) return;
    for (const [metric, sum] of product.totals) sums.push({ productId: product.productId, metric, ...sum });
    await onProduct(product);
  }
  try {
    for await (const events of readEvents(path, (bytes) => hash.update(bytes))) {
      for (const event of events) {
        const { productId, metric, quantity, occurredAt, idempotencyKey, apiKeyId, dimensions } = event;
        if (product?.productId !== productId) {
          await endProduct();
          product = { productId, totals: new Map(), hours: new Map() };
          chunk = undefined;
        }
        addTo(product.totals, metric, quantity);
        addTo(product.hours, hourName(occurredAt.slice(0, 13), apiKeyId, metric, dimensions), quantity);
        if (read++ < skip) continue;
        const position = { occurredAt, idempotencyKey };
        if (!chunk || chunk.events === chunkSize) {
          chunk = { productId, first: position, last: position, sums: new Map(), events: 0 };
          chunks.push(chunk);
        }
        chunk.last = position;
        chunk.events++;
        addTo(chunk.sums, pricedName(metric, event.creditPrice), quantity);
      }
      onEvents(events.length);
    }
    await endProduct();
  } catch (error) {
    if (error instanceof ArchiveError || !isUnreadable(error)) throw error;
    throw new ArchiveError(`${path} cannot be read: ${error.message}`, { cause: error });
  }
  return { sha256: hash.digest('hex'), sums, chunks };
}

const isUnreadable = (error: unknown): error is Error =>
  error instanceof SyntaxError || /^(E[A-Z]+|Z_)/.test(String((error as { code?: unknown }).code));
