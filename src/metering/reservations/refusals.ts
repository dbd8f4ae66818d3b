import { keyError } from '../../accounts/api-keys/bearer-key.js';
import type { ShardGroup } from '../../core/db/client.js';
import { addDecimals, compareDecimals } from '../../core/decimal.js';
import { AppError, placeError } from '../../core/errors.js';
import { exact } from '../../core/http/json.js';
import { SECOND_MS } from '../../core/time.js';
import { findFreeTimes, type Subject } from '../entitlements/limit-queries.js';
import { endOfWindow, limitJson, remainingOf, takenOf, type LimitState } from '../entitlements/limits.js';
import { brokenProductRule } from '../ingestion/rules.js';

export interface ReserveRequest {
  hashedSecret: string;
  slug: string;
  metric: string;
  /** A plain decimal. */
  quantity: string;
  idempotencyKey: string;
  ttlSeconds: number;
  subject?: string | undefined;
  /** JSON. */
  dimensions?: string | undefined;
}

export interface ReservationVerdict {
  request: ReserveRequest;
  id: string;
  outcome: string;
  /** Set if the subject has limits. */
  number: string | null;
  subject: Subject;
  /** Accepted earlier in this flush. */
  before: string;
  maxQuantity: string;
  /** Set if the request names a subject with limits. `ownBefore` was accepted for it earlier in this flush. */
  ownNumber: string | null;
  ownBefore: string;
  /** `available` is after holds; 0 unless the product blocks. */
  credits: { required: string; available: string };
  /** `keys` are the product's dimensions. */
  encoded: string;
  keys: readonly string[];
  /** The earlier reservation with the same idempotency key. */
  knownId: string | null;
}

export interface SubjectLimits {
  states: LimitState[];
  heldUntilMs: number | undefined;
}

/** With this flush's earlier holds and `more` added. */
export function limitsWith(
  { number, before, ownNumber, ownBefore, request }: ReservationVerdict,
  limits: Map<string, SubjectLimits>,
  more?: string,
): LimitState[] {
  const statesOf = (name: string | null, earlier: string) =>
    (limits.get(name ?? '')?.states ?? []).map((state) => ({
      ...state,
      held: more === undefined ? state.held : addDecimals(state.held, addDecimals(earlier, more)),
    }));
  const own = statesOf(ownNumber, ownBefore);
  const { subject = '' } = request;
  return [
    ...statesOf(number, before),
    ...own.map((state) => ({ ...state, per: 'subject' as const, subject })),
  ];
}

/** Those that left no room. `i` is the index of the request. */
export const findRefused = (verdicts: ReservationVerdict[], limits: Map<string, SubjectLimits>) =>
  verdicts.flatMap((verdict, i) => {
    if (verdict.outcome !== 'limit_reached') return [];
    const { subject, request } = verdict;
    return limitsWith(verdict, limits, '0')
      .filter((state) => state.enforcement === 'block' && isBeyondRoom(state, request.quantity))
      .map((state) => ({
        i,
        verdict,
        state,
        subject: { ...subject, subject: state.subject },
        requested: request.quantity,
      }));
  });

/** By the request's index. Names the limit with the least room, what remains, and when there will be enough. */
export async function explainRefusals(
  { run }: Pick<ShardGroup, 'run'>,
  refused: ReturnType<typeof findRefused>,
  limits: Map<string, SubjectLimits>,
  nowMs: number,
): Promise<Map<number, AppError>> {
  const questions = refused.map(({ requested: more, ...asked }) => ({ ...asked, more }));
  const freeAt = await findFreeTimes(run, questions, nowMs);
  const waits = refused.map(({ verdict, state }, n) => {
    const { quantity, ttlSeconds } = verdict.request;
    if (compareDecimals(quantity, state.quantity) > 0) return Infinity;
    const isByHolds =
      compareDecimals(addDecimals(addDecimals(state.used, state.ahead), quantity), state.quantity) <= 0;
    const ownEnd = nowMs + ttlSeconds * SECOND_MS;
    const name = state.per ? verdict.ownNumber! : verdict.number!;
    const heldUntil = limits.get(name)!.heldUntilMs ?? ownEnd;
    const byWindow = endOfWindow(state.window, nowMs) ?? freeAt[n] ?? Infinity;
    return Math.min(byWindow, isByHolds ? heldUntil : Infinity);
  });
  const errors = new Map<number, AppError>();
  for (const i of new Set(refused.map((one) => one.i))) {
    const own = refused.flatMap((one, n) =>
      one.i === i ? [{ ...one, freeAt: freeAt[n], untilMs: waits[n]! }] : [],
    );
    const tightest = own.toSorted((a, b) => compareDecimals(remainingOf(a.state), remainingOf(b.state)))[0]!;
    const untilMs = Math.max(...own.map((one) => one.untilMs));
    const { state, verdict } = tightest;
    const resetsAtMs = state.resetsAtMs ?? tightest.freeAt;
    const detail = `The limit of ${state.quantity} ${verdict.request.metric} (${state.window}${state.per ? ', per subject' : ''}) leaves ${remainingOf(state)}, but ${verdict.request.quantity} were requested. Nothing is held.`;
    errors.set(
      i,
      new AppError('limit_reached', detail, {
        members: { limit: limitJson({ ...state, resetsAtMs }) },
        ...(untilMs === Infinity ? {} : { retryAfterSeconds: (untilMs - nowMs) / SECOND_MS }),
      }),
    );
  }
  return errors;
}

/** Unlike a check, a reservation of zero fits even if nothing is left. */
const isBeyondRoom = (state: LimitState, quantity: string): boolean =>
  compareDecimals(addDecimals(takenOf(state), quantity), state.quantity) > 0;

export function toRefusal(verdict: ReservationVerdict): AppError {
  const { outcome, request, maxQuantity, subject, keys, credits } = verdict;
  const { slug, metric, quantity, dimensions } = request;
  const error = keyError(outcome, 'usage:write');
  if (error) return error;
  if (outcome === 'credits_exhausted') {
    const { required, available } = credits;
    const detail = `The product ${slug} has ${available} credits available, but ${quantity} ${metric} cost ${required}. Nothing is held.`;
    return new AppError(outcome, detail, {
      members: { required: exact(required), available: exact(available) },
    });
  }
  const { field, code, detail } = brokenProductRule(outcome, {
    slug,
    metric,
    usageMetric: subject.metric,
    keys,
    dimensions,
  }) ?? {
    field: 'quantity',
    code: 'quantity_out_of_range' as const,
    detail: `An event of the product ${slug} can count at most ${maxQuantity}, but ${quantity} were requested.`,
  };
  return placeError(code, `/${field}`, detail);
}
