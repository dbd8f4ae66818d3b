import { sql, type SQL } from 'drizzle-orm';
import type { Orm } from '../../../core/db/client.js';
import { selectRows, timeText } from '../../../core/db/sql.js';
import { differenceOf, sumDecimals } from '../../../core/decimal.js';
import { readEntries, readPosition } from '../../credit-grants/credits.js';
import {
  ownRows,
  readAccount,
  selectEntryDays,
  type AccountId,
  type EntryFilter,
  type EntryPosition,
  type EntryRow,
} from '../../credit-grants/queries.js';
import { NOBODY, type CreditEntryKind } from '../../credits/table.js';
import { readInTime } from './queries.js';

/** Credits may be negative here. */
export const negate = (credits: string): string =>
  credits.startsWith('-') ? credits.slice(1) : credits === '0' ? '0' : `-${credits}`;

export const total = (credits: readonly string[]): string =>
  differenceOf(
    sumDecimals(credits.filter((one) => !one.startsWith('-'))),
    sumDecimals(credits.filter((one) => one.startsWith('-')).map(negate)),
  );

/** Repaying an overdraft and rolling over move credits and keep the balance. */
const effects: Record<LedgerKind, -1 | 0 | 1> = {
  burn: -1,
  return: 1,
  expire: -1,
  roll: 0,
  void: -1,
  repay: 0,
  forgive: 1,
  grant: 1,
};

export const effectOf = ({ kind, amount }: { kind: LedgerKind; amount: string }): string =>
  effects[kind] === 0 ? '0' : effects[kind] === 1 ? amount : negate(amount);

/** A grant is shown among the entries when its credits join the balance. */
export type LedgerKind = CreditEntryKind | 'grant';

export type LedgerRow = Pick<
  EntryRow,
  'at' | 'hour' | 'productSlug' | 'productName' | 'grantKey' | 'grantReason' | 'amount'
> & {
  kind: LedgerKind;
  /** After the row; undefined if it is not known. */
  balance?: string;
  /** More than one if the row sums up a day's entries. */
  count?: number;
  /** Key of the only event that the entry is about. */
  event?: string;
};

/** A grant that was void before it began joins when it was voided. */
export const selectJoined = (id: AccountId, from: string, now: Date): SQL => sql`
  select ${timeText(sql`at`)} as at, ${timeText(sql`at`)} as hour, 'grant' as kind, null as "productSlug", null as "productName",
    grant_key as "grantKey", reason as "grantReason", trim_scale(amount)::text as amount
  from (
    select g.*, least(greatest(starts_at, created_at), voided_at) as at from credit_grants g where ${ownRows('g', id)}
  ) g
  where at >= ${from}::timestamptz and at <= ${now.toISOString()}::timestamptz order by at desc, id desc`;

/** From the entry on, by kind. */
export const selectSumsSince = (
  id: AccountId,
  { at, productId, hour, grantId, kind }: EntryPosition,
): SQL => sql`
  select kind, trim_scale(sum(amount))::text as amount from credit_entries e
  where ${ownRows('e', id)} and at >= ${at}::timestamptz and (at, product_id, hour, grant_id, kind)
    >= (${at}::timestamptz, ${productId}::uuid, ${hour}::timestamptz, ${grantId}::uuid, ${kind})
  group by 1`;

/** The balance sums up all of an account's entries, so a part of them has none. */
export const hasBalance = ({ productSlug, grantKey, kind }: EntryFilter): boolean =>
  productSlug === undefined && grantKey === undefined && kind === undefined;

/** @property balance after the first row, if it is known */
type Page = EntryFilter & { limit: number; cursor?: string | undefined; balance?: string | undefined };

const DAYS = 14;
/** Fewer days are shown if they have more rows than this. */
const MAX_ROWS = 150;

/** The sums of whole days, newest first, in the order of `readLedger`. Undefined if they cannot be added up in time. */
export const readDays = (orm: Orm, id: AccountId, now: Date, filter: EntryFilter) =>
  orm.transaction(async (tx) => {
    const found = await readInTime<LedgerRow & { day: string }>(tx, selectEntryDays(id, filter, DAYS + 1));
    if (!found) return undefined;
    const days = [...new Set(found.map(({ day }) => day))];
    const fits = days.filter((day) => found.findLastIndex((row) => row.day === day) < MAX_ROWS);
    const last = days[Math.max(1, Math.min(fits.length, DAYS)) - 1];
    const nextCursor = last === days.at(-1) ? null : last!;
    const from = nextCursor ?? filter.from;
    const entries = found.filter(({ day }) => nextCursor === null || day >= nextCursor);
    return complete(tx, id, now, { ...filter, from, entries, nextCursor });
  }, SNAPSHOT);

/**
 * Newest first, with the balance after each row, reckoned backwards from the current balance. It is left out if the page is
 * so old that the entries since then cannot be added up in time.
 */
export const readLedger = (orm: Orm, id: AccountId, now: Date, page: Page) =>
  orm.transaction(async (tx) => {
    const { entries, nextCursor } = await readEntries(tx, id, page);
    const oldest = nextCursor === null ? undefined : entries.at(-1)?.at;
    return complete(tx, id, now, { ...page, entries, nextCursor, oldest, after: readPosition(page.cursor) });
  }, SNAPSHOT);

export const SNAPSHOT = { isolationLevel: 'repeatable read', accessMode: 'read only' } as const;

interface ReadPage extends EntryFilter {
  entries: LedgerRow[];
  nextCursor: string | null;
  after?: EntryPosition | undefined;
  oldest?: string | undefined;
  balance?: string | undefined;
}

/** With the grants that joined the balance between the entries, and the balances. */
async function complete(tx: Orm, id: AccountId, now: Date, page: ReadPage) {
  const { entries, nextCursor, after, oldest, from = '-infinity', to } = page;
  if (!hasBalance(page)) return { rows: entries, balance: undefined, nextCursor, unbooked: '0' };
  const isNewer = ({ at }: LedgerRow) =>
    after ? at > after.at : to !== undefined && Date.parse(at) >= Date.parse(to);
  const joined = (await selectRows<LedgerRow>(tx, selectJoined(id, oldest ?? from, now))).filter(
    ({ at }) => at !== oldest,
  );
  const since = after ?? (to === undefined ? undefined : firstAt(to));
  const isKnown = page.balance !== undefined || since === undefined;
  const sums = isKnown ? [] : await readInTime<LedgerRow>(tx, selectSumsSince(id, since));
  const { booked, unbooked } = await readBooked(tx, id, now);
  const newer = sums && [...sums, ...joined.filter(isNewer)];
  const balance = page.balance ?? (newer && total([booked, ...newer.map((row) => negate(effectOf(row)))]));
  // A grant precedes the entries of its time, because it may have paid an overdraft at once.
  const rows = [...entries, ...joined.filter((row) => !isNewer(row))].toSorted((a, b) =>
    a.at < b.at ? 1 : a.at > b.at ? -1 : 0,
  );
  return { ...withBalances(rows, balance), nextCursor, unbooked };
}

const firstAt = (at: string): EntryPosition => ({
  at,
  productId: NOBODY,
  hour: '-infinity',
  grantId: NOBODY,
  kind: 'burn',
});

function withBalances(list: readonly LedgerRow[], balance: string | undefined) {
  let after = balance;
  const rows = list.map((row): LedgerRow => {
    if (after === undefined) return row;
    const shown = { ...row, balance: after };
    after = total([after, negate(effectOf(row))]);
    return shown;
  });
  return { rows, balance: after };
}

/** Credits that have expired are booked later, because late usage can still burn them. */
async function readBooked(tx: Orm, id: AccountId, now: Date) {
  const { account, entries } = await readAccount(tx, id, now, 0);
  const begun = account.grants.filter(({ startsMs }) => startsMs <= now.getTime());
  const unbooked = total([
    ...begun.filter(({ endsMs }) => endsMs <= now.getTime()).map(({ rest }) => rest),
    ...entries.filter(({ kind }) => kind === 'expire').map(({ amount }) => amount),
  ]);
  return { booked: total([unbooked, balanceOf(account, now)]), unbooked };
}

type Account = Awaited<ReturnType<typeof readAccount>>['account'];

export const balanceOf = ({ grants, overdrafts }: Account, now: Date): string =>
  total([
    ...grants
      .filter(({ startsMs, endsMs }) => startsMs <= now.getTime() && endsMs > now.getTime())
      .map(({ rest }) => rest),
    ...overdrafts.map(({ amount }) => negate(amount)),
  ]);
