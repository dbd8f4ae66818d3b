import { exampleSecret, exampleWorld as common } from '../../core/reference/example-world.js';

export const lasting = { expiresAt: null, revokedAt: null } as const;

export const exampleWorld = {
  ...common,
  organization: { id: '019b8d9a-6400-7000-8000-000000000001', slug: 'acme', name: 'Acme' },
  otherOrganization: { id: '019b8d9a-6400-7000-8000-000000000002', slug: 'globex', name: 'Globex' },
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
  serviceKeys: {
    serviceKey: {
      id: '019b8d9a-6400-7000-8000-000000000037',
      name: 'gateway',
      secret: exampleSecret('live', 'Gateway', 'service'),
      scopes: ['usage:write', 'usage:read', 'usage:correct', 'entitlements:read', 'keys:verify'],
      ...lasting,
    },
    narrowServiceKey: {
      id: '019b8d9a-6400-7000-8000-000000000038',
      name: 'website',
      secret: exampleSecret('live', 'Website', 'service'),
      scopes: ['usage:backfill'],
      ...lasting,
    },
    expiredServiceKey: {
      id: '019b8d9a-6400-7000-8000-000000000039',
      name: 'trial gateway',
      secret: exampleSecret('live', 'TrialGateway', 'service'),
      scopes: ['usage:write'],
      expiresAt: '2026-01-20T00:00:00.000Z',
      revokedAt: null,
    },
    revokedServiceKey: {
      id: '019b8d9a-6400-7000-8000-00000000003a',
      name: 'old gateway',
      secret: exampleSecret('live', 'OldGateway', 'service'),
      scopes: ['usage:write'],
      expiresAt: null,
      revokedAt: '2026-01-21T08:30:00.000Z',
    },
  },
  webhooks: {
    live: { id: '019c0a00-0000-7000-8000-000000000081', url: 'https://hooks.acme.example/gauge' },
    disabled: { id: '019c0a00-0000-7000-8000-000000000082', url: 'https://old.acme.example/gauge' },
    message: { id: '019c0f1e-5b40-7000-8000-000000000091', createdAt: '2026-01-30T13:36:13.632Z' },
    otherId: '019c0a00-0000-7000-8000-000000000083',
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
  otherKeyId: '019b8d9a-6400-7000-8000-000000000041',
} as const;
