import { sql } from 'drizzle-orm';
import { type Clock, DAY_MS } from '../../core/time.js';
import type { AnyScope } from './scopes.js';
import { intArray, textArray } from '../../core/db/sql.js';
import type { Orm, Template } from '../../core/db/client.js';

export const refusals = ['ended', 'unscoped', 'limited'] as const;
export type CallRefusal = (typeof refusals)[number];

export type MinuteCalls = { minuteMs: number; calls: number } & Record<CallRefusal, number>;

export interface GatheredUse {
  /** Unix milliseconds; null if no call was accepted. */
  atMs: number | null;
  /** By minute, oldest first. A minute may appear twice if the clock was set back. */
  minutes: MinuteCalls[];
  scopes: Map<AnyScope, { calls: number; atMs: number }>;
}

/**
 * The write leaves a receipt, so a retry after a lost response does nothing. Rows are locked in the same order
 * everywhere to prevent deadlocks.
 * $1 write id · $2 now
 * Per key: $3 hashed secret, $4 last use
 * Per minute: $5 key index, $6 minute, $7 calls, $12 ended, $13 unscoped, $14 limited
 * Per scope: $8 key index, $9 scope, $10 calls, $11 last use
 */
export const recordUse: Template = {
  name: 'api_keys_record_use',
  text: (t) => `
${t.with} known as materialized (
  select u.ord - 1 as place, k.org_id, k.id, u.at
  from unnest($3::text[], $4::timestamptz[]) with ordinality as u (hashed_secret, at, ord)${t.held}
  cross join lateral (select org_id, id from ${t('api_keys')} where hashed_secret = u.hashed_secret limit 1) k
), receipt as (
  insert into ${t('api_key_use_receipts')} (org_id, id, at)
  select org_id, $1::uuid, $2::timestamptz from known order by place limit 1
  on conflict (org_id, id) do nothing
  returning id
), used as materialized (
  select * from known where exists (select from receipt) order by org_id, id
), dated as (
  update ${t('api_keys')} k set last_used_at = u.at
  from used u
  where k.org_id = u.org_id and k.id = u.id and u.at is not null and (k.last_used_at is null or k.last_used_at < u.at)
), called as (
  insert into ${t('api_key_calls')} as c (org_id, api_key_id, minute, calls, ended, unscoped, limited)
  select u.org_id, u.id, m.minute, sum(m.calls), sum(m.ended), sum(m.unscoped), sum(m.limited)
  from unnest($5::int[], $6::timestamptz[], $7::int[], $12::int[], $13::int[], $14::int[])
    as m (key, minute, calls, ended, unscoped, limited)
  join used u on u.place = m.key
  group by 1, 2, 3
  order by 1, 2, 3
  on conflict (org_id, api_key_id, minute) do update set calls = c.calls + excluded.calls,
    ended = c.ended + excluded.ended, unscoped = c.unscoped + excluded.unscoped, limited = c.limited + excluded.limited
), scoped as (
  insert into ${t('api_key_scope_use')} as s (org_id, api_key_id, scope, calls, last_used_at)
  select u.org_id, u.id, m.scope, m.calls, m.at
  from unnest($8::int[], $9::text[], $10::int[], $11::timestamptz[]) as m (key, scope, calls, at)
  join used u on u.place = m.key
  order by 1, 2, 3
  on conflict (org_id, api_key_id, scope)
  do update set calls = s.calls + excluded.calls, last_used_at = greatest(s.last_used_at, excluded.last_used_at)
)
select count(*)::text from receipt`,
};

export function toUseValues(id: string, nowMs: number, uses: [hashedSecret: string, GatheredUse][]) {
  const minutes = uses.flatMap(([, use], i) => use.minutes.map((cell) => ({ key: i, ...cell })));
  const scopes = uses.flatMap(([, use], i) =>
    [...use.scopes].map(([scope, cell]) => ({ key: i, scope, ...cell })),
  );
  return [
    id,
    toTime(nowMs),
    textArray(uses.map(([hashedSecret]) => hashedSecret)),
    textArray(uses.map(([, { atMs }]) => (atMs === null ? null : toTime(atMs)))),
    intArray(minutes.map(({ key }) => key)),
    textArray(minutes.map(({ minuteMs }) => toTime(minuteMs))),
    intArray(minutes.map(({ calls }) => calls)),
    intArray(scopes.map(({ key }) => key)),
    textArray(scopes.map(({ scope }) => scope)),
    intArray(scopes.map(({ calls }) => calls)),
    textArray(scopes.map(({ atMs }) => toTime(atMs))),
    ...refusals.map((refusal) => intArray(minutes.map((cell) => cell[refusal]))),
  ];
}

const toTime = (ms: number): string => new Date(ms).toISOString();

/** One day longer than the longest grace period, so that a cut-over can be shown until it ends. */
export const CALLS_KEPT_MS = 8 * DAY_MS;
/** Writes are retried within minutes. */
const RECEIPTS_KEPT_MS = DAY_MS;
const ROWS_AT_ONCE = 5_000;

export async function deleteOldKeyCalls({ orm }: { orm: Orm }, clock: Clock): Promise<void> {
  const before = new Date(clock.now() - CALLS_KEPT_MS).toISOString();
  while ((await deleteSome(orm, before)) === ROWS_AT_ONCE);
  const receiptsBefore = new Date(clock.now() - RECEIPTS_KEPT_MS).toISOString();
  await orm.execute(sql`delete from api_key_use_receipts where at < ${receiptsBefore}::timestamptz`);
}

async function deleteSome(orm: Orm, before: string): Promise<number> {
  const result = await orm.execute(sql`
    with deleted as (
      delete from api_key_calls where (org_id, api_key_id, minute) in (
        select org_id, api_key_id, minute from api_key_calls where minute < ${before}::timestamptz limit ${ROWS_AT_ONCE}
      )
      returning 1
    )
    select count(*)::int as rows from deleted`);
  return (result as { rows: [{ rows: number }] }).rows[0].rows;
}
