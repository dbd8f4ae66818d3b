import { BRIEF_PAUSES_MS, RefusedError, retryCall, type Problem } from './client.js';
import type { components } from './api.js';
import type { ReportedEvent } from './reporter.js';
import {
  checkReporter,
  clientFor,
  createProblem,
  holdUsage,
  isUnavailable,
  unavailable,
  type Gauge,
  type Hold,
} from './hold.js';

type Schemas = components['schemas'];
export type VerifiedKey = Schemas['VerifiedKey'];

export interface GuardOptions<Call> extends Gauge {
  /** The slug of the caller's Organization, if your own sign-in knows it. Default: that of the verified key. */
  organization?: (call: Call) => string | undefined;
  /** The caller's end user or team. */
  subject?: (call: Call) => string | undefined;
  /** For what the caller should not see, such as a refusal of your own key. Default: the console. */
  onError?: (error: unknown) => void;
}

export interface KeyNeeds extends Pick<Schemas['KeyVerification'], 'scope' | 'productSlug' | 'quantity'> {
  /** Default: true. A key of the other mode is refused, because it would count as your key's mode. */
  livemode?: boolean;
}

export interface MeterOptions<Call, Answer> {
  productSlug: string;
  metric: string;
  /** Default: 1. Responses with a status of 400 or more are not counted. */
  quantity?: number | ((call: Call, answer: Answer) => number);
  dimensions?: Record<string, string>;
}

export interface LimitOptions<Call, Answer> extends Omit<MeterOptions<Call, Answer>, 'quantity'> {
  /** The most that the call may use. */
  quantity: number | ((call: Call) => number);
  /** The units that it used. Default: the quantity held. */
  used?: (call: Call, answer: Answer) => number;
  /** After this time, the hold of a process that was killed ends. Default: 300. */
  ttlSeconds?: number;
}

export interface Guard<Call, Answer, Middleware> {
  /** The caller must send an API key of its Organization. */
  verifyKey(needs?: KeyNeeds): Middleware;
  /** The caller's Organization must be allowed to use the product. A check promises nothing; `withLimit` does. */
  requireEntitlement(productSlug: string, options?: { quantity?: number }): Middleware;
  /** Counts the call once it has a response. */
  meter(options: MeterOptions<Call, Answer>): Middleware;
  /** Holds the most that the call may use, and settles once it has a response, or releases if that is an error. */
  withLimit(options: LimitOptions<Call, Answer>): Middleware;
}

/** The caller is refused. The service's refusals of the vendor's own key must not reach the caller. */
class CallerError extends RefusedError {}

const refusals: Record<string, [status: number, detail: string]> = {
  missing_key: [401, 'Send the API key as "Authorization: Bearer org_…".'],
  invalid_key: [401, 'There is no such key.'],
  key_expired: [401, 'This key has expired.'],
  key_revoked: [401, 'This key has been revoked.'],
  insufficient_scope: [403, 'This key does not have the scope that this call needs.'],
  entitlement_required: [403, 'The Organization has no entitlement for this product.'],
  entitlement_read_only: [403, 'The entitlement for this product allows reading only.'],
  limit_reached: [409, 'A limit leaves no room for this call.'],
  credits_exhausted: [409, 'The credits do not cover this call.'],
};

function refuse(code: string, detail?: string): never {
  const [status, usual] = refusals[code] ?? [403, 'This call is not allowed.'];
  throw new CallerError(createProblem(status, code as Problem['code'], detail ?? usual));
}

const passedOn = /^(entitlement_required|entitlement_read_only|limit_reached|credits_exhausted)$/;

/** The frameworks share this. `Call` and `Answer` are a framework's request and response. Checks throw RefusedErrors. */
export function createGuard<Call, Answer>(options: GuardOptions<Call>) {
  const { client, reporter, onUnavailable } = options;
  if (onUnavailable === 'spool') checkReporter(options, 'onUnavailable: "spool"');
  // oxlint-disable-next-line no-console -- the only place that every runtime has
  const onError = options.onError ?? ((error: unknown) => console.error('Gauge:', error));
  const callerOf = (call: Call, key: VerifiedKey | undefined) => ({
    organization: options.organization?.(call) ?? key?.organization ?? undefined,
    subject: options.subject?.(call),
  });
  type Key = VerifiedKey | undefined;

  return {
    async verify(header: string | null | undefined, { livemode = true, ...needs }: KeyNeeds) {
      if (!header) refuse('missing_key');
      const secret = /^bearer +(\S{1,256})$/i.exec(header)?.[1] ?? refuse('invalid_key');
      const body = { ...needs, secret };
      const key = await retryCall(() => client.POST('/service/keys/verify', { body }), BRIEF_PAUSES_MS);
      if (key.code !== null) refuse(key.code);
      if (key.livemode !== livemode) refuse('invalid_key', `Send a ${livemode ? 'live' : 'test'} key.`);
      return key;
    },
    async requireEntitlement(call: Call, key: Key, productSlug: string, quantity: number): Promise<void> {
      const { organization, subject } = callerOf(call, key);
      const body = { items: [{ productSlug, quantity, subject } as Schemas['EntitlementCheckItem']] };
      const check = () => clientFor(client, organization).POST('/api/entitlements/check', { body });
      const answer = await retryCall(check, BRIEF_PAUSES_MS).catch((error: unknown) => {
        if (onUnavailable !== 'spool' || !isUnavailable(error)) throw error;
      });
      const result = answer?.results[0];
      if (result?.allowed === false) refuse(result.reason ?? 'entitlement_required');
    },
    async hold(call: Call, key: Key, limit: LimitOptions<Call, Answer>): Promise<Hold> {
      const { productSlug, metric, quantity: most, dimensions, ttlSeconds } = limit;
      const quantity = typeof most === 'number' ? most : most(call);
      const work = { productSlug, metric, quantity, dimensions, ttlSeconds };
      return holdUsage(options, { ...work, ...callerOf(call, key) });
    },
    /** The caller has its response, so errors go to the vendor. */
    async end(hold: Hold, used: (() => number | undefined) | undefined): Promise<void> {
      await (async () => (used ? hold.settle(used()) : hold.release()))().catch(onError);
    },
    async report(call: Call, key: Key, answer: Answer, event: MeterOptions<Call, Answer>): Promise<void> {
      try {
        const { quantity: size = 1 } = event;
        const quantity = typeof size === 'number' ? size : size(call, answer);
        const owned = { ...event, ...callerOf(call, key), quantity } as ReportedEvent;
        if (quantity !== 0) await reporter!.report(owned);
      } catch (error) {
        onError(error);
      }
    },
    /** As Gauge itself would answer. */
    toAnswer(error: unknown) {
      const isCallers =
        error instanceof CallerError || (error instanceof RefusedError && passedOn.test(error.problem.code));
      if (!isCallers) onError(error);
      const { problem, retryAfter } = isCallers ? error : unavailable(error);
      const headers = {
        'cache-control': 'no-store',
        'content-type': 'application/problem+json; charset=utf-8',
        'x-request-id': problem.requestId,
        ...(problem.status === 401 ? { 'www-authenticate': 'Bearer' } : {}),
        ...(retryAfter === undefined ? {} : { 'retry-after': retryAfter }),
      };
      return { status: problem.status, headers, body: JSON.stringify(problem) };
    },
  };
}
