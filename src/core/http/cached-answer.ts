import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { brotliCompress, brotliCompressSync, constants, crc32, deflateRaw, deflateRawSync } from 'node:zlib';
import type { Request, Response } from 'express';
import { endShared } from './connections.js';
import { hasCopy } from './request.js';

/** A JSON object without its last fields, which are told with each answer. */
export interface CachedAnswer {
  /** Names the beginning: the same in every process that has the same. */
  version: string;
  /** Resolves when the bytes in an encoding lie ready; undefined if they do, or are made in no time. */
  prepare(encoding: Encoding): Promise<void> | undefined;
  /** The whole object, encoded: the beginning is the same bytes for every end. */
  parts(encoding: Encoding, end: string): Parts;
}

/** What takes more than some milliseconds to compress. */
const LARGE_BYTES = 128 * 1024;

/**
 * The beginning is encoded when it is first asked for in an encoding, and completed when it is first asked for with
 * an end: as long as the end stays the same (a second, if it counts seconds), an answer is bytes that lie ready.
 * @param beginning up to where the end begins
 */
export function createCachedAnswer(beginning: string): CachedAnswer {
  const bytes = Buffer.from(beginning);
  const encoded = new Map<Encoding, { complete: Completion; end: string; parts: Parts }>();
  const beginnings = new Map<Encoding, Completion>();
  const preparing = new Map<Encoding, Promise<void>>();
  return {
    prepare(encoding) {
      if (bytes.length < LARGE_BYTES || encoding === 'identity' || beginnings.has(encoding)) return undefined;
      let work = preparing.get(encoding);
      if (!work) {
        work = encodeBeginningLater[encoding](bytes).then(
          (complete) => void beginnings.set(encoding, complete),
        );
        preparing.set(encoding, work);
      }
      return work;
    },
    version: createHash('sha256').update(bytes).digest('base64url').slice(0, 22),
    parts(encoding, end) {
      const known = encoded.get(encoding);
      if (known?.end === end) return known.parts;
      const complete = known?.complete ?? beginnings.get(encoding) ?? encodeBeginning[encoding](bytes);
      const parts = complete(Buffer.from(end));
      encoded.set(encoding, { complete, end, parts });
      return parts;
    },
  };
}

export interface Sent {
  answer: CachedAnswer;
  end: string;
  /** Added to the version: what the end says that a client with an older copy must learn. */
  tag?: string;
}

/**
 * Answers with cached JSON, or with 304 to who has it. No cache on the way may keep it, because its end would age
 * there unseen; clients that keep their own copy get their 304 by its `ETag`.
 */
export function sendCachedAnswer(req: Request<object>, res: Response, { answer, end, tag = '' }: Sent): void {
  const etag = `W/"${answer.version}${tag}"`;
  res.setHeader('ETag', etag);
  res.setHeader('Cache-Control', 'no-store');
  res.setHeader('Vary', 'Accept-Encoding, Origin');
  if (hasCopy(req, etag)) {
    res.statusCode = 304;
    res.end();
    return;
  }
  const encoding = chooseEncoding(req.headers['accept-encoding']?.toString());
  const waiting = answer.prepare(encoding);
  if (waiting) void waiting.catch(() => undefined).then(() => sendBytes(res, answer, encoding, end));
  else sendBytes(res, answer, encoding, end);
}

function sendBytes(res: Response, answer: CachedAnswer, encoding: Encoding, end: string): void {
  const parts = answer.parts(encoding, end);
  res.setHeader('Content-Type', 'application/json; charset=utf-8');
  if (encoding !== 'identity') res.setHeader('Content-Encoding', encoding);
  res.setHeader('Content-Length', parts[0].length + parts[1].length);
  endShared(res, ...parts);
}

/** How an answer may be encoded, the smallest first. */
export const encodings = ['br', 'gzip', 'identity'] as const;
export type Encoding = (typeof encodings)[number];

/** Below the smallest weight that can be written: plain is acceptable unless it is refused, and anything named is better. */
const UNNAMED = 0.0001;

/** The encoding that the client would rather have by its `Accept-Encoding` (RFC 9110, 12.5.3); of equal ones the smallest. */
export function chooseEncoding(header: string | undefined): Encoding {
  if (header === undefined || header === '') return 'identity';
  const weights = new Map(header.split(',').map(readWeight));
  const others = weights.get('*');
  const weightOf = (encoding: Encoding): number =>
    weights.get(encoding) ?? others ?? (encoding === 'identity' ? UNNAMED : 0);
  let best: Encoding = 'identity';
  let highest = 0;
  for (const encoding of encodings) {
    const weight = weightOf(encoding);
    if (weight > highest) [best, highest] = [encoding, weight];
  }
  return best;
}

/** `gzip;q=0.5` as a name and a weight. A weight that is none counts as a refusal. */
function readWeight(part: string): [string, number] {
  const [name = '', ...parameters] = part.split(';');
  const q = parameters.map((parameter) => parameter.trim().toLowerCase()).find((p) => p.startsWith('q='));
  const weight = q === undefined ? 1 : Number(q.slice(2));
  return [name.trim().toLowerCase(), weight >= 0 && weight <= 1 ? weight : 0];
}

/** What is sent one part after the other; the first is the same in many answers. */
export type Parts = readonly [beginning: Buffer, rest: Buffer];

/** Encoded bytes that lack their end: gives the whole for any end, which may be `MAX_END_BYTES` long. */
export type Completion = (end: Buffer) => Parts;

export const MAX_END_BYTES = 0xffff;

/**
 * Encodes the beginning of a text once, so that it can be completed with different ends without a copy.
 *
 * Both formats are sequences of blocks that may start at any byte after a flush, and both have blocks that hold their
 * bytes as they are: the end goes into one of those.
 */
export const encodeBeginning: Record<Encoding, (beginning: Buffer) => Completion> = {
  identity: beginIdentity,
  gzip: (beginning) => completeGzip(beginning, deflateRawSync(beginning, gzipOptions)),
  br: (beginning) => completeBrotli(brotliCompressSync(beginning, brotliOptions(beginning))),
};

const deflateLater = promisify(deflateRaw);
const brotliLater = promisify(brotliCompress);

/** The same on a thread of its own: a megabyte takes some 30 ms, for which nothing else should wait. */
export const encodeBeginningLater: Record<Encoding, (beginning: Buffer) => Promise<Completion>> = {
  identity: (beginning) => Promise.resolve(beginIdentity(beginning)),
  gzip: async (beginning) => completeGzip(beginning, await deflateLater(beginning, gzipOptions)),
  br: async (beginning) => completeBrotli(await brotliLater(beginning, brotliOptions(beginning))),
};

function beginIdentity(beginning: Buffer): Completion {
  return (end) => [beginning, end];
}

const gzipOptions = { finishFlush: constants.Z_SYNC_FLUSH };

const brotliOptions = (beginning: Buffer) => ({
  finishFlush: constants.BROTLI_OPERATION_FLUSH,
  params: {
    [constants.BROTLI_PARAM_QUALITY]: 5,
    [constants.BROTLI_PARAM_MODE]: constants.BROTLI_MODE_TEXT,
    [constants.BROTLI_PARAM_SIZE_HINT]: beginning.length,
  },
});

/** No name, no time, no hint about the compression, an unknown system (RFC 1952, 2.3). */
const gzipHeader = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff]);

function completeGzip(beginning: Buffer, flushed: Buffer): Completion {
  const sum = crc32(beginning);
  const first = Buffer.concat([gzipHeader, flushed]);
  return (end) => {
    // The last block, stored: its length and the complement of that (RFC 1951, 3.2.4).
    const block = Buffer.alloc(5);
    block.writeUInt8(1, 0);
    block.writeUInt16LE(end.length, 1);
    block.writeUInt16LE(end.length ^ 0xffff, 3);
    const trailer = Buffer.alloc(8);
    trailer.writeUInt32LE(crc32(end, sum), 0);
    trailer.writeUInt32LE((beginning.length + end.length) >>> 0, 4);
    return [first, Buffer.concat([block, end, trailer])];
  };
}

/** An empty last meta-block. */
const brotliEnd = Buffer.from([0b11]);

function completeBrotli(flushed: Buffer): Completion {
  return (end) => {
    if (end.length === 0) return [flushed, brotliEnd];
    // Not the last meta-block, four digits of length, the length less one, uncompressed (RFC 7932, 9.2).
    const header = Buffer.alloc(3);
    header.writeUIntLE(((end.length - 1) << 3) | (1 << 19), 0, 3);
    return [flushed, Buffer.concat([header, end, brotliEnd])];
  };
}
