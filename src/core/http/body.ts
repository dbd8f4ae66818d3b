import { isUtf8 } from 'node:buffer';
import express, { type Request, type Response } from 'express';
import { AppError, type ErrorCode } from '../errors.js';

export const MAX_FORM_BYTES = 16 * 1024;
const parseForm = express.urlencoded({ extended: false, limit: MAX_FORM_BYTES, parameterLimit: 500 });

/** A request without a body counts as a form without fields. */
export const isForm = (req: Request): boolean => req.is('application/x-www-form-urlencoded') !== false;

/** A repeated name becomes a list. */
export async function readForm(req: Request, res: Response): Promise<unknown> {
  if (!isForm(req))
    throw new AppError(
      'unsupported_media_type',
      'Send the form with `Content-Type: application/x-www-form-urlencoded`.',
    );
  await parseWith(
    parseForm,
    req,
    res,
    `A form can have at most ${MAX_FORM_BYTES.toLocaleString('en')} bytes.`,
  );
  return (req.body as unknown) ?? {};
}

export interface JsonBody {
  value: unknown;
  /** Its numbers may have more digits than a double holds. */
  text: string;
}

/** Reading and parsing a larger body costs more than looking up the caller's key. */
const SMALL_BODY_BYTES = 64 * 1024;

export function hasSmallBody({ headers }: Request): boolean {
  return Number(headers['content-length']) <= SMALL_BODY_BYTES && headers['content-encoding'] === undefined;
}

const declared = /^([\w.+/-]+)\s*(?:;\s*charset\s*=\s*"?utf-8"?\s*)?$/i;

/** Lower case, without charset; undefined if the charset is not UTF-8. */
export const mediaTypeOf = (req: Request): string | undefined =>
  declared.exec(req.headers['content-type'] ?? '')?.[1]?.toLowerCase();

type IsJson = (mediaType: string | undefined) => boolean;

const isPlainJson: IsJson = (mediaType) => mediaType === 'application/json';

/** @param maxBytes after decompression */
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

export const hasBody = (req: Request): boolean =>
  req.headers['transfer-encoding'] !== undefined || Number(req.headers['content-length'] ?? 0) > 0;

export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (cause) {
    const { message } = cause as Error;
    throw new AppError('invalid_json', `The body is not valid JSON: ${message.slice(0, 200)}`, { cause });
  }
}

/** Plain bodies with a declared length bypass Express's general parser ("JSON and HTTP by hand" in bench/README.md). */
export async function readJsonText(
  req: Request,
  res: Response,
  maxBytes: number,
  bounds: JsonBounds = usualBounds,
  isJson: IsJson = isPlainJson,
): Promise<string> {
  if (req.headers['content-type'] !== 'application/json' && !isJson(mediaTypeOf(req)))
    throw new AppError(
      'unsupported_media_type',
      'Send the body as UTF-8 JSON with `Content-Type: application/json`.',
    );
  const length = Number(req.headers['content-length']);
  if (length > maxBytes) {
    // Closes the connection after the response instead of reading the rest of a huge body.
    res.setHeader('Connection', 'close');
    throw new AppError('body_too_large', tooLargeFor(maxBytes));
  }
  const isPlain = req.headers['content-encoding'] === undefined && length >= 0;
  const bytes = isPlain ? await readPlain(req) : await readEncoded(req, res, maxBytes);
  if (!isUtf8(bytes)) throw new AppError('invalid_json', 'The body is not valid UTF-8.');
  boundJson(bytes, bounds);
  const text = bytes.toString('utf8');
  return text.startsWith(BYTE_ORDER_MARK) ? text.slice(1) : text;
}

function readPlain(req: Request): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    // If the client disconnected during the key lookup, the request stream emits no more events.
    if (req.destroyed && !req.complete) throw hungUp();
    const chunks: Buffer[] = [];
    req.on('data', (chunk: Buffer) => chunks.push(chunk));
    req.on('end', () => resolve(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)));
    req.on('error', reject);
    req.on('aborted', () => reject(hungUp()));
  });
}

async function readEncoded(req: Request, res: Response, maxBytes: number): Promise<Buffer> {
  await parseWith(express.raw({ type: () => true, limit: maxBytes }), req, res, tooLargeFor(maxBytes));
  return Buffer.isBuffer(req.body) ? req.body : Buffer.alloc(0);
}

function hungUp(): AppError {
  return new AppError('invalid_request', 'The connection closed before the body was complete.');
}

async function parseWith(
  parse: ReturnType<typeof express.raw>,
  req: Request,
  res: Response,
  tooLarge: string,
): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    parse(req, res, (error?: unknown) => (error ? reject(error) : resolve()));
  }).catch((error: unknown) => {
    throw (error as { status?: unknown }).status === 413 ? new AppError('body_too_large', tooLarge) : error;
  });
}

const tooLargeFor = (maxBytes: number) => `The body is larger than ${maxBytes.toLocaleString('en')} bytes.`;

/** RFC 8259 lets parsers ignore the mark that some editors and spreadsheets write. */
const BYTE_ORDER_MARK = '\uFEFF';

export interface JsonBounds {
  depth: number;
  fields: number;
  values: number;
  tooManyValues: ErrorCode;
}

/** Legitimate bodies stay far below these limits; a hostile body of 4 MB can exceed them a hundredfold. */
export const usualBounds: JsonBounds = {
  depth: 32,
  fields: 100,
  values: 20_000,
  tooManyValues: 'invalid_request',
};

export const batchBounds: JsonBounds = { ...usualBounds, tooManyValues: 'batch_too_large' };

const QUOTE = 0x22;
const COMMA = 0x2c;
const BACKSLASH = 0x5c;
const OPEN_LIST = 0x5b;
const CLOSE_LIST = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

/** Rejects JSON that costs far more to parse and validate than to send ("JSON and HTTP by hand" in bench/README.md). */
export function boundJson(bytes: Buffer, bounds: JsonBounds = usualBounds): void {
  const isObject: boolean[] = [];
  const elements: number[] = [];
  let values = 0;
  for (let i = 0; i < bytes.length; i++) {
    switch (bytes[i]) {
      case QUOTE:
        i = endOfText(bytes, i);
        break;
      case OPEN_OBJECT:
      case OPEN_LIST:
        if (isObject.length === bounds.depth)
          throw refuse(`The body has objects or lists more than ${bounds.depth} levels deep.`);
        isObject.push(bytes[i] === OPEN_OBJECT);
        elements.push(1);
        values++;
        break;
      case CLOSE_OBJECT:
      case CLOSE_LIST:
        isObject.pop();
        elements.pop();
        break;
      case COMMA: {
        const last = elements.length - 1;
        if (last < 0) break;
        elements[last]!++;
        values++;
        if (isObject[last] && elements[last]! > bounds.fields)
          throw refuse(`An object in the body has more than ${bounds.fields} fields.`);
        break;
      }
    }
    if (values > bounds.values)
      throw refuse(
        `The body has more than ${bounds.values.toLocaleString('en')} values.`,
        bounds.tooManyValues,
      );
  }
}

/** Scans byte by byte, because most strings are short. */
function endOfText(bytes: Buffer, start: number): number {
  let i = start + 1;
  while (i < bytes.length && bytes[i] !== QUOTE) i += bytes[i] === BACKSLASH ? 2 : 1;
  return i;
}

const refuse = (detail: string, code: ErrorCode = 'invalid_request') => new AppError(code, detail);
