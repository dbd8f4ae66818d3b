import type { z } from 'zod';
import { UnexpectedAnswerError } from '../markets/kalshi-client.js';

/** A weather service could not be reached, was too busy or failed: it may answer later. */
export class WeatherUnavailableError extends Error {
  constructor(url: string, what: string, options?: ErrorOptions) {
    super(`${url}: ${what}`, options);
    this.name = 'WeatherUnavailableError';
  }
}

export interface JsonRequest<T extends z.ZodType> {
  url: string;
  headers?: Record<string, string>;
  schema: T;
  signal: AbortSignal;
  /** For all of it, the body included. */
  timeoutMs?: number;
}

const TIMEOUT_MS = 10_000;
const MAX_BYTES = 8 * 1024 * 1024;

/**
 * Asks once, and believes only what has the documented shape.
 * @throws UnexpectedAnswerError, WeatherUnavailableError
 */
export async function readJson<T extends z.ZodType>(request: JsonRequest<T>): Promise<z.output<T>> {
  const { schema, signal, timeoutMs = TIMEOUT_MS } = request;
  // Coordinates and start times say nothing to whoever reads the log.
  const url = request.url.split('?')[0]!;
  const { status, body } = await load(
    request,
    url,
    AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
  );
  if (status === 429 || status >= 500) throw new WeatherUnavailableError(url, `status ${status}`);
  if (status !== 200) throw new UnexpectedAnswerError(url, `status ${status}: ${body.slice(0, 200)}`);
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch {
    throw new UnexpectedAnswerError(url, `no JSON: ${body.slice(0, 100)}`);
  }
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const { path, message } = parsed.error.issues[0]!;
  throw new UnexpectedAnswerError(url, `${path.map(String).join('.') || 'the body'}: ${message}`);
}

async function load(
  { url: address, headers }: Pick<JsonRequest<z.ZodType>, 'url' | 'headers'>,
  url: string,
  signal: AbortSignal,
): Promise<{ status: number; body: string }> {
  try {
    const response = await fetch(address, {
      signal,
      redirect: 'error',
      headers: { accept: 'application/json', ...headers },
    });
    const chunks: Uint8Array[] = [];
    let size = 0;
    for await (const chunk of response.body ?? []) {
      size += (chunk as Uint8Array).length;
      if (size > MAX_BYTES) throw new UnexpectedAnswerError(url, `more than ${MAX_BYTES} bytes`);
      chunks.push(chunk as Uint8Array);
    }
    return { status: response.status, body: Buffer.concat(chunks).toString('utf8') };
  } catch (error) {
    if (error instanceof UnexpectedAnswerError) throw error;
    throw new WeatherUnavailableError(url, (error as Error).message, { cause: error });
  }
}
