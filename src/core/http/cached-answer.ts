import { createHash } from 'node:crypto';
import type { Request, Response } from 'express';
import {
  chooseEncoding,
  encodeBeginning,
  encodeBeginningLater,
  type Completion,
  type Encoding,
  type Parts,
} from './encodings.js';
import { endShared } from './connections.js';
import { hasCopy } from './request-line.js';

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
