import { and, eq, sql } from 'drizzle-orm';
import { recordAudit } from '../../accounts/audit/audit.js';
import type { Source } from '../../accounts/identity/source.js';
import type { Orm, Tx } from '../../core/db/client.js';
import { selectRow, selectRows, timeText } from '../../core/db/sql.js';
import { AppError } from '../../core/errors.js';
import { newId } from '../../core/ids.js';
import { fieldError } from '../../core/pages/form.js';
import { formatDecimal } from '../../core/pages/format.js';
import { NOBODY } from '../credits/table.js';
import { listProductsInEffect } from '../entitlements/queries.js';
import { usageAlerts } from './table.js';

const MAX_ALERTS = 20;
const MAX_PERCENT = 1_000;

/** A product's alert is on its cap, any other on the credits burned in a day. */
export interface Alert {
  id: string;
  productSlug: string | null;
  productName: string | null;
  level: number;
  firedAt: string | null;
}

export const listAlerts = (orm: Orm, orgId: string): Promise<Alert[]> =>
  selectRows(
    orm,
    sql`select a.id, p.slug as "productSlug", p.name as "productName", a.level, (
        select ${timeText(sql`max(n.at)`)} from cap_notices n
        where n.org_id = ${orgId}::uuid and n.product_id = a.product_id and n.level = a.level and n.at >= a.created_at
      ) as "firedAt"
    from usage_alerts a left join products p on p.id = a.product_id
    where a.org_id = ${orgId}::uuid order by p.name, p.slug, a.level`,
  );

/** Without one, or e-mail, an alert reaches nobody. */
export const hasAlertEndpoint = async (orm: Orm, orgId: string): Promise<boolean> =>
  (await selectRow<{ isThere: boolean }>(
    orm,
    sql`select exists (
      select from webhook_endpoints where org_id = ${orgId}::uuid and livemode and is_enabled and 'usage.alert' = any(types)
    ) as "isThere"`,
  ))!.isThere;

const MAX_PRODUCTS = 500;

/** With a cap this month. */
export const listCapped = async (orm: Orm, orgId: string, now: Date) =>
  (await listProductsInEffect(orm, orgId, { now, limit: MAX_PRODUCTS })).filter(({ isCapped }) => isCapped);

/** Nothing changes if there is one already. The author's authority holds the Organization's lock. */
export async function addAlert(
  tx: Tx,
  orgId: string,
  { cap: slug, level }: { cap?: string | undefined; level: number },
  source: Source,
): Promise<void> {
  const capped = slug === undefined ? [] : await listCapped(tx, orgId, source.at);
  const product = capped.find((each) => each.slug === slug);
  if (slug !== undefined && !product)
    throw fieldError('cap', 'has no monthly cap. Choose a product that has one');
  if (product && level > MAX_PERCENT)
    throw fieldError('level', `must be at most ${formatDecimal(MAX_PERCENT)}, in percent of the cap`);
  const existing = await tx.select().from(usageAlerts).where(eq(usageAlerts.orgId, orgId));
  const productId = product?.id ?? NOBODY;
  if (existing.some((alert) => alert.productId === productId && alert.level === level)) return;
  if (existing.length >= MAX_ALERTS)
    throw new AppError('invalid_request', `An Organization can have at most ${MAX_ALERTS} alerts.`);
  const { at } = source;
  await tx.insert(usageAlerts).values({ orgId, id: newId(at.getTime()), productId, level, createdAt: at });
  await audit(tx, orgId, 'usage_alert.added', { productId, level }, source);
}

export async function removeAlert(tx: Tx, orgId: string, id: string, source: Source): Promise<void> {
  const isAlert = and(eq(usageAlerts.orgId, orgId), eq(usageAlerts.id, id));
  const [alert] = await tx.delete(usageAlerts).where(isAlert).returning();
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
  const product = await selectRow<{ slug: string }>(
    tx,
    sql`select slug from products where id = ${productId}`,
  );
  const details = product ? { percent: level } : { credits: level };
  await recordAudit(tx, orgId, { ...source, action, target: product?.slug ?? 'credits', details });
}
