import { eq } from 'drizzle-orm';
import { v7 as uuid } from 'uuid';
import { afterAll, beforeAll, it } from 'vitest';
import { generateSecret, hashSecret } from '../../src/accounts/api-keys/bearer-key.js';
import { organizations } from '../../src/accounts/organizations/table.js';
import { serviceKeys } from '../../src/accounts/service-keys/table.js';
import type { Database } from '../../src/core/db/client.js';
import { otherKeys, past, type KeyValues, type TestKey } from './fixtures.js';

const slugs = new Map<string, string>();

async function createServiceKey(db: Database, orgId: string, values: KeyValues): Promise<TestKey> {
  const [organization] = await db.orm
    .select({ slug: organizations.slug })
    .from(organizations)
    .where(eq(organizations.id, orgId));
  const livemode = values.livemode ?? true;
  const secret = generateSecret(livemode, 'service');
  slugs.set(secret, organization!.slug);
  const id = uuid();
  await db.orm.insert(serviceKeys).values({
    id,
    name: 'test key',
    prefix: secret.slice(0, 16),
    hashedSecret: hashSecret(secret),
    livemode,
    scopes: ['usage:write', 'entitlements:read'],
    createdAt: past,
    ...values,
  });
  return { id, orgId, secret };
}

let isSecondTime = false;

/** Defines a test that does not run again with a service key, because it names what only an API key has. */
export const itWithApiKey = ((...test: Parameters<typeof it>) =>
  isSecondTime ? undefined : it(...test)) as typeof it;

/**
 * Defines the tests of a file again, with service keys from `createKey`. Their calls to `/api` go to
 * `/service/organizations/{slug}` instead.
 * @param path an absolute path
 */
export async function repeatWithServiceKeys(path: string): Promise<void> {
  const { fetch } = globalThis;
  beforeAll(() => {
    otherKeys.make = createServiceKey;
    globalThis.fetch = (input, init) => {
      const { authorization = '' } = (init?.headers ?? {}) as Record<string, string>;
      const slug = slugs.get(authorization.slice('Bearer '.length));
      const isMoved = slug !== undefined && typeof input === 'string';
      return fetch(isMoved ? input.replace('/api/', `/service/organizations/${slug}/`) : input, init);
    };
  });
  afterAll(() => {
    isSecondTime = false;
    otherKeys.make = undefined;
    globalThis.fetch = fetch;
  });
  // Until all tests are defined: a `describe` within the file is read later.
  isSecondTime = true;
  // The query makes it another module than the one that runs by itself.
  await import(/* @vite-ignore */ `${path}?service`);
}
