import createClient, { type Client, type Middleware } from 'openapi-fetch';
import type { components, paths } from './api.js';

type ReadUsage = paths['/api/usage']['get'];
/** Names like `dimension.model` depend on the product, so the OpenAPI document cannot list them. */
type UsageParameters = Omit<ReadUsage['parameters'], 'query'> & {
  query: ReadUsage['parameters']['query'] & { [name: `dimension.${string}`]: string };
};
type UsagePath = Omit<paths['/api/usage'], 'get'> & {
  get: Omit<ReadUsage, 'parameters'> & { parameters: UsageParameters };
};

type GaugePaths = Omit<paths, '/api/usage'> & { '/api/usage': UsagePath };

export interface GaugeClient extends Client<GaugePaths> {
  /**
   * With a service key: a client whose calls of `/api/…` act for the Organization.
   * @throws TypeError with an API key, which has its own Organization
   */
  forOrganization(slug: string): GaugeClient;
}

type RecordUsage = paths['/api/usage/events']['post'];
type UsageBatch = NonNullable<RecordUsage['requestBody']>['content']['application/json'];
export type UsageEvent = UsageBatch['events'][number];
export type UsageAnswer = RecordUsage['responses'][202]['content']['application/json'];

type RecordOfMany = paths['/service/usage/events']['post']['responses'][202]['content']['application/json'];
/** An Organization whose events were not recorded. */
export type RefusedPart = NonNullable<RecordOfMany['refused']>[number];

/** The recorded usage exceeds the customer's credit grants. */
export type CreditsOverdrawn = Extract<UsageAnswer['warnings'][number], { code: 'credits_overdrawn' }>;

/** A service key acts for any Organization. */
export type Credential =
  | { apiKey: string; serviceKey?: undefined }
  | { serviceKey: string; apiKey?: undefined };

export interface Connection {
  /** Base URL of the service, such as `https://gauge.example.com`. */
  baseUrl: string;
  /** In ms; default 10,000. A slower request fails with a `TimeoutError`. */
  timeoutMs?: number;
  /** Allows http to other machines, for example in a network that you trust. The key is then sent unencrypted. */
  allowHttp?: boolean;
  fetch?: typeof globalThis.fetch;
}

export type GaugeClientOptions = Connection & Credential;

/** Live events reused the idempotency keys of test events, or vice versa. Only the rest of the batch is counted. */
export class OtherModeError extends Error {
  readonly indexes: number[];
  readonly answer: UsageAnswer;
  constructor(indexes: number[], answer: UsageAnswer) {
    super(
      `Idempotency keys of events ${indexes.join(', ')} were already used in the other mode (live or test).`,
    );
    this.name = 'OtherModeError';
    this.indexes = indexes;
    this.answer = answer;
  }
}

const refuseOtherMode: Middleware = {
  async onResponse({ schemaPath, response }) {
    if (!schemaPath.endsWith('/usage/events') || response.status !== 202) return;
    const answer = (await response.clone().json()) as Partial<UsageAnswer> | null;
    // Without warnings, the response may come from another service; the caller detects this.
    if (!Array.isArray(answer?.warnings)) return;
    const indexes = answer.warnings.flatMap((warning) =>
      warning.code === 'duplicate_mismatch' && warning.differs?.includes('livemode') ? [warning.index] : [],
    );
    if (indexes.length > 0) throw new OtherModeError(indexes, answer as UsageAnswer);
  },
};

/**
 * Redirects are returned, not followed: following one would drop the key or turn a POST into a GET. Recording usage
 * throws `OtherModeError` if live and test events are mixed up.
 * @throws TypeError without a key or with two, or if `baseUrl` is http on another machine, unless `allowHttp` is set
 */
export function createGaugeClient(options: GaugeClientOptions): GaugeClient {
  const { baseUrl, apiKey, serviceKey, allowHttp } = options;
  const name = 'serviceKey' in options ? 'serviceKey' : 'apiKey';
  // A variable of the environment that is not set is undefined, whatever its type says.
  if (!apiKey && !serviceKey) throw new TypeError(`${name} is missing. Is GAUGE_API_KEY set?`);
  if (apiKey && serviceKey) throw new TypeError('Set apiKey or serviceKey, not both.');
  if (!allowHttp && isPlain(baseUrl))
    throw new TypeError(
      'baseUrl must be https, because the key is sent to it. Only this machine may use http. Set allowHttp to send the key unencrypted.',
    );
  return openAt(options, '/api');
}

/** @param root where the routes of `/api` are */
function openAt(options: GaugeClientOptions, root: string): GaugeClient {
  const { baseUrl, apiKey, serviceKey, timeoutMs = 10_000, fetch = globalThis.fetch } = options;
  const base = baseUrl.replace(/\/$/, '');
  const client = createClient<GaugePaths>({
    baseUrl,
    headers: { authorization: `Bearer ${serviceKey ?? apiKey}` },
    redirect: 'manual',
    Request: class extends Request {
      constructor(input: string | URL | Request, init?: RequestInit) {
        const isOwn = typeof input === 'string' && input.startsWith(`${base}/api/`);
        super(isOwn ? `${base}${root}${input.slice(`${base}/api`.length)}` : input, init);
      }
    },
    fetch: (request: Request) => {
      const signal = AbortSignal.any([request.signal, AbortSignal.timeout(timeoutMs)]);
      return fetch(new Request(request, { signal }));
    },
  });
  client.use(refuseOtherMode);
  return Object.assign(client, {
    forOrganization(slug: string): GaugeClient {
      if (serviceKey === undefined)
        throw new TypeError('forOrganization needs a serviceKey. An API key has its own Organization.');
      // In an address, dots would lead to another route.
      if (/^\.{0,2}$/.test(slug)) throw new TypeError(`"${slug}" is not the slug of an Organization.`);
      return openAt(options, `/service/organizations/${encodeURIComponent(slug)}`);
    },
  });
}

/** Http to another machine. */
function isPlain(baseUrl: string): boolean {
  if (!URL.canParse(baseUrl)) return false;
  const { protocol, hostname } = new URL(baseUrl);
  return protocol === 'http:' && !/^(localhost|127(\.\d+){3}|\[::1\])$/.test(hostname);
}

type ReserveUsage = paths['/api/usage/reservations']['post'];
export type ReservationInput = NonNullable<ReserveUsage['requestBody']>['content']['application/json'];
export type Reservation = ReserveUsage['responses'][201]['content']['application/json']['reservation'];
export type Problem = components['schemas']['Problem'];

interface RefusalContext {
  retryAfter?: string | undefined;
  cause?: unknown;
}

/** The service refused the call; `problem.code` says why, for example `limit_reached`. */
export class RefusedError extends Error {
  readonly problem: Problem;
  /** The header `Retry-After`. */
  readonly retryAfter: string | undefined;
  constructor(problem: Problem, { retryAfter, cause }: RefusalContext = {}) {
    super(`${problem.code}: ${problem.detail}`, { cause });
    this.name = 'RefusedError';
    this.problem = problem;
    this.retryAfter = retryAfter;
  }
}

/** The credits do not cover the reservation. Nothing is held. */
export class CreditsExhaustedError extends RefusedError {
  /** For the reservation. */
  readonly required: number;
  /** For the product. */
  readonly available: number;
  constructor(
    problem: Problem,
    { required, available, ...context }: { required: number; available: number } & RefusalContext,
  ) {
    super(problem, context);
    this.name = 'CreditsExhaustedError';
    this.required = required;
    this.available = available;
  }
}

function toRefusal(problem: Problem, context: RefusalContext): RefusedError {
  const { required, available } = problem;
  const isExhausted = required !== undefined && available !== undefined;
  return isExhausted
    ? new CreditsExhaustedError(problem, { required, available, ...context })
    : new RefusedError(problem, context);
}

type ListEntries = paths['/api/credits/entries']['get'];
export type CreditEntry = ListEntries['responses'][200]['content']['application/json']['entries'][number];
export type CreditEntryQuery = Omit<NonNullable<ListEntries['parameters']['query']>, 'cursor'>;

/**
 * Newest first, one page per request. Retries like `withReservation`.
 * @throws RefusedError
 */
export async function* listCreditEntries(
  client: GaugeClient,
  query: CreditEntryQuery = {},
): AsyncGenerator<CreditEntry, void> {
  let cursor: string | undefined;
  do {
    const params = { query: { ...query, ...(cursor === undefined ? {} : { cursor }) } };
    const page = await retryCall(() => client.GET('/api/credits/entries', { params }));
    yield* page.entries;
    cursor = page.nextCursor ?? undefined;
  } while (cursor !== undefined);
}

/** In ms. Together they outlast a restart of the service. */
const PAUSES_MS = [100, 300, 1_000, 3_000, 10_000];

/**
 * Settles the units that `run` used; if it throws, releases the hold and rethrows. Idempotency keys make retries safe.
 * If the settlement cannot be delivered, this function throws and the hold expires.
 * @param run receives the reservation and returns its result and the units used
 * @throws CreditsExhaustedError, or RefusedError for any other refusal
 */
export async function withReservation<Result>(
  client: GaugeClient,
  input: ReservationInput,
  run: (reservation: Reservation) => Promise<{ used: number; result: Result }>,
): Promise<Result> {
  const { reservation } = await retryCall(() => client.POST('/api/usage/reservations', { body: input }));
  const params = { path: { id: reservation.id } };
  // Also catches what `run` throws synchronously.
  const running = (async () => run(reservation))();
  const { used, result } = await running.catch(async (error: unknown) => {
    // If the release fails, the hold expires.
    await client.DELETE('/api/usage/reservations/{id}', { params }).catch(() => undefined);
    throw error;
  });
  const body = { quantity: used };
  await retryCall(() => client.POST('/api/usage/reservations/{id}/settle', { params, body }));
  return result;
}

interface Attempt<Data> {
  data?: Data;
  error?: unknown;
  response: Response;
}

/** In ms, while a caller waits. A `Retry-After` of more than a second then ends the attempts. */
export const BRIEF_PAUSES_MS = [100, 300];

/**
 * On network errors, 429 and 5xx.
 * @throws RefusedError, or the network error of the last attempt
 */
export async function retryCall<Data>(
  call: () => Promise<Attempt<Data>>,
  pausesMs: readonly number[] = PAUSES_MS,
): Promise<Data> {
  for (let attempt = 0; ; attempt++) {
    const pauseMs = pausesMs[attempt];
    const answer = await call().catch((error: unknown) => {
      if (pauseMs === undefined) throw error;
    });
    if (answer?.data !== undefined) return answer.data;
    const retryAfter = answer?.response.headers.get('retry-after') ?? undefined;
    // The service sends seconds. If a proxy sends a date, the default pause applies.
    const retryAfterMs = Number(retryAfter) * 1_000 || 0;
    const isFinal =
      pauseMs === undefined ||
      (pausesMs === BRIEF_PAUSES_MS && retryAfterMs > 1_000) ||
      (answer && answer.response.status !== 429 && answer.response.status < 500);
    if (answer && isFinal) throw toRefusal(answer.error as Problem, { retryAfter });
    await new Promise((resolve) => setTimeout(resolve, Math.max(pauseMs!, retryAfterMs)));
  }
}
