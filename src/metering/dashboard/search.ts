import { sql } from 'drizzle-orm';
import { selectFromAll } from '../../core/db/shards.js';
import type { Context } from '../../core/http/context.js';
import { toAddress } from '../../core/pages/address.js';
import { formatDecimal } from '../../core/pages/format.js';
import {
  findPages,
  MAX_HITS,
  type FindForMember,
  type FindForOperator,
} from '../../dashboard/search/search.js';
import { findGrantedProducts, listProducts } from '../entitlements/queries.js';
import { listPlans, type Plan } from '../plans/queries.js';
import { listEventsFrom } from '../events/event-queries.js';

const MAX_PLANS = 200;
const toPlanPage = ({ slug, name }: Plan) => ({ href: `/console/plans/${slug}`, label: name, words: slug });

const pages = [
  { href: '/dashboard/usage/alerts', label: 'Usage alerts', words: 'notify threshold limit budget' },
  { href: '/dashboard/statement', label: 'Statement', words: 'billing invoice month cost credits' },
  { href: '/dashboard/credits/ledger', label: 'Ledger of credits', words: 'burned entries grants' },
];

export function createMeteringFinder({ db }: Pick<Context, 'db'>): FindForMember {
  return async (query, { orgId }) => {
    const [products, events] = await Promise.all([
      findGrantedProducts(db.orm, orgId, query, MAX_HITS),
      listEventsFrom(db.orm, orgId, query, MAX_HITS),
    ]);
    return [
      findPages(query, pages),
      {
        label: 'Products',
        hits: products.map(({ slug, name }) => ({
          href: toAddress('/dashboard/usage', { product: slug }),
          name,
          note: slug,
        })),
      },
      {
        label: 'Events',
        hits: events.map(({ idempotencyKey, productName, quantity, metric, occurredAt }) => ({
          href: toAddress('/dashboard/usage', { event: idempotencyKey }),
          name: idempotencyKey,
          note: `${formatDecimal(quantity)} ${metric} of ${productName}, ${occurredAt.slice(0, 10)}`,
        })),
      },
    ];
  };
}

export function createMeteringOperatorFinder({ db }: Pick<Context, 'db'>): FindForOperator {
  return async (query) => {
    const products = await listProducts(db.orm, { after: undefined, limit: MAX_HITS }, query);
    const events = await findEvents(db, query);
    const plans = await listPlans(db.orm, { after: undefined, limit: MAX_PLANS });
    return [
      { ...findPages(query, plans.map(toPlanPage)), label: 'Plans' },
      {
        label: 'Products',
        hits: products.map(({ slug, name }) => ({ href: `/console/products/${slug}`, name, note: slug })),
      },
      {
        label: 'Events',
        hits: events.map(({ slug, name }) => ({
          href: toAddress(`/console/customers/${slug}/usage`, { idempotencyKey: query }),
          name: query,
          note: `of ${name}`,
        })),
      },
    ];
  };
}

/** The whole key, looked up by the primary key for each customer. */
const findEvents = (db: Context['db'], idempotencyKey: string) =>
  selectFromAll<{ slug: string; name: string }>(
    db,
    (t) => sql`select o.slug, o.name from ${t('organizations')} o
      where ${t.owns(sql`o.id`)} and exists (
        select from ${t('usage_events')} e where e.org_id = o.id and e.idempotency_key = ${idempotencyKey} offset 0)
      order by o.slug limit ${MAX_HITS}`,
    ({ slug }) => [slug],
    MAX_HITS,
  );
