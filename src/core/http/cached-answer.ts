import { createHash } from 'node:crypto';
import type { Request, Response } from 'express';
import { chooseEncoding, compress, sendEncoded, type Encoding } from './encoding.js';
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
      const bytes = compress(Buffer.from(JSON.stringify({ ...fields, ...lastFields })), encoding);
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
  sendEncoded(res, { type: 'application/json; charset=utf-8', encoding, bytes });
}
