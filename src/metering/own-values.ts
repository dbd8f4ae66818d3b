import type { Context } from '../core/http/context.js';
import { stamp, type OwnPart, type ReadOwnPart } from '../core/reference/own-examples.js';
import type { SentRequest } from '../core/reference/described.js';
import { monthOf, monthRange } from '../core/time.js';
import { listProductsInEffect, type Product } from './entitlements/queries.js';
import { exampleWorld } from './reference/example-world.js';
import { listByOwner } from './reservations/reservations.js';

const MAX_PRODUCTS = 20;
const { products, reservation } = exampleWorld;

type OwnProduct = Pick<Product, 'slug' | 'name' | 'usageMetric' | 'maxQuantity'>;

/** Replace those in the examples. */
export const createOwnMeteringReader =
  ({ db }: Pick<Context, 'db'>): ReadOwnPart =>
  async (orgId, now) => {
    const [inEffect, [held]] = await Promise.all([
      listProductsInEffect(db.orm, orgId, { now, limit: MAX_PRODUCTS }),
      listByOwner(db, { orgId, livemode: true }, { limit: 1, status: 'held' }, now.getTime()),
    ]);
    return toOwnPart(inEffect, held, now);
  };

function toOwnPart(
  inEffect: Awaited<ReturnType<typeof listProductsInEffect>>,
  held: { id: string; quantity: string } | undefined,
  now: Date,
): OwnPart {
  const [live, secondLive] = inEffect.filter(({ kind }) => kind === 'live');
  const readOnly = inEffect.find(({ kind }) => kind === 'read_only');
  const inAnswers = toCounterparts(live, secondLive, readOnly);
  // Requests must succeed.
  const inRequests = toCounterparts(live, secondLive ?? live, readOnly);
  const counterparts = (use: 'request' | 'answer') => (use === 'request' ? inRequests : inAnswers);
  return {
    ids: { [reservation.id]: held?.id },
    renameText: (text, use) =>
      [...counterparts(use)].reduce(
        (renamed, [slug, product]) => renamed.replaceAll(slug, () => product.slug),
        text,
      ),
    renameFields: (fields, use) => ({
      ...renameProduct(fields, counterparts(use).get(String(fields.productSlug))),
      ...renameCloudEvent(fields, counterparts(use), now),
      ...('period' in fields ? { period: monthRange(monthOf(now.getTime())) } : {}),
      ...Object.fromEntries(
        ['idempotencyKey', 'correctionKey'].flatMap((name) => {
          const key = fields[name];
          return typeof key === 'string' ? [[name, stamp(key, now)]] : [];
        }),
      ),
    }),
    adapt: (request, { params }) =>
      held && params?.id === reservation.id ? settleAtMost(request, Number(held.quantity)) : request,
  };
}

/** A product without a counterpart keeps its example name. */
function toCounterparts(...own: (OwnProduct | undefined)[]): ReadonlyMap<string, OwnProduct> {
  const slugs = [products.apiCalls.slug, products.storage.slug, products.archive.slug];
  return new Map(
    slugs.flatMap((slug, i) => {
      const product = own[i];
      return product ? [[slug, product] as const] : [];
    }),
  );
}

function renameProduct(fields: Record<string, unknown>, product: OwnProduct | undefined): object {
  if (!product) return {};
  const { quantity } = fields;
  return {
    ...('metric' in fields ? { metric: product.usageMetric } : {}),
    ...('usageMetric' in fields ? { usageMetric: product.usageMetric } : {}),
    ...('productName' in fields ? { productName: product.name } : {}),
    // The member's product might not have these dimensions.
    ...('dimensions' in fields ? { dimensions: undefined } : {}),
    ...(typeof quantity === 'number' ? { quantity: Math.min(quantity, Number(product.maxQuantity)) } : {}),
  };
}

function renameCloudEvent(
  fields: Record<string, unknown>,
  counterparts: ReadonlyMap<string, OwnProduct>,
  now: Date,
): object {
  const { data, subject } = fields as { data?: { productSlug?: unknown }; subject?: unknown };
  const product = counterparts.get(String(data?.productSlug ?? subject));
  if (!('specversion' in fields) || !product) return {};
  return { type: product.usageMetric, id: stamp(String(fields.id), now) };
}

/** The product might not accept more than the quantity held. */
function settleAtMost(request: SentRequest, held: number): SentRequest {
  const { quantity } = (request.body ?? {}) as { quantity?: number };
  if (quantity === undefined) return request;
  return { ...request, body: { ...(request.body as object), quantity: Math.min(quantity, held) } };
}
