import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { brotliCompress, brotliCompressSync, constants, crc32, deflateRaw, deflateRawSync } from 'node:zlib';
import type { Request, Response } from 'express';
import { endShared } from './connections.js';
import { hasCopy } from './request.js';

/** A JSON object whose last fields are added to each answer. */
export interface CachedAnswer {
  /** Version of the beginning, equal in all processes with the same content. */
  version: string;
  /** Resolves when the encoded bytes are ready; undefined if they are, or take no time to make. */
  prepare(encoding: Encoding): Promise<void> | undefined;
  parts(encoding: Encoding, end: string): Parts;
}

/** Compressing more than this takes more than a few milliseconds. */
const LARGE_BYTES = 128 * 1024;

/**
 * Encodes the beginning on the first request for an encoding, and completes it on the first request with a given end.
 * While the end stays the same (a second, if it counts seconds), answers reuse the bytes.
 * @param beginning everything before the end
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
  /** Added to the version, for changes in the end that a client with an older copy must see. */
  tag?: string;
}

/**
 * Answers with cached JSON, or with 304 if the client has a copy. Caches on the way must not keep it, because its end
 * would silently age there; clients with their own copy revalidate it by `ETag`.
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

/** Supported encodings, smallest first. */
export const encodings = ['br', 'gzip', 'identity'] as const;
export type Encoding = (typeof encodings)[number];

/** Below the smallest weight that can be written: plain is acceptable unless refused, and any named encoding is better. */
const UNNAMED = 0.0001;

/** The client's preferred encoding by `Accept-Encoding` (RFC 9110, 12.5.3); among equals, the smallest. */
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

/** Parses `gzip;q=0.5` into a name and a weight. An invalid weight counts as a refusal. */
function readWeight(part: string): [string, number] {
  const [name = '', ...parameters] = part.split(';');
  const q = parameters.map((parameter) => parameter.trim().toLowerCase()).find((p) => p.startsWith('q='));
  const weight = q === undefined ? 1 : Number(q.slice(2));
  return [name.trim().toLowerCase(), weight >= 0 && weight <= 1 ? weight : 0];
}

/** Parts sent one after the other; many answers share the first. */
export type Parts = readonly [beginning: Buffer, rest: Buffer];

/** Completes encoded bytes with an end of up to `MAX_END_BYTES`. */
export type Completion = (end: Buffer) => Parts;

export const MAX_END_BYTES = 0xffff;

/**
 * Encodes the beginning of a text once, so that it can be completed with different ends without a copy.
 * Both formats are sequences of blocks that may start at any byte after a flush, and both have uncompressed blocks:
 * the end goes into one of those.
 */
export const encodeBeginning: Record<Encoding, (beginning: Buffer) => Completion> = {
  identity: beginIdentity,
  gzip: (beginning) => completeGzip(beginning, deflateRawSync(beginning, gzipOptions)),
  br: (beginning) => completeBrotli(brotliCompressSync(beginning, brotliOptions(beginning))),
};

const deflateLater = promisify(deflateRaw);
const brotliLater = promisify(brotliCompress);

/** The same on another thread: a megabyte takes about 30 ms, which must not block other requests. */
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

/** No name, no time, no compression hint, unknown system (RFC 1952, 2.3). */
const gzipHeader = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff]);

function completeGzip(beginning: Buffer, flushed: Buffer): Completion {
  const sum = crc32(beginning);
  const first = Buffer.concat([gzipHeader, flushed]);
  return (end) => {
    // The last block, stored: its length and the length's complement (RFC 1951, 3.2.4).
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

const brotliEnd = Buffer.from([0b11]);

function completeBrotli(flushed: Buffer): Completion {
  return (end) => {
    if (end.length === 0) return [flushed, brotliEnd];
    // Not the last meta-block; four nibbles of length; the length minus one; uncompressed (RFC 7932, 9.2).
    const header = Buffer.alloc(3);
    header.writeUIntLE(((end.length - 1) << 3) | (1 << 19), 0, 3);
    return [flushed, Buffer.concat([header, end, brotliEnd])];
  };
}
