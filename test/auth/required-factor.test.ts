import { afterAll, beforeAll, expect, it } from 'vitest';
import { eq } from 'drizzle-orm';
import { change } from '../../src/audit/change.js';
import { organizations } from '../../src/tables.js';
import { operatorClient } from '../operator/client.js';
import { addMember, sessionIdOf, signedIn } from '../support/accounts.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { createOrganization } from '../support/fixtures.js';
import { giveSecondFactor } from '../support/second-factor.js';
import { startTestService, type TestService } from '../support/service.js';
import { memberAuthority } from '../../src/identity/session/authority.js';

const html = { accept: 'text/html', 'sec-fetch-mode': 'navigate' };

let database: TestDatabase;
let service: TestService;
const call = operatorClient(() => service);
beforeAll(async () => {
  database = await createTestDatabase();
  service = await startTestService(database.db);
});
afterAll(async () => {
  await service.stop();
  await database.remove();
});

const setUp = '/dashboard/account/second-factor?done=required';

it('an Organization that requires a second factor shows nothing to who has none, and takes no change', async () => {
  const { browser, organization, user } = await signedIn(database.db, service.url);
  const { slug, name } = organization;
  const put = (body: object) => call('PUT', `/organizations/${slug}`, { name, ...body });
  expect((await put({ requireSecondFactor: true })).body).toMatchObject({ requireSecondFactor: true });
  for (const path of ['/dashboard', '/dashboard/api-keys', '/dashboard/members', '/dashboard/audit-log'])
    expect((await browser.get(path, html)).headers.get('location'), path).toBe(setUp);
  expect((await browser.get(setUp, html)).text).toContain('requires a second factor');
  const key = { name: 'x', livemode: true };
  const refused = await browser.send('POST', '/dashboard/api-keys', { json: key });
  expect(refused).toMatchObject({ status: 403, body: { code: 'forbidden_role' } });
  // A renaming says nothing about it.
  expect((await put({})).body).toMatchObject({ requireSecondFactor: true });
  await giveSecondFactor(database.db, user.id, service.clock);
  expect((await browser.send('POST', '/dashboard/api-keys', { json: key })).status).toBe(201);
  const log = await browser.get('/dashboard/audit-log', html);
  expect(log.text).toContain('Required a second factor of every member');
  expect((await put({ requireSecondFactor: false })).body).toMatchObject({ requireSecondFactor: false });
});

it('a person goes on to another Organization of theirs that requires none', async () => {
  const { browser, organization, user } = await signedIn(database.db, service.url);
  const other = await createOrganization(database.db);
  await addMember(database.db, other.id, user.id, 'owner');
  await require(organization.id);
  expect((await browser.get('/dashboard/session')).status).toBe(200);
  const form = { organization: other.slug };
  expect((await browser.send('POST', '/dashboard/organization', { form })).status).toBe(303);
  expect((await browser.get('/dashboard/api-keys', html)).status).toBe(200);
});

it('it is asked for again in the transaction of a change', async () => {
  const { browser, organization, user } = await signedIn(database.db, service.url);
  await require(organization.id);
  const by = memberAuthority({
    orgId: organization.id,
    userId: user.id,
    sessionId: sessionIdOf(browser),
    roles: ['owner'],
  });
  const work = () => change(service.context, by, () => Promise.resolve('done'));
  await expect(work()).rejects.toMatchObject({ code: 'forbidden_role' });
  await giveSecondFactor(database.db, user.id, service.clock);
  expect(await work()).toBe('done');
});

const require = (orgId: string) =>
  database.db.orm.update(organizations).set({ requireSecondFactor: true }).where(eq(organizations.id, orgId));
