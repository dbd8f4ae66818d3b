import { sql, type SQL } from 'drizzle-orm';
import type { Counter } from 'prom-client';
import { byService, change, type ChangeDeps } from '../../accounts/audit/audit.js';
import { queueWebhook } from '../../accounts/webhooks/outbox.js';
import type { DataOf } from '../../accounts/webhooks/types.js';
import type { Database, GroupTables, Template, Tx } from '../../core/db/client.js';
import { selectFromAll, sumOf, wholeTables, type ReportedDatabase } from '../../core/db/shards.js';
import { timeJson, queryRow } from '../../core/db/sql.js';
import { BATCH, FIRST, walk } from '../../core/db/walk.js';
import type { Context } from '../../core/http/context.js';
import { exact } from '../../core/http/json.js';
import { DAY_MS, MINUTE_MS } from '../../core/time.js';
import { accountOf } from '../credits/statements.js';
import type { AccountId } from './queries.js';

type MessageDeps = ChangeDeps & { db: ReportedDatabase };

interface Due extends AccountId, Record<string, unknown> {
  isDue: boolean;
  expiring: { data: DataOf<'credits.expiring'>; remaining: string; onceKey: string }[] | null;
}

/** When a balance reaches a threshold, and 7 days and 1 day before a grant expires. */
export const createCreditMessages = (deps: MessageDeps): (() => Promise<void>) =>
  walk<Due, AccountId>(
    { orgId: FIRST, livemode: false },
    (after) => listDue(deps.db, after, new Date(deps.clock.now())),
    ({ orgId, livemode }) => ({ orgId, livemode }),
    (row) => (row.isDue || row.expiring !== null ? queueMessages(deps, row) : Promise.resolve()),
  );

function queueMessages(deps: MessageDeps, { isDue, expiring, ...account }: Due): Promise<void> {
  const at = new Date(deps.clock.now());
  return change(deps, byService, async (tx) => {
    if (isDue) await reportBalance(tx, account, at);
    for (const { data, remaining, onceKey } of expiring ?? [])
      await queueWebhook(tx, {
        ...account,
        type: 'credits.expiring',
        data: { ...data, remaining: exact(remaining) },
        onceKey,
        at,
      });
  });
}

/** With a listening endpoint and something unreported. */
function listDue(db: ReportedDatabase, { orgId, livemode }: AccountId, now: Date): Promise<Due[]> {
  const [at, until] = [now, new Date(now.getTime() + 7 * DAY_MS)].map((time) => time.toISOString());
  return selectFromAll<Due>(
    db,
    (t) => sql`with part as materialized (
      select org_id, livemode, bool_or('credits.threshold_reached' = any (types)) as hears_thresholds,
        bool_or('credits.expiring' = any (types)) as hears_expiry
      from ${t('webhook_endpoints')}
      where (org_id, livemode) > (${orgId}::uuid, ${livemode}::bool) and is_enabled
        and types && '{credits.threshold_reached,credits.expiring}'
      group by 1, 2 order by 1, 2 limit ${BATCH}
    )
    select p.org_id as "orgId", p.livemode, p.hears_thresholds and ${isReported} as "isDue", (
      select json_agg(json_build_object('onceKey', x.once_key, 'remaining', trim_scale(u.rest)::text, 'data', json_build_object(
        'grantKey', g.grant_key, 'livemode', p.livemode, 'expiresAt', ${sql.raw(timeJson('u.end_at'))}, 'daysBefore', d.days_before,
        'rollover', case when u.percent > 0 then json_build_object('percent', u.percent, 'for', concat('P', u.days, 'D')) end)))
      from unnest(f.grants, f.rests, f.starts, f.ends, f.roll_percents, f.roll_days) as u (id, rest, start_at, end_at, percent, days)
      join ${t('credit_grants')} g on g.org_id = p.org_id and g.livemode = p.livemode and g.id = u.id
      cross join lateral (select case when u.end_at <= ${at}::timestamptz + interval '1 day' then 1 else 7 end as days_before) d
      cross join lateral (select concat_ws(' ', 'credits.expiring', u.id, u.end_at, d.days_before) as once_key) x
      where p.hears_expiry and u.start_at <= ${at}::timestamptz and u.end_at > ${at}::timestamptz and u.end_at <= ${until}::timestamptz
        and not exists (select from ${t('webhook_messages')} m where m.org_id = p.org_id and m.once_key = x.once_key)
    ) as expiring
    from part p
    left join (${t('credit_accounts')} a join ${t('organizations')} o on o.id = a.org_id) on a.org_id = p.org_id and a.livemode = p.livemode
    ${stateOf(t, at!, sql`a.org_id`)}
    order by 1, 2`,
    (row) => [row.orgId, String(row.livemode)],
    BATCH,
  );
}

/**
 * A grant that began less than a minute before the report still counts as newer, because instances' clocks differ: a
 * threshold may be reported twice, but is never missed.
 */
const isLifted = sql`coalesce(b.latest_start > a.reached_at - interval '1 minute', false)`;

const isReported = sql`coalesce(l.level < a.reached or a.reached is null and l.level is not null
  or (l.level > a.reached or l.level is null and a.reached is not null) and ${isLifted}, false)`;

/**
 * Lateral joins for an account `a` of an Organization `o`: its state `f`, the balance `b`, and the lowest threshold `l`
 * reached. Before its first grant begins, an account has reached none unless it is overdrawn.
 * @param orgId SQL; a constant if a sharded database must find the shard from it
 */
export const stateOf = (t: GroupTables, at: string, orgId: SQL): SQL => sql`
  -- Not called for an Organization without an account, because the function refuses nulls.
  left join lateral (
    select b.* from gauge_burn(${sql.raw(accountOf('a'))}, '{}', '{}', '{}', ${at}::timestamptz) b where a.org_id is not null offset 0
  ) f on true
  left join lateral (
    select coalesce(sum(u.rest), 0) - coalesce((select sum(debt) from unnest(f.debts) as d (debt)), 0) as balance,
      coalesce(sum(g.amount), 0) as granted, max(u.start_at) as latest_start
    from unnest(f.grants, f.rests, f.starts, f.ends) as u (id, rest, start_at, end_at)
    join ${t('credit_grants')} g on g.org_id = ${orgId} and g.livemode = a.livemode and g.id = u.id
    where u.start_at <= ${at}::timestamptz and u.end_at > ${at}::timestamptz
  ) b on true
  left join lateral (
    select min(level) as level from unnest(coalesce(o.credit_thresholds, '{20,10,0}')) as h (level)
    where b.balance * 100 <= b.granted * level and (b.granted > 0 or cardinality(f.debts) > 0 or exists (
      select from ${t('credit_grants')} g
      where g.org_id = ${orgId} and g.livemode = a.livemode and g.starts_at <= ${at}::timestamptz
    ))
  ) l on true`;

/** A grant that lifts the balance makes a threshold reportable again. Changes nothing if no endpoint listens. */
export async function reportBalance(tx: Tx, account: AccountId, at: Date): Promise<void> {
  const { orgId, livemode } = account;
  const isAccount = sql`a.org_id = ${orgId}::uuid and a.livemode = ${livemode}::bool`;
  // Instances take turns, and each sees what the others reported.
  const locked = await queryRow(tx)`select 1 from credit_accounts a where ${isAccount} and exists (
      select from webhook_endpoints w where w.org_id = a.org_id and w.livemode = a.livemode and w.is_enabled
        and 'credits.threshold_reached' = any (w.types)
    ) for update of a`;
  if (!locked) return;
  const row = await queryRow(tx)<
    Record<'balance' | 'granted', string> & Record<'level' | 'reached', number | null>
  >`
    select trim_scale(b.balance)::text as balance, trim_scale(b.granted)::text as granted, l.level, a.reached
    from credit_accounts a join organizations o on o.id = a.org_id ${stateOf(wholeTables, at.toISOString(), sql`${orgId}::uuid`)}
    where ${isAccount} and ${isReported}`;
  if (!row) return;
  const { level, reached, balance, granted } = row;
  await tx.execute(
    sql`update credit_accounts a set reached = ${level}, reached_at = ${at.toISOString()}::timestamptz where ${isAccount}`,
  );
  if (level === null || (reached !== null && level > reached)) return;
  const data = { livemode, threshold: level, balance: exact(balance), granted: exact(granted) };
  await queueWebhook(tx, { ...account, type: 'credits.threshold_reached', data, at });
}

const countOverdrawn: Template = {
  name: 'credits_count_overdrawn',
  text: (t) => `
${t.with} a as materialized (select 1 from ${t('credit_accounts')}${t.held} where debtors <> '{}')
select count(*)::text as overdrawn from a`,
};

/** By kind, from $1 until $2. Reads each account's entries by index. */
const sumNewEntries: Template = {
  name: 'credits_sum_new_entries',
  text: (t) => `
${t.with} a as materialized (select org_id, livemode from ${t('credit_accounts')}${t.held})
select a.livemode::text as livemode, e.kind, sum(e.amount)::text as amount
from a
cross join lateral (
  select kind, amount from ${t('credit_entries')}
  where org_id = a.org_id and livemode = a.livemode and at >= $1::timestamptz and at < $2::timestamptz offset 0
) e
group by 1, 2`,
};

export const modeOf = (livemode: boolean): string => (livemode ? 'live' : 'test');

/** The counts cover the whole service, so every instance reports the same numbers. */
export function createCreditWatch({
  db,
  clock,
  metrics,
}: Pick<Context, 'clock' | 'metrics'> & { db: Pick<Database, 'shards'> }): () => Promise<void> {
  const counters: Record<string, Counter<'mode'>> = {
    burn: metrics.creditsBurned,
    expire: metrics.creditsExpired,
    void: metrics.creditsForfeited,
  };
  // Slow commits and slow clocks may still add entries for the last minute.
  const readUntil = () => clock.now() - MINUTE_MS;
  let sinceMs = readUntil();
  return async () => {
    const untilMs = Math.max(sinceMs, readUntil());
    const times = [sinceMs, untilMs].map((ms) => new Date(ms).toISOString());
    const { groups } = db.shards;
    const [counts, entries] = await Promise.all([
      Promise.all(groups.map(({ run }) => run(countOverdrawn, []))),
      Promise.all(groups.map(({ run }) => run(sumNewEntries, times))),
    ]);
    sinceMs = untilMs;
    metrics.creditAccounts.set({ state: 'overdrawn' }, sumOf(counts, 'overdrawn'));
    for (const { kind, livemode, amount } of entries.flat())
      counters[kind!]?.inc({ mode: modeOf(livemode === 'true') }, Number(amount));
  };
}
