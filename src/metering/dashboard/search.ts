import { sql } from 'drizzle-orm';
import { selectFromAll } from '../../core/db/shards.js';
import type { Context } from '../../core/http/context.js';
import { toAddress } from '../../core/pages/address.js';
import { formatDay, formatDecimal, formatUnit } from '../../core/pages/format.js';
import {
  findPages,
  MAX_HITS,
  type FindForMember,
  type FindForOperator,
} from '../../dashboard/search/search.js';
import { findGrantedProducts, listProducts } from '../entitlements/queries.js';
import { listPlans, type Plan } from '../plans/queries.js';
import {
  currentQuantity,
  LAST_CHARACTER,
  listEventsFrom,
  listSubjectsFrom,
} from '../events/event-queries.js';

const MAX_PLANS = 200;
const toPlanPage = ({ slug, name }: Plan) => ({ href: `/console/plans/${slug}`, label: name, words: slug });

const pages = [
  { href: '/dashboard/usage/alerts', label: 'Usage alerts', words: 'notify threshold limit budget' },
  { href: '/dashboard/statement', label: 'Statement', words: 'billing invoice month cost credits' },
  { href: '/dashboard/credits/ledger', label: 'Ledger of credits', words: 'burned entries grants' },
];

export function createMeteringFinder({ db }: Pick<Context, 'db'>): FindForMember {
  return async (query, { orgId }) => {
    const [products, subjects, events] = await Promise.all([
      findGrantedProducts(db.orm, orgId, query, MAX_HITS),
      listSubjectsFrom(db.orm, orgId, query, MAX_HITS),
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
        label: 'Subjects',
        hits: subjects.map(({ subject, lastAt }) => ({
          href: toAddress('/dashboard/usage', { subject, month: lastAt.slice(0, 7) }),
          name: subject,
          note: `last used ${formatDay(new Date(lastAt))}`,
        })),
      },
      {
        label: 'Events',
        hits: events.map((event) => ({
          href: toAddress('/dashboard/usage', { event: event.idempotencyKey }),
          name: event.idempotencyKey,
          note: `${formatDecimal(currentQuantity(event))} ${formatUnit(currentQuantity(event), event.metric)} of ${event.productName}, ${formatDay(new Date(event.occurredAt))}${event.livemode ? '' : ', test'}`,
        })),
      },
    ];
  };
}

const operatorPages = ['plan', 'product'].map((noun) => ({
  href: `/console/new-${noun}`,
  label: `New ${noun}`,
  words: 'create add',
}));

export function createMeteringOperatorFinder({ db }: Pick<Context, 'db'>): FindForOperator {
  return async (query) => {
    const products = await listProducts(db.orm, { after: undefined, limit: MAX_HITS }, query);
    const events = await findEvents(db, query);
    const plans = await listPlans(db.orm, { after: undefined, limit: MAX_PLANS });
    return [
      findPages(query, operatorPages),
      { ...findPages(query, plans.map(toPlanPage)), label: 'Plans' },
      {
        label: 'Products',
        hits: products.map(({ slug, name }) => ({ href: `/console/products/${slug}`, name, note: slug })),
      },
      {
        label: 'Events',
        hits: events.map(({ slug, name, key, mode }) => ({
          href: toAddress(`/console/customers/${slug}/usage`, { mode, event: key }),
          name: key,
          note: `${mode === 'test' ? 'test event of' : 'of'} ${name}`,
        })),
      },
    ];
  };
}

/** By the start of a key, in the primary key for each customer. */
export const findEvents = (db: Context['db'], start: string) =>
  selectFromAll<Record<'slug' | 'name' | 'key' | 'mode', string>>(
    db,
    (t) => sql`select o.slug, o.name, e.key, e.mode from ${t('organizations')} o
      cross join lateral (
        select idempotency_key as key, case when livemode then 'live' else 'test' end as mode from ${t('usage_events')}
        where org_id = o.id and idempotency_key >= ${start} and idempotency_key < ${start + LAST_CHARACTER}
        order by idempotency_key limit ${MAX_HITS}) e
      where ${t.owns(sql`o.id`)} order by e.key, o.slug limit ${MAX_HITS}`,
    ({ slug, key }) => [key, slug],
    MAX_HITS,
  );
