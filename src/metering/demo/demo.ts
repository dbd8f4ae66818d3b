import { z } from 'zod';
import { addMembersKey } from '../../accounts/api-keys/api-keys.js';
import type { DemoPart, DemoSlug } from '../../demo/demo.js';
import { putGrant } from '../entitlements/grants.js';
import { putProduct, type ProductInput } from '../entitlements/products.js';
import {
  DEFAULT_MAX_QUANTITY,
  entitlementKinds,
  type EntitlementKind,
  type UsageLimit,
} from '../entitlements/table.js';

const schema = z.object({
  keys: z.object({ live: z.string(), test: z.string() }),
  products: z
    .array(
      z.strictObject({
        slug: z.string(),
        usageMetric: z.string(),
        unitCap: z.string().nullable(),
        kind: z.enum(entitlementKinds),
        /** Absent in a demo of an earlier version. */
        dimensions: z.array(z.string()).optional(),
      }),
    )
    .min(1),
});

type MeteringDemo = z.infer<typeof schema>;
type MeteringKeys = MeteringDemo['keys'];

declare module '../../demo/demo.js' {
  interface DemoKeys extends MeteringKeys {}
  interface DemoFields {
    products: MeteringDemo['products'];
  }
}

interface DemoProduct extends Omit<ProductInput, 'maxQuantity'> {
  slug: string;
  grants: Partial<Record<DemoSlug, EntitlementKind>>;
  /** Limits of each entitlement. */
  limits?: UsageLimit[];
}

const products: DemoProduct[] = [
  {
    slug: 'forecast-api',
    name: 'Forecast API',
    usageMetric: 'requests',
    unitCap: '10000',
    dimensions: ['model'],
    countsSubjects: true,
    grants: { 'northwind-labs': 'live', 'helios-weather': 'live' },
  },
  {
    slug: 'map-tiles',
    name: 'Map tiles',
    usageMetric: 'tiles',
    unitCap: null,
    grants: { 'northwind-labs': 'live' },
    limits: [
      { quantity: '80000', window: 'calendar_day', enforcement: 'warn' },
      { quantity: '30000', window: 'PT5H', enforcement: 'block' },
    ],
  },
  {
    slug: 'climate-archive',
    name: 'Climate archive',
    usageMetric: 'rows',
    unitCap: null,
    grants: { 'northwind-labs': 'read_only' },
  },
];

/** Products with entitlements, and two keys that report usage. */
export const demo: DemoPart = {
  schema,
  async seed(tx, first, source) {
    for (const { slug, grants, limits, ...product } of products) {
      await putProduct(tx, slug, { ...product, maxQuantity: DEFAULT_MAX_QUANTITY }, source);
      for (const [orgSlug, kind] of Object.entries(grants)) {
        const grant = { kind, startsAt: undefined, endsAt: null, unitCap: undefined, limits };
        await putGrant(tx, orgSlug, slug, grant, source);
      }
    }
    const runtime = { scopes: ['usage:write', 'usage:read', 'entitlements:read'], now: source.at };
    const owner = { orgId: first.id, userId: first.ownerId };
    const live = await addMembersKey(tx, owner, { ...runtime, name: 'production runtime', livemode: true });
    const test = await addMembersKey(tx, owner, { ...runtime, name: 'staging runtime', livemode: false });
    return {
      keys: { live: live.secret, test: test.secret },
      products: products.flatMap(({ slug, usageMetric, unitCap, dimensions, grants }) => {
        const kind = grants[first.slug];
        return kind
          ? [{ slug, usageMetric, unitCap, kind, ...(dimensions && { dimensions: [...dimensions] }) }]
          : [];
      }),
    };
  },
};
