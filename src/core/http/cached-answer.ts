import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import type { Request, Response } from 'express';
import Negotiator from 'negotiator';
import { endShared } from './connections.js';
import { hasCopy } from './request.js';

/** A JSON object that many readers share, whose last fields change with the time. */
export interface CachedAnswer {
  /** Version of all but the last fields, equal in all processes with the same content. */
  version: string;
  /** The whole object. While the last fields stay the same, answers in one encoding share the bytes. */
  encode(encoding: Encoding, lastFields: object): Promise<Buffer>;
}

export function createCachedAnswer(fields: object): CachedAnswer {
  const encoded = new Map<Encoding, { end: string; bytes: Promise<Buffer> }>();
  return {
    version: createHash('sha256').update(JSON.stringify(fields)).digest('base64url').slice(0, 22),
    encode(encoding, lastFields) {
      const end = JSON.stringify(lastFields);
      const known = encoded.get(encoding);
      if (known?.end === end) return known.bytes;
      const bytes = encoders[encoding](Buffer.from(JSON.stringify({ ...fields, ...lastFields })));
      encoded.set(encoding, { end, bytes });
      return bytes;
    },
  };
}

export interface Sent {
  answer: CachedAnswer;
  lastFields: object;
  /** Added to the version, for changes of the last fields that a client with an older copy must see. */
  tag?: string;
}

/**
 * Answers with cached JSON, or with 304 if the client has a copy. Caches on the way must not keep it, because its last
 * fields would silently age there; clients with their own copy revalidate it by `ETag`.
 */
export async function sendCachedAnswer(
  req: Request<object>,
  res: Response,
  { answer, lastFields, tag = '' }: Sent,
): Promise<void> {
  const etag = `W/"${answer.version}${tag}"`;
  res.setHeader('ETag', etag);
  res.setHeader('Cache-Control', 'no-store');
  res.setHeader('Vary', 'Accept-Encoding, Origin');
  if (hasCopy(req, etag)) {
    res.statusCode = 304;
    res.end();
    return;
  }
  const encoding = chooseEncoding(req);
  const bytes = await answer.encode(encoding, lastFields);
  res.setHeader('Content-Type', 'application/json; charset=utf-8');
  if (encoding !== 'identity') res.setHeader('Content-Encoding', encoding);
  res.setHeader('Content-Length', bytes.length);
  endShared(res, bytes);
}

/** Supported encodings, smallest first. */
const encodings = ['br', 'gzip', 'identity'] as const;
export type Encoding = (typeof encodings)[number];

/** The published types of negotiator lack the second parameter. */
interface EncodingNegotiator {
  encoding(available: readonly string[], options: { preferred: readonly string[] }): string | undefined;
}

/** The client's preferred encoding by `Accept-Encoding`; among equals, the smallest. */
export function chooseEncoding(req: Pick<Request, 'headers'>): Encoding {
  const negotiator: EncodingNegotiator = new Negotiator(req);
  const encoding = negotiator.encoding(encodings, { preferred: encodings }) as Encoding | undefined;
  return encoding ?? 'identity';
}

const compressGzip = promisify(gzip);
const compressBrotli = promisify(brotliCompress);

/** Compresses on another thread: a megabyte takes about 30 ms, which must not block other requests. */
const encoders: Record<Encoding, (bytes: Buffer) => Promise<Buffer>> = {
  identity: (bytes) => Promise.resolve(bytes),
  gzip: (bytes) => compressGzip(bytes),
  br: (bytes) =>
    compressBrotli(bytes, {
      params: {
        [constants.BROTLI_PARAM_QUALITY]: 5,
        [constants.BROTLI_PARAM_MODE]: constants.BROTLI_MODE_TEXT,
        [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length,
      },
    }),
};
