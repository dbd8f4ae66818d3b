import { and, asc, eq } from 'drizzle-orm';
import { pino } from 'pino';
import { describe, expect, it } from 'vitest';
import { deleteOldKeyCalls } from '../../../src/accounts/api-keys/key-use-queries.js';
import { createKeyUse } from '../../../src/accounts/api-keys/key-use.js';
import { hashSecret } from '../../../src/accounts/api-keys/bearer-key.js';
import { apiKeyCalls, apiKeys, apiKeyScopeUse } from '../../../src/accounts/api-keys/table.js';
import { databaseError, makeFaulty } from '../../support/faulty-database.js';
import { createKey, createOrganization, type TestKey } from '../../support/fixtures.js';
import { TestClock } from '../../support/service.js';
import { createTenant, sendUsage, usageEvent } from '../../metering/support/usage.js';
import { useService } from '../../support/use.js';

const { database, service } = useService();

const MINUTE = 60_000;
const log = pino({ level: 'silent' });

async function usedOf({ orgId, id }: { orgId: string; id: string }) {
  const { orm } = database.db;
  const [key] = await orm.select().from(apiKeys).where(eq(apiKeys.id, id));
  const calls = await orm
    .select()
    .from(apiKeyCalls)
    .where(and(eq(apiKeyCalls.orgId, orgId), eq(apiKeyCalls.apiKeyId, id)))
    .orderBy(asc(apiKeyCalls.minute));
  const scopes = await orm
    .select()
    .from(apiKeyScopeUse)
    .where(and(eq(apiKeyScopeUse.orgId, orgId), eq(apiKeyScopeUse.apiKeyId, id)))
    .orderBy(asc(apiKeyScopeUse.scope));
  return {
    lastUsedAt: key!.lastUsedAt?.getTime() ?? null,
    minutes: calls.map((row) => [row.minute.getTime(), row.calls]),
    scopes: scopes.map((row) => [row.scope, row.calls, row.lastUsedAt.getTime()]),
  };
}

const newKey = async () => createKey(database.db, (await createOrganization(database.db)).id);
const floor = (ms: number) => ms - (ms % MINUTE);

function newUse(db = database.db, options = {}) {
  const clock = new TestClock();
  clock.set('2031-05-05T10:00:30Z');
  return { clock, use: createKeyUse({ db, clock, log }, options) };
}

describe('calls of a key', () => {
  it('are summed by minute and scope, across instances', async () => {
    const key = await newKey();
    const hashed = hashSecret(key.secret);
    const [one, two] = [newUse(), newUse()];
    const start = one.clock.now();
    for (const { use, clock } of [one, two]) {
      use.touch(hashed, 'usage:write');
      use.touch(hashed, null);
      clock.advance(40_000);
      use.touch(hashed, 'usage:write');
      use.touch(hashed, 'entitlements:read');
    }
    await Promise.all([one.use.flush(), two.use.flush()]);
    await one.use.flush();
    expect(await usedOf(key)).toEqual({
      lastUsedAt: start + 40_000,
      minutes: [
        [floor(start), 4],
        [floor(start) + MINUTE, 4],
      ],
      scopes: [
        ['entitlements:read', 2, start + 40_000],
        ['usage:write', 4, start + 40_000],
      ],
    });
  });

  it('count if the key was accepted, whatever the outcome', async () => {
    const { organization, product, key } = await createTenant(database.db);
    const url = service.url;
    const headers = { authorization: `Bearer ${key.secret}` };
    const post = (path: string, body: string) =>
      fetch(url + path, {
        method: 'POST',
        headers: { ...headers, 'content-type': 'application/json' },
        body,
      }).then(async (response) => [response.status, await response.text()] as const);
    expect((await sendUsage(url, key.secret, [usageEvent(product.slug, 'a')])).status).toBe(202);
    expect((await sendUsage(url, key.secret, [usageEvent(product.slug, 'b')], { dryRun: true })).status).toBe(
      202,
    );
    expect((await sendUsage(url, key.secret, [usageEvent('unknown', 'c')])).status).toBe(403);
    expect((await post('/api/usage/events', 'no JSON'))[0]).toBe(400);
    expect((await fetch(`${url}/api/entitlements`, { headers })).status).toBe(200);
    expect((await fetch(`${url}/api/entitlements?limit=x`, { headers })).status).toBe(400);
    expect((await fetch(`${url}/api/entitlements/unknown`, { headers })).status).toBe(404);
    expect((await post('/api/entitlements/check', '{"productSlugs":["x"]}'))[0]).toBe(200);
    expect((await post('/api/entitlements/check', '{}'))[0]).toBe(400);
    expect((await fetch(`${url}/api/key`, { headers })).status).toBe(200);
    await service.services.keyUse.flush();
    const now = service.clock.now();
    expect(await usedOf({ orgId: organization.id, id: key.id })).toEqual({
      lastUsedAt: now,
      minutes: [[floor(now), 10]],
      scopes: [
        ['entitlements:read', 5, now],
        ['usage:write', 4, now],
      ],
    });
  });

  it('do not count if the key was refused for the call', async () => {
    const { organization, product } = await createTenant(database.db);
    const revoked = await createKey(database.db, organization.id, { revokedAt: new Date('2021-01-01') });
    const narrow = await createKey(database.db, organization.id, { scopes: ['usage:read'] });
    for (const { secret } of [revoked, narrow]) {
      const headers = { authorization: `Bearer ${secret}` };
      expect([401, 403]).toContain(
        (await sendUsage(service.url, secret, [usageEvent(product.slug, 'a')])).status,
      );
      expect([401, 403]).toContain((await fetch(`${service.url}/api/entitlements`, { headers })).status);
    }
    await service.services.keyUse.flush();
    for (const key of [revoked, narrow])
      expect(await usedOf(key)).toMatchObject({
        lastUsedAt: null,
        minutes: [[expect.any(Number), 0]],
        scopes: [],
      });
  });

  it('are dropped if the key does not exist, and block no others', async () => {
    const key = await newKey();
    const { use } = newUse();
    use.touch(hashSecret('org_live_unknown'), 'usage:write');
    use.touch(hashSecret(key.secret), 'usage:write');
    await use.flush();
    expect((await usedOf(key)).minutes).toMatchObject([[expect.any(Number), 1]]);
  });

  it('never move the last use backwards', async () => {
    const key = await newKey();
    const { use, clock } = newUse();
    const hashed = hashSecret(key.secret);
    use.touch(hashed, 'usage:write');
    const latest = clock.now();
    await use.flush();
    clock.advance(-5 * MINUTE);
    use.touch(hashed, 'usage:write');
    await use.flush();
    expect(await usedOf(key)).toMatchObject({ lastUsedAt: latest, scopes: [['usage:write', 2, latest]] });
  });

  it('count under one minute each, even if the clock goes back in between', async () => {
    const key = await newKey();
    const { use, clock } = newUse();
    const hashed = hashSecret(key.secret);
    const start = floor(clock.now());
    for (const step of [0, MINUTE, -MINUTE]) {
      clock.advance(step);
      use.touch(hashed, null);
    }
    await use.flush();
    expect((await usedOf(key)).minutes).toEqual([
      [start, 2],
      [start + MINUTE, 1],
    ]);
  });
});

describe('a failed write', () => {
  const record = 'api_keys_record_use';

  it('loses nothing and counts nothing twice, including calls made meanwhile', async () => {
    const key = await newKey();
    const hashed = hashSecret(key.secret);
    const faulty = makeFaulty(database.db);
    const { use, clock } = newUse(faulty.db);
    const start = clock.now();
    let failures = 0;
    faulty.before = ({ name }) => {
      if (name === record && failures++ < 3) throw databaseError('57P01');
    };
    for (let i = 0; i < 4; i++) {
      use.touch(hashed, 'usage:write');
      await use.flush();
    }
    expect(failures).toBeGreaterThan(3);
    expect(await usedOf(key)).toEqual({
      lastUsedAt: start,
      minutes: [[floor(start), 4]],
      scopes: [['usage:write', 4, start]],
    });
  });

  it('after its commit is not counted again when it is repeated', async () => {
    const key = await newKey();
    const hashed = hashSecret(key.secret);
    const faulty = makeFaulty(database.db);
    const { use, clock } = newUse(faulty.db);
    let failures = 0;
    faulty.after = ({ name }) => {
      if (name === record && failures++ < 2) throw databaseError('08006', 'connection terminated');
    };
    for (let i = 0; i < 4; i++) {
      use.touch(hashed, 'usage:write');
      await use.flush();
    }
    expect(await usedOf(key)).toMatchObject({
      minutes: [[floor(clock.now()), 4]],
      scopes: [['usage:write', 4, clock.now()]],
    });
  });

  it('keeps memory bounded by merging minutes, and the sum stays right', async () => {
    const key = await newKey();
    const other = await newKey();
    const faulty = makeFaulty(database.db);
    const { use, clock } = newUse(faulty.db, { maxCells: 5 });
    faulty.before = () => {
      throw databaseError('57014');
    };
    for (let i = 0; i < 20; i++) {
      use.touch(hashSecret(key.secret), 'usage:write');
      clock.advance(MINUTE);
    }
    use.touch(hashSecret(other.secret), 'usage:write');
    await use.flush();
    faulty.before = () => undefined;
    await use.flush();
    const { minutes } = await usedOf(key);
    expect(minutes).toHaveLength(5);
    expect(minutes.reduce((sum, [, calls]) => sum + calls!, 0)).toBe(20);
    expect((await usedOf(other)).minutes).toEqual([]);
  });

  it('of more keys than fit into one statement resumes where it stopped', async () => {
    const { shards } = database.db;
    const nowhere = await shards.locate(hashSecret('unknown'));
    const keys: TestKey[] = [];
    // Uses keys in the shard group that also handles unknown keys, because each group is written separately.
    while (keys.length === 0) {
      const organization = await createOrganization(database.db);
      const key = await createKey(database.db, organization.id);
      if ((await shards.locate(hashSecret(key.secret))) !== nowhere) continue;
      keys.push(
        key,
        await createKey(database.db, organization.id),
        await createKey(database.db, organization.id),
      );
    }
    const faulty = makeFaulty(database.db);
    const { use } = newUse(faulty.db);
    for (const [i, key] of keys.entries()) {
      use.touch(hashSecret(key.secret), null);
      for (let n = 0; n < 499; n++) use.touch(hashSecret(`unknown ${i} ${n}`), null);
    }
    let runs = 0;
    faulty.before = () => {
      if (++runs === 2) throw databaseError('57P01');
    };
    await use.flush();
    await use.flush();
    expect(runs).toBe(4);
    for (const key of keys) expect((await usedOf(key)).minutes).toMatchObject([[expect.any(Number), 1]]);
  });
});

it('refused calls are summed by reason and do not count as use of the key', async () => {
  const key = await newKey();
  const hashed = hashSecret(key.secret);
  const [one, two] = [newUse(), newUse()];
  for (const { use } of [one, two]) {
    use.refuse(hashed, 'ended');
    use.refuse(hashed, 'limited');
    use.refuse(hashed, 'limited');
    use.refuse(hashSecret('of no key'), 'ended');
    await use.flush();
  }
  const rows = await database.db.orm.select().from(apiKeyCalls).where(eq(apiKeyCalls.apiKeyId, key.id));
  expect(rows).toMatchObject([{ calls: 0, ended: 2, unscoped: 0, limited: 4 }]);
  expect((await usedOf(key)).lastUsedAt).toBeNull();
});

it('only calls older than eight days are deleted', async () => {
  const key = await newKey();
  const clock = new TestClock();
  const { orm } = database.db;
  const minute = (ago: number) => new Date(floor(clock.now() - ago));
  const days = (count: number) => count * 24 * 60 * MINUTE;
  const rows = [days(9), days(8) + 2 * MINUTE, days(8) - 2 * MINUTE, 0].map((ago) => ({
    orgId: key.orgId,
    apiKeyId: key.id,
    minute: minute(ago),
    calls: 1,
  }));
  await orm.insert(apiKeyCalls).values(rows);
  await deleteOldKeyCalls({ orm }, clock);
  await deleteOldKeyCalls({ orm }, clock);
  expect((await usedOf(key)).minutes).toEqual(rows.slice(2).map((row) => [row.minute.getTime(), 1]));
});
