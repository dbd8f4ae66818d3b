import { setTimeout as sleep } from 'node:timers/promises';
import { OtherModeError, type GaugeClient, type UsageAnswer } from '../../client/client.js';
import { readRetryAfter } from '../../core/retry-after.js';
import { CommandError } from '../kit/command.js';
import type { OutgoingEvent, Refusal, SourceRecord } from './record.js';

export interface CapWarning {
  productSlug: string;
  metric: string;
  unitCap: number;
  used: number;
  period: { start: string; end: string };
}

export interface LimitWarning {
  productSlug: string;
  metric: string;
  limit: { quantity: number; window: string; enforcement: 'warn' | 'block' };
  used: number;
}

/** What became of some events: every one of them is accepted, deduped or refused. */
export interface Delivery {
  accepted: number;
  deduped: number;
  refusals: Refusal[];
  overCap: CapWarning[];
  overLimit: LimitWarning[];
  /** Repeats that differ from what their key was first used for. */
  mismatches: SourceRecord[];
}

const OTHER_MODE =
  'The idempotency key was used before in the other mode (live or test): this event is not counted. Send it with another key.';

/**
 * Delivers events until each has its answer. Those that break the schema are taken out and the others sent again; a
 * batch that is refused as a whole is halved until what is at fault stands alone.
 * @throws CommandError
 */
export async function deliver(post: Post, events: OutgoingEvent[]): Promise<Delivery> {
  if (events.length === 0)
    return { accepted: 0, deduped: 0, refusals: [], overCap: [], overLimit: [], mismatches: [] };
  const answer = await post(events);
  if (answer.kind === 'recorded') return toDelivery(answer.answer, events);
  const { code, detail } = answer.problem;
  const broken = brokenEvents(answer, events);
  if (broken.size > 0) {
    const rest = await deliver(
      post,
      events.filter((_event, i) => !broken.has(i)),
    );
    return { ...rest, refusals: [...broken.values(), ...rest.refusals] };
  }
  if (events.length === 1)
    return { ...(await deliver(post, [])), refusals: [refuse(events[0]!, code, detail)] };
  const middle = events.length >> 1;
  const first = await deliver(post, events.slice(0, middle));
  return merge(first, await deliver(post, events.slice(middle)));
}

function toDelivery(
  answer: Extract<Answer, { kind: 'recorded' }>['answer'],
  events: OutgoingEvent[],
): Delivery {
  const delivery: Delivery = {
    accepted: answer.accepted,
    deduped: answer.deduped,
    refusals: (answer.rejected ?? []).map(({ index, code, detail }) => refuse(events[index]!, code, detail)),
    overCap: [],
    overLimit: [],
    mismatches: [],
  };
  for (const warning of answer.warnings) {
    if (warning.code === 'unit_cap_exceeded') delivery.overCap.push(warning);
    else if (warning.code === 'limit_exceeded') delivery.overLimit.push(warning);
    else if (warning.code === 'duplicate_mismatch') {
      const event = events[warning.index]!;
      if (!warning.differs?.includes('livemode')) delivery.mismatches.push(event.record);
      else {
        // Not counted in this mode, and never will be: no repeat, but something to put right.
        delivery.deduped--;
        delivery.refusals.push(refuse(event, warning.code, OTHER_MODE));
      }
    }
  }
  return delivery;
}

/** The events that the problem names, each with the first thing that is wrong with it. */
function brokenEvents({ problem }: Extract<Answer, { kind: 'refused' }>, events: OutgoingEvent[]) {
  const broken = new Map<number, Refusal>();
  for (const { index, pointer, code, detail } of problem.errors ?? []) {
    const event = index === undefined ? undefined : events[index];
    if (index === undefined || event === undefined || broken.has(index)) continue;
    const field = pointer?.split('/').slice(3).join('/');
    broken.set(index, refuse(event, code, field ? `${field} ${detail}` : detail));
  }
  return broken;
}

const refuse = ({ record, event }: OutgoingEvent, code: string, detail: string): Refusal => ({
  record,
  code,
  detail,
  event,
});

function merge(a: Delivery, b: Delivery): Delivery {
  return {
    accepted: a.accepted + b.accepted,
    deduped: a.deduped + b.deduped,
    refusals: [...a.refusals, ...b.refusals],
    overCap: [...a.overCap, ...b.overCap],
    overLimit: [...a.overLimit, ...b.overLimit],
    mismatches: [...a.mismatches, ...b.mismatches],
  };
}

const MAX_PAUSE_MS = 60 * 60 * 1000;

/** What the service finally said about a request: everything that a repeat may cure is behind us. */
type Answer =
  { kind: 'recorded'; answer: UsageAnswer } | { kind: 'refused'; status: number; problem: ProblemBody };

interface ProblemBody {
  code: string;
  detail: string;
  errors?: { index?: number; pointer?: string; code: string; detail: string }[];
}

interface PostOptions {
  client: GaugeClient;
  isDryRun: boolean;
  /** Attempts per request that fail before the run stops; 0: without end. Being told to slow down is no failure. */
  maxAttempts: number;
  /** Pause after the first failure; it doubles with each further one. */
  backoffMs: number;
  /** Aborts when the run stops: pauses end at once, requests get a moment to finish. */
  signal: AbortSignal;
  onRetry(reason: string, waitMs: number): void;
}

export type Post = (events: OutgoingEvent[]) => Promise<Answer>;

const REQUEST_TIMEOUT_MS = 60_000;
const FINISH_WITHIN_MS = 5_000;
const MAX_BACKOFF_MS = 30_000;

/** Posts events and repeats the very same request, with its idempotency keys, until the service has answered for good. */
export function createPost(options: PostOptions): Post {
  const { maxAttempts, signal } = options;
  let pauseEndsAt = 0;

  /** When the service asks one of the senders to wait, they all wait. */
  async function waitForPause(): Promise<void> {
    signal.throwIfAborted();
    // A timer may fire a fraction early, and the pause may have grown meanwhile.
    for (let ms = pauseEndsAt - performance.now(); ms > 0; ms = pauseEndsAt - performance.now())
      await sleep(Math.ceil(ms), undefined, { signal });
  }

  return async (events) => {
    for (let failures = 0; ;) {
      await waitForPause();
      const outcome = await attempt(options, events);
      if (outcome.kind !== 'retry') return outcome;
      const { reason, retryAfterMs } = outcome;
      if (!outcome.isThrottled) failures++;
      if (maxAttempts > 0 && failures >= maxAttempts)
        throw new CommandError(`The service could not be reached in ${failures} attempts: ${reason}`);
      const waitMs = retryAfterMs ?? backoff(options.backoffMs, failures);
      options.onRetry(reason, waitMs);
      if (retryAfterMs === undefined) await sleep(waitMs, undefined, { signal });
      else pauseEndsAt = Math.max(pauseEndsAt, performance.now() + Math.min(retryAfterMs, MAX_PAUSE_MS));
    }
  };
}

interface Retry {
  kind: 'retry';
  reason: string;
  isThrottled: boolean;
  retryAfterMs: number | undefined;
}

async function attempt(options: PostOptions, events: OutgoingEvent[]): Promise<Answer | Retry> {
  const { client, isDryRun, signal } = options;
  const deadline = startDeadline(signal);
  try {
    const { data, error, response } = await client.POST('/api/usage/events', {
      params: { query: isDryRun ? { dryRun: 'true' } : {} },
      headers: { prefer: 'handling=lenient' },
      body: { events: events.map(({ event }) => event) },
      bodySerializer: () => `{"events":[${events.map(({ json }) => json).join(',')}]}`,
      signal: deadline.signal,
    });
    if (response.status === 202) return readAnswer(data, events.length);
    return readFailure(response, error);
  } catch (error) {
    if (error instanceof CommandError) throw error;
    // Recorded as far as it ever will be: the delivery tells which events are not.
    if (error instanceof OtherModeError) return readAnswer(error.answer, events.length);
    return { kind: 'retry', reason: reasonOf(error), isThrottled: false, retryAfterMs: undefined };
  } finally {
    deadline.clear();
  }
}

/** Anything but Gauge's own answer would let events pass for recorded that are not. */
function readAnswer(data: UsageAnswer | undefined, sent: number): Answer {
  const { accepted, deduped, rejected } = (data ?? {}) as Partial<UsageAnswer>;
  if (data === undefined || Number(accepted) + Number(deduped) + (rejected?.length ?? 0) !== sent)
    throw new CommandError(
      'The answer does not account for the events that were sent; is GAUGE_URL a Gauge service?',
    );
  return { kind: 'recorded', answer: data };
}

function readFailure(response: Response, body: unknown): Answer | Retry {
  const { status } = response;
  const problem = readProblem(body);
  const said = `${status}${problem ? ` ${problem.code}: ${problem.detail}` : ''}`;
  if (status === 429 || status >= 500) {
    const retryAfterMs =
      status === 429 || status === 503 ? readRetryAfter(response.headers.get('retry-after')) : undefined;
    return { kind: 'retry', reason: said, isThrottled: status === 429, retryAfterMs };
  }
  if (problem && isAboutEvents(status, problem)) return { kind: 'refused', status, problem };
  const location = response.headers.get('location');
  if (location !== null)
    throw new CommandError(`The service has moved: set GAUGE_URL to where ${location} lives.`);
  if (!problem) throw new CommandError(`The service answered ${said}; is GAUGE_URL a Gauge service?`);
  throw new CommandError(`${problem.detail} (${status} ${problem.code})`);
}

/** A body too large, a broken schema, or, where something on the way drops `Prefer`, broken rules with their places. */
function isAboutEvents(status: number, { code, errors }: ProblemBody): boolean {
  if (status === 413 || status === 422) return true;
  if (status === 400) return code === 'invalid_request' || code === 'invalid_json';
  return status === 403 && errors !== undefined;
}

function readProblem(body: unknown): ProblemBody | undefined {
  const problem = body as Partial<ProblemBody> | null | undefined;
  return typeof problem === 'object' &&
    typeof problem?.code === 'string' &&
    typeof problem.detail === 'string'
    ? (problem as ProblemBody)
    : undefined;
}

/** Between a half and the whole of the doubling pause, so that senders do not come back in step. */
function backoff(firstMs: number, failures: number): number {
  const ms = Math.min(firstMs * 2 ** Math.min(failures, 20), MAX_BACKOFF_MS * 2) / 2;
  return ms * (0.5 + Math.random() / 2);
}

function reasonOf(error: unknown): string {
  const cause = (error as Error).cause as { code?: string; message?: string } | undefined;
  return cause?.code ?? cause?.message ?? (error as Error).message;
}

/** A request ends after its time, or a moment after the run was stopped. */
function startDeadline(stop: AbortSignal): { signal: AbortSignal; clear(): void } {
  const controller = new AbortController();
  const expire = (ms: number) => setTimeout(() => controller.abort(new Error('no answer in time')), ms);
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
