import createClient, { type Client } from 'openapi-fetch';
import type { paths } from './api.js';

export type GaugeClient = Client<paths>;

type RecordUsage = paths['/api/usage/events']['post'];
type UsageBatch = NonNullable<RecordUsage['requestBody']>['content']['application/json'];
export type UsageEvent = UsageBatch['events'][number];
export type UsageAnswer = RecordUsage['responses'][202]['content']['application/json'];

export interface GaugeClientOptions {
  /** Where the service answers, like `https://gauge.example.com`. */
  baseUrl: string;
  /** An Organization's API key. */
  apiKey: string;
  fetch?: typeof globalThis.fetch;
}

/**
 * A client for Gauge's API, typed from its OpenAPI document. A redirect is handed back rather than followed: it would
 * lose the key, or turn a POST into a GET.
 */
export function createGaugeClient({ baseUrl, apiKey, fetch }: GaugeClientOptions): GaugeClient {
  return createClient<paths>({
    baseUrl,
    headers: { authorization: `Bearer ${apiKey}` },
    redirect: 'manual',
    ...(fetch ? { fetch: (request: Request) => fetch(request) } : {}),
  });
}
