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
import { listEventsFrom } from '../events/event-queries.js';

const pages = [{ href: '/dashboard/usage/events', label: 'Events', words: 'usage idempotency key' }];

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
          href: toAddress('/dashboard/usage/events', { idempotencyKey }),
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
    return [
      {
        label: 'Products',
        hits: products.map(({ slug, name }) => ({ href: `/console/products/${slug}`, name, note: slug })),
      },
    ];
  };
}
