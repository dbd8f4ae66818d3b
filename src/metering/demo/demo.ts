import { eq } from 'drizzle-orm';
import { z } from 'zod';
import { addMembersKey } from '../../accounts/api-keys/api-keys.js';
import { serviceScopes } from '../../accounts/api-keys/scopes.js';
import { createServiceKey } from '../../accounts/service-keys/service-keys.js';
import type { Source } from '../../accounts/identity/source.js';
import type { Tx } from '../../core/db/client.js';
import { later, type DemoOrganization, type DemoPart, type DemoSlug } from '../../demo/demo.js';
import { putGrant as putCreditGrant } from '../credit-grants/grants.js';
import { DAY_MS } from '../../core/time.js';
import { grantPeriod, LEAD_MS } from '../plans/grants.js';
import { putOrganizationPlan } from '../plans/organization-plans.js';
import { startOfPeriod } from '../plans/periods.js';
import { putPlan } from '../plans/plans.js';
import type { Definition } from '../plans/schema.js';
import { organizationPlans } from '../plans/table.js';
import { putGrant } from '../entitlements/grants.js';
import { putProduct, type ProductInput } from '../entitlements/products.js';
import { DEFAULT_MAX_QUANTITY, entitlementKinds, type EntitlementKind } from '../entitlements/table.js';
import { makeEvents } from './usage.js';

const schema = z.object({
  keys: z.object({
    live: z.string(),
    test: z.string(),
    otherLive: z.string().optional(),
    second: z.string().optional(),
    /** This and `others` are absent in demos created by an earlier version. */
    service: z.string().optional(),
    others: z
      .array(z.strictObject({ secret: z.string(), share: z.number(), products: z.array(z.string()) }))
      .optional(),
  }),
  products: z
    .array(
      z.strictObject({
        slug: z.string(),
        usageMetric: z.string(),
        unitCap: z.string().nullable(),
        kind: z.enum(entitlementKinds),
        /** Absent in demos created by an earlier version. */
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
  /** The first Organization's. */
  kind: EntitlementKind;
}

const products: DemoProduct[] = [
  {
    slug: 'forecast-api',
    name: 'Forecast API',
    usageMetric: 'requests',
    unitCap: '10000',
    dimensions: ['model'],
    countsSubjects: true,
    credits: { price: '0.1', by: { dimension: 'model', prices: { large: '0.4' } }, enforcement: 'warn' },
    kind: 'live',
  },
  {
    slug: 'map-tiles',
    name: 'Map tiles',
    usageMetric: 'tiles',
    unitCap: null,
    credits: { price: '0.0004', enforcement: 'warn' },
    kind: 'live',
  },
  {
    slug: 'climate-archive',
    name: 'Climate archive',
    usageMetric: 'rows',
    unitCap: null,
    kind: 'read_only',
  },
];

const used = products.map(({ slug, usageMetric, unitCap, kind, dimensions }) => ({
  slug,
  usageMetric,
  unitCap,
  kind,
  ...(dimensions && { dimensions: [...dimensions] }),
}));

/** @param amount credits a month, half of which roll over for 30 days */
const monthly = (amount: string) => [
  {
    key: 'credits',
    amount,
    every: 'month',
    expires: 'period',
    rollover: { percent: 50, for: 'P30D' },
  } as const,
];

const tiles = { productSlug: 'map-tiles', kind: 'live' } as const;

const plans: Record<string, { name: string; definition: Definition }> = {
  starter: {
    name: 'Starter',
    definition: {
      entitlements: [
        { productSlug: 'forecast-api', kind: 'live', unitCap: '1000', features: { models: ['small'] } },
      ],
      grants: [{ key: 'credits', amount: '200', every: 'month', expires: 'period' }],
      trial: { days: 14 },
    },
  },
  growth: {
    name: 'Growth',
    definition: {
      entitlements: [
        { productSlug: 'forecast-api', kind: 'live', features: { models: ['small', 'large'] } },
        tiles,
      ],
      grants: monthly('1000'),
    },
  },
  team: {
    name: 'Team',
    definition: {
      entitlements: [
        {
          productSlug: 'forecast-api',
          kind: 'live',
          features: { models: ['small', 'large'] },
          // Northwind's `app-team` is close to this limit.
          limits: [{ quantity: '1800', window: 'P7D', enforcement: 'warn', per: 'subject' }],
        },
        {
          ...tiles,
          limits: [
            { quantity: '80000', window: 'calendar_day', enforcement: 'warn' },
            { quantity: '30000', window: 'PT5H', enforcement: 'block' },
          ],
        },
      ],
      grants: monthly('2000'),
    },
  },
};

interface Terms {
  /** None is the first product by hand, with credits of an invoice for a few more days. */
  plan?: keyof typeof plans;
  /** A trial that began this long ago. */
  triedMs?: number;
  /** Credits of an invoice beside the plan. */
  pack?: string;
  /** Key, and its share of the first Organization's usage of each product. */
  key?: { name: string; share: number; products: string[] };
}

const customers: Record<DemoSlug, Terms> = {
  'northwind-labs': { plan: 'team', pack: '1200' },
  'helios-weather': { plan: 'growth' },
  'aurora-grid': { plan: 'starter', triedMs: 5 * DAY_MS },
  'solara-rooftops': {
    plan: 'growth',
    key: { name: 'roof planner', share: 0.3, products: ['forecast-api', 'map-tiles'] },
  },
  // Close to its cap.
  'fjordline-ferries': {
    plan: 'starter',
    key: { name: 'route planner', share: 0.082, products: ['forecast-api'] },
  },
  'kestrel-drones': {
    key: { name: 'flight desk', share: 0.1, products: ['forecast-api'] },
  },
  'tromso-robotics': { plan: 'starter', triedMs: 9 * DAY_MS },
};

/** Credits for the usage of `key` until now, and for about five days more. */
function packFor(key: NonNullable<Terms['key']>, nowMs: number): string {
  const credits = makeEvents({ products: used }, key, nowMs).map(
    ({ quantity, dimensions }) => Number(quantity) * (dimensions?.model === 'large' ? 0.4 : 0.1),
  );
  return String(Math.ceil((credits.reduce((sum, each) => sum + each, 0) + 32) / 10) * 10);
}

/** Credits of the past months as well, because past usage is filled in later. */
async function putTerms(tx: Tx, { id, slug }: DemoOrganization, source: Source, nowMs: number) {
  const { plan, triedMs, key, pack = plan ? undefined : packFor(key!, nowMs) } = customers[slug];
  const at = triedMs === undefined ? source.at : new Date(nowMs - triedMs);
  if (plan !== undefined) {
    const anchor = triedMs === undefined ? new Date(Date.UTC(at.getUTCFullYear(), at.getUTCMonth(), 1)) : at;
    const input = { plan, anchor, trial: triedMs !== undefined, voidGrants: false, replace: false };
    const { resource } = await putOrganizationPlan(tx, slug, input, { ...source, at });
    if (triedMs === undefined) {
      const grantedUntil = new Date(nowMs + LEAD_MS);
      for (const grant of plans[plan]!.definition.grants)
        for (let n = 1; startOfPeriod('month', anchor, n) <= grantedUntil; n++) {
          const madeAt = new Date(startOfPeriod('month', anchor, n).getTime() - LEAD_MS);
          const job = { actor: 'system', at: madeAt };
          await grantPeriod(tx, id, { ...resource, name: plans[plan]!.name }, grant, n, source, job);
        }
      await tx.update(organizationPlans).set({ grantedUntil }).where(eq(organizationPlans.orgId, id));
    }
  } else {
    const grant = { kind: 'live', startsAt: undefined, endsAt: null, unitCap: undefined } as const;
    await putGrant(tx, slug, 'forecast-api', grant, source);
  }
  if (pack !== undefined) {
    const reason = `Invoice ${1042 + Object.keys(customers).indexOf(slug) * 17}`;
    const grant = { amount: pack, priority: 60, reason };
    await putCreditGrant(tx, { orgId: id, livemode: true }, 'pack', grant, source);
  }
}

export const demo: DemoPart = {
  schema,
  async seed(tx, organizations, source, _config, nowMs) {
    const [first, second, ...others] = organizations;
    for (const [i, { slug, kind: _, ...product }] of products.entries())
      await putProduct(tx, slug, { ...product, maxQuantity: DEFAULT_MAX_QUANTITY }, later(source, i * 3.2));
    const byHand = { kind: 'read_only', startsAt: undefined, endsAt: null, unitCap: undefined } as const;
    await putGrant(tx, first.slug, 'climate-archive', byHand, later(source, 7.1));
    for (const [slug, plan] of Object.entries(plans)) await putPlan(tx, slug, plan, later(source, 8.2));
    for (const [i, organization] of organizations.entries())
      await putTerms(tx, organization, later(source, 9.4 + i * 0.71), nowMs);
    for (const { id: orgId } of organizations.slice(0, 2)) {
      const tests = { amount: '10000', reason: 'For tests' };
      await putCreditGrant(tx, { orgId, livemode: false }, 'tests', tests, later(source, 16.4));
    }
    const addKey = async (
      { id, ownerId }: DemoOrganization,
      name: string,
      { livemode = true, hours }: { livemode?: boolean; hours: number },
    ) => {
      const scopes = ['usage:write', 'usage:read', 'entitlements:read'];
      const key = { name, livemode, scopes, now: later(source, hours).at };
      return (await addMembersKey(tx, { orgId: id, userId: ownerId }, key)).secret;
    };
    const keysOfOthers = [];
    for (const [i, organization] of others.entries()) {
      const { key } = customers[organization.slug];
      if (!key) continue;
      const { name, ...use } = key;
      keysOfOthers.push({ ...use, secret: await addKey(organization, name, { hours: 27 + i * 0.83 }) });
    }
    const input = { name: 'gateway', livemode: true, scopes: [...serviceScopes], expiresAt: null };
    const service = await createServiceKey(tx, input, later(source, 26.3));
    return {
      keys: {
        live: await addKey(first, 'eu-west worker', { hours: 20.4 }),
        test: await addKey(first, 'staging runtime', { livemode: false, hours: 20.9 }),
        otherLive: await addKey(first, 'us-east worker', { hours: 43.2 }),
        second: second && (await addKey(second, 'forecast importer', { hours: 25.7 })),
        service: service.secret,
        others: keysOfOthers,
      },
      products: used,
    };
  },
};
