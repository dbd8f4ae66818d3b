import { randomUUID } from 'node:crypto';
import { eq } from 'drizzle-orm';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createApiKey } from '../../../src/accounts/api-keys/api-keys.js';
import type { Database } from '../../../src/core/db/client.js';
import { openDatabase } from '../../../src/core/db/open.js';
import { apiKeys } from '../../../src/accounts/api-keys/table.js';
import { isEmbedded } from '../../support/database.js';
import { type Browser, signedIn } from '../../support/accounts.js';
import { createProduct, grant } from '../../metering/support/products.js';
import { startTestService, type TestService } from '../../support/service.js';
import { byService } from '../../../src/accounts/audit/audit.js';
import { useDatabase } from '../../support/use.js';
import { auditOf } from '../../support/audit.js';

const database = useDatabase();

/** Two instances share one database. On Postgres, each instance has its own connections. */
let first: TestService;
let second: TestService;
let otherConnections: Database | undefined;
beforeAll(async () => {
  if (database.url !== undefined)
    otherConnections = await openDatabase(
      { databaseUrl: database.url, dataDir: '' },
      pino({ level: 'silent' }),
    );
  first = await startTestService(database.db);
  second = await startTestService(otherConnections ?? database.db);
});
afterAll(async () => {
  await first.stop();
  await second.stop();
  await otherConnections?.close();
});

const MINUTE = 60_000;
const PATH = '/dashboard/api-keys';
const create = (browser: Browser) => browser.send('POST', PATH, { json: { name: 'x', livemode: true } });
const rotate = (browser: Browser, id: string, json: object = {}) =>
  browser.send('POST', `${PATH}/${id}/rotate`, { json });

async function entitledOwner(service: TestService) {
  const owner = await signedIn(database.db, service.url);
  const product = await createProduct(database.db);
  await grant(database.db, owner.organization.id, product.id);
  const use = async (secret: string, at = service) => {
    const response = await fetch(`${at.url}/api/usage/events`, {
      method: 'POST',
      headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        events: [{ productSlug: product.slug, metric: 'calls', idempotencyKey: randomUUID() }],
      }),
    });
    return { status: response.status, code: ((await response.json()) as { code?: string }).code };
  };
  return { ...owner, use };
}

describe.runIf(isEmbedded)('a key', () => {
  it('works until its grace period ends, and its successor keeps working', async () => {
    const own = await startTestService(database.db);
    const { browser, use } = await entitledOwner(own);
    const old = (await create(browser)).body;
    const next = (await rotate(browser, old.apiKey.id, { graceMinutes: 30 })).body;
    expect((await use(old.secret)).status).toBe(202);
    expect((await use(next.secret)).status).toBe(202);
    own.clock.advance(30 * MINUTE - 1);
    expect((await use(old.secret)).status).toBe(202);
    own.clock.advance(1);
    expect(await use(old.secret)).toEqual({ status: 401, code: 'key_expired' });
    expect((await use(next.secret)).status).toBe(202);
    const { apiKeys: keys } = (await browser.get(PATH)).body;
    expect(keys.map(({ state }: { state: string }) => state)).toEqual(['active', 'expired']);
    await own.stop();
  });

  it('that is revoked fails on its next call, on every instance', async () => {
    const { browser, use } = await entitledOwner(first);
    const { apiKey, secret } = (await create(browser)).body;
    expect((await use(secret, first)).status).toBe(202);
    expect((await use(secret, second)).status).toBe(202);
    const answer = await browser.copy(second.url).send('DELETE', `${PATH}/${apiKey.id}`);
    expect(answer.status).toBe(200);
    expect(await use(secret, first)).toEqual({ status: 401, code: 'key_revoked' });
    expect(await use(secret, second)).toEqual({ status: 401, code: 'key_revoked' });
  });

  it('that is rotated without grace fails on its next call, on every instance', async () => {
    const { browser, use } = await entitledOwner(first);
    const { apiKey, secret } = (await create(browser)).body;
    expect((await use(secret, second)).status).toBe(202);
    await rotate(browser, apiKey.id, { graceMinutes: 0 });
    second.clock.set(new Date(first.clock.now()).toISOString());
    expect(await use(secret, second)).toEqual({ status: 401, code: 'key_expired' });
  });
});

describe('the limit of key changes', () => {
  const limited = { status: 429, body: { code: 'rate_limited' } };

  it('allows ten an hour, reports the remainder, and slides', async () => {
    const own = await startTestService(database.db);
    const { browser } = await signedIn(database.db, own.url);
    const headersOf = async () => {
      const { headers } = await browser.get(PATH);
      return [headers.get('ratelimit-policy'), headers.get('ratelimit')];
    };
    const policy = '"key-changes";q=10;w=3600';
    expect(await headersOf()).toEqual([policy, '"key-changes";r=10;t=3600']);
    const made: string[] = [];
    for (let left = 9; left >= 0; left--) {
      const answer =
        left % 2 === 0 && made.length > 0 ? await rotate(browser, made.at(-1)!) : await create(browser);
      expect(answer.status).toBe(201);
      made.push(answer.body.apiKey.id);
      const t = 3600 - (9 - left) * 60;
      expect(answer.headers.get('ratelimit-policy')).toBe(policy);
      expect(answer.headers.get('ratelimit')).toBe(`"key-changes";r=${left};t=${t}`);
      expect(await headersOf()).toEqual([policy, `"key-changes";r=${left};t=${t}`]);
      own.clock.advance(MINUTE);
    }
    for (const refused of [await create(browser), await rotate(browser, made.at(-1)!)]) {
      expect(refused).toMatchObject(limited);
      expect(refused.headers.get('retry-after')).toBe('3000');
      expect(refused.headers.get('ratelimit')).toBe('"key-changes";r=0;t=3000');
      expect(refused.headers.get('ratelimit-policy')).toBe(policy);
    }
    own.clock.advance(50 * MINUTE - 1);
    expect(await create(browser)).toMatchObject(limited);
    own.clock.advance(1);
    expect((await create(browser)).status).toBe(201);
    // The oldest remaining change expires in a minute.
    const refused = await create(browser);
    expect(refused.headers.get('retry-after')).toBe('60');
    await own.stop();
  });

  it('ignores refused changes, revocations and keys made by the system', async () => {
    const { browser, user, organization } = await signedIn(database.db, first.url);
    const { id } = (await create(browser)).body.apiKey;
    await rotate(browser, id);
    await rotate(browser, id);
    await browser.send('POST', PATH, { json: { name: '' } });
    await rotate(browser, randomUUID());
    await browser.send('DELETE', `${PATH}/${id}`);
    const actor = { orgId: organization.id, userId: null, by: byService };
    for (let i = 0; i < 12; i++)
      await createApiKey(first.context, actor, { name: 'by the system', livemode: true });
    expect((await browser.get(PATH)).headers.get('ratelimit')).toMatch(/r=8;/);
    const byHand = await createApiKey(
      first.context,
      { ...actor, userId: user.id },
      { name: 'x', livemode: true },
    );
    expect(byHand.budget.remaining).toBe(7);
  });

  it('applies to each Organization separately', async () => {
    const { browser } = await signedIn(database.db, first.url);
    const { browser: other } = await signedIn(database.db, first.url);
    for (let i = 0; i < 10; i++) await create(browser);
    expect(await create(browser)).toMatchObject(limited);
    expect((await create(other)).status).toBe(201);
  });

  it('lets exactly ten of thirty concurrent creations through', async () => {
    const { browser, organization } = await signedIn(database.db, first.url);
    const answers = await Promise.all(Array.from({ length: 30 }, () => create(browser)));
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(10);
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(20);
    const { orm } = database.db;
    expect(await orm.select().from(apiKeys).where(eq(apiKeys.orgId, organization.id))).toHaveLength(10);
    expect(await auditOf({ orm }, organization.id)).toHaveLength(10);
  });

  it('is shared by two instances and survives restarts', async () => {
    const { browser } = await signedIn(database.db, first.url);
    const elsewhere = browser.copy(second.url);
    const answers = await Promise.all(
      Array.from({ length: 24 }, (_, i) => create(i % 2 === 0 ? browser : elsewhere)),
    );
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(10);
    const restarted = await startTestService(database.db);
    expect(await create(browser.copy(restarted.url))).toMatchObject(limited);
    await restarted.stop();
  });

  it('follows the configuration, even when it is lowered', async () => {
    const low = await startTestService(database.db, { env: { LIMIT_KEY_CHANGES_PER_HOUR: '2' } });
    const { browser } = await signedIn(database.db, first.url);
    for (let i = 0; i < 3; i++) {
      await create(browser);
      first.clock.advance(MINUTE);
    }
    low.clock.set(new Date(first.clock.now()).toISOString());
    const refused = await create(browser.copy(low.url));
    expect(refused).toMatchObject(limited);
    // Two of the three changes must expire before there is room. The second was made two minutes ago.
    expect(refused.headers.get('retry-after')).toBe(String(58 * 60));
    expect(refused.headers.get('ratelimit')).toBe('"key-changes";r=0;t=3480');
    await low.stop();
  });
});
