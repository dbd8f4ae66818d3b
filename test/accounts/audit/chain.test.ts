import fc from 'fast-check';
import { sql } from 'drizzle-orm';
import { describe, expect, it } from 'vitest';
import { recordAudit } from '../../../src/accounts/audit/audit.js';
import { canonicalJson, genesisHash, hashRow } from '../../../src/accounts/audit/chain.js';
import { exampleWorld } from '../../../src/accounts/reference/example-world.js';
import { auditLog } from '../../../src/accounts/audit/table.js';
import { addMember, createUser, signedIn } from '../../support/accounts.js';
import { inChange } from '../../support/change.js';
import { isCitus, itOnPostgres } from '../../support/database.js';
import { createOrganization } from '../../support/fixtures.js';
import { createTenant, sendUsage, usageEvent } from '../../metering/support/usage.js';
import { operatorClient, unique, uniqueEmail } from '../../support/operator.js';
import { at, verify, writeRows } from './support.js';
import { useService } from '../../support/use.js';
import { auditOf } from '../../support/audit.js';

const { database, service } = useService({ env: { LIMIT_KEY_CHANGES_PER_HOUR: '1000' } });

const call = operatorClient(() => service);
/** Asserts that rows are numbered without gaps and that each hash matches its row. */
async function expectChain(orgId: string, length: number): Promise<void> {
  const rows = await auditOf(database.db, orgId);
  expect(rows.map(({ seq }) => seq)).toEqual(Array.from({ length }, (_, i) => i + 1));
  let hash = genesisHash(orgId);
  for (const row of rows) {
    hash = hashRow(hash, { ...row, seq: row.seq!, at: row.at.toISOString() });
    expect(row.hash).toBe(hash);
  }
  expect(await verify(database.db, orgId)).toMatchObject({
    seq: length,
    hash,
    problems: [],
    unchained: 0,
  });
}

describe('the audit chain', () => {
  it('includes keys created, rotated and revoked in the dashboard', async () => {
    const { organization, browser } = await signedIn(database.db, service.url);
    const json = { name: 'Läufer 🏃 <b>', livemode: true, expiresAt: '2099-01-01T00:00:00.5+01:00' };
    const { body } = await browser.send('POST', '/dashboard/api-keys', { json });
    const path = `/dashboard/api-keys/${body.apiKey.id}`;
    expect((await browser.send('POST', `${path}/rotate`, { json: { graceMinutes: 5 } })).status).toBe(201);
    expect((await browser.send('DELETE', path)).status).toBe(200);
    expect((await browser.send('DELETE', path)).status).toBe(200);
    await expectChain(organization.id, 3);
  });

  it('includes everything the operator declares, across several Organizations', async () => {
    const slugs = [unique('org'), unique('org'), unique('org')];
    const email = uniqueEmail();
    const product = unique('product');
    await call('PUT', `/users/${email}`, { name: 'Z', password: 'a long enough password' });
    await call('PUT', `/products/${product}`, { name: 'P', usageMetric: 'calls', unitCap: null });
    for (const slug of slugs) {
      for (const [path, body] of [
        ['', { name: 'A' }],
        ['', { name: 'B' }],
        [`/members/${email}`, { role: 'member' }],
        [`/members/${email}`, { role: 'admin' }],
        [`/entitlements/${product}`, { kind: 'live' }],
        [`/entitlements/${product}`, { kind: 'read_only', endsAt: '2099-01-01T00:00:00Z' }],
      ] as const)
        expect((await call('PUT', `/organizations/${slug}${path}`, body)).status).toBeLessThan(300);
      await call('DELETE', `/organizations/${slug}/entitlements/${product}`);
    }
    expect((await call('DELETE', `/users/${email}`)).status).toBe(204);
    const { rows } = (await database.db.orm.execute(
      sql`select id from organizations where slug in (${sql.join(slugs, sql`, `)})`,
    )) as { rows: { id: string }[] };
    expect(rows).toHaveLength(3);
    for (const { id } of rows) await expectChain(id, 8);
  });

  it('has no gap after 50 concurrent changes', async () => {
    const { organization, browser } = await signedIn(database.db, service.url);
    const { slug } = organization;
    const changes = Array.from({ length: 50 }, (_, i) =>
      i % 2 === 0
        ? browser.send('POST', '/dashboard/api-keys', { json: { name: `key ${i}`, livemode: true } })
        : call('PUT', `/organizations/${slug}`, { name: `Name ${i}` }),
    );
    const statuses = (await Promise.all(changes)).map(({ status }) => status);
    expect(statuses.filter((status) => status === 201)).toHaveLength(25);
    expect(statuses.filter((status) => status === 200)).toHaveLength(25);
    await expectChain(organization.id, 50);
  });

  it('does not deadlock when users of many Organizations are removed concurrently', async () => {
    const ids = await Promise.all(
      Array.from({ length: 4 }, async () => (await createOrganization(database.db)).id),
    );
    const emails = await Promise.all(
      Array.from({ length: 8 }, async (_, i) => {
        const user = await createUser(database.db);
        const own = i % 2 === 0 ? ids : ids.toReversed();
        for (const id of own) await addMember(database.db, id, user.id, 'member');
        return user.email;
      }),
    );
    const answers = await Promise.all(emails.map((email) => call('DELETE', `/users/${email}`)));
    expect(answers.map(({ status }) => status)).toEqual(Array(8).fill(204));
    for (const id of ids) await expectChain(id, 8);
  });

  it('has neither a row nor a gap for a change that was rolled back', async () => {
    const { id } = await createOrganization(database.db);
    await writeRows(database.db, id, 1);
    const failing = inChange(database.db, async (tx) => {
      await recordAudit(tx, id, { at, action: 'test.failed', actor: 'system', target: 'x' });
      throw new Error('no');
    });
    await expect(failing).rejects.toThrow('no');
    await writeRows(database.db, id, 1);
    await expectChain(id, 2);
  });

  itOnPostgres('does not delay usage events', async () => {
    const { organization, key, product } = await createTenant(database.db);
    await inChange(database.db, async (tx) => {
      await recordAudit(tx, organization.id, { at, action: 'test.held', actor: 'system', target: 'x' });
      const events = [usageEvent(product.slug, 'while the chain is held')];
      expect((await sendUsage(service.url, key.secret, events)).status).toBe(202);
    });
  });
});

describe('audit row ids', () => {
  it('sort by time, and within a millisecond by chain position', async () => {
    const { id } = await createOrganization(database.db);
    await writeRows(database.db, id, 300);
    await writeRows(database.db, id, 1, { at: new Date(at.getTime() - 1), target: 'earlier' });
    const rows = await database.db.orm
      .select()
      .from(auditLog)
      .where(sql`org_id = ${id}`)
      .orderBy(auditLog.id);
    expect(rows.map(({ seq }) => seq)).toEqual([301, ...Array.from({ length: 300 }, (_, i) => i + 1)]);
    expect(await verify(database.db, id)).toMatchObject({ seq: 301, problems: [] });
  });
});

describe('the hash covers exactly the stored row', () => {
  // Postgres stores neither NUL nor unpaired surrogates; request fields reject both.
  const text = fc
    .string({ unit: 'binary', maxLength: 20 })
    .map((value) => value.replaceAll(/[\0\p{Cs}]/gu, ''));
  const value = fc.letrec((tie) => ({
    any: fc.oneof(
      { depthSize: 'small' },
      text,
      fc.double(),
      fc.integer(),
      fc.boolean(),
      fc.constant(null),
      fc.constant(undefined),
      fc.date({ noInvalidDate: false }),
      fc.array(tie('any'), { maxLength: 4 }),
      fc.dictionary(text, tie('any'), { maxKeys: 4 }),
    ),
  })).any;
  const entry = fc.record({
    at: fc.date({ min: new Date('1970-01-01'), max: new Date('9999-01-01'), noInvalidDate: true }),
    action: text,
    actor: text,
    target: text,
    details: fc.option(fc.dictionary(text, value, { maxKeys: 5 }), { nil: undefined }),
    ip: fc.option(text, { nil: undefined }),
    requestId: fc.option(text, { nil: undefined }),
  });

  it.skipIf(isCitus)('for any content', async () => {
    const { id } = await createOrganization(database.db);
    let length = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(entry, { minLength: 1, maxLength: 5 }), async (entries) => {
        await inChange(database.db, async (tx) => {
          for (const one of entries) await recordAudit(tx, id, one as never);
        });
        length += entries.length;
        expect(await verify(database.db, id)).toMatchObject({ seq: length, problems: [] });
      }),
      { numRuns: 25 },
    );
    await expectChain(id, length);
  });

  it('with JSON that does not depend on insertion order', () => {
    const a = { b: 1, a: { d: [1, { z: null, y: 'ü' }], c: true }, '😀': 0, ﬁ: 1e21, '': -0 };
    expect(canonicalJson(a)).toBe('{"":0,"a":{"c":true,"d":[1,{"y":"ü","z":null}]},"b":1,"😀":0,"ﬁ":1e+21}');
    expect(canonicalJson(JSON.parse('{"__proto__":{"b":1,"a":2}}'))).toBe('{"__proto__":{"a":2,"b":1}}');
  });

  it('as shown in the reference', () => {
    const { audit, organization } = exampleWorld;
    const { hash, ...entry } = audit.organization;
    const row = { orgId: organization.id, ...entry, ...audit.source };
    expect(hashRow(genesisHash(organization.id), row)).toBe(hash);
  });

  it('and starts from a hash unique to the Organization', async () => {
    const [a, b] = [await createOrganization(database.db), await createOrganization(database.db)];
    await writeRows(database.db, a.id, 1);
    await writeRows(database.db, b.id, 1);
    const [ofA, ofB] = [(await auditOf(database.db, a.id))[0]!, (await auditOf(database.db, b.id))[0]!];
    expect(ofA.hash).not.toBe(ofB.hash);
    expect(genesisHash(a.id)).not.toBe(genesisHash(b.id));
  });
});
