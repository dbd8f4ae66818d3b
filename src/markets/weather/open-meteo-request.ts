import type { z } from 'zod';
import { readJson, type JsonRequest } from './read-json.js';

interface OpenMeteoRequest<T extends z.ZodType> extends Pick<JsonRequest<T>, 'url' | 'schema' | 'signal'> {
  query?: Record<string, string>;
  /** Subscription key; if undefined, the free service for non-commercial use is used. */
  apiKey: string | undefined;
}

/** Sends a request to Open-Meteo. Error messages omit the query and hide the key if a response repeats it. */
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
