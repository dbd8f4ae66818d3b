import { eq, sql } from 'drizzle-orm';
import { recordAudit } from '../../accounts/audit/audit.js';
import type { Source } from '../../accounts/identity/source.js';
import { listEndpoints } from '../../accounts/webhooks/queries.js';
import type { Orm, Tx } from '../../core/db/client.js';
import { timeText, queryRow, queryRows, matches } from '../../core/db/sql.js';
import { AppError } from '../../core/errors.js';
import { newId } from '../../core/ids.js';
import { fieldError } from '../../core/pages/form.js';
import { formatDecimal } from '../../core/pages/format.js';
import { DAY_MS, monthOf } from '../../core/time.js';
import { monthlyCap } from '../entitlements/table.js';
import { creditAlertKinds, creditKindOf } from './kinds.js';
import { usageAlerts } from './table.js';

const MAX_ALERTS = 20;
const MAX_PERCENT = 1_000;
const MAX_CREDITS = 999_999_999;

/** A product's alert is on its cap, any other on credits. */
export interface Alert {
  id: string;
  productId: string;
  productSlug: string | null;
  productName: string | null;
  level: number;
  firedAt: string | null;
  /** In the last `PAST_DAYS`. */
  timesFired: number;
}

export const listAlerts = (orm: Orm, orgId: string, now: Date) =>
  queryRows(orm)<Alert>`
    select a.id, a.product_id as "productId", p.slug as "productSlug", p.name as "productName", a.level, f.at as "firedAt", f.times as "timesFired"
    from usage_alerts a left join products p on p.id = a.product_id
    cross join lateral (
      select ${timeText(sql`max(n.at)`)} as at, (count(*) filter (where n.at > ${daysBefore(now).toISOString()}::timestamptz))::int as times
      from cap_notices n where n.org_id = ${orgId}::uuid and n.product_id = a.product_id and n.level = a.level and n.at >= a.created_at
    ) f
    where a.org_id = ${orgId}::uuid order by p.name, p.slug, a.level`;

export const listAlertEndpoints = async (orm: Orm, orgId: string) =>
  (await listEndpoints(orm, orgId)).filter(
    ({ livemode, types }) => livemode && types.includes('usage.alert'),
  );

const MAX_PRODUCTS = 500;

/** With a cap this month, and what is used of it. */
export const listCapped = (orm: Orm, orgId: string, now: Date) =>
  queryRows(orm)<{ id: string; slug: string; name: string; metric: string; cap: string; used: string }>`
    select p.id, p.slug, p.name, p.usage_metric as metric, trim_scale(c.cap)::text as cap,
      trim_scale(coalesce(t.quantity, 0))::text as used
    from entitlements e join products p on p.id = e.product_id
    cross join lateral (select ${sql.raw(monthlyCap('e', 'p'))} as cap) c
    left join usage_totals t on t.org_id = e.org_id and t.period = ${monthOf(now.getTime())}::date and t.livemode
      and t.product_id = e.product_id and t.metric = p.usage_metric
    where e.org_id = ${orgId}::uuid and p.archived_at is null and c.cap > 0
      and e.starts_at <= ${now.toISOString()}::timestamptz and (e.ends_at is null or e.ends_at > ${now.toISOString()}::timestamptz)
    order by p.slug limit ${MAX_PRODUCTS}`;

export const PAST_DAYS = 30;
const daysBefore = (end: Date) => new Date(end.getTime() - PAST_DAYS * DAY_MS);

/** Live credits burned on each of the last whole days (UTC), ascending, and in the month before. */
export async function readPastBurns(orm: Orm, orgId: string, now: Date) {
  const today = now.toISOString().slice(0, 10);
  const since = daysBefore(new Date(today)).toISOString().slice(0, 10);
  const lastMonth = monthOf(Date.parse(monthOf(now.getTime())) - 1);
  const rows = await queryRows(orm)<{ day: string; burned: number }>`
    select (at at time zone 'UTC')::date::text as day, sum(case kind when 'burn' then amount else -amount end)::float8 as burned
    from credit_entries where org_id = ${orgId}::uuid and livemode and kind in ('burn', 'return')
      and at >= ${`${lastMonth < since ? lastMonth : since}T00:00:00Z`}::timestamptz and at < ${`${today}T00:00:00Z`}::timestamptz
    group by 1`;
  const days = rows.filter(({ day }) => day >= since).map(({ burned }) => burned);
  const ofMonth = rows.filter(({ day }) => monthOf(Date.parse(day)) === lastMonth);
  return {
    days: [...Array<number>(PAST_DAYS - days.length).fill(0), ...days].toSorted((a, b) => a - b),
    lastMonth: ofMonth.reduce((sum, { burned }) => sum + burned, 0),
  };
}

/** Nothing changes if there is one already. The author's authority holds the Organization's lock. */
export async function addAlert(
  tx: Tx,
  orgId: string,
  { cap: slug, level }: { cap?: string | undefined; level: number },
  source: Source,
): Promise<void> {
  const kind = creditAlertKinds.find((each) => each.slug === (slug ?? ''));
  const capped = kind ? [] : await listCapped(tx, orgId, source.at);
  const product = capped.find((each) => each.slug === slug);
  const productId = kind?.productId ?? product?.id;
  if (productId === undefined) throw fieldError('cap', 'has no monthly cap. Choose a product that has one');
  const [most, unit] = product ? [MAX_PERCENT, 'percent of the cap'] : [MAX_CREDITS, 'credits'];
  if (level > most) throw fieldError('level', `must be at most ${formatDecimal(most)}, in ${unit}`);
  const existing = await tx.select().from(usageAlerts).where(eq(usageAlerts.orgId, orgId));
  if (existing.some((alert) => alert.productId === productId && alert.level === level)) return;
  if (existing.length >= MAX_ALERTS)
    throw new AppError('invalid_request', `An Organization can have at most ${MAX_ALERTS} alerts.`);
  const { at } = source;
  await tx.insert(usageAlerts).values({ orgId, id: newId(at.getTime()), productId, level, createdAt: at });
  await audit(tx, orgId, 'usage_alert.added', { productId, level }, source);
}

export async function removeAlert(tx: Tx, orgId: string, id: string, source: Source): Promise<void> {
  const [alert] = await tx.delete(usageAlerts).where(matches(usageAlerts, { orgId, id })).returning();
  if (!alert) throw new AppError('not_found', 'There is no such alert.');
  await audit(tx, orgId, 'usage_alert.removed', alert, source);
}

async function audit(
  tx: Tx,
  orgId: string,
  action: string,
  { productId, level }: { productId: string; level: number },
  source: Source,
): Promise<void> {
  const product = await queryRow(tx)<{ slug: string }>`select slug from products where id = ${productId}`;
  const details = { [creditKindOf(productId)?.detail ?? 'percent']: level };
  await recordAudit(tx, orgId, { ...source, action, target: product?.slug ?? 'credits', details });
}
