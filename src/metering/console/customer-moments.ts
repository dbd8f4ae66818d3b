import { sql } from 'drizzle-orm';
import { say } from '../../accounts/audit/wording.js';
import type { Moment } from '../../console/customer-summary.js';
import type { Orm } from '../../core/db/client.js';
import { timeText, queryRows } from '../../core/db/sql.js';
import { toAddress } from '../../core/pages/address.js';
import { formatMonth } from '../../core/pages/format.js';
import { creditKindOf, creditLevel } from '../notices/kinds.js';

/** Searched for thresholds. */
const SCANNED = 500;

/** The first event of each product, and the thresholds that were reported. A notice to members stands for a message about the same level. */
export async function listMoments(orm: Orm, orgId: string, limit: number): Promise<Moment[]> {
  const rows = await queryRows(orm)<
    Record<'type' | 'threshold' | 'product' | 'slug' | 'productId', string | null> & { at: string }
  >`
    select ${timeText(sql`at`)} as at, type, threshold, product, slug, product_id as "productId" from (
      (select created_at as at, type, data ->> 'threshold' as threshold,
        coalesce((select name from products where slug = data ->> 'productSlug'), data ->> 'productSlug') as product, null as slug, null as product_id from (
        select * from webhook_messages where org_id = ${orgId}::uuid order by id desc limit ${SCANNED}
      ) m where livemode and type in ('usage.threshold_reached', 'credits.threshold_reached') and not exists (
        select from cap_notices c join products p on p.id = c.product_id
        where c.org_id = ${orgId}::uuid and p.slug = data ->> 'productSlug' and c.level = (data ->> 'threshold')::numeric
          and data -> 'limit' ->> 'window' = 'calendar_month' and c.period = date_trunc('month', m.created_at at time zone 'UTC')::date
      ) order by id desc limit ${limit})
      union all
      (select c.at, 'cap', max(c.level)::text, p.name, null, c.product_id::text from cap_notices c left join products p on p.id = c.product_id
      where c.org_id = ${orgId}::uuid group by c.at, c.product_id, p.name order by c.at desc limit ${limit})
      union all
      (select h.hour, null, null, p.name, p.slug, null from entitlements n join products p on p.id = n.product_id
      cross join lateral (
        select hour from usage_hours where org_id = ${orgId}::uuid and product_id = n.product_id and livemode order by hour limit 1
      ) h
      where n.org_id = ${orgId}::uuid order by h.hour desc limit ${limit})
    ) moments`;
  return rows.map(({ at: time, type, threshold, product, slug, productId }) => {
    const path =
      product === null
        ? '/credits'
        : type === null
          ? toAddress('/usage', { product: slug ?? undefined })
          : '/entitlements';
    const kind = creditKindOf(productId);
    const what = kind
      ? say`${{ name: creditLevel(kind, threshold ?? '') }}`
      : product === null
        ? say`${{ name: 'Credits left' }} fell to ${threshold ?? ''}% of what was granted`
        : type === null
          ? say`First live usage of ${{ name: product }}`
          : say`Usage of ${{ name: product }} reached ${threshold ?? ''}% of ${type === 'cap' ? `its cap of ${formatMonth(new Date(time))}` : 'a cap or limit'}`;
    return { at: new Date(time), path, isWarning: type !== null, what };
  });
}
