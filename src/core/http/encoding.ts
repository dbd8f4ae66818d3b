import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import type { Request, Response } from 'express';
import Negotiator from 'negotiator';
import { endShared } from './connections.js';

/** From most to least compact. */
const encodings = ['br', 'gzip', 'identity'] as const;
export type Encoding = (typeof encodings)[number];

/** negotiator's published types lack the second parameter. */
interface EncodingNegotiator {
  encoding(available: readonly string[], options: { preferred: readonly string[] }): string | undefined;
}

/** The most compact of several that the client prefers equally. */
export function chooseEncoding(req: Pick<Request, 'headers'>): Encoding {
  const negotiator: EncodingNegotiator = new Negotiator(req);
  return (negotiator.encoding(encodings, { preferred: encodings }) as Encoding | undefined) ?? 'identity';
}

/** For the style sheet, `best` takes 140 ms and its output is a sixth smaller than that of `fast`. */
export const compressionLevels = { fast: { gzip: 6, br: 5 }, best: { gzip: 9, br: 11 } };
type Effort = keyof typeof compressionLevels;

const compressGzip = promisify(gzip);
const compressBrotli = promisify(brotliCompress);

/** A megabyte takes about 30 ms and would block other requests. */
export async function compress(plain: Buffer, encoding: Encoding, effort: Effort = 'fast'): Promise<Buffer> {
  if (encoding === 'identity') return plain;
  const level = compressionLevels[effort][encoding];
  if (encoding === 'gzip') return compressGzip(plain, { level });
  const params = {
    [constants.BROTLI_PARAM_QUALITY]: level,
    [constants.BROTLI_PARAM_MODE]: constants.BROTLI_MODE_TEXT,
    [constants.BROTLI_PARAM_SIZE_HINT]: plain.length,
  };
  return compressBrotli(plain, { params });
}

export interface SharedContent {
  type: string;
  encode: (encoding: Encoding) => Promise<Buffer>;
}

export function createSharedContent(type: string, plain: Buffer, effort?: Effort): SharedContent {
  const kept = new Map<Encoding, Promise<Buffer>>();
  return {
    type,
    encode(encoding) {
      const known = kept.get(encoding);
      if (known) return known;
      const bytes = compress(plain, encoding, effort);
      kept.set(encoding, bytes);
      return bytes;
    },
  };
}

export async function sendSharedContent(
  req: Request<object>,
  res: Response,
  { type, encode }: SharedContent,
): Promise<void> {
  res.vary('Accept-Encoding');
  const encoding = type.startsWith('font/') ? 'identity' : chooseEncoding(req);
  sendEncoded(res, { type, encoding, bytes: await encode(encoding) });
}

export function sendEncoded(
  res: Response,
  { type, encoding, bytes }: { type: string; encoding: Encoding; bytes: Buffer },
): void {
  res.setHeader('Content-Type', type);
  if (encoding !== 'identity') res.setHeader('Content-Encoding', encoding);
  res.setHeader('Content-Length', bytes.length);
  endShared(res, bytes);
}
