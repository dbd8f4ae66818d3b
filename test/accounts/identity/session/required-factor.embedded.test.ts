import { describe, expect, it } from 'vitest';
import { eq } from 'drizzle-orm';
import { change } from '../../../../src/accounts/audit/audit.js';
import { organizations } from '../../../../src/accounts/organizations/table.js';
import { operatorClient } from '../../../support/operator.js';
import { addMember, Browser, createUser, sessionIdOf, signedIn } from '../../../support/accounts.js';
import { createOrganization } from '../../../support/fixtures.js';
import { givePasskey } from '../../../support/passkey.js';
import { giveSecondFactor } from '../../../support/second-factor.js';
import { memberAuthority } from '../../../../src/accounts/identity/session/authority.js';
import { useService } from '../../../support/use.js';

const html = { accept: 'text/html', 'sec-fetch-mode': 'navigate' };

const { database, service } = useService();

const call = operatorClient(() => service);
const setUp = '/dashboard/account/second-factor?done=required';

it('an Organization that requires a second factor hides everything from members without one and rejects their changes', async () => {
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
  // Renaming the Organization does not reset the requirement.
  expect((await put({})).body).toMatchObject({ requireSecondFactor: true });
  await giveSecondFactor(database.db, user.id, service.clock);
  expect((await browser.send('POST', '/dashboard/api-keys', { json: key })).status).toBe(201);
  const log = await browser.get('/dashboard/audit-log', html);
  expect(log.text).toContain('Required a second factor for every member');
  expect((await put({ requireSecondFactor: false })).body).toMatchObject({ requireSecondFactor: false });
});

it('a person can still switch to another Organization that requires none', async () => {
  const { browser, organization, user } = await signedIn(database.db, service.url);
  const other = await createOrganization(database.db);
  await addMember(database.db, other.id, user.id, 'owner');
  await require(organization.id);
  expect((await browser.get('/dashboard/session')).status).toBe(200);
  const form = { organization: other.slug };
  expect((await browser.send('POST', '/dashboard/organization', { form })).status).toBe(303);
  expect((await browser.get('/dashboard/api-keys', html)).status).toBe(200);
});

it('the transaction of a change checks the requirement again', async () => {
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

describe('the members page', () => {
  const path = '/dashboard/members/second-factor';
  const send = (browser: Browser, required?: string) =>
    browser.send('POST', path, { form: required === undefined ? {} : { required }, headers: html });

  it('lets an owner require a second factor and lists who will need one', async () => {
    const { browser, organization, user } = await signedIn(database.db, service.url);
    const other = await createUser(database.db);
    await addMember(database.db, organization.id, other.id, 'member');
    expect((await browser.get(path, html)).text).toContain('Set up yours first');
    const refused = await send(browser, 'yes');
    expect([refused.status, refused.text]).toEqual([
      400,
      expect.stringContaining('Set up your own second factor first.'),
    ]);
    await giveSecondFactor(database.db, user.id, service.clock);
    const withPasskey = await createUser(database.db);
    await addMember(database.db, organization.id, withPasskey.id, 'member');
    await givePasskey(database.db, withPasskey.id, service.url);
    expect((await browser.get(path, html)).text.replace(/\s+/g, ' ')).toContain(
      '1 of 3 members has no second factor.',
    );
    for (const wrong of [undefined, '', 'perhaps']) expect((await send(browser, wrong)).status).toBe(400);
    const sent = await send(browser, 'yes');
    expect([sent.status, sent.headers.get('location')]).toEqual([
      303,
      '/dashboard/members?done=factor-required',
    ]);
    const theirs = new Browser(service.url);
    await theirs.signIn(other.email);
    expect((await theirs.get('/dashboard', html)).headers.get('location')).toBe(setUp);
    // Repeating the same change writes and logs nothing.
    expect((await send(browser, 'yes')).status).toBe(303);
    expect((await browser.get('/dashboard/members', html)).text).toContain('>Required</span>');
    const log = await browser.get('/dashboard/audit-log', html);
    expect(log.text.match(/Required a second factor for every member/g)).toHaveLength(1);
    expect((await send(browser, 'no')).headers.get('location')).toBe(
      '/dashboard/members?done=factor-optional',
    );
    expect((await theirs.get('/dashboard', html)).status).toBe(200);
  });

  it('rejects everyone else and any other Organization', async () => {
    const { organization } = await signedIn(database.db, service.url);
    for (const role of ['admin', 'member', 'billing'] as const) {
      const user = await createUser(database.db);
      await addMember(database.db, organization.id, user.id, role);
      const browser = new Browser(service.url);
      await browser.signIn(user.email);
      expect((await browser.get('/dashboard/members', html)).text).not.toContain(path);
      expect([(await browser.get(path, html)).status, (await send(browser, 'yes')).status]).toEqual([
        403, 403,
      ]);
    }
    expect((await send(new Browser(service.url), 'yes')).status).toBe(401);
    const [row] = await database.db.orm
      .select()
      .from(organizations)
      .where(eq(organizations.id, organization.id));
    expect(row!.requireSecondFactor).toBe(false);
  });
});

const require = (orgId: string) =>
  database.db.orm.update(organizations).set({ requireSecondFactor: true }).where(eq(organizations.id, orgId));
