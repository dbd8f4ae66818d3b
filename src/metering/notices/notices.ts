import { and, asc, eq, inArray, lt, sql, type SQL } from 'drizzle-orm';
import { byService, change, type ChangeDeps } from '../../accounts/audit/audit.js';
import { plainName, queueMail, type MailDeps, type NewMail } from '../../accounts/mail/outbox.js';
import {
  alertRoles,
  managingRoles,
  memberships,
  users,
  type Role,
} from '../../accounts/organizations/table.js';
import { queueWebhook } from '../../accounts/webhooks/outbox.js';
import { createRecentMap } from '../../core/collections.js';
import type { GroupTables, Orm, Tx } from '../../core/db/client.js';
import { selectFromAll, type ReportedDatabase } from '../../core/db/shards.js';
import { intArray, queryRow, matches } from '../../core/db/sql.js';
import { BATCH, FIRST, walk } from '../../core/db/walk.js';
import { exact } from '../../core/http/json.js';
import { DAY_MS, MINUTE_MS, monthOf, monthRange } from '../../core/time.js';
import { monthlyCap } from '../entitlements/table.js';
import { sayUse, type Window } from '../webhook-types.js';
import { stateOf } from '../credit-grants/watch.js';
import { creditsLeft, creditsOfDay, creditsOfMonth } from './kinds.js';
import { capNotices, usageAlerts } from './table.js';

export type NoticeDeps = ChangeDeps & MailDeps & { db: ReportedDatabase };

/** Percent of a cap, reported without an alert. */
const capLevels = [80, 100];
const MAX_RECIPIENTS = 100;
/** Months that ended earlier are no longer reported. */
const KEPT_MS = 90 * DAY_MS;

/** A product's usage of its cap in the current month, the credits burned in the current day or month, or those left. */
interface Use extends Record<string, unknown> {
  orgId: string;
  productId: string;
  orgName: string;
  /** Null for credits. */
  product: { slug: string; name: string; metric: string; cap: string } | null;
  used: string | null;
  /** For credits left. */
  balance?: string;
  /** First day of the report's period. */
  period: string;
  /** Reached but not reported yet, ascending. */
  levels: number[] | null;
}

type UsePlace = Pick<Use, 'orgId' | 'productId'>;

/** Reports each level once in a month; if several are reached at once, the highest. */
export const createCapNotices = (deps: NoticeDeps): (() => Promise<void>) => walkUses(deps, listCapUse);

/** Reports each level once in a day or month; if several are reached at once, the highest. */
export function createCreditAlerts(deps: NoticeDeps): () => Promise<void> {
  const readBurned = createBurnReader(deps);
  return walkUses(deps, listCreditAlerts, async (use) => ({ ...use, ...(await readBurned(use)) }));
}

/** Reports each level once in a month and after each new grant; if several are reached at once, the lowest. */
export const createBalanceAlerts = (deps: NoticeDeps): (() => Promise<void>) =>
  walkUses(deps, listBalanceAlerts);

const walkUses = (deps: NoticeDeps, list: typeof listCapUse, read = (use: Use) => Promise.resolve(use)) =>
  walk<Use, UsePlace>(
    { orgId: FIRST, productId: FIRST },
    (after) => list(deps.db, after, new Date(deps.clock.now())),
    ({ orgId, productId }) => ({ orgId, productId }),
    async (row) => {
      const use = await read(row);
      if (use.levels !== null) await reportUse(deps, use, use.levels);
    },
  );

/** @param row with org_id and product_id */
const isUnreported = (t: GroupTables, row: SQL, period: SQL) => sql`not exists (
  select from ${t('cap_notices')} n
  where (n.org_id, n.product_id, n.period, n.level) = (${row}.org_id, ${row}.product_id, ${period}, l.level))`;

/** In key order. Each total is one row, found by primary key. */
function listCapUse(db: ReportedDatabase, { orgId, productId }: UsePlace, now: Date): Promise<Use[]> {
  const period = monthOf(now.getTime());
  const at = now.toISOString();
  const levels = sql.raw(capLevels.map((level) => `(${level})`).join(', '));
  return selectFromAll<Use>(
    db,
    (t) => sql`with capped as materialized (
      select e.org_id, e.product_id, p.slug, p.name, p.usage_metric, ${sql.raw(monthlyCap('e', 'p'))} as cap
      from ${t('entitlements')} e join ${t('products')} p on p.id = e.product_id
      where (e.org_id, e.product_id) > (${orgId}::uuid, ${productId}::uuid)
        and e.starts_at <= ${at}::timestamptz and (e.ends_at is null or e.ends_at > ${at}::timestamptz)
        and ${sql.raw(monthlyCap('e', 'p'))} > 0
      order by e.org_id, e.product_id
      limit ${BATCH}
    )
    select c.org_id as "orgId", c.product_id as "productId", o.name as "orgName",
      json_build_object('slug', c.slug, 'name', c.name, 'metric', c.usage_metric, 'cap', trim_scale(c.cap)::text) as product,
      trim_scale(t.quantity)::text as used, ${period}::text as period, (
        select json_agg(l.level order by l.level) from (
          values ${levels} union select level from ${t('usage_alerts')} where org_id = c.org_id and product_id = c.product_id
        ) l (level)
        where t.quantity >= c.cap * l.level / 100 and ${isUnreported(t, sql`c`, sql`${period}::date`)}
      ) as levels
    from capped c
    join ${t('organizations')} o on o.id = c.org_id
    left join ${t('usage_totals')} t on t.org_id = c.org_id and t.period = ${period}::date and t.livemode
      and t.product_id = c.product_id and t.metric = c.usage_metric
    order by c.org_id, c.product_id`,
    ({ orgId, productId }) => [orgId, productId],
    BATCH,
  );
}

/** Organizations with an alert on burned credits that has not been sent in its period, with its levels. */
function listCreditAlerts(db: ReportedDatabase, { orgId, productId }: UsePlace, now: Date): Promise<Use[]> {
  return selectFromAll<Use>(
    db,
    (t) => sql`with alerted as materialized (
      select l.org_id, l.product_id, k.period, json_agg(l.level) as levels
      from ${t('usage_alerts')} l join (
        values (${creditsOfDay.productId}::uuid, ${toDay(now)}::date), (${creditsOfMonth.productId}::uuid, ${monthOf(now.getTime())}::date)
      ) k (product_id, period) on k.product_id = l.product_id
      where (l.org_id, l.product_id) > (${orgId}::uuid, ${productId}::uuid) and ${isUnreported(t, sql`l`, sql`k.period`)}
      group by 1, 2, 3 order by 1, 2 limit ${BATCH}
    )
    select a.org_id as "orgId", a.product_id as "productId", o.name as "orgName", null as product, null as used,
      a.period::text as period, a.levels
    from alerted a join ${t('organizations')} o on o.id = a.org_id
    order by a.org_id, a.product_id`,
    (row) => [row.orgId, row.productId],
    BATCH,
  );
}

function listBalanceAlerts(db: ReportedDatabase, { orgId }: UsePlace, now: Date): Promise<Use[]> {
  const at = now.toISOString();
  return selectFromAll<Use>(
    db,
    (t) => sql`with alerted as materialized (
      select org_id, product_id, array_agg(level) as levels from ${t('usage_alerts')}
      where org_id > ${orgId}::uuid and product_id = ${creditsLeft.productId} group by 1, 2 order by 1 limit ${BATCH}
    )
    select p.org_id as "orgId", p.product_id as "productId", o.name as "orgName", null as product, null as used,
      trim_scale(b.balance)::text as balance, d.period::text as period, (
        select json_agg(l.level order by l.level desc) from unnest(p.levels) l (level)
        where b.balance < l.level and not exists (
          select from ${t('cap_notices')} n
          where (n.org_id, n.product_id, n.period, n.level) = (p.org_id, p.product_id, d.period, l.level))
      ) as levels
    from alerted p
    join ${t('credit_accounts')} a on a.org_id = p.org_id and a.livemode
    join ${t('organizations')} o on o.id = a.org_id
    ${stateOf(t, at, sql`a.org_id`)}
    cross join lateral (select greatest(${monthOf(now.getTime())}::date, (b.latest_start at time zone 'UTC')::date) as period) d
    order by p.org_id`,
    (row) => [row.orgId],
    BATCH,
  );
}

/** No transaction takes longer to commit its entries. */
const SETTLED_MS = 10 * MINUTE_MS;
const MAX_SUMS = 10_000;

/** Reads an Organization's ledger of the day or month once, and then only its last minutes. */
function createBurnReader({ db, clock }: NoticeDeps) {
  const sums = createRecentMap<string, { until: string; settled: string }>(MAX_SUMS);
  return async ({ orgId, period, levels }: Use): Promise<Pick<Use, 'used' | 'levels'>> => {
    const now = new Date(clock.now());
    const key = `${orgId} ${period}`;
    const { until, settled } = sums.get(key) ?? { until: `${period}T00:00:00.000Z`, settled: '0' };
    const next = new Date(now.getTime() - SETTLED_MS).toISOString();
    const row = (await queryRow(db.orm)<Pick<Use, 'used' | 'levels'> & { settled: string }>`
      select trim_scale(s.burned)::text as used, s.settled::text as settled,
        (select json_agg(level order by level) from unnest(${intArray(levels!)}::int[]) l (level) where s.burned > level) as levels
      from (
        select ${settled}::numeric + coalesce(sum(e.credits), 0) as burned,
          ${settled}::numeric + coalesce(sum(e.credits) filter (where e.at < ${next}::timestamptz), 0) as settled
        from (
          select at, case kind when 'burn' then amount else -amount end as credits from credit_entries
          where org_id = ${orgId}::uuid and livemode and at >= ${until}::timestamptz and kind in ('burn', 'return')
        ) e
      ) s`)!;
    if (next > until) sums.set(key, { until: next, settled: row.settled });
    return row;
  };
}

const toTime = (at: string | number): string => new Date(at).toISOString();
const toDay = (at: Date): string => at.toISOString().slice(0, 10);

function reportUse(deps: NoticeDeps, use: Use, levels: number[]): Promise<void> {
  const at = new Date(deps.clock.now());
  const { orgId, productId, period } = use;
  const level = levels.at(-1)!;
  return change(deps, byService, async (tx) => {
    // The lower levels must not be reported later.
    const recorded = await tx
      .insert(capNotices)
      .values(levels.map((each) => ({ orgId, productId, period, level: each, at })))
      .onConflictDoNothing()
      .returning({ level: capNotices.level });
    if (!recorded.some((row) => row.level === level)) return;
    const [alert] = await tx
      .select({ id: usageAlerts.id })
      .from(usageAlerts)
      .where(matches(usageAlerts, { orgId, productId, level }));
    const { product } = use;
    const window = { windowStart: toTime(period), windowEnd: toTime(endOf(use)) };
    const data = {
      productSlug: product && product.slug,
      metric: product && product.metric,
      level,
      cap: product && exact(product.cap),
      used: use.balance === undefined ? exact(use.used ?? '0') : null,
      balance: use.balance === undefined ? null : exact(use.balance),
      ...window,
    };
    if (alert) {
      const own = { alertId: alert.id, ...data };
      await queueWebhook(tx, { orgId, livemode: true, type: 'usage.alert', data: own, at });
    }
    await mailRoles(tx, deps, orgId, alert ? alertRoles : managingRoles, toUseMail(use, level, window, at));
  });
}

const endOf = ({ productId, period }: Use) =>
  productId === creditsOfDay.productId
    ? Date.parse(period) + DAY_MS
    : monthRange(monthOf(Date.parse(period))).end;

function toUseMail({ orgName, product, used, balance }: Use, level: number, window: Window, at: Date) {
  const organization = plainName(orgName);
  const { subject, text } = sayUse({
    product: product && plainName(product.name),
    metric: product && plainName(product.metric),
    level: String(level),
    cap: product && product.cap,
    used: used ?? '0',
    balance: balance ?? null,
    ...window,
  });
  return {
    kind: 'cap_notice' as const,
    subject: `${subject} (${organization})`,
    text: (origin: string) => [
      `${organization}: ${text}`,
      `See all usage, and change its alerts: ${origin}/dashboard/usage`,
    ],
    at,
  };
}

/** Each member of these roles who has not turned it off. */
export const listRecipients = (orm: Orm | Tx, orgId: string, roles: readonly Role[]) =>
  orm
    .select({ email: users.email, name: users.name })
    .from(memberships)
    .innerJoin(users, eq(users.id, memberships.userId))
    .where(and(matches(memberships, { orgId, mailNotices: true }), inArray(memberships.role, [...roles])))
    .orderBy(asc(memberships.createdAt))
    .limit(MAX_RECIPIENTS);

export async function mailRoles(
  tx: Tx,
  { config }: MailDeps,
  orgId: string,
  roles: readonly Role[],
  mail: Omit<NewMail, 'to'>,
): Promise<void> {
  const recipients = await listRecipients(tx, orgId, roles);
  const text = (origin: string) => [
    ...mail.text(origin),
    `You receive this e-mail because of your role. Turn it off at ${origin}/dashboard/account`,
  ];
  for (const { email } of recipients) await queueMail(tx, config.mail, { ...mail, to: email, text });
}

export async function deleteOldNotices({ orm }: { orm: Orm }, now: Date): Promise<void> {
  await orm.delete(capNotices).where(lt(capNotices.period, monthOf(now.getTime() - KEPT_MS)));
}
