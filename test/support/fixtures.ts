import { v7 as uuid } from 'uuid';
import { generateSecret, hashSecret } from '../../src/accounts/api-keys/bearer-key.js';
import type { Database } from '../../src/core/db/client.js';
import { apiKeyDirectory, apiKeys } from '../../src/accounts/api-keys/table.js';
import { serviceKeys } from '../../src/accounts/service-keys/table.js';
import { organizations } from '../../src/accounts/organizations/table.js';

let counter = 0;
export const uniqueSlug = (word: string) => `${word}-${process.pid}-${++counter}`;

/** A time before any test's clock. */
export const past = new Date('2020-01-01T00:00:00Z');

export interface TestOrganization {
  id: string;
  slug: string;
  name: string;
}

export async function createOrganization(
  db: Database,
  values: Partial<TestOrganization> = {},
): Promise<TestOrganization> {
  const slug = values.slug ?? uniqueSlug('org');
  const organization = { id: uuid(), slug, name: `Organization ${slug}`, ...values };
  await db.orm.insert(organizations).values({ mayCorrect: true, ...organization, createdAt: past });
  return organization;
}

export interface TestKey {
  id: string;
  orgId: string;
  secret: string;
}

export interface KeyValues {
  livemode?: boolean;
  scopes?: string[];
  expiresAt?: Date;
  revokedAt?: Date;
  name?: string;
}

type MakeKey = (db: Database, orgId: string, values: KeyValues) => Promise<TestKey>;

/** Makes other kinds of keys for tests that run a second time. Undefined for API keys. */
export const otherKeys: { make?: MakeKey | undefined } = {};

export const createKey = (db: Database, orgId: string, values: KeyValues = {}): Promise<TestKey> =>
  (otherKeys.make ?? createApiKey)(db, orgId, values);

async function createApiKey(db: Database, orgId: string, values: KeyValues): Promise<TestKey> {
  const livemode = values.livemode ?? true;
  const secret = generateSecret(livemode);
  const key = {
    orgId,
    id: uuid(),
    name: 'test key',
    prefix: secret.slice(0, 12),
    hashedSecret: hashSecret(secret),
    livemode,
  };
  await db.orm.insert(apiKeyDirectory).values({ hashedSecret: key.hashedSecret, orgId });
  await db.orm
    .insert(apiKeys)
    .values({ ...key, scopes: ['usage:write', 'entitlements:read'], createdAt: past, ...values });
  return { id: key.id, orgId, secret };
}

export async function createServiceKey(
  db: Database,
  scopes: string[],
  livemode = true,
): Promise<{ id: string; secret: string }> {
  const secret = generateSecret(livemode, 'service');
  const key = { id: uuid(), name: 'test service key', prefix: secret.slice(0, 16), scopes, livemode };
  await db.orm.insert(serviceKeys).values({ ...key, hashedSecret: hashSecret(secret), createdAt: past });
  return { id: key.id, secret };
}
