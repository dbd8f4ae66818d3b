import { randomBytes } from 'node:crypto';
import { v7 as uuid } from 'uuid';
import { keyError } from '../../accounts/api-keys/bearer-key.js';
import { type Clock, SECOND_MS } from '../../core/time.js';
import { columnArrays, intArray, numericArray, textArray } from '../../core/db/sql.js';
import type { Database, ShardGroup } from '../../core/db/client.js';
import { createGroupCoalescer } from '../../core/db/coalesce.js';
import { sumOf } from '../../core/db/shards.js';
import { compareDecimals } from '../../core/decimal.js';
import { AppError, found, type ErrorCode } from '../../core/errors.js';
import { firstIdOf } from '../../core/ids.js';
import type { Context } from '../../core/http/context.js';
import { decodeDimensions } from '../entitlements/dimensions.js';
import { toLimitState, type LimitRow, type Subject } from '../entitlements/limit-queries.js';
import type { LimitState } from '../entitlements/limits.js';
import { createExtendedPairs, type ExtendedPairs } from '../ingestion/extended-pairs.js';
import { createRecorder, shareOfQueue } from '../ingestion/ingestion.js';
import { NEEDS_EXTENDED } from '../ingestion/pair.js';
import { createRefusalReporter } from '../thresholds/thresholds.js';
import {
  explainRefusals,
  findRefused,
  limitsWith,
  toRefusal,
  type ReserveRequest,
  type SubjectLimits,
  type ReservationVerdict,
} from './refusals.js';
import { reserve, reserveDetailed, type DecisionRow, type SubjectRow } from './hold-statements.js';
import {
  countReservations,
  findReservations,
  listReservations,
  listReservationsByStatus,
  release,
  type ReleaseRow,
  type ReservationRow,
} from './statements.js';
import type { ReservationStatus } from './table.js';

/** Quantities are exact decimals. */
export type Reservation = ReturnType<typeof toReservation>;

export function stateOf({ settledAtMs, releasedAtMs, expiresAtMs }: Reservation, nowMs: number) {
  if (settledAtMs !== null) return 'settled';
  if (releasedAtMs !== null) return 'released';
  return expiresAtMs > nowMs ? 'held' : 'expired';
}

/** A key sees only reservations of its own Organization and mode. */
type Owner = Pick<Subject, 'orgId' | 'livemode'>;

interface Page {
  after?: string | undefined;
  limit: number;
  status: ReservationStatus | undefined;
}

export type Reservations = ReturnType<typeof createReservations>;

/** Therefore also the greatest age of a reservation that is still held. */
export const MAX_TTL_SECONDS = 86_400;
const exhausted = new Set<ErrorCode>(['limit_reached', 'credits_exhausted']);
const MAX_QUEUED = 10_000;
/** While other instances hold for the same subject. Reaching it means that the database is failing. */
const MAX_ROUNDS = 100;

export function createReservations({ db, clock, metrics }: Pick<Context, 'db' | 'clock' | 'metrics'>) {
  const deps = { clock, reportRefused: createRefusalReporter(), extendedPairs: createExtendedPairs() };
  const recorder = createRecorder((group, requests: ReserveRequest[]) => decideAll(group, requests, deps));
  const coalescer = createGroupCoalescer<ReserveRequest, Decision>(db.shards, (group) => ({
    flush: (requests) => recorder(group, requests),
    // A second flush of this process would only conflict at the gate.
    parallel: 1,
    fullWeight: 1,
    gather: { weight: 100, ms: 2 },
    maxWeight: 500,
    queueLimit: { weight: shareOfQueue(db.shards, MAX_QUEUED), bytes: Infinity },
  }));

  return {
    /** Resolves after the commit. */
    async reserve(request: ReserveRequest) {
      const decision = await coalescer.submit(request);
      if ('refusal' in decision) {
        if (exhausted.has(decision.refusal.code)) metrics.reservations.inc({ outcome: 'refused' });
        if (decision.refusal.code === 'credits_exhausted') metrics.creditRefusals.inc();
        throw decision.refusal;
      }
      metrics.reservations.inc({ outcome: decision.isRepeat ? 'repeated' : 'held' });
      return decision;
    },
    async release(hashedSecret: string, id: string): Promise<Reservation> {
      const now = new Date(clock.now()).toISOString();
      const { run } = await db.shards.locate(hashedSecret);
      const [row] = await run<ReleaseRow>(release, [hashedSecret, id, now]);
      const { problem, orgId, livemode, releasedId } = row!;
      const error = keyError(problem, 'usage:write');
      if (error) throw error;
      if (releasedId !== null) metrics.reservations.inc({ outcome: 'released' });
      return findOne(db, { orgId, livemode: livemode === 'true' }, id);
    },
    find: (owner: Owner, id: string) => findOne(db, owner, id),
    /** Newest first, below the id `after`. */
    list: (owner: Owner, page: Page) => listByOwner(db, owner, page, clock.now()),
    drain: () => coalescer.drain(),
  };
}

const LAST_ID = 'ffffffff-ffff-ffff-ffff-ffffffffffff';

/** The counts cover the whole service, so every instance reports the same numbers. */
export async function watchReservations({ db, clock, metrics }: Pick<Context, 'db' | 'clock' | 'metrics'>) {
  const nowMs = clock.now();
  const times = [lowestHeldId(nowMs), new Date(nowMs).toISOString()];
  const counts = await Promise.all(db.shards.groups.map(({ run }) => run(countReservations, times)));
  for (const state of ['held', 'expired']) metrics.reservationsOpen.set({ state }, sumOf(counts, state));
}

/** Ids start with their creation time. An hour's margin covers slow clocks. */
const lowestHeldId = (nowMs: number): string => firstIdOf(nowMs - (MAX_TTL_SECONDS + 3_600) * SECOND_MS);

export async function listByOwner(
  { shards }: Pick<Database, 'shards'>,
  { orgId, livemode }: Owner,
  { after = LAST_ID, limit, status }: Page,
  nowMs: number,
): Promise<Reservation[]> {
  const { run } = await shards.locateOrganization(orgId);
  const values = [orgId, livemode, after, limit];
  if (status === undefined) return (await run<ReservationRow>(listReservations, values)).map(toReservation);
  const oldest = status === 'held' ? lowestHeldId(nowMs) : firstIdOf(0);
  const now = new Date(nowMs).toISOString();
  const rows = await run<ReservationRow>(listReservationsByStatus[status], [...values, oldest, now]);
  return rows.map(toReservation);
}

async function findOne({ shards }: Database, { orgId, livemode }: Owner, id: string): Promise<Reservation> {
  const { run } = await shards.locateOrganization(orgId);
  const asked = columnArrays([{ orgId, id, livemode }], 'orgId', 'id', 'livemode');
  const [row] = await run<ReservationRow>(findReservations, asked);
  return toReservation(found(row, 'There is no such reservation.'));
}

export const toReservation = (row: ReservationRow) => ({
  id: row.id,
  productSlug: row.productSlug,
  metric: row.metric,
  quantity: row.quantity,
  idempotencyKey: row.idempotencyKey,
  createdAtMs: Number(row.createdAtMs),
  expiresAtMs: Number(row.expiresAtMs),
  releasedAtMs: row.releasedAtMs === null ? null : Number(row.releasedAtMs),
  settledAtMs: row.settledAtMs === null ? null : Number(row.settledAtMs),
  settledQuantity: row.settledQuantity,
  livemode: row.livemode === 'true',
  /** Empty if the reservation names no subject. */
  subject: row.subject,
  /** Encoded, and by name. */
  encoded: row.dimensions ?? '',
  dimensions: decodeDimensions(toKeys(row.keys), row.dimensions ?? ''),
});

const toKeys = (json: string | null | undefined): string[] =>
  json == null ? [] : (JSON.parse(json) as string[]);

type Decision = { reservation: Reservation; limits: LimitState[]; isRepeat: boolean } | { refusal: AppError };

interface DecideDeps {
  clock: Clock;
  reportRefused: ReturnType<typeof createRefusalReporter>;
  extendedPairs: ExtendedPairs;
}

async function decideAll(group: ShardGroup, requests: ReserveRequest[], deps: DecideDeps) {
  const decisions: Decision[] = [];
  let open = requests.map((request, place) => ({ request, place }));
  for (let round = 0; open.length > 0 && round < MAX_ROUNDS; round++) {
    const waiting = open.map(({ request }) => request);
    const decided = await decideOnce(group, waiting, deps);
    open = open.filter(({ place }, i) => {
      const decision = decided[i];
      if (decision) decisions[place] = decision;
      return !decision;
    });
  }
  for (const { place } of open) {
    const detail = 'Too many concurrent reservations for this product. Try again shortly.';
    decisions[place] = { refusal: new AppError('unavailable', detail, { retryAfterSeconds: 1 }) };
  }
  return decisions;
}

/** Undefined for requests that must be decided again: another flush was faster, or `reserve` does not decide them. */
async function decideOnce(
  group: ShardGroup,
  requests: ReserveRequest[],
  { clock, reportRefused, extendedPairs }: DecideDeps,
): Promise<(Decision | undefined)[]> {
  const nowMs = clock.now();
  const pairs = new Map<string, number>();
  const pairOf = requests.map(({ hashedSecret, slug, metric, dimensions = '' }) => {
    const name = `${hashedSecret}\n${slug}\n${metric}\n${dimensions}`;
    if (!pairs.has(name)) pairs.set(name, pairs.size);
    return pairs.get(name)!;
  });
  const names = [...pairs.keys()].map((name) => name.split('\n'));
  const random = randomBytes(16 * requests.length);
  const ids = requests.map((_request, i) => uuid({ msecs: nowMs, random: random.subarray(16 * i) }));
  const isDetailed = requests.some(
    (request) =>
      (request.subject ?? request.dimensions) !== undefined ||
      extendedPairs.textFor([request], nowMs) !== 'plain',
  );
  const rows = await group.run<SubjectRow | DecisionRow>(isDetailed ? reserveDetailed : reserve, [
    textArray(names.map(([hashedSecret]) => hashedSecret!)),
    textArray(names.map(([, slug]) => slug!)),
    textArray(names.map(([, , metric]) => metric!)),
    intArray(pairOf),
    textArray(ids),
    textArray(requests.map(({ idempotencyKey }) => idempotencyKey)),
    numericArray(requests.map(({ quantity }) => quantity)),
    textArray(requests.map(({ ttlSeconds }) => new Date(nowMs + ttlSeconds * SECOND_MS).toISOString())),
    new Date(nowMs).toISOString(),
    ...(isDetailed
      ? [
          textArray(names.map(([, , , dimensions]) => dimensions || null)),
          textArray(requests.map(({ subject = '' }) => subject)),
        ]
      : []),
  ]);
  const limits = new Map<string, SubjectLimits>();
  const verdicts: ReservationVerdict[] = [];
  for (const row of rows) {
    if (row.place === null) limits.set(row.number, toSubjectLimits(row, nowMs));
    else verdicts[Number(row.place)] = toVerdict(row, requests, ids);
  }
  for (const verdict of verdicts)
    if (verdict.outcome === NEEDS_EXTENDED) {
      extendedPairs.add(verdict.request, 'extended', nowMs);
      verdict.outcome = 'retry';
    }
  // A refusal depends on the requests accepted before it, so it must be decided again with them.
  const unsettled = new Set(verdicts.flatMap((v) => (v.outcome === 'retry' ? [v.number] : [])));
  for (const verdict of verdicts)
    if (
      verdict.outcome === 'limit_reached' &&
      (verdict.before !== '0' || verdict.ownBefore !== '0') &&
      unsettled.has(verdict.number)
    )
      verdict.outcome = 'retry';
  const known = await findKnown(group, verdicts);
  const refused = findRefused(verdicts, limits);
  const refusals = await explainRefusals(group, refused, limits, nowMs);
  await reportRefused(group.run, refused, nowMs);
  return verdicts.map((verdict, i) => {
    if (verdict.outcome === 'retry') return undefined;
    if (verdict.outcome === 'held') return toReserved(verdict, limits, nowMs);
    if (verdict.outcome === 'repeated') return toRepeat(verdict, known.get(i)!, limits);
    return { refusal: refusals.get(i) ?? toRefusal(verdict) };
  });
}

function toSubjectLimits({ limits, heldUntilMs }: SubjectRow, nowMs: number): SubjectLimits {
  const states = (JSON.parse(limits) as LimitRow[]).map((row) => toLimitState(row, nowMs));
  return { states, heldUntilMs: heldUntilMs === null ? undefined : Number(heldUntilMs) };
}

function toVerdict(row: DecisionRow, requests: ReserveRequest[], ids: string[]): ReservationVerdict {
  const { orgId, productId, livemode, metric, outcome, number, before, maxQuantity, knownId } = row;
  return {
    request: requests[Number(row.place)]!,
    id: ids[Number(row.place)]!,
    outcome,
    number,
    subject: { orgId, productId, livemode: livemode === 'true', metric },
    before,
    maxQuantity,
    knownId,
    ownNumber: row.ownNumber ?? null,
    ownBefore: row.ownBefore ?? '0',
    credits: { required: row.required ?? '0', available: row.available ?? '0' },
    encoded: row.dimensions ?? '',
    keys: toKeys(row.keys),
  };
}

function toReserved(verdict: ReservationVerdict, limits: Map<string, SubjectLimits>, nowMs: number) {
  const { request, id, subject } = verdict;
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
      subject: request.subject ?? '',
      encoded: verdict.encoded,
      dimensions: decodeDimensions(verdict.keys, verdict.encoded),
    },
    limits: limitsWith(verdict, limits, request.quantity),
    isRepeat: false,
  };
}

async function findKnown({ run }: ShardGroup, verdicts: ReservationVerdict[]) {
  const places = verdicts.flatMap(({ outcome }, i) => (outcome === 'repeated' ? [i] : []));
  if (places.length === 0) return new Map<number, Reservation>();
  const own = places.flatMap((i) => {
    const { subject, knownId: id } = verdicts[i]!;
    return [true, false].map((livemode) => ({ i, orgId: subject.orgId, id, livemode }));
  });
  const rows = await run<ReservationRow & { place: string }>(
    findReservations,
    columnArrays(own, 'orgId', 'id', 'livemode'),
  );
  return new Map(rows.map((row) => [own[Number(row.place)]!.i, toReservation(row)]));
}

function toRepeat(verdict: ReservationVerdict, known: Reservation, limits: Map<string, SubjectLimits>) {
  const { request, subject } = verdict;
  const isSame =
    known.livemode === subject.livemode &&
    known.productSlug === request.slug &&
    known.metric === request.metric &&
    compareDecimals(known.quantity, request.quantity) === 0 &&
    known.subject === (request.subject ?? '') &&
    known.encoded === verdict.encoded &&
    known.expiresAtMs - known.createdAtMs === request.ttlSeconds * SECOND_MS;
  if (isSame) return { reservation: known, limits: limitsWith(verdict, limits), isRepeat: true };
  const detail = 'This idempotency key was used for another reservation. Use a new key for each reservation.';
  return { refusal: new AppError('idempotency_conflict', detail) };
}
