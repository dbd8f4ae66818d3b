import type { ProductInput } from '../entitlements/products/products.js';
import type { EntitlementKind } from '../entitlements/table.js';
import type { Role } from '../organizations/table.js';

/** What the demo consists of: invented companies and people, on a domain that cannot exist. */
export const demoOrganizations = [
  { slug: 'northwind-labs', name: 'Northwind Labs' },
  { slug: 'helios-weather', name: 'Helios Weather' },
] as const;

type OrganizationSlug = (typeof demoOrganizations)[number]['slug'];

interface DemoPerson {
  email: string;
  name: string;
  roles: Partial<Record<OrganizationSlug, Role>>;
}

export const demoPeople: DemoPerson[] = [
  { email: 'ada@northwind.example', name: 'Ada Lindqvist', roles: { 'northwind-labs': 'owner' } },
  {
    email: 'ben@northwind.example',
    name: 'Ben Okafor',
    roles: { 'northwind-labs': 'admin', 'helios-weather': 'member' },
  },
  { email: 'chloe@northwind.example', name: 'Chloé Martin', roles: { 'northwind-labs': 'member' } },
  { email: 'dev@northwind.example', name: 'Dev Raman', roles: { 'northwind-labs': 'billing' } },
  { email: 'elena@helios.example', name: 'Elena Vidal', roles: { 'helios-weather': 'owner' } },
];

interface DemoProduct extends Omit<ProductInput, 'maxQuantity'> {
  slug: string;
  /** Who may use it, and how. */
  grants: Partial<Record<OrganizationSlug, EntitlementKind>>;
}

export const demoProducts: DemoProduct[] = [
  {
    slug: 'forecast-api',
    name: 'Forecast API',
    usageMetric: 'requests',
    unitCap: '10000',
    grants: { 'northwind-labs': 'live', 'helios-weather': 'live' },
  },
  {
    slug: 'map-tiles',
    name: 'Map tiles',
    usageMetric: 'tiles',
    unitCap: null,
    grants: { 'northwind-labs': 'live' },
  },
  {
    slug: 'climate-archive',
    name: 'Climate archive',
    usageMetric: 'rows',
    unitCap: null,
    grants: { 'northwind-labs': 'read_only' },
  },
];
