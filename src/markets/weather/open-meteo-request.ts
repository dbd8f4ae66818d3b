import type { z } from 'zod';
import { readJson } from './read-json.js';

interface OpenMeteoRequest<T extends z.ZodType> {
  url: string;
  query?: Record<string, string>;
  /** The key of a subscription; undefined: the free service, for non-commercial use. */
  apiKey: string | undefined;
  schema: T;
  signal: AbortSignal;
}

/** Asks Open-Meteo. The key is part of the query: error messages leave the query out, and hide the key where an answer repeats it. */
export function readOpenMeteo<T extends z.ZodType>(request: OpenMeteoRequest<T>): Promise<z.output<T>> {
  const { url, query, apiKey, schema, signal } = request;
  const search = new URLSearchParams(query);
  if (apiKey !== undefined) search.set('apikey', apiKey);
  return readJson({
    url: search.size === 0 ? url : `${url}?${search.toString()}`,
    schema,
    secrets: apiKey === undefined ? [] : [apiKey],
    signal,
  });
}
