import { z } from 'zod';
import { addMembersKey } from '../../accounts/api-keys/api-keys.js';
import { serviceScopes } from '../../accounts/api-keys/scopes.js';
import { createServiceKey } from '../../accounts/service-keys/service-keys.js';
import type { Source } from '../../accounts/identity/source.js';
import type { Tx } from '../../core/db/client.js';
import { later, type DemoOrganization, type DemoPart, type DemoSlug } from '../../demo/demo.js';
import { putGrant as putCreditGrant } from '../credit-grants/grants.js';
import { DAY_MS } from '../../core/time.js';
import { putOrganizationPlan } from '../plans/organization-plans.js';
import { putPlan } from '../plans/plans.js';
import type { Definition } from '../plans/schema.js';
import { putGrant } from '../entitlements/grants.js';
import { putProduct, type ProductInput } from '../entitlements/products.js';
import {
  DEFAULT_MAX_QUANTITY,
  entitlementKinds,
  type EntitlementKind,
  type UsageLimit,
} from '../entitlements/table.js';

const schema = z.object({
  keys: z.object({
    live: z.string(),
    test: z.string(),
    otherLive: z.string().optional(),
    second: z.string().optional(),
    /** Absent in demos created by an earlier version. */
    service: z.string().optional(),
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
  grants: Partial<Record<DemoSlug, EntitlementKind>>;
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
    credits: { price: '0.1', by: { dimension: 'model', prices: { large: '0.4' } }, enforcement: 'warn' },
    grants: { 'northwind-labs': 'live', 'helios-weather': 'live' },
    // Northwind's `app-team` is close to this limit.
    limits: [{ quantity: '1800', window: 'P7D', enforcement: 'warn', per: 'subject' }],
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
  team: {
    name: 'Team',
    definition: {
      entitlements: [
        { productSlug: 'forecast-api', kind: 'live', features: { models: ['small', 'large'] } },
        { productSlug: 'map-tiles', kind: 'live' },
      ],
      grants: [{ key: 'credits', amount: '1500', every: 'month', expires: 'period' }],
    },
  },
};

/** Nine days of the trial are left. */
const TRIED_MS = 5 * DAY_MS;

const MONTHS = 5;

/** Grants every month's credits now, because past usage is filled in later. */
async function grantCredits(tx: Tx, { id: orgId, slug }: DemoOrganization, source: Source): Promise<void> {
  const live = { orgId, livemode: true };
  const plan = { amount: slug === 'northwind-labs' ? '1500' : '800', reason: 'Monthly plan' };
  let startsAt = source.at.toISOString();
  for (let month = 0; month < MONTHS; month++) {
    const expiresAt = startOfNextMonth(startsAt);
    const rollover = { percent: 50, for: 'P30D' };
    const key = `plan-${startsAt.slice(0, 7)}`;
    await putCreditGrant(tx, live, key, { ...plan, startsAt, expiresAt, rollover }, source);
    startsAt = expiresAt;
  }
  const pack = { amount: '1200', priority: 60, reason: 'Invoice 1042' };
  await putCreditGrant(tx, live, 'order-1042', pack, source);
  const tests = { amount: '10000', reason: 'For tests' };
  await putCreditGrant(tx, { orgId, livemode: false }, 'tests', tests, source);
}

function startOfNextMonth(time: string): string {
  const at = new Date(time);
  return new Date(Date.UTC(at.getUTCFullYear(), at.getUTCMonth() + 1, 1)).toISOString();
}

export const demo: DemoPart = {
  schema,
  async seed(tx, organizations, source, _config, nowMs) {
    const [first, second, third] = organizations;
    for (const [i, { slug, grants, limits, ...product }] of products.entries()) {
      const step = later(source, i * 3.2);
      await putProduct(tx, slug, { ...product, maxQuantity: DEFAULT_MAX_QUANTITY }, step);
      for (const [orgSlug, kind] of Object.entries(grants)) {
        const grant = { kind, startsAt: undefined, endsAt: null, unitCap: undefined, limits };
        await putGrant(tx, orgSlug, slug, grant, later(step, 0.11));
      }
    }
    for (const organization of organizations.slice(0, 2))
      await grantCredits(tx, organization, later(source, 16.4));
    for (const [slug, plan] of Object.entries(plans)) await putPlan(tx, slug, plan, later(source, 17.2));
    const trial = { plan: 'starter', trial: true, voidGrants: false, replace: false };
    const tried = { ...source, at: new Date(nowMs - TRIED_MS) };
    if (third) await putOrganizationPlan(tx, third.slug, trial, tried);
    const addKey = async (
      { id, ownerId }: DemoOrganization,
      name: string,
      { livemode = true, hours }: { livemode?: boolean; hours: number },
    ) => {
      const scopes = ['usage:write', 'usage:read', 'entitlements:read'];
      const key = { name, livemode, scopes, now: later(source, hours).at };
      return (await addMembersKey(tx, { orgId: id, userId: ownerId }, key)).secret;
    };
    const input = { name: 'gateway', livemode: true, scopes: [...serviceScopes], expiresAt: null };
    const service = await createServiceKey(tx, input, later(source, 26.3));
    return {
      keys: {
        live: await addKey(first, 'eu-west worker', { hours: 20.4 }),
        test: await addKey(first, 'staging runtime', { livemode: false, hours: 20.9 }),
        otherLive: await addKey(first, 'us-east worker', { hours: 43.2 }),
        second: second && (await addKey(second, 'forecast importer', { hours: 25.7 })),
        service: service.secret,
      },
      products: products.flatMap(({ slug, usageMetric, unitCap, dimensions, grants }) => {
        const kind = grants[first.slug];
        return kind
          ? [{ slug, usageMetric, unitCap, kind, ...(dimensions && { dimensions: [...dimensions] }) }]
          : [];
      }),
    };
  },
};
