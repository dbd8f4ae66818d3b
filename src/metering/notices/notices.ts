import { and, asc, eq, inArray, lt, sql } from 'drizzle-orm';
import { byService, change, type ChangeDeps } from '../../accounts/audit/audit.js';
import type { Orm, Tx } from '../../core/db/client.js';
import { selectFromAll, type ReportedDatabase } from '../../core/db/shards.js';
import { formatDay, formatDecimal, formatMonth } from '../../core/pages/format.js';
import { DAY_MS, monthOf } from '../../core/time.js';
import { effectiveCap } from '../entitlements/table.js';
import { plainName, queueMail, type MailDeps, type NewMail } from '../../accounts/mail/outbox.js';
import { managingRoles, memberships, users } from '../../accounts/organizations/table.js';
import { BATCH, FIRST, walk } from '../../core/db/walk.js';
import { capLevels, capNotices, keyNotices } from './table.js';

type NoticeDeps = ChangeDeps & MailDeps & { db: ReportedDatabase };

const EXPIRY_MS = 7 * DAY_MS;
/** The next run sends further keys. */
const KEYS_PER_MAIL = 20;
const MAX_RECIPIENTS = 100;
/** Months that ended earlier are no longer reported. */
const KEPT_MS = 90 * DAY_MS;

interface CapUse extends Record<string, string | null> {
  orgId: string;
  productId: string;
  orgName: string;
  productName: string;
  metric: string;
  cap: string;
  used: string | null;
  /** Reached but not reported yet. */
  level: string | null;
}

/** Sends one e-mail per level and month. */
export const createCapNotices = (deps: NoticeDeps): (() => Promise<void>) =>
  walk<CapUse, { orgId: string; productId: string }>(
    { orgId: FIRST, productId: FIRST },
    (after) => listCapUse(deps.db, after, new Date(deps.clock.now())),
    ({ orgId, productId }) => ({ orgId, productId }),
    async (use) => {
      if (use.level !== null) await mailCapNotice(deps, use, Number(use.level));
    },
  );

/** In key order. Each total is one row, found by primary key. */
function listCapUse(
  db: ReportedDatabase,
  { orgId, productId }: { orgId: string; productId: string },
  now: Date,
): Promise<CapUse[]> {
  const period = monthOf(now.getTime());
  const at = now.toISOString();
  const [lower, upper] = capLevels;
  return selectFromAll<CapUse>(
    db,
    (t) => sql`with capped as materialized (
      select e.org_id, e.product_id, p.name, p.usage_metric, ${sql.raw(effectiveCap('e', 'p'))} as cap
      from ${t('entitlements')} e join ${t('products')} p on p.id = e.product_id
      where (e.org_id, e.product_id) > (${orgId}::uuid, ${productId}::uuid)
        and e.starts_at <= ${at}::timestamptz and (e.ends_at is null or e.ends_at > ${at}::timestamptz)
        and ${sql.raw(effectiveCap('e', 'p'))} > 0
      order by e.org_id, e.product_id
      limit ${BATCH}
    )
    select c.org_id as "orgId", c.product_id as "productId", o.name as "orgName", c.name as "productName",
      c.usage_metric as metric, trim_scale(c.cap)::text as cap, trim_scale(t.quantity)::text as used,
      (select l.level::text from (values (${lower}::int), (${upper}::int)) l (level)
        where t.quantity >= c.cap * l.level / 100 and not exists (
          select from ${t('cap_notices')} n
          where (n.org_id, n.product_id, n.period, n.level) = (c.org_id, c.product_id, ${period}::date, l.level))
        order by l.level desc limit 1) as level
    from capped c
    join ${t('organizations')} o on o.id = c.org_id
    left join ${t('usage_totals')} t on t.org_id = c.org_id and t.period = ${period}::date and t.livemode
      and t.product_id = c.product_id and t.metric = c.usage_metric
    order by c.org_id, c.product_id`,
    ({ orgId, productId }) => [orgId, productId],
    BATCH,
  );
}

function mailCapNotice(deps: NoticeDeps, use: CapUse, level: number): Promise<void> {
  const at = new Date(deps.clock.now());
  const { orgId, productId, cap, metric } = use;
  return change(deps, byService, async (tx) => {
    // The lower levels must not be emailed later.
    const reached = capLevels.filter((each) => each <= level);
    const period = monthOf(at.getTime());
    const recorded = await tx
      .insert(capNotices)
      .values(reached.map((each) => ({ orgId, productId, period, level: each, at })))
      .onConflictDoNothing()
      .returning({ level: capNotices.level });
    if (!recorded.some((row) => row.level === level)) return;
    const [product, organization] = [plainName(use.productName), plainName(use.orgName)];
    const share = level === 100 ? 'has reached its cap' : `has used ${level}% of its cap`;
    await mailManagers(tx, deps, orgId, {
      kind: 'cap_notice',
      subject: `${product} ${share} (${organization})`,
      text: (origin) => [
        `${product} ${share} in ${formatMonth(at)}: ${formatDecimal(use.used ?? '0')} of ${formatDecimal(cap)} ${plainName(metric)}, for ${organization}.`,
        `See all usage: ${origin}/dashboard/usage`,
      ],
      at,
    });
  });
}

interface Expiring extends Record<string, unknown> {
  orgId: string;
  orgName: string;
  keys: { id: string; name: string; prefix: string; expiresAt: string }[] | null;
}

/** Sends one e-mail per key. Rotated keys are meant to expire. */
export const createKeyNotices = (deps: NoticeDeps): (() => Promise<void>) =>
  walk<Expiring, string>(
    FIRST,
    (after) => listExpiring(deps.db, after, new Date(deps.clock.now())),
    ({ orgId }) => orgId,
    (row) => (row.keys === null ? Promise.resolve() : mailKeyNotice(deps, row, row.keys)),
  );

/** Uses the index on expiry. */
function listExpiring(db: ReportedDatabase, after: string, now: Date): Promise<Expiring[]> {
  const [from, until] = [now, new Date(now.getTime() + EXPIRY_MS)].map((time) => time.toISOString());
  return selectFromAll<Expiring>(
    db,
    (t) => sql`with part as materialized (
      select id, name from ${t('organizations')} where id > ${after}::uuid and ${t.owns(sql`id`)} order by id limit ${BATCH}
    )
    select o.id as "orgId", o.name as "orgName", (
      select json_agg(json_build_object('id', k.id, 'name', k.name, 'prefix', k.prefix, 'expiresAt', k.expires_at))
      from (
        select k.id, k.name, k.prefix, k.expires_at from ${t('api_keys')} k
        where k.org_id = o.id and k.revoked_at is null and k.service_key_id is null
          and k.expires_at > ${from}::timestamptz and k.expires_at <= ${until}::timestamptz
          and not exists (select from ${t('api_keys')} s where s.org_id = o.id and s.rotated_from_id = k.id)
          and not exists (select from ${t('key_notices')} n where n.org_id = o.id and n.api_key_id = k.id)
        order by k.expires_at limit ${KEYS_PER_MAIL}
      ) k
    ) as keys
    from part o order by o.id`,
    ({ orgId }) => [orgId],
    BATCH,
  );
}

function mailKeyNotice(
  deps: NoticeDeps,
  { orgId, orgName }: Expiring,
  keys: NonNullable<Expiring['keys']>,
): Promise<void> {
  const at = new Date(deps.clock.now());
  return change(deps, byService, async (tx) => {
    const recorded = await tx
      .insert(keyNotices)
      .values(keys.map(({ id }) => ({ orgId, apiKeyId: id, at })))
      .onConflictDoNothing()
      .returning({ id: keyNotices.apiKeyId });
    const ours = keys.filter(({ id }) => recorded.some((row) => row.id === id));
    if (ours.length === 0) return;
    const organization = plainName(orgName);
    const lines = ours.map(
      ({ name, prefix, expiresAt }) =>
        `${plainName(name)} (${prefix}…) expires on ${formatDay(new Date(expiresAt))}`,
    );
    await mailManagers(tx, deps, orgId, {
      kind: 'key_notice',
      subject: `${ours.length === 1 ? 'An API key expires' : 'API keys expire'} within 7 days (${organization})`,
      text: (origin) => [
        `API keys of ${organization} expiring soon:`,
        lines.join('\n'),
        `Calls with these keys fail after that. Replace them in time:  ${origin}/dashboard/api-keys`,
      ],
      at,
    });
  });
}

/** Each owner and admin who opted in. */
async function mailManagers(
  tx: Tx,
  { config }: MailDeps,
  orgId: string,
  mail: Omit<NewMail, 'to'>,
): Promise<void> {
  const recipients = await tx
    .select({ email: users.email })
    .from(memberships)
    .innerJoin(users, eq(users.id, memberships.userId))
    .where(
      and(
        eq(memberships.orgId, orgId),
        inArray(memberships.role, [...managingRoles]),
        eq(memberships.mailNotices, true),
      ),
    )
    .orderBy(asc(memberships.createdAt))
    .limit(MAX_RECIPIENTS);
  const text = (origin: string) => [
    ...mail.text(origin),
    `You receive this e-mail as an owner or admin. Turn it off at ${origin}/dashboard/account`,
  ];
  for (const { email } of recipients) await queueMail(tx, config.mail, { ...mail, to: email, text });
}

export async function deleteOldNotices({ orm }: { orm: Orm }, now: Date): Promise<void> {
  await orm.delete(capNotices).where(lt(capNotices.period, monthOf(now.getTime() - KEPT_MS)));
}
