/** A secret of the right shape that no service will ever issue. */
const exampleSecret = (mode: 'live' | 'test', word: string) => `org_${mode}_${word.padEnd(32, '0')}`;

const lasting = { expiresAt: null, revokedAt: null } as const;

/** The world of all examples. Descriptions refer to its parts, and the test of the examples builds it row by row. */
export const exampleWorld = {
  now: '2026-01-31T12:00:00.000Z',
  createdAt: '2026-01-05T09:00:00.000Z',
  organization: { id: '019b8d9a-6400-7000-8000-000000000001', slug: 'acme', name: 'Acme' },
  otherOrganization: { id: '019b8d9a-6400-7000-8000-000000000002', slug: 'globex', name: 'Globex' },
  products: {
    apiCalls: {
      id: '019b8d9a-6400-7000-8000-000000000011',
      slug: 'api-calls',
      name: 'API calls',
      usageMetric: 'calls',
      unitCap: '1000',
      entitlement: 'live',
      /** Recorded in live mode in the month of `now`. */
      used: '400',
    },
    storage: {
      id: '019b8d9a-6400-7000-8000-000000000012',
      slug: 'storage',
      name: 'Storage',
      usageMetric: 'bytes',
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
  users: {
    owner: {
      id: '019b8d9a-6400-7000-8000-000000000021',
      email: 'olivia@acme.example',
      name: 'Olivia Owner',
      role: 'owner',
    },
    member: {
      id: '019b8d9a-6400-7000-8000-000000000022',
      email: 'max@acme.example',
      name: 'Max Member',
      role: 'member',
    },
    newcomer: {
      id: '019b8d9a-6400-7000-8000-000000000023',
      email: 'nora@acme.example',
      name: 'Nora Newcomer',
      role: null,
    },
    secured: {
      id: '019b8d9a-6400-7000-8000-000000000024',
      email: 'sam@acme.example',
      name: 'Sam Secured',
      role: null,
    },
  },
  password: 'correct horse battery staple',
  keys: {
    liveKey: {
      id: '019b8d9a-6400-7000-8000-000000000031',
      name: 'production runtime',
      secret: exampleSecret('live', 'Production'),
      scopes: ['usage:write', 'usage:read', 'entitlements:read'],
      ...lasting,
    },
    testKey: {
      id: '019b8d9a-6400-7000-8000-000000000032',
      name: 'staging runtime',
      secret: exampleSecret('test', 'Staging'),
      scopes: ['usage:write', 'usage:read', 'entitlements:read', 'trading:read'],
      ...lasting,
    },
    usageKey: {
      id: '019b8d9a-6400-7000-8000-000000000033',
      name: 'meter',
      secret: exampleSecret('live', 'Meter'),
      scopes: ['usage:write'],
      ...lasting,
    },
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
    traderKey: {
      id: '019b8d9a-6400-7000-8000-000000000030',
      name: 'trading client',
      secret: exampleSecret('live', 'Trader'),
      scopes: ['trading:read', 'trading:write'],
      ...lasting,
    },
    expiredKey: {
      id: '019b8d9a-6400-7000-8000-000000000035',
      name: 'trial runtime',
      secret: exampleSecret('live', 'Trial'),
      scopes: ['usage:write', 'entitlements:read'],
      expiresAt: '2026-01-20T00:00:00.000Z',
      revokedAt: null,
    },
    revokedKey: {
      id: '019b8d9a-6400-7000-8000-000000000036',
      name: 'lost laptop',
      secret: exampleSecret('live', 'Lost'),
      scopes: ['usage:write', 'entitlements:read'],
      expiresAt: null,
      revokedAt: '2026-01-21T08:30:00.000Z',
    },
  },
  /** Markets of the invented world in New York at `now`: the brackets that examples name, and the order book of one. */
  markets: {
    yesterday: {
      eventTicker: 'KXHIGHNY-26JAN30',
      lowest: { ticker: 'KXHIGHNY-26JAN30-T42', label: '41° or below' },
    },
    today: {
      eventTicker: 'KXHIGHNY-26JAN31',
      lowest: { ticker: 'KXHIGHNY-26JAN31-T49' },
      /** The next bracket up, which the examples trade: it asks 0.45 dollars for 32 contracts and 0.46 for more. */
      traded: {
        ticker: 'KXHIGHNY-26JAN31-B49.5',
        bracket: { kind: 'between', floor: 49, cap: 50, unit: 'fahrenheit', label: '49° to 50°' },
        label: '49° to 50°',
      },
      unknown: { ticker: 'KXHIGHNY-26JAN31-B99.5' },
    },
  },
  /** Acme's live reservation of storage, made a minute before `now`, and the entitlement's limit over a rolling five hours. */
  reservation: { id: '019c0f3b-2da0-7000-8000-000000000071', blocked: 2_000_000, held: 4_000 },
  /** Acme's backfills of the first weeks of January: one open, one applied, one reverted. All are empty. */
  backfill: {
    id: '019c13c7-9a00-7000-8000-000000000081',
    reason: 'A collector was down',
    appliedId: '019c13c7-9a00-7000-8000-000000000082',
    revertedId: '019c13c7-9a00-7000-8000-000000000083',
  },
  /** Acme's endpoint for live events, a disabled one, and a failed message to the first. */
  webhooks: {
    live: { id: '019c0a00-0000-7000-8000-000000000081', url: 'https://hooks.acme.example/gauge' },
    disabled: { id: '019c0a00-0000-7000-8000-000000000082', url: 'https://old.acme.example/gauge' },
    message: { id: '019c0f1e-5b40-7000-8000-000000000091', createdAt: '2026-01-30T13:36:13.632Z' },
    otherId: '019c0a00-0000-7000-8000-000000000083',
  },
  trade: {
    id: '019c0f10-9500-7000-8000-000000000061',
    idempotencyKey: 'ny-jan31-morning',
    clientOrderId: '6f1c2a4e-8d0b-5c37-9e21-4b7a1d5f0c93',
    ticker: 'KXHIGHNY-26JAN31-B49.5',
    createdAt: '2026-01-30T15:04:05.000Z',
  },
  /** Used only where an order rests in the book. */
  resting: {
    id: '019c13a6-8a00-7000-8000-000000000062',
    idempotencyKey: 'ny-jan31-patient',
    clientOrderId: 'b3f0a7d2-51c9-5e08-8a64-2d9e7c1f4a30',
    ticker: 'KXHIGHNY-26JAN31-B49.5',
    createdAt: '2026-01-31T12:00:00.000Z',
    queueAhead: 120,
  },
  audit: {
    operator: {
      id: '019b8d9a-6400-7000-8000-000000000051',
      action: 'product.created',
      target: 'api-calls',
      details: { after: { name: 'API calls', usageMetric: 'calls', unitCap: '1000' } },
      seq: 1,
      hash: '9d1f6b0c3a52e84b7c60d95e2f418ab3c7d05e916f28b34a90c1e7d652f3ab84',
    },
    organization: {
      id: '019b8d9a-6400-7000-8000-000000000052',
      action: 'organization.created',
      target: 'acme',
      details: { after: { name: 'Acme' } },
      seq: 1,
      hash: '4e4a415c5292ab299f29048c5896d14fb41bbe362360b7d1cb807ee1fe8cb05f',
    },
    source: {
      at: '2026-01-05T09:00:00.000Z',
      actor: 'operator',
      ip: '192.0.2.7',
      requestId: '5f0c8a52-6d2e-4f37-9b0a-2c9e6a4d1b83',
    },
  },
  unknownSecret: exampleSecret('live', 'Unknown'),
  otherKeyId: '019b8d9a-6400-7000-8000-000000000041',
  unknownId: '019b8d9a-6400-7000-8000-0000000000ff',
} as const;

export const credentials = {
  none: 'no credential',
  liveKey: 'an active live key with `usage:write`, `usage:read` and `entitlements:read`',
  testKey: 'an active test key with `usage:write`, `usage:read`, `entitlements:read` and `trading:read`',
  usageKey: 'a live key with `usage:write` only',
  readerKey: 'a live key with `entitlements:read` only',
  correctorKey: 'a live key with `usage:correct` only',
  traderKey: 'a live key with `trading:read` and `trading:write`',
  expiredKey: 'an expired key',
  revokedKey: 'a revoked key',
  unknownKey: 'a key that does not exist',
  ownerSession: "an owner's session",
  memberSession: "a member's session",
  newcomerSession: 'the session of a person without an Organization',
  operator: 'the operator token',
  wrongOperator: 'a wrong operator token',
} as const;

export type Credential = keyof typeof credentials;
