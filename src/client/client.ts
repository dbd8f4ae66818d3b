import createClient, { type Client, type Middleware } from 'openapi-fetch';
import type { paths } from './api.d.js';

export type GaugeClient = Client<paths>;

type RecordUsage = paths['/api/usage/events']['post'];
type UsageBatch = NonNullable<RecordUsage['requestBody']>['content']['application/json'];
export type UsageEvent = UsageBatch['events'][number];
export type UsageAnswer = RecordUsage['responses'][202]['content']['application/json'];

export interface GaugeClientOptions {
  /** Where the service answers, like `https://gauge.example.com`. */
  baseUrl: string;
  apiKey: string;
  fetch?: typeof globalThis.fetch;
}

/** Live events repeated the keys of test ones, or the other way round: they are not counted. The rest of the batch is. */
export class OtherModeError extends Error {
  /** Their places in the batch. */
  readonly indexes: number[];
  readonly answer: UsageAnswer;
  constructor(indexes: number[], answer: UsageAnswer) {
    super(
      `Idempotency keys were used before in the other mode (live or test), by events ${indexes.join(', ')}.`,
    );
    this.name = 'OtherModeError';
    this.indexes = indexes;
    this.answer = answer;
  }
}

/** @throws OtherModeError */
const refuseOtherMode: Middleware = {
  async onResponse({ schemaPath, response }) {
    if (schemaPath !== '/api/usage/events' || response.status !== 202) return;
    const answer = (await response.clone().json()) as Partial<UsageAnswer> | null;
    // Another service may answer here: what it says goes to the caller, who can tell.
    if (!Array.isArray(answer?.warnings)) return;
    const indexes = answer.warnings.flatMap((warning) =>
      warning.code === 'duplicate_mismatch' && warning.differs?.includes('livemode') ? [warning.index] : [],
    );
    if (indexes.length > 0) throw new OtherModeError(indexes, answer as UsageAnswer);
  },
};

/**
 * A client for Gauge's API, typed from its OpenAPI document. A redirect is handed back rather than followed: it would
 * lose the key, or turn a POST into a GET. Recording usage throws `OtherModeError` where live and test are mixed up.
 */
export function createGaugeClient({ baseUrl, apiKey, fetch }: GaugeClientOptions): GaugeClient {
  const client = createClient<paths>({
    baseUrl,
    headers: { authorization: `Bearer ${apiKey}` },
    redirect: 'manual',
    ...(fetch ? { fetch: (request: Request) => fetch(request) } : {}),
  });
  client.use(refuseOtherMode);
  return client;
}
