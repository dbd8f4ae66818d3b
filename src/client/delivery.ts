import { setTimeout as sleep } from 'node:timers/promises';
import { readRetryAfter } from '../core/time.js';
import { OtherModeError, type GaugeClient, type RefusedPart, type UsageAnswer } from './client.js';

export interface Sendable {
  json: string;
  /** With a service key. */
  organization?: string | undefined;
}

export interface EventRefusal<Event> {
  event: Event;
  code: string;
  detail: string;
}

/** Every event ends up accepted, deduped, refused or left. */
export interface DeliveryResult<Event> {
  accepted: number;
  deduped: number;
  refused: EventRefusal<Event>[];
  /** The service cannot record the events of these Organizations at the moment. */
  left: EventRefusal<Event>[];
  warnings: { warning: UsageAnswer['warnings'][number]; event: Event | undefined }[];
}

const OTHER_MODE =
  'The idempotency key was already used in the other mode (live or test), so this event was not counted. Send it with another key.';

/**
 * Events that violate the schema are removed and the rest sent again. A batch refused as a whole is halved until the
 * offending event is isolated. An Organization's refusal concerns only its own events.
 * @throws DeliveryError
 */
export async function deliverEvents<Event extends Sendable>(
  post: Post,
  events: readonly Event[],
): Promise<DeliveryResult<Event>> {
  if (events.length === 0) return deliveredNone();
  const answer = await post(events);
  if (answer.kind === 'refused') return deliverRefused(post, events, answer.problem, events);
  let delivered = toDelivered(answer.answer, events);
  for (const part of answer.answer.refused ?? []) {
    const own = events.filter(({ organization }) => organization === part.organization);
    const outcome = canRecordLater(part.status)
      ? deliverEvents(post, own)
      : deliverRefused(post, own, part, events);
    delivered = join(delivered, await outcome);
  }
  return delivered;
}

/** @param sent the events whose indexes the problem names, `events` among them */
async function deliverRefused<Event extends Sendable>(
  post: Post,
  events: readonly Event[],
  problem: ProblemBody,
  sent: readonly Event[],
): Promise<DeliveryResult<Event>> {
  const { code, detail } = problem;
  const refuse = (all: readonly Event[]) => all.map((event) => ({ event, code, detail }));
  const named = namedOrganization(problem, sent);
  if (named !== undefined) {
    const own = refuse(events.filter(({ organization }) => organization === named));
    const others = events.filter(({ organization }) => organization !== named);
    const outcome = canRecordLater(problem.status) ? { left: own } : { refused: own };
    return join({ ...deliveredNone(), ...outcome }, await deliverEvents(post, others));
  }
  const broken = brokenEvents(problem, sent);
  if (broken.size > 0) {
    const rest = events.filter((event) => !broken.has(event));
    return join({ ...deliveredNone(), refused: [...broken.values()] }, await deliverEvents(post, rest));
  }
  if (events.length === 1) return { ...deliveredNone(), refused: refuse(events) };
  const middle = events.length >> 1;
  const first = await deliverEvents(post, events.slice(0, middle));
  return join(first, await deliverEvents(post, events.slice(middle)));
}

/** The Organization whose events are refused together. */
function namedOrganization({ errors = [] }: ProblemBody, sent: readonly Sendable[]): string | undefined {
  return sent[errors.find(isOfOrganization)?.index ?? -1]?.organization;
}

/** Not if the event does not name its Organization. */
const isOfOrganization = ({ pointer, code }: ErrorPlace): boolean =>
  pointer?.endsWith('/organization') === true && code !== 'invalid_request';

const canRecordLater = (status: number): boolean => status === 401 || status === 429 || status >= 500;

const deliveredNone = () => ({ accepted: 0, deduped: 0, refused: [], left: [], warnings: [] });

const join = <Event>(a: DeliveryResult<Event>, b: DeliveryResult<Event>): DeliveryResult<Event> => ({
  accepted: a.accepted + b.accepted,
  deduped: a.deduped + b.deduped,
  refused: [...a.refused, ...b.refused],
  left: [...a.left, ...b.left],
  warnings: [...a.warnings, ...b.warnings],
});

function toDelivered<Event>(answer: UsageAnswer, events: readonly Event[]): DeliveryResult<Event> {
  const { accepted, deduped, rejected = [], warnings } = answer;
  const refused = rejected.map(({ index, code, detail }) => ({ event: events[index]!, code, detail }));
  const delivered: DeliveryResult<Event> = {
    accepted,
    deduped,
    refused: [...refused],
    left: [],
    warnings: [],
  };
  for (const warning of warnings) {
    const event = warning.code === 'duplicate_mismatch' ? events[warning.index] : undefined;
    if (warning.code === 'duplicate_mismatch' && event && warning.differs?.includes('livemode')) {
      // The event was never counted in this mode, so it is no duplicate.
      delivered.deduped--;
      delivered.refused.push({ event, code: warning.code, detail: OTHER_MODE });
    } else delivered.warnings.push({ warning, event });
  }
  return delivered;
}

/** Returns each event with its first error. */
function brokenEvents<Event>({ errors = [] }: ProblemBody, events: readonly Event[]) {
  const broken = new Map<Event, EventRefusal<Event>>();
  for (const { index = -1, pointer, code, detail } of errors) {
    const event = events[index];
    if (event === undefined || broken.has(event)) continue;
    const field = pointer?.split('/').slice(3).join('/');
    broken.set(event, { event, code, detail: field ? `${field} ${detail}` : detail });
  }
  return broken;
}

const MAX_PAUSE_MS = 60 * 60 * 1000;

/** Retries cannot fix it, or too many attempts failed. */
export class DeliveryError extends Error {
  /** Set if the response refused the key. */
  readonly keyStatus: 401 | 403 | undefined;
  constructor(message: string, keyStatus?: 401 | 403) {
    super(message);
    this.name = 'DeliveryError';
    this.keyStatus = keyStatus;
  }
}

/** For many Organizations, with the refused parts. */
type RecordedAnswer = UsageAnswer & { refused?: RefusedPart[] };

/** After all retries. */
type Answer = { kind: 'recorded'; answer: RecordedAnswer } | { kind: 'refused'; problem: ProblemBody };

interface ProblemBody {
  status: number;
  code: string;
  detail: string;
  errors?: ErrorPlace[];
}

interface ErrorPlace {
  index?: number;
  pointer?: string;
  code: string;
  detail: string;
}

interface PostOptions {
  client: GaugeClient;
  /** Each event names its Organization. */
  isForMany?: boolean;
  /** Does not repeat events that cannot be recorded because of their Organization. */
  leavesParts?: boolean;
  isDryRun?: boolean;
  /** For error messages. */
  address: string;
  addressName: string;
  /** Failed attempts per request; 0 means unlimited. Throttling does not count. */
  maxAttempts: number;
  /** In ms, without any response. Default: as long as attempts are left. */
  silentMs?: number;
  /** In ms. Doubles with each further failure. */
  backoffMs: number;
  /** Pauses end immediately; pending requests get a few seconds. */
  signal: AbortSignal;
  onRetry(reason: string, waitMs: number): void;
  /** Some of the events may have been recorded. */
  onUnclear?(events: readonly Sendable[]): void;
}

export type Post = (events: readonly Sendable[]) => Promise<Answer>;

export const REQUEST_TIMEOUT_MS = 60_000;
const FINISH_WITHIN_MS = 5_000;
const MAX_BACKOFF_MS = 30_000;

/** Repeats the identical request, with its idempotency keys. */
export function createPost(options: PostOptions): Post {
  const { maxAttempts, signal, silentMs = Infinity } = options;
  const startedAt = performance.now();
  let hasResponded = false;
  let pauseEndsAt = 0;

  /** When the service asks one sender to wait, all wait. */
  async function waitForPause(): Promise<void> {
    signal.throwIfAborted();
    // Timers can fire early, and another sender can extend the pause.
    for (let ms = pauseEndsAt - performance.now(); ms > 0; ms = pauseEndsAt - performance.now())
      await sleep(Math.ceil(ms), undefined, { signal });
  }

  return async (events) => {
    let failures = 0;
    try {
      for (;;) {
        await waitForPause();
        const outcome = await attempt(options, events);
        hasResponded ||= outcome.kind !== 'retry' || outcome.hasResponded;
        if (outcome.kind !== 'retry') return outcome;
        const { reason, retryAfterMs } = outcome;
        if (!outcome.isThrottled) failures++;
        if (maxAttempts > 0 && failures >= maxAttempts)
          throw new DeliveryError(`The service could not be reached in ${failures} attempts: ${reason}`);
        const silenceLeftMs = hasResponded ? Infinity : startedAt + silentMs - performance.now();
        if (silenceLeftMs <= 0)
          throw new DeliveryError(`${reason} (no response in ${Math.round(silentMs / 1000)} s)`);
        const waitMs = retryAfterMs ?? Math.min(backoff(options.backoffMs, failures), silenceLeftMs);
        options.onRetry(reason, waitMs);
        if (retryAfterMs === undefined) await sleep(waitMs, undefined, { signal });
        else pauseEndsAt = Math.max(pauseEndsAt, performance.now() + Math.min(retryAfterMs, MAX_PAUSE_MS));
      }
    } catch (error) {
      if (failures > 0) options.onUnclear?.(events);
      throw error;
    }
  };
}

interface Retry {
  kind: 'retry';
  reason: string;
  hasResponded: boolean;
  isThrottled: boolean;
  retryAfterMs: number | undefined;
}

async function attempt(options: PostOptions, events: readonly Sendable[]): Promise<Answer | Retry> {
  const { client, isForMany, isDryRun, addressName, signal } = options;
  const deadline = startDeadline(signal);
  try {
    // The bodies and answers have the same form.
    const path = (isForMany ? '/service/usage/events' : '/api/usage/events') as '/api/usage/events';
    const { data, error, response } = await client.POST(path, {
      params: { query: isDryRun ? { dryRun: 'true' } : {} },
      headers: { prefer: 'handling=lenient' },
      // Serialized below: quantities can have more digits than a double holds.
      body: { events: [] },
      bodySerializer: () => `{"events":[${events.map(({ json }) => json).join(',')}]}`,
      signal: deadline.signal,
    });
    if (response.status === 202) return readAnswer(data, events, addressName);
    return readFailure(response, error, options);
  } catch (error) {
    if (error instanceof DeliveryError) throw error;
    // `deliverEvents` reports the events that are not valid.
    if (error instanceof OtherModeError) return readAnswer(error.answer, events, addressName);
    const reason = `${addressName} ${options.address} cannot be reached: ${reasonOf(error)}`;
    return { kind: 'retry', reason, hasResponded: false, isThrottled: false, retryAfterMs: undefined };
  } finally {
    deadline.clear();
  }
}

/** Without Gauge's own response, unrecorded events could count as recorded. @throws DeliveryError */
function readAnswer(
  data: RecordedAnswer | undefined,
  events: readonly Sendable[],
  addressName: string,
): Answer {
  const { accepted, deduped, rejected = [], refused = [] } = (data ?? {}) as Partial<RecordedAnswer>;
  const parts = new Set(refused.map(({ organization }) => organization));
  const inParts = events.filter(({ organization = '' }) => parts.has(organization)).length;
  if (!data || Number(accepted) + Number(deduped) + rejected.length + inParts !== events.length)
    throw new DeliveryError(
      `The response does not account for all events sent. Is ${addressName} a Gauge service?`,
    );
  return { kind: 'recorded', answer: data };
}

function readFailure(
  response: Response,
  body: unknown,
  { addressName, leavesParts }: PostOptions,
): Answer | Retry {
  const { status } = response;
  const problem = readProblem(body, status);
  const description = `${status}${problem ? ` ${problem.code}: ${problem.detail}` : ''}`;
  const isPart = problem?.errors?.some(isOfOrganization) === true;
  if ((status === 429 || status >= 500) && !(leavesParts && isPart)) {
    const retryAfterMs =
      status === 429 || status === 503 ? readRetryAfter(response.headers.get('retry-after')) : undefined;
    return {
      kind: 'retry',
      reason: description,
      hasResponded: true,
      isThrottled: status === 429,
      retryAfterMs,
    };
  }
  if (problem && status !== 401 && (isPart || isAboutEvents(problem))) return { kind: 'refused', problem };
  if (!problem || response.headers.has('location'))
    throw new DeliveryError(foreignAnswer(response, addressName));
  const keyStatus = status === 401 || status === 403 ? status : undefined;
  throw new DeliveryError(`${problem.detail} (${status} ${problem.code})`, keyStatus);
}

export function foreignAnswer({ status, headers }: Response, addressName: string): string {
  const location = headers.get('location');
  return location === null
    ? `The service responded with ${status}. Is ${addressName} a Gauge service?`
    : `The service has moved. Set ${addressName} to the address of ${location}.`;
}

/** Body too large, invalid schema, or rule violations with positions (sent if a proxy drops the `Prefer` header). */
function isAboutEvents({ status, code, errors }: ProblemBody): boolean {
  if (status === 413 || status === 422) return true;
  if (status === 400) return code === 'invalid_request' || code === 'invalid_json';
  return status === 403 && errors !== undefined;
}

function readProblem(body: unknown, status: number): ProblemBody | undefined {
  const problem = body as Partial<ProblemBody> | null | undefined;
  return typeof problem === 'object' &&
    typeof problem?.code === 'string' &&
    typeof problem.detail === 'string'
    ? { ...(problem as ProblemBody), status }
    : undefined;
}

/** Between half and all of the exponential backoff, so that senders do not all retry at once. */
function backoff(firstMs: number, failures: number): number {
  const ms = Math.min(firstMs * 2 ** Math.min(failures, 20), MAX_BACKOFF_MS * 2) / 2;
  return ms * (0.5 + Math.random() / 2);
}

function reasonOf(error: unknown): string {
  const cause = (error as Error).cause as { code?: string; message?: string } | undefined;
  return cause?.code ?? cause?.message ?? (error as Error).message;
}

/** Aborts after the time limit, or shortly after the run stops. */
function startDeadline(stop: AbortSignal): { signal: AbortSignal; clear(): void } {
  const controller = new AbortController();
  const expire = (ms: number) => setTimeout(() => controller.abort(new Error('no response in time')), ms);
  const timers = [expire(REQUEST_TIMEOUT_MS)];
  const onStop = () => timers.push(expire(FINISH_WITHIN_MS));
  if (stop.aborted) onStop();
  else stop.addEventListener('abort', onStop, { once: true });
  return {
    signal: controller.signal,
    clear() {
      for (const timer of timers) clearTimeout(timer);
      stop.removeEventListener('abort', onStop);
    },
  };
}
