import { z } from 'zod';
import type { Orm } from '../../core/db/client.js';
import { differenceOf, subtractDecimals, sumDecimals } from '../../core/decimal.js';
import { fromCursor, queryError, toCursor } from '../../core/http/page.js';
import { DAY_MS } from '../../core/time.js';
import { creditEntryKinds } from '../credits/table.js';
import {
  listEntries,
  readAccount,
  readHeld,
  type AccountId,
  type Burnt,
  type EntryFilter,
  type EntryPosition,
  type GrantRow,
} from './queries.js';

/** In a response. */
export const MAX_CLOSED = 100;

export const grantStatuses = ['scheduled', 'open', 'spent', 'expired', 'voided'] as const;

/** At a point in time. Times are RFC 3339 in UTC. */
export interface CreditGrant extends Omit<
  GrantRow,
  'request' | 'lost' | 'hasRolled' | 'lastExpiry' | 'scope'
> {
  /** Credits that corrections gave back are deducted. */
  burned: string;
  /** 0 unless the grant is scheduled or open. */
  remaining: string;
  status: (typeof grantStatuses)[number];
}

export type Credits = Awaited<ReturnType<typeof readCredits>>;

export const isCurrent = ({ status }: Pick<CreditGrant, 'status'>): boolean =>
  status === 'open' || status === 'scheduled';

export async function readCredits(orm: Orm, id: AccountId, at: Date) {
  const { debtors, grants: rows, ...read } = await readAccount(orm, id, at, MAX_CLOSED);
  const { account } = read;
  const places = new Map(account.grants.map((grant, place) => [grant.id, place]));
  const grants = rows.map((row) => toGrant(row, read, at));
  const current = grants.filter(isCurrent).toSorted((a, b) => places.get(a.id)! - places.get(b.id)!);
  const closed = grants
    .filter((grant) => !isCurrent(grant))
    .toSorted((a, b) => (a.id < b.id ? 1 : -1))
    .slice(0, MAX_CLOSED);
  const open = current.filter(({ status }) => status === 'open');
  return {
    /** Credits of open grants, minus overdrafts; may be negative. */
    balance: differenceOf(
      sumDecimals(open.map(({ remaining }) => remaining)),
      sumDecimals(account.overdrafts.map(({ amount }) => amount)),
    ),
    held: await readHeld(orm, id, at),
    overdrafts: account.overdrafts
      .map(({ productId, amount }) => ({
        productSlug: debtors[productId]!.slug,
        name: debtors[productId]!.name,
        quantity: amount,
      }))
      .toSorted((a, b) => (a.productSlug < b.productSlug ? -1 : 1)),
    /** Open and scheduled grants in burning order, then the newest closed grants. */
    grants: [...current, ...closed],
  };
}

/** @param burnt the account at `at`, with entries that the row's sums do not include yet */
export function toGrant(
  { request: _request, scope: _scope, lost, hasRolled, lastExpiry, ...row }: GrantRow,
  { account, entries }: Burnt,
  at: Date,
): CreditGrant {
  const kept = account.grants.find(({ id, rest }) => id === row.id && rest !== '0');
  const unwritten = entries.filter(({ grantId }) => grantId === row.id);
  const expired = unwritten.filter(({ kind }) => kind === 'expire');
  const rest = kept?.rest ?? '0';
  const gone = sumDecimals([lost, rest, ...expired.map(({ amount }) => amount)]);
  const burned = subtractDecimals(row.amount, gone);
  const isRolled = hasRolled || unwritten.some(({ kind }) => kind === 'roll');
  const expiries = [lastExpiry, ...expired.map(({ hour }) => hour)].flatMap((hour) =>
    hour === null ? [] : [Date.parse(hour)],
  );
  const endsMs =
    row.expiresAt === null
      ? Infinity
      : Date.parse(row.expiresAt) + (isRolled ? row.rolloverDays! * DAY_MS : 0);
  const statusOf = (): CreditGrant['status'] => {
    if (row.voidedAt !== null) return 'voided';
    if (!kept) return expiries.some((ms) => ms >= endsMs) ? 'expired' : 'spent';
    if (kept.endsMs <= at.getTime()) return 'expired';
    return kept.startsMs > at.getTime() ? 'scheduled' : 'open';
  };
  const status = statusOf();
  return { ...row, burned, remaining: isCurrent({ status }) ? rest : '0', status };
}

const time = z.iso.datetime();
const positionSchema = z.tuple([time, z.uuid(), time, z.uuid(), z.enum(creditEntryKinds)]);

export function readPosition(cursor: string | undefined): EntryPosition | undefined {
  if (cursor === undefined) return undefined;
  const parsed = positionSchema.safeParse(fromCursor(cursor).split(' '));
  if (!parsed.success) throw queryError('cursor', 'is not a cursor from this list');
  const [at, productId, hour, grantId, kind] = parsed.data;
  return { at, productId, hour, grantId, kind };
}

/** Newest first. */
export async function readEntries(
  orm: Orm,
  id: AccountId,
  { limit, cursor, ...filter }: EntryFilter & { limit: number; cursor?: string | undefined },
) {
  const { from, to } = filter;
  if (from !== undefined && to !== undefined && Date.parse(to) <= Date.parse(from))
    throw queryError('to', 'must be later than from');
  const rows = await listEntries(orm, id, filter, { after: readPosition(cursor), limit });
  const matches = rows.filter(({ isMatch }) => isMatch);
  const entries = matches.slice(0, limit);
  const last = matches.length > limit ? entries.at(-1) : rows.find(({ isLastScanned }) => isLastScanned);
  const nextCursor = last
    ? toCursor([last.at, last.productId, last.hour, last.grantId, last.kind].join(' '))
    : null;
  return { entries, nextCursor };
}
