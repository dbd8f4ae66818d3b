import { formatEstimate } from '../../../core/charts/stacked.js';
import { groupBy } from '../../../core/collections.js';
import { differenceOf, sumDecimals } from '../../../core/decimal.js';
import { toAddress, type Query } from '../../../core/pages/address.js';
import { formatDay, formatMonth, formatShare } from '../../../core/pages/format.js';
import { DAY_MS } from '../../../core/time.js';
import { creditEntryKinds } from '../../credits/table.js';
import { isCurrent, type CreditGrant, type Credits } from '../../credit-grants/credits.js';
import { monthPeriod } from '../period.js';
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

/** @param pace since the beginning of `paceRange` */
export function toAccountView(credits: Credits, refills: Refills | undefined, pace: CreditPace, now: Date) {
  const grants = credits.grants.map((grant) => toGrantView(grant, now));
  const open = grants.filter(({ status }) => status === 'open');
  const scheduled = grants
    .filter(({ status }) => status === 'scheduled')
    .toSorted((a, b) => a.startsAt.getTime() - b.startsAt.getTime());
  const ending = open
    .filter(({ endsAt, remaining }) => endsAt && remaining !== '0')
    .toSorted((a, b) => a.endsAt!.getTime() - b.endsAt!.getTime());
  const quantity = differenceOf(pace.quantity, pace.today);
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
      quantity,
      today: pace.today,
      products: pace.products
        .filter((product) => Number(product.quantity) > 0)
        .map((product) => ({ name: product.name, share: formatShare(product.quantity, quantity) })),
    },
    projection: project(credits, refills, pace, now),
  };
}

const kinds: Record<LedgerKind, { label: string; sign: '−' | '+' | '' }> = {
  burn: { label: 'Burned', sign: '−' },
  return: { label: 'Corrected', sign: '+' },
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
  event,
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
        ? {
            product: productSlug,
            range: 'day',
            date: hour.slice(0, 10),
            hour: hour.slice(11, 13),
            event: event ?? '',
          }
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
  return [...groupBy(rows, ({ at }) => at.slice(0, 10))].map(([day, own]) => {
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

const PACE_DAYS = 7;
/** How far ahead a projection looks. */
const HORIZON_DAYS = 366;

/** A pace is of whole days (UTC), so the estimate stays the same during a day. */
export function paceRange(now: Date) {
  const todayMs = Math.floor(now.getTime() / DAY_MS) * DAY_MS;
  return { from: new Date(todayMs - PACE_DAYS * DAY_MS), today: new Date(todayMs) };
}

export type ProjectedGrant = Pick<
  CreditGrant,
  'status' | 'remaining' | 'startsAt' | 'expiresAt' | 'rolloverDays' | 'productSlugs'
>;

type ProjectedCredits = Pick<Credits, 'balance'> & {
  overdrafts: readonly unknown[];
  grants: ProjectedGrant[];
};

/** Grants that a plan has yet to make. */
interface Refills {
  grants: ProjectedGrant[];
  /** Grants of later periods are not among them. */
  untilMs: number;
}

/**
 * Undefined unless credits were burned over at least a day before today, some are left, there is no overdraft, and
 * `projectEnd` finds an end.
 */
export function project(
  { balance, overdrafts, grants }: ProjectedCredits,
  refills: Refills = { grants: [], untilMs: Infinity },
  pace: Omit<CreditPace, 'products'> & { products: { slug: string }[] },
  now: Date,
) {
  if (Number(balance) <= 0 || overdrafts.length > 0 || pace.firstAt === null) return undefined;
  const { today } = paceRange(now);
  const days = pace.isOlder ? PACE_DAYS : (today.getTime() - Date.parse(pace.firstAt)) / DAY_MS;
  const perDay = Number(differenceOf(pace.quantity, pace.today)) / days;
  if (days < 1 || perDay <= 0) return undefined;
  const all = [...grants, ...refills.grants];
  const untilMs = Math.min(now.getTime() + HORIZON_DAYS * DAY_MS, refills.untilMs);
  const slugs = pace.products.map(({ slug }) => slug);
  const found = projectEnd(
    all,
    { perDay, leftToday: Math.max(0, perDay - Number(pace.today)), slugs },
    now,
    untilMs,
  );
  if (found === undefined) return undefined;
  const { end, unused } = found;
  return {
    end,
    gap: end && toGap(end, all, perDay),
    unused,
    isCovered: !end && refills.grants.length > 0,
    refill: findRefill(all, end?.getTime() ?? untilMs),
    perDay,
    days: Math.floor(days),
  };
}

/** From the end until the next grant begins, at most until the end of that month. */
function toGap(end: Date, grants: readonly ProjectedGrant[], perDay: number) {
  const later = grants.map(({ startsAt }) => Date.parse(startsAt)).filter((atMs) => atMs > end.getTime());
  const untilMs = Math.min(monthPeriod(end).to.getTime(), ...later);
  return { until: new Date(untilMs), credits: formatEstimate((perDay * (untilMs - end.getTime())) / DAY_MS) };
}

/** The first grants that have not begun, if they begin before the end. */
function findRefill(grants: readonly ProjectedGrant[], endMs: number) {
  const scheduled = grants.filter(({ status }) => status === 'scheduled');
  const atMs = Math.min(...scheduled.map(({ startsAt }) => Date.parse(startsAt)));
  if (atMs > endMs || atMs === Infinity) return undefined;
  const first = scheduled.filter(({ startsAt }) => Date.parse(startsAt) === atMs);
  return { at: new Date(atMs), amount: sumDecimals(first.map(({ remaining }) => remaining)) };
}

/**
 * An estimate in doubles, with `end` only before `untilMs`, and the credits that expire unused until then. Undefined if
 * a grant pays for only some of the products, because no single pace describes that case.
 * @param slugs the products that burn credits
 */
function projectEnd(
  grants: readonly ProjectedGrant[],
  { perDay, leftToday, slugs }: { perDay: number; leftToday: number; slugs: readonly string[] },
  now: Date,
  untilMs: number,
): { end: Date | undefined; unused: number } | undefined {
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
  const tomorrowMs = paceRange(now).today.getTime() + DAY_MS;
  const turns = [tomorrowMs, ...rests.flatMap(({ startMs, endMs }) => [startMs, endMs])].filter(
    (ms) => ms > nowMs && ms < untilMs,
  );
  let atMs = nowMs;
  let end: Date | undefined;
  for (const nextMs of [...turns.toSorted((a, b) => a - b), untilMs]) {
    const perMs = atMs < tomorrowMs ? leftToday / (tomorrowMs - nowMs) : perDay / DAY_MS;
    let need = perMs * (nextMs - atMs);
    for (const rest of rests.filter(({ startMs, endMs }) => startMs <= atMs && endMs > atMs)) {
      const part = Math.min(rest.left, need);
      rest.left -= part;
      need -= part;
    }
    if (need > 0) end ??= new Date(nextMs - need / perMs);
    atMs = nextMs;
  }
  const ended = rests.filter(({ endMs }) => endMs <= untilMs);
  return { end, unused: ended.reduce((sum, { left }) => sum + left, 0) };
}
