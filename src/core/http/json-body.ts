import { isUtf8 } from 'node:buffer';
import express, { type Request, type Response } from 'express';
import { AppError } from '../errors.js';
import { boundJson, usualBounds, type JsonBounds } from './json-shape.js';

export interface JsonBody {
  value: unknown;
  /** The text the value was parsed from: numbers in it may have more digits than a double keeps. */
  text: string;
}

/** What is larger costs more to read and to parse than to ask the database who sends it. */
const SMALL_BODY_BYTES = 64 * 1024;

/** False unless the body says that it is small. */
export function hasSmallBody({ headers }: Request): boolean {
  const length = Number(headers['content-length']);
  return length <= SMALL_BODY_BYTES && headers['content-encoding'] === undefined;
}

const declared = /^([\w.+/-]+)\s*(?:;\s*charset\s*=\s*"?utf-8"?\s*)?$/i;

/** The media type of the body in lower case, without its charset; undefined where that is not UTF-8. */
export const mediaTypeOf = (req: Request): string | undefined =>
  declared.exec(req.headers['content-type'] ?? '')?.[1]?.toLowerCase();

type IsJson = (mediaType: string | undefined) => boolean;

const isPlainJson: IsJson = (mediaType) => mediaType === 'application/json';

/**
 * Reads a UTF-8 JSON body of at most `maxBytes`, after inflating.
 * @throws AppError unsupported_media_type, body_too_large, invalid_json, and what `bounds` names
 */
export async function readJsonBody(
  req: Request,
  res: Response,
  maxBytes: number,
  bounds?: JsonBounds,
  isJson?: IsJson,
): Promise<JsonBody> {
  const text = await readJsonText(req, res, maxBytes, bounds, isJson);
  return { value: parseJson(text), text };
}

/** Of a route whose body may be left out. */
export const hasBody = (req: Request): boolean =>
  req.headers['transfer-encoding'] !== undefined || Number(req.headers['content-length'] ?? 0) > 0;

/** @throws AppError invalid_json */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (cause) {
    const { message } = cause as Error;
    throw new AppError('invalid_json', `The body is not valid JSON: ${message.slice(0, 200)}`, { cause });
  }
}

/**
 * The text of a JSON body, not parsed yet. Plain bodies of a stated length are read here, which is a good part cheaper
 * than the general parser; everything else goes through Express's.
 * @throws AppError unsupported_media_type, body_too_large, invalid_json (not UTF-8), and what `bounds` names
 */
export async function readJsonText(
  req: Request,
  res: Response,
  maxBytes: number,
  bounds: JsonBounds = usualBounds,
  isJson: IsJson = isPlainJson,
): Promise<string> {
  const type = req.headers['content-type'];
  if (type !== 'application/json' && !isJson(mediaTypeOf(req))) {
    throw new AppError(
      'unsupported_media_type',
      'Send the body as UTF-8 JSON with `Content-Type: application/json`.',
    );
  }
  const length = Number(req.headers['content-length']);
  if (length > maxBytes) {
    // The rest of a huge body is not worth reading: the connection ends with the answer.
    res.setHeader('Connection', 'close');
    throw tooLarge(maxBytes);
  }
  const isPlain = req.headers['content-encoding'] === undefined && length >= 0;
  const bytes = isPlain ? await readPlain(req) : await readEncoded(req, res, maxBytes);
  if (!isUtf8(bytes)) throw new AppError('invalid_json', 'The body is not valid UTF-8.');
  boundJson(bytes, bounds);
  return bytes.toString('utf8');
}

function readPlain(req: Request): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    // A caller who hung up while the key was looked up sends nothing more, not even an event.
    if (req.destroyed && !req.complete) throw hungUp();
    const chunks: Buffer[] = [];
    req.on('data', (chunk: Buffer) => chunks.push(chunk));
    req.on('end', () => resolve(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)));
    req.on('error', reject);
    req.on('aborted', () => reject(hungUp()));
  });
}

async function readEncoded(req: Request, res: Response, maxBytes: number): Promise<Buffer> {
  const parse = express.raw({ type: () => true, limit: maxBytes });
  await new Promise<void>((resolve, reject) => {
    parse(req, res, (error?: unknown) => (error ? reject(error) : resolve()));
  }).catch((error: unknown) => {
    throw (error as { type?: string }).type === 'entity.too.large' ? tooLarge(maxBytes) : error;
  });
  return Buffer.isBuffer(req.body) ? req.body : Buffer.alloc(0);
}

function hungUp(): AppError {
  return new AppError('invalid_request', 'The connection ended before the body was complete.');
}

function tooLarge(maxBytes: number): AppError {
  return new AppError('body_too_large', `The body is larger than ${maxBytes.toLocaleString('en')} bytes.`);
}
