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

type CheckItem = components['schemas']['EntitlementCheckItem'];
type Verification = components['schemas']['KeyVerification'];
export type VerifiedKey = components['schemas']['VerifiedKey'];

export interface GuardOptions<Call> extends Gauge {
  /** The slug of the caller's Organization, if your own sign-in knows it. Default: that of the verified key. */
  organization?: (call: Call) => string | undefined;
  /** The caller's end user or team. */
  subject?: (call: Call) => string | undefined;
  /** For what the caller should not see, such as a refusal of your own key. Default: the console. */
  onError?: (error: unknown) => void;
}

export interface KeyNeeds extends Pick<Verification, 'scope' | 'productSlug' | 'quantity'> {
  /** Default: true. A key of the other mode is refused, because it would count as your key's mode. */
  livemode?: boolean;
}

/** @template Seen what tells the size of the work: a call, or a call and its response */
type Size<Seen extends unknown[]> = number | ((...seen: Seen) => number);

export interface MeterOptions<Seen extends unknown[]> {
  productSlug: string;
  metric: string;
  /** Default: 1. Responses with a status of 400 or more are not counted. */
  quantity?: Size<Seen>;
  dimensions?: Record<string, string>;
}

export interface LimitOptions<Call, Seen extends unknown[]> extends Omit<MeterOptions<[Call]>, 'quantity'> {
  /** The most that the call may use. */
  quantity: Size<[Call]>;
  /** What it used. Default: `quantity`. */
  used?: (...seen: Seen) => number;
  /** After this time, the hold of a process that was killed ends. Default: 300. */
  ttlSeconds?: number;
}

export const sizeOf = <Seen extends unknown[]>(size: Size<Seen> = 1, ...seen: Seen): number =>
  typeof size === 'number' ? size : size(...seen);

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

const passedOn = new Set([
  'entitlement_required',
  'entitlement_read_only',
  'limit_reached',
  'credits_exhausted',
]);

/** What all frameworks share. `Call` is the framework's request. */
export function createGuard<Call>(options: GuardOptions<Call>) {
  const { client, reporter, onUnavailable } = options;
  if (options.onUnavailable === 'spool') checkReporter(options, 'onUnavailable: "spool"');
  // oxlint-disable-next-line no-console -- the only place that every runtime has
  const onError = options.onError ?? ((error: unknown) => console.error('Gauge:', error));
  const callerOf = (call: Call, key: VerifiedKey | undefined) => ({
    organization: options.organization?.(call) ?? key?.organization ?? undefined,
    subject: options.subject?.(call),
  });
  type Key = VerifiedKey | undefined;

  return {
    /** @throws RefusedError */
    async verify(
      authorization: string | null | undefined,
      { livemode = true, ...needs }: KeyNeeds,
    ): Promise<VerifiedKey> {
      if (!authorization) refuse('missing_key');
      const secret = /^bearer +(\S{1,256})$/i.exec(authorization)?.[1] ?? refuse('invalid_key');
      const body = { ...needs, secret };
      const key = await retryCall(() => client.POST('/service/keys/verify', { body }), BRIEF_PAUSES_MS);
      if (key.code !== null) refuse(key.code);
      if (key.livemode !== livemode) refuse('invalid_key', `Send a ${livemode ? 'live' : 'test'} key.`);
      return key;
    },
    /** @throws RefusedError */
    async requireEntitlement(call: Call, key: Key, productSlug: string, quantity: number): Promise<void> {
      const { organization, subject } = callerOf(call, key);
      const own = clientFor(client, organization);
      const body = { items: [{ productSlug, quantity, subject } as CheckItem] };
      const check = () => own.POST('/api/entitlements/check', { body });
      const answer = await retryCall(check, BRIEF_PAUSES_MS).catch((error: unknown) => {
        if (onUnavailable !== 'spool' || !isUnavailable(error)) throw error;
      });
      const result = answer?.results[0];
      if (result?.allowed === false) refuse(result.reason ?? 'entitlement_required');
    },
    /** @throws RefusedError */
    hold: (call: Call, key: Key, { quantity, ...limit }: LimitOptions<Call, never>): Promise<Hold> => {
      const { productSlug, metric, dimensions, ttlSeconds } = limit;
      const work = { productSlug, metric, dimensions, ttlSeconds, quantity: sizeOf(quantity, call) };
      return holdUsage(options, { ...work, ...callerOf(call, key) });
    },
    async report(call: Call, key: Key, event: ReportedEvent): Promise<void> {
      const owned = { ...event, ...callerOf(call, key) } as ReportedEvent;
      if (event.quantity !== 0) await reporter!.report(owned).catch(onError);
    },
    /** Settles without waiting for success: the caller has its response. */
    end: (hold: Hold, used: number | undefined): Promise<void> =>
      (used === undefined ? hold.release() : hold.settle(used)).catch(onError),
    /** As Gauge itself would answer. */
    toAnswer(error: unknown) {
      const isCallers =
        error instanceof CallerError || (error instanceof RefusedError && passedOn.has(error.problem.code));
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
