import { v7 as uuid } from 'uuid';
import { keyError } from '../../api-keys/key-problem.js';
import type { Clock } from '../../core/clock.js';
import { createCoalescer } from '../../core/coalesce.js';
import { intArray, numericArray, textArray } from '../../core/db/array-literal.js';
import type { Database, TextRow } from '../../core/db/client.js';
import { addDecimals, compareDecimals } from '../../core/decimal.js';
import { AppError } from '../../core/errors.js';
import type { Metrics } from '../../core/metrics.js';
import { SECOND_MS } from '../../core/time.js';
import {
  endOfWindow,
  findFreeTimes,
  limitJson,
  remainingOf,
  takenOf,
  toLimitState,
  type LimitState,
  type Subject,
} from '../../entitlements/limits.js';
import { createRecorder } from '../ingestion.js';
import {
  findReservations,
  listReservations,
  listReservationsByStatus,
  release,
  reserve,
} from './statements.js';

export interface Reservation {
  id: string;
  productSlug: string;
  metric: string;
  /** Exact decimals. */
  quantity: string;
  settledQuantity: string | null;
  idempotencyKey: string;
  createdAtMs: number;
  expiresAtMs: number;
  releasedAtMs: number | null;
  settledAtMs: number | null;
  livemode: boolean;
}

export const reservationStates = ['held', 'settled', 'released', 'expired'] as const;
export type ReservationStatus = (typeof reservationStates)[number];

export function stateOf(
  { settledAtMs, releasedAtMs, expiresAtMs }: Reservation,
  nowMs: number,
): ReservationStatus {
  if (settledAtMs !== null) return 'settled';
  if (releasedAtMs !== null) return 'released';
  return expiresAtMs > nowMs ? 'held' : 'expired';
}

export interface ReserveRequest {
  hashedSecret: string;
  slug: string;
  metric: string;
  /** A plain decimal. */
  quantity: string;
  idempotencyKey: string;
  ttlSeconds: number;
}

export interface Reserved {
  reservation: Reservation;
  limits: LimitState[];
  isRepeat: boolean;
}

/** The key that a call presents, and whose reservations it may see. */
export interface Owner {
  orgId: string;
  livemode: boolean;
}

interface Page {
  after?: string | undefined;
  limit: number;
  status: ReservationStatus | undefined;
}

export interface Reservations {
  /**
   * Holds a quantity; resolves after the commit.
   * @throws AppError for a key or an entitlement that is not good, limit_reached, idempotency_conflict
   */
  reserve(request: ReserveRequest): Promise<Reserved>;
  /** Ends a hold that is not settled. @throws AppError for a key that is not good, not_found */
  release(hashedSecret: string, id: string): Promise<Reservation>;
  /** @throws AppError not_found */
  find(owner: Owner, id: string): Promise<Reservation>;
  /** The newest first, below `after`. */
  list(owner: Owner, page: Page): Promise<Reservation[]>;
  drain(): Promise<void>;
}

/** What a request may hold at most, and so how long ago what is held was made at most. */
export const MAX_TTL_SECONDS = 86_400;
const MAX_QUEUED = 10_000;
/** Instances that hold for one subject at once take turns; one that loses this often has no database to speak of. */
const MAX_ROUNDS = 100;

export function createReservations({
  db,
  clock,
  metrics,
}: {
  db: Database;
  clock: Clock;
  metrics: Metrics;
}): Reservations {
  const coalescer = createCoalescer<ReserveRequest, Decision>({
    flush: createRecorder((requests) => decideAll(db, requests, clock)),
    // Two flushes of one process would only get into each other's way at the gate.
    parallel: 1,
    fullWeight: 1,
    maxWeight: 500,
    queueLimit: { weight: MAX_QUEUED, bytes: Infinity },
  });

  return {
    async reserve(request) {
      const decision = await coalescer.submit(request);
      if ('refusal' in decision) {
        if (decision.refusal.code === 'limit_reached') metrics.reservations.inc({ outcome: 'refused' });
        throw decision.refusal;
      }
      metrics.reservations.inc({ outcome: decision.isRepeat ? 'repeated' : 'held' });
      return decision;
    },
    async release(hashedSecret, id) {
      const now = new Date(clock.now()).toISOString();
      const [row] = await db.run(release, [hashedSecret, id, now]);
      const [problem, orgId, livemode, releasedId] = row!;
      const error = keyError(problem ?? null, 'usage:write');
      if (error) throw error;
      if (releasedId != null) metrics.reservations.inc({ outcome: 'released' });
      return findOne(db, { orgId: orgId!, livemode: livemode === 'true' }, id);
    },
    find: (owner, id) => findOne(db, owner, id),
    list: (owner, page) => listByOwner(db.run, owner, page, clock.now()),
    drain: () => coalescer.drain(),
  };
}

const FIRST_ID = '00000000-0000-0000-0000-000000000000';
const LAST_ID = 'ffffffff-ffff-ffff-ffff-ffffffffffff';

export async function listByOwner(
  run: Database['run'],
  { orgId, livemode }: Owner,
  { after = LAST_ID, limit, status }: Page,
  nowMs: number,
): Promise<Reservation[]> {
  const values = [orgId, livemode, after, limit];
  if (status === undefined) return (await run(listReservations, values)).map(toReservation);
  const isHeld = status === 'held';
  // Ids begin with the time at which they were made, here or on an instance whose clock is a little behind.
  const msecs = Math.max(0, nowMs - (MAX_TTL_SECONDS + 3_600) * SECOND_MS);
  const oldest = isHeld ? uuid({ msecs, random: new Uint8Array(16) }) : FIRST_ID;
  const now = new Date(nowMs).toISOString();
  const rows = await run(listReservationsByStatus[status], [...values, oldest, now]);
  return rows.map(toReservation);
}

async function findOne(db: Database, { orgId, livemode }: Owner, id: string): Promise<Reservation> {
  const [row] = await db.run(
    findReservations,
    [[orgId], [id], [livemode]].map(([value]) => `{${value}}`),
  );
  if (!row) throw new AppError('not_found', 'There is no such reservation.');
  return toReservation(row);
}

/** From a place, which is left out, and the columns of a reservation. */
export function toReservation([, ...row]: TextRow): Reservation {
  return {
    id: row[0]!,
    productSlug: row[1]!,
    metric: row[2]!,
    quantity: row[3]!,
    idempotencyKey: row[4]!,
    createdAtMs: Number(row[5]),
    expiresAtMs: Number(row[6]),
    releasedAtMs: row[7] == null ? null : Number(row[7]),
    settledAtMs: row[8] == null ? null : Number(row[8]),
    settledQuantity: row[9] ?? null,
    livemode: row[10] === 'true',
  };
}

type Decision = Reserved | { refusal: AppError };

async function decideAll(db: Database, requests: ReserveRequest[], clock: Clock): Promise<Decision[]> {
  const decisions: Decision[] = [];
  let open = requests.map((request, place) => ({ request, place }));
  for (let round = 0; open.length > 0 && round < MAX_ROUNDS; round++) {
    const decided = await decideOnce(
      db,
      open.map(({ request }) => request),
      clock.now(),
    );
    open = open.filter(({ place }, i) => {
      const decision = decided[i];
      if (decision) decisions[place] = decision;
      return !decision;
    });
  }
  for (const { place } of open) {
    const detail = 'Too many reservations are made for the product at once. Try again shortly.';
    decisions[place] = { refusal: new AppError('unavailable', detail, { retryAfterSeconds: 1 }) };
  }
  return decisions;
}

/** One request as the statement decided it. */
interface Verdict {
  request: ReserveRequest;
  id: string;
  outcome: string;
  /** Of a subject with limits. */
  number: string | null;
  subject: Subject;
  /** Of what was taken in this flush before it. */
  before: string;
  maxQuantity: string;
  knownId: string;
}

interface SubjectLimits {
  states: LimitState[];
  heldUntilMs: number | undefined;
}

/** Undefined where another flush was faster, and what was judged has to be judged again. */
async function decideOnce(
  db: Database,
  requests: ReserveRequest[],
  nowMs: number,
): Promise<(Decision | undefined)[]> {
  const pairs = new Map<string, number>();
  const pairOf = requests.map(({ hashedSecret, slug, metric }) => {
    const name = `${hashedSecret}\n${slug}\n${metric}`;
    if (!pairs.has(name)) pairs.set(name, pairs.size);
    return pairs.get(name)!;
  });
  const names = [...pairs.keys()].map((name) => name.split('\n'));
  const ids = requests.map(() => uuid({ msecs: nowMs }));
  const rows = await db.run(reserve, [
    textArray(names.map(([hashedSecret]) => hashedSecret!)),
    textArray(names.map(([, slug]) => slug!)),
    textArray(names.map(([, , metric]) => metric!)),
    intArray(pairOf),
    textArray(ids),
    textArray(requests.map(({ idempotencyKey }) => idempotencyKey)),
    numericArray(requests.map(({ quantity }) => quantity)),
    textArray(requests.map(({ ttlSeconds }) => new Date(nowMs + ttlSeconds * SECOND_MS).toISOString())),
    new Date(nowMs).toISOString(),
  ]);
  const limits = new Map<string, SubjectLimits>();
  const verdicts: Verdict[] = [];
  for (const row of rows) {
    if (row[0] === 'limits') limits.set(row[1]!, toSubjectLimits(row, nowMs));
    else verdicts[Number(row[0])] = toVerdict(row, requests, ids);
  }
  // A refusal counted on what was accepted before it: where that has to be judged again, so has the refusal.
  const unsettled = new Set(verdicts.flatMap((v) => (v.outcome === 'retry' ? [v.number] : [])));
  for (const verdict of verdicts)
    if (verdict.outcome === 'limit_reached' && verdict.before !== '0' && unsettled.has(verdict.number))
      verdict.outcome = 'retry';
  const known = await findKnown(db, verdicts);
  const refusals = await explainRefusals(db, verdicts, limits, nowMs);
  return verdicts.map((verdict, i) => {
    if (verdict.outcome === 'retry') return undefined;
    if (verdict.outcome === 'held') return toReserved(verdict, limits, nowMs);
    if (verdict.outcome === 'repeated') return toRepeat(verdict, known.get(i)!, limits);
    return { refusal: refusals.get(i) ?? toRefusal(verdict) };
  });
}

function toSubjectLimits([, , json, heldUntil]: TextRow, nowMs: number): SubjectLimits {
  const states = (JSON.parse(json!) as TextRow[]).map((row) => toLimitState(row, nowMs));
  return { states, heldUntilMs: heldUntil == null ? undefined : Number(heldUntil) };
}

function toVerdict(row: TextRow, requests: ReserveRequest[], ids: string[]): Verdict {
  const [place, outcome, number, orgId, productId, livemode, before, metric, last] = row;
  const subject = { orgId: orgId!, productId: productId!, livemode: livemode === 'true', metric: metric! };
  return {
    request: requests[Number(place)]!,
    id: ids[Number(place)]!,
    outcome: outcome!,
    number: number ?? null,
    subject,
    before: before!,
    maxQuantity: last!,
    knownId: last!,
  };
}

/** The limits of a request's subject as they stand with so much more held. */
const limitsWith = (verdict: Verdict, limits: Map<string, SubjectLimits>, more: string): LimitState[] =>
  (limits.get(verdict.number ?? '')?.states ?? []).map((state) => ({
    ...state,
    held: addDecimals(state.held, more),
  }));

function toReserved(verdict: Verdict, limits: Map<string, SubjectLimits>, nowMs: number): Reserved {
  const { request, id, before, subject } = verdict;
  return {
    reservation: {
      id,
      productSlug: request.slug,
      metric: request.metric,
      quantity: request.quantity,
      idempotencyKey: request.idempotencyKey,
      createdAtMs: nowMs,
      expiresAtMs: nowMs + request.ttlSeconds * SECOND_MS,
      releasedAtMs: null,
      settledAtMs: null,
      settledQuantity: null,
      livemode: subject.livemode,
    },
    limits: limitsWith(verdict, limits, addDecimals(before, request.quantity)),
    isRepeat: false,
  };
}

async function findKnown(db: Database, verdicts: Verdict[]): Promise<Map<number, Reservation>> {
  const places = verdicts.flatMap(({ outcome }, i) => (outcome === 'repeated' ? [i] : []));
  if (places.length === 0) return new Map();
  const own = places.flatMap((i) =>
    [true, false].map((livemode) => ({ i, verdict: verdicts[i]!, livemode })),
  );
  const rows = await db.run(findReservations, [
    textArray(own.map(({ verdict }) => verdict.subject.orgId)),
    textArray(own.map(({ verdict }) => verdict.knownId)),
    textArray(own.map(({ livemode }) => String(livemode))),
  ]);
  return new Map(rows.map((row) => [own[Number(row[0])]!.i, toReservation(row)]));
}

function toRepeat(verdict: Verdict, known: Reservation, limits: Map<string, SubjectLimits>): Decision {
  const { request, subject } = verdict;
  const isSame =
    known.livemode === subject.livemode &&
    known.productSlug === request.slug &&
    known.metric === request.metric &&
    compareDecimals(known.quantity, request.quantity) === 0 &&
    known.expiresAtMs - known.createdAtMs === request.ttlSeconds * SECOND_MS;
  if (isSame) return { reservation: known, limits: limitsWith(verdict, limits, '0'), isRepeat: true };
  const detail =
    'This idempotency key was used for another reservation. Make each one with a key of its own.';
  return { refusal: new AppError('idempotency_conflict', detail) };
}

/** The limit that leaves least, what it leaves, and when that will be enough. */
async function explainRefusals(
  db: Database,
  verdicts: Verdict[],
  limits: Map<string, SubjectLimits>,
  nowMs: number,
): Promise<Map<number, AppError>> {
  const refused = verdicts.flatMap((verdict, i) => {
    if (verdict.outcome !== 'limit_reached') return [];
    const { quantity } = verdict.request;
    const own = limitsWith(verdict, limits, verdict.before);
    const beyond = own.filter((state) => state.enforcement === 'block' && isBeyondRoom(state, quantity));
    return beyond.map((state) => ({ i, verdict, state }));
  });
  const freeAt = await findFreeTimes(
    db.run,
    refused.map(({ verdict, state }) => ({
      subject: verdict.subject,
      state,
      more: verdict.request.quantity,
    })),
    nowMs,
  );
  const waits = refused.map(({ verdict, state }, n) => {
    const { quantity, ttlSeconds } = verdict.request;
    if (compareDecimals(quantity, state.quantity) > 0) return Infinity;
    const isByHolds =
      compareDecimals(addDecimals(addDecimals(state.used, state.ahead), quantity), state.quantity) <= 0;
    const ownEnd = nowMs + ttlSeconds * SECOND_MS;
    const heldUntil = limits.get(verdict.number!)!.heldUntilMs ?? ownEnd;
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
    const detail = `The limit of ${state.quantity} ${verdict.request.metric} (${state.window}) leaves ${remainingOf(state)}; ${verdict.request.quantity} were asked for. Nothing is held.`;
    errors.set(
      i,
      new AppError('limit_reached', detail, {
        limit: limitJson({ ...state, resetsAtMs }),
        ...(untilMs === Infinity ? {} : { retryAfterSeconds: (untilMs - nowMs) / SECOND_MS }),
      }),
    );
  }
  return errors;
}

/** Unlike a check a reservation of nothing fits where nothing is left. */
const isBeyondRoom = (state: LimitState, quantity: string): boolean =>
  compareDecimals(addDecimals(takenOf(state), quantity), state.quantity) > 0;

function toRefusal({ outcome, request, maxQuantity, subject }: Verdict): AppError {
  const { slug, metric, quantity } = request;
  const error = keyError(outcome, 'usage:write');
  if (error) return error;
  const at = (
    code: 'entitlement_required' | 'entitlement_read_only' | 'unknown_metric' | 'quantity_out_of_range',
    field: string,
    detail: string,
  ) => new AppError(code, `/${field} ${detail}`, { errors: [{ pointer: `/${field}`, code, detail }] });
  switch (outcome) {
    case 'entitlement_read_only':
      return at(
        'entitlement_read_only',
        'productSlug',
        `The entitlement for the product ${slug} is read-only.`,
      );
    case 'product_archived':
      return at(
        'entitlement_required',
        'productSlug',
        `The product ${slug} was archived by the operator of this service.`,
      );
    case 'unknown_metric':
      return at('unknown_metric', 'metric', `The product ${slug} counts ${subject.metric}, not ${metric}.`);
    case 'quantity_out_of_range':
      return at(
        'quantity_out_of_range',
        'quantity',
        `An event of the product ${slug} counts at most ${maxQuantity}; ${quantity} were asked for.`,
      );
    default:
      return at(
        'entitlement_required',
        'productSlug',
        `There is no live entitlement for the product ${slug}.`,
      );
  }
}
