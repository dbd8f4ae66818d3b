import { groupBy } from '../../../core/collections.js';
import { sumDecimals } from '../../../core/decimal.js';
import { toAddress, type Query } from '../../../core/pages/address.js';
import { formatDay, formatMonth, formatShare } from '../../../core/pages/format.js';
import { DAY_MS } from '../../../core/time.js';
import { creditEntryKinds } from '../../credits/table.js';
import { isCurrent, type CreditGrant, type Credits } from '../../credit-grants/credits.js';
import { effectOf, total, type LedgerKind, type LedgerRow } from './ledger.js';
import type { CreditPace } from './queries.js';

const statuses: Record<CreditGrant['status'], { label: string; tone: string }> = {
  open: { label: 'Open', tone: 'good' },
  scheduled: { label: 'Scheduled', tone: 'info' },
  spent: { label: 'Spent', tone: '' },
  expired: { label: 'Expired', tone: '' },
  voided: { label: 'Void', tone: '' },
};

/** In milliseconds. After a rollover, when the rolled-over credits expire. */
function endOf({ expiresAt, rolloverDays }: ProjectedGrant, nowMs: number): number {
  if (expiresAt === null) return Infinity;
  const ms = Date.parse(expiresAt);
  return ms > nowMs ? ms : ms + (rolloverDays ?? 0) * DAY_MS;
}

/** A plan's grants of each period have the same reason; their key says when the period begins. */
export function nameOfGrant({ grantKey, reason }: Pick<CreditGrant, 'grantKey' | 'reason'>): string {
  const at = new Date(/^plan:[^:]+:(.+)$/.exec(grantKey)?.[1] ?? NaN);
  if (Number.isNaN(at.getTime())) return reason;
  return `${reason}, ${at.getUTCDate() === 1 ? formatMonth(at) : `from ${formatDay(at)}`}`;
}

export function toGrantView(grant: CreditGrant, now: Date) {
  const { amount, remaining, status, startsAt, expiresAt } = grant;
  const endMs = endOf(grant, now.getTime());
  return {
    ...grant,
    name: nameOfGrant(grant),
    isCurrent: isCurrent(grant),
    statusLabel: statuses[status].label,
    tone: statuses[status].tone,
    left: Number(remaining) / Number(amount),
    percent: formatShare(remaining, amount),
    startsAt: new Date(startsAt),
    expiresAt: expiresAt === null ? null : new Date(expiresAt),
    endsAt: endMs === Infinity ? null : new Date(endMs),
    hasRolled: expiresAt !== null && status === 'open' && Date.parse(expiresAt) <= now.getTime(),
    voidedAt: grant.voidedAt === null ? null : new Date(grant.voidedAt),
  };
}

/** @param pace over the last `PACE_DAYS` days */
export function toAccountView(credits: Credits, pace: CreditPace, now: Date) {
  const grants = credits.grants.map((grant) => toGrantView(grant, now));
  const open = grants.filter(({ status }) => status === 'open');
  const scheduled = grants
    .filter(({ status }) => status === 'scheduled')
    .toSorted((a, b) => a.startsAt.getTime() - b.startsAt.getTime());
  const ending = open
    .filter(({ endsAt, remaining }) => endsAt && remaining !== '0')
    .toSorted((a, b) => a.endsAt!.getTime() - b.endsAt!.getTime());
  const next = ending.filter(({ endsAt }) => endsAt!.getTime() === ending[0]!.endsAt!.getTime());
  return {
    balance: credits.balance,
    isNegative: credits.balance.startsWith('-'),
    held: credits.held,
    overdrafts: credits.overdrafts,
    current: [...open, ...scheduled],
    hasOpen: open.length > 0,
    closed: grants.filter(({ isCurrent }) => !isCurrent),
    nextEnd: next[0] && {
      endsAt: next[0].endsAt,
      remaining: sumDecimals(next.map(({ remaining }) => remaining)),
      grants: next.length === 1 ? next[0].name : `${next.length} grants`,
    },
    nextStart: scheduled[0],
    burned: {
      days: PACE_DAYS,
      quantity: pace.quantity,
      products: pace.products
        .filter(({ quantity }) => Number(quantity) > 0)
        .map(({ name, quantity }) => ({ name, share: formatShare(quantity, pace.quantity) })),
    },
    perDay: perDayOf(pace, now),
    projection: project(credits, pace, now),
  };
}

const kinds: Record<LedgerKind, { label: string; sign: '−' | '+' | '' }> = {
  burn: { label: 'Burned', sign: '−' },
  return: { label: 'Given back', sign: '+' },
  expire: { label: 'Expired', sign: '−' },
  roll: { label: 'Rolled over', sign: '' },
  void: { label: 'Forfeited', sign: '−' },
  repay: { label: 'Overdraft paid', sign: '' },
  forgive: { label: 'Overdraft forgiven', sign: '+' },
  grant: { label: 'Granted', sign: '+' },
};

export const kindOptions = creditEntryKinds.map((value) => ({ value, label: kinds[value].label }));

/** A negative amount undoes an entry, so it is shown with the opposite sign. */
export function toEntryView({
  at,
  hour,
  kind,
  productSlug,
  productName,
  grantKey,
  grantReason,
  amount,
  balance,
  count = 1,
}: LedgerRow) {
  const { label, sign } = kinds[kind];
  const isUndone = amount.startsWith('-');
  return {
    at: new Date(at),
    label: isUndone ? `${label}, undone` : label,
    productName,
    from: grantReason
      ? nameOfGrant({ grantKey: grantKey!, reason: grantReason })
      : kind === 'burn' || kind === 'return'
        ? 'Overdraft'
        : '',
    /** The events that the entry sums up. */
    events:
      productSlug !== null && (kind === 'burn' || kind === 'return')
        ? { product: productSlug, range: 'day', date: hour.slice(0, 10), hour: hour.slice(11, 13) }
        : undefined,
    sign: isUndone && sign !== '' ? (sign === '+' ? '−' : '+') : sign,
    amount: amount.replace('-', ''),
    balance,
    count,
  };
}

const byAmount = (a: LedgerRow, b: LedgerRow) => Math.abs(Number(b.amount)) - Math.abs(Number(a.amount));

/** Each day shows so many rows. */
const DAY_ROWS = 40;

/** With their effect on the balance and the balance at their end. Each sum has the address of its entries. */
export function toDays(rows: readonly LedgerRow[], path: string, filters: Query) {
  const days = [...groupBy(rows, ({ at }) => at.slice(0, 10))];
  return days.map(([day, own]) => {
    const toHref = (query: Query) => toAddress(path, { ...filters, ...query, from: day, to: day });
    return {
      at: new Date(day),
      href: toHref({}),
      amount: total(own.map(effectOf)),
      balance: own[0]!.balance,
      more: Math.max(0, own.length - DAY_ROWS),
      entries: own
        .toSorted(byAmount)
        .slice(0, DAY_ROWS)
        .map((row) => {
          const { productSlug, grantKey, kind } = row;
          const entry = { ...toEntryView(row), balance: undefined };
          if (entry.count === 1) return entry;
          return { ...entry, href: toHref({ product: productSlug ?? '', grant: grantKey ?? '', kind }) };
        }),
    };
  });
}

export const PACE_DAYS = 7;
/** How far ahead a projection looks. */
const HORIZON_DAYS = 366;

export type ProjectedGrant = Pick<
  CreditGrant,
  'status' | 'remaining' | 'startsAt' | 'expiresAt' | 'rolloverDays' | 'productSlugs'
>;

interface ProjectedCredits extends Pick<Credits, 'balance'> {
  overdrafts: readonly unknown[];
  grants: readonly ProjectedGrant[];
}

const daysOf = ({ isOlder, firstAt }: Pick<CreditPace, 'isOlder' | 'firstAt'>, now: Date): number =>
  isOlder ? PACE_DAYS : firstAt === null ? 0 : (now.getTime() - Date.parse(firstAt)) / DAY_MS;

/** Undefined unless credits were burned over at least a day. */
function perDayOf(pace: Pick<CreditPace, 'isOlder' | 'firstAt' | 'quantity'>, now: Date): number | undefined {
  const days = daysOf(pace, now);
  const perDay = Number(pace.quantity) / days;
  return days >= 1 && perDay > 0 ? perDay : undefined;
}

/**
 * Undefined unless credits were burned over at least a day, some are left, there is no overdraft, and `projectEnd`
 * finds an end.
 */
export function project(
  { balance, overdrafts, grants }: ProjectedCredits,
  pace: Omit<CreditPace, 'products'> & { products: { slug: string }[] },
  now: Date,
) {
  if (Number(balance) <= 0 || overdrafts.length > 0 || pace.firstAt === null) return undefined;
  const days = daysOf(pace, now);
  const perDay = perDayOf(pace, now);
  if (perDay === undefined) return undefined;
  const end = projectEnd(grants, { perDay, slugs: pace.products.map(({ slug }) => slug) }, now);
  return end && { end: end === 'later' ? undefined : end, perDay, days: Math.floor(days) };
}

/**
 * An estimate in doubles; `later` if beyond `HORIZON_DAYS`. Undefined if a grant pays for only some of the products,
 * because no single pace describes that case.
 * @param slugs the products that burn credits
 */
function projectEnd(
  grants: readonly ProjectedGrant[],
  { perDay, slugs }: { perDay: number; slugs: readonly string[] },
  now: Date,
): Date | 'later' | undefined {
  const current = grants.filter(isCurrent);
  const pays = ({ productSlugs }: ProjectedGrant, slug: string) =>
    productSlugs === null || productSlugs.includes(slug);
  const usable = current.filter((grant) => slugs.every((slug) => pays(grant, slug)));
  if (current.some((grant) => !usable.includes(grant) && slugs.some((slug) => pays(grant, slug))))
    return undefined;
  const nowMs = now.getTime();
  const rests = usable.map((grant) => ({
    left: Number(grant.remaining),
    startMs: Date.parse(grant.startsAt),
    endMs: endOf(grant, nowMs),
  }));
  const horizonMs = nowMs + HORIZON_DAYS * DAY_MS;
  const turns = rests
    .flatMap(({ startMs, endMs }) => [startMs, endMs])
    .filter((ms) => ms > nowMs && ms < horizonMs);
  let atMs = nowMs;
  for (const nextMs of [...turns.toSorted((a, b) => a - b), horizonMs]) {
    let need = (perDay * (nextMs - atMs)) / DAY_MS;
    for (const rest of rests.filter(({ startMs, endMs }) => startMs <= atMs && endMs > atMs)) {
      const part = Math.min(rest.left, need);
      rest.left -= part;
      need -= part;
    }
    if (need > 0) return new Date(nextMs - (need / perDay) * DAY_MS);
    atMs = nextMs;
  }
  return 'later';
}
