import { exampleWorld as accounts, lasting } from '../../accounts/reference/example-world.js';
import { exampleSecret } from '../../core/reference/example-world.js';

export const exampleWorld = {
  ...accounts,
  products: {
    apiCalls: {
      id: '019b8d9a-6400-7000-8000-000000000011',
      slug: 'api-calls',
      name: 'API calls',
      usageMetric: 'calls',
      unitCap: '1000',
      entitlement: 'live',
      /** Live, in the month of `now`. */
      used: '400',
    },
    storage: {
      id: '019b8d9a-6400-7000-8000-000000000012',
      slug: 'storage',
      name: 'Storage',
      usageMetric: 'bytes',
      dimensions: ['region'] as string[],
      countsSubjects: true,
      credits: { price: 0.00005, enforcement: 'block' },
      unitCap: null,
      entitlement: 'live',
      used: null,
    },
    archive: {
      id: '019b8d9a-6400-7000-8000-000000000013',
      slug: 'archive',
      name: 'Archive',
      usageMetric: 'documents',
      unitCap: null,
      entitlement: 'read_only',
      used: null,
    },
    reports: {
      id: '019b8d9a-6400-7000-8000-000000000014',
      slug: 'reports',
      name: 'Reports',
      usageMetric: 'pages',
      unitCap: null,
      entitlement: null,
      used: null,
    },
  },
  keys: {
    ...accounts.keys,
    readerKey: {
      id: '019b8d9a-6400-7000-8000-000000000034',
      name: 'licence checker',
      secret: exampleSecret('live', 'Licence'),
      scopes: ['entitlements:read'],
      ...lasting,
    },
    correctorKey: {
      id: '019b8d9a-6400-7000-8000-00000000002f',
      name: 'billing desk',
      secret: exampleSecret('live', 'Billing'),
      scopes: ['usage:correct'],
      ...lasting,
    },
  },
  /** Acme's live reservation of storage, made one minute before `now`, and a limit over a rolling five hours. */
  reservation: { id: '019c0f3b-2da0-7000-8000-000000000071', blocked: 2_000_000, held: 4_000 },
  /** Acme's open grant of 100, 40 of which API calls have burned, and a spent grant of 10. */
  creditGrant: {
    id: '019b8d9a-6400-7000-8000-000000000092',
    grantKey: 'order-1042',
    spentId: '019b8d9a-6400-7000-8000-000000000091',
    spentKey: 'trial',
  },
  /** With the credits of its two versions; Acme is on the first. */
  plan: { slug: 'starter', name: 'Starter', credits: ['100', '200'] },
} as const;
