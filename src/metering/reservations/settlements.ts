import { keyError } from '../../accounts/api-keys/bearer-key.js';
import { type Clock, monthOf, monthRange } from '../../core/time.js';
import { columnArrays, textArray } from '../../core/db/sql.js';
import type { Run } from '../../core/db/client.js';
import { createGroupCoalescer } from '../../core/db/coalesce.js';
import { compareDecimals } from '../../core/decimal.js';
import { AppError } from '../../core/errors.js';
import { findOverdrawn, type OverdrawnRow } from '../credits/statements.js';
import { addCombinations, type Combination } from '../entitlements/dimensions.js';
import type { LimitState } from '../entitlements/limits.js';
import { creditsOverdrawn, limitWarning, tooManyValues, type UsageWarning } from '../ingestion/answer.js';
import { createExtendedPairs, type ExtendedPairs } from '../ingestion/extended-pairs.js';
import { createHeadroom, limitKinds, type Headroom, type LimitedUse } from '../ingestion/headroom.js';
import { createRecorder, shareOfQueue, type RecorderDeps } from '../ingestion/ingestion.js';
import { NEEDS_COMBINATION, NEEDS_PRICED } from '../ingestion/pair.js';
import {
  findMismatches,
  findOverCap,
  type MismatchRow,
  type OverCapRow,
} from '../ingestion/repeat-statements.js';
import { toReservation, type Reservation } from './reservations.js';
import { settle, settlePriced, type SettlementRow } from './statements.js';

export interface SettleRequest {
  hashedSecret: string;
  id: string;
  /** Undefined settles the held quantity. */
  quantity: string | undefined;
  /** RFC 3339; undefined means now. */
  occurredAt: string | undefined;
}

export type SettleWarning =
  | UsageWarning
  | { code: 'reservation_expired' }
  | { code: 'reservation_exceeded'; reserved: string; used: string };

export type Settlements = ReturnType<typeof createSettlements>;

const MAX_QUEUED = 10_000;
/** A settlement that waited for another of the same reservation sees its result in the next round. */
const MAX_ROUNDS = 10;

export function createSettlements({ db, clock, metrics, thresholds }: RecorderDeps) {
  const deps = { clock, headroom: createHeadroom(), pricedKeys: createExtendedPairs() };
  const recorder = createRecorder((group, requests: SettleRequest[]) =>
    settleAll(group.run, requests, { ...deps, onNoted: () => thresholds?.noted(group) }),
  );
  const coalescer = createGroupCoalescer<SettleRequest, Verdict>(db.shards, (group) => ({
    flush: (requests) => recorder(group, requests),
    parallel: group.parallel,
    fullWeight: 100,
    gather: { weight: 100, ms: 2 },
    maxWeight: db.kind === 'embedded' ? 250 : 500,
    queueLimit: { weight: shareOfQueue(db.shards, MAX_QUEUED), bytes: Infinity },
  }));
  return {
    /** Resolves after the commit. */
    async settle(request: SettleRequest) {
      const verdict = await coalescer.submit(request);
      if (verdict.error) throw verdict.error;
      const { reservation, isCounted, outcome } = verdict;
      if (outcome === 'settled') {
        metrics.reservations.inc({ outcome: isLate(reservation) ? 'settled_late' : 'settled' });
        metrics.usageEvents.inc({ outcome: isCounted ? 'accepted' : 'deduped' });
      }
      return {
        reservation,
        accepted: isCounted ? 1 : 0,
        deduped: isCounted ? 0 : 1,
        warnings: verdict.warnings,
      };
    },
    drain: () => coalescer.drain(),
  };
}

/** The hold had already expired or been released. */
const isLate = ({ settledAtMs, expiresAtMs, releasedAtMs }: Reservation): boolean =>
  releasedAtMs !== null || expiresAtMs <= settledAtMs!;

type Verdict = ReturnType<typeof toVerdict>;

interface SettleDeps {
  clock: Clock;
  headroom: Headroom;
  /** Settlements of these keys needed `settlePriced`. */
  pricedKeys: ExtendedPairs;
  onNoted: () => void;
}

const pairOf = ({ hashedSecret }: SettleRequest) => ({ hashedSecret, slug: '', metric: '' });

async function settleAll(
  run: Run,
  requests: SettleRequest[],
  { clock, headroom, pricedKeys, onNoted }: SettleDeps,
): Promise<Verdict[]> {
  const verdicts: Verdict[] = [];
  let open = requests.map((_request, place) => place);
  let nowMs = clock.now();
  for (let round = 0; open.length > 0 && round < MAX_ROUNDS; round++) {
    nowMs = clock.now();
    const asked = open.map((place) => requests[place]!);
    const isPlain = pricedKeys.textFor(asked.map(pairOf), nowMs) === 'plain';
    const rows = await run<SettlementRow>(isPlain ? settle : settlePriced, [
      ...columnArrays(asked, 'hashedSecret', 'id', 'quantity', 'occurredAt'),
      new Date(nowMs).toISOString(),
    ]);
    if (rows[0]?.noted !== '0') onNoted();
    const unlisted: Combination[] = [];
    for (const row of rows) {
      const place = open[Number(row.place)]!;
      if (row.outcome === NEEDS_COMBINATION)
        unlisted.push({
          orgId: row.orgId,
          productId: row.productId,
          livemode: row.livemode === 'true',
          period: monthOf(Number(row.occurredAtMs)),
          dimensions: row.dimensions!,
        });
      else if (row.outcome === NEEDS_PRICED) pricedKeys.add(pairOf(requests[place]!), 'priced', nowMs);
      else if (row.outcome !== 'retry') verdicts[place] = toVerdict(row);
    }
    await addCombinations(run, unlisted);
    open = open.filter((place) => !verdicts[place]);
  }
  if (open.length > 0)
    throw new AppError('unavailable', 'Another call is settling this reservation. Try again shortly.', {
      retryAfterSeconds: 1,
    });
  const good = verdicts.filter(({ error }) => !error);
  await Promise.all([
    // After the commit, as for any other event.
    headroom.reportExceeded(run, good.flatMap(limitedUse), nowMs),
    addRepeatWarnings(run, good),
    addMismatches(run, good),
    addOverdrafts(run, good, nowMs),
  ]);
  return verdicts;
}

function toVerdict(row: SettlementRow) {
  const { outcome, orgId, productId, used, total } = row;
  const reservation = toReservation(row);
  const { productSlug, metric, livemode, quantity, settledQuantity } = reservation;
  const subject = { orgId, productId, livemode, metric };
  const warnings: SettleWarning[] = [];
  const error = toError(outcome, reservation, row.maxQuantity);
  if (!error) {
    if (isLate(reservation)) warnings.push({ code: 'reservation_expired' });
    if (compareDecimals(settledQuantity!, quantity) > 0)
      warnings.push({ code: 'reservation_exceeded', reserved: quantity, used: settledQuantity! });
    if (used !== null) {
      const cap = { unitCap: row.unitCap!, used, period: monthRange(row.period!) };
      warnings.push({ code: 'unit_cap_exceeded', productSlug, metric, ...cap });
    }
    if (row.isOther === 'true') warnings.push(tooManyValues(productSlug));
  }
  return {
    outcome,
    error,
    reservation,
    isCounted: row.isCounted === 'true',
    subject,
    occurredAtMs: Number(row.occurredAtMs),
    limited: total === null ? undefined : { ...subject, declared: row.declared!, total },
    isPriced: row.isPriced === 'true',
    /** Set if the statement read it. */
    overdraft: row.overdraft,
    warnings,
  };
}

function toError(outcome: string, { productSlug }: Reservation, maxQuantity: string | null) {
  switch (outcome) {
    case 'settled':
    case 'repeated':
      return undefined;
    case 'not_found':
      return new AppError('not_found', 'There is no such reservation.');
    case 'idempotency_conflict':
      return new AppError(
        'idempotency_conflict',
        'This reservation was already settled with another quantity or time.',
      );
    case 'quantity_out_of_range': {
      const detail = `An event of the product ${productSlug} can count at most ${maxQuantity}.`;
      const errors = [{ pointer: '/quantity', code: 'quantity_out_of_range' as const, detail }];
      return new AppError('quantity_out_of_range', `Nothing was recorded. ${detail}`, { errors });
    }
    default:
      return keyError(outcome, 'usage:write');
  }
}

const limitedUse = ({ limited, occurredAtMs: atMs, reservation, warnings }: Verdict): LimitedUse[] => {
  const { productSlug, metric } = reservation;
  const report = (state: LimitState) => void warnings.push(limitWarning(productSlug, metric, state));
  if (!limited) return [];
  const { isWhole, isPerSubject } = limitKinds(limited.declared);
  const { subject } = reservation;
  return [
    ...(isWhole ? [{ limited, atMs, report }] : []),
    ...(isPerSubject && subject !== '' ? [{ limited: { ...limited, subject }, atMs, report }] : []),
  ];
};

const isRepeat = ({ outcome, isCounted }: Verdict): boolean => outcome === 'repeated' || !isCounted;

/** The statement returns warnings only for settlements that count usage. */
async function addRepeatWarnings(run: Run, verdicts: Verdict[]): Promise<void> {
  const repeats = verdicts.filter(isRepeat);
  if (repeats.length === 0) return;
  const periods = repeats.map(({ occurredAtMs }) => monthOf(occurredAtMs));
  const subjects = repeats.map(({ subject }) => subject);
  const rows = await run<OverCapRow>(findOverCap, [
    ...columnArrays(subjects, 'orgId', 'productId', 'metric', 'livemode'),
    textArray(periods),
  ]);
  for (const { place, unitCap, used } of rows) {
    const { warnings, reservation } = repeats[Number(place)]!;
    if (warnings.some(({ code }) => code === 'unit_cap_exceeded')) continue;
    const { productSlug, metric } = reservation;
    const period = monthRange(periods[Number(place)]!);
    warnings.push({ code: 'unit_cap_exceeded', productSlug, metric, unitCap, used, period });
  }
}

/** Nothing was burned for these; the statement has returned all other overdrafts. */
async function addOverdrafts(run: Run, verdicts: Verdict[], nowMs: number): Promise<void> {
  const priced = verdicts.filter(({ isPriced }) => isPriced);
  const unread = priced.filter((verdict) => isRepeat(verdict) || verdict.overdraft == null);
  if (unread.length > 0) {
    const subjects = unread.map(({ subject }) => subject);
    const rows = await run<OverdrawnRow>(findOverdrawn, [
      ...columnArrays(subjects, 'orgId', 'productId', 'livemode'),
      new Date(nowMs).toISOString(),
    ]);
    for (const verdict of unread) verdict.overdraft = '0';
    for (const { place, overdraft } of rows) unread[Number(place)]!.overdraft = overdraft;
  }
  for (const { overdraft, reservation, warnings } of priced)
    if (overdraft !== '0') warnings.push(creditsOverdrawn(reservation.productSlug, overdraft!));
}

/** The idempotency key was used before for a different event. */
async function addMismatches(run: Run, verdicts: Verdict[]): Promise<void> {
  const deduped = verdicts.filter(({ isCounted }) => !isCounted);
  if (deduped.length === 0) return;
  const events = deduped.map(({ reservation, subject: { orgId, productId } }) => {
    return { ...reservation, orgId, productId };
  });
  const rows = await run<MismatchRow>(findMismatches, [
    ...columnArrays(events, 'orgId', 'idempotencyKey', 'productId', 'metric', 'settledQuantity', 'livemode'),
    textArray(events.map(() => null)),
    ...columnArrays(events, 'subject', 'encoded'),
  ]);
  for (const { place, isOtherMode } of rows)
    deduped[Number(place)]!.warnings.push({
      code: 'duplicate_mismatch',
      index: 0,
      ...(isOtherMode === 'true' ? { differs: ['livemode'] as ['livemode'] } : {}),
    });
}
