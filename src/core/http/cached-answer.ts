import { createHash } from 'node:crypto';
import type { Request, Response } from 'express';
import { chooseEncoding, compress, sendEncoded, type Encoding } from './encoding.js';
import { hasCopy } from './request.js';

export type CachedAnswer = ReturnType<typeof createCachedAnswer>;

/** Only the last fields change over time. */
export function createCachedAnswer(fields: object) {
  const encoded = new Map<Encoding, { end: string; bytes: Promise<Buffer> }>();
  return {
    /** Hash of all but the last fields. */
    version: createHash('sha256').update(JSON.stringify(fields)).digest('base64url').slice(0, 22),
    /** The bytes are cached for each encoding until the last fields change. */
    encode(encoding: Encoding, lastFields: object): Promise<Buffer> {
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
  /** Added to the ETag when a change in the last fields must reach clients that have an older copy. */
  tag?: string;
}

/** Intermediate caches must not store the JSON, because the last fields would become stale there. */
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
