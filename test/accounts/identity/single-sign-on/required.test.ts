import { beforeEach, describe, expect, it } from 'vitest';
import { eq } from 'drizzle-orm';
import { v7 as uuid } from 'uuid';
import { organizations } from '../../../../src/accounts/organizations/table.js';
import { addMember, Browser, createUser, signedIn } from '../../../support/accounts.js';
import { createOrganization } from '../../../support/fixtures.js';
import { TestIssuer } from '../../../support/issuer.js';
import { operatorClient } from '../../../support/operator.js';
import { forgetConfirmation } from '../../../support/operators.js';
import { use, useService } from '../../../support/use.js';
import type { Role } from '../../../../src/accounts/organizations/table.js';

const html = { accept: 'text/html', 'sec-fetch-mode': 'navigate' };
const ACCOUNT = '/dashboard/account/single-sign-on';

const issuer = use(
  () => new TestIssuer().start(),
  (started) => started.stop(),
);
const { database, service, startAnother } = useService(() => ({
  env: issuer.env({ OIDC_OWNERS_WHEN_DOWN: 'on' }),
}));
const call = operatorClient(() => service);

beforeEach(() => {
  Object.assign(issuer, { claims: {}, broken: undefined });
  service.clock.advance(61_000);
});

/** Creates a person with a password session in an Organization that requires single sign-on. */
async function member(role: Role = 'owner') {
  const made = await signedIn(database.db, service.url, role);
  await database.db.orm
    .update(organizations)
    .set({ requireSingleSignOn: true })
    .where(eq(organizations.id, made.organization.id));
  issuer.claims = { sub: uuid(), email: made.user.email, email_verified: true };
  return made;
}

const key = { name: 'x', livemode: true };
const createKey = async (browser: Browser) =>
  (await browser.send('POST', '/dashboard/api-keys', { json: key })).status;
const openPage = async (browser: Browser, path = '/dashboard/api-keys') =>
  (await browser.get(path, html)).status;
const waive = (browser: Browser) =>
  browser.send('POST', `${ACCOUNT}/waiver`, { form: { next: '/dashboard/members' }, headers: html });

it('hides everything from password sessions, and continues the session after single sign-on', async () => {
  const { browser, organization } = await member();
  for (const path of ['/dashboard', '/dashboard/api-keys', '/dashboard/members', '/dashboard/audit-log'])
    expect((await browser.get(path, html)).headers.get('location'), path).toBe(
      `${ACCOUNT}?next=${encodeURIComponent(path)}`,
    );
  expect(await createKey(browser)).toBe(403);
  const page = await browser.get(`${ACCOUNT}?next=/dashboard/members`, html);
  expect(page.text).toContain('requires single sign-on');
  expect(page.text).toContain('href="/login/single-sign-on?next=%2Fdashboard%2Fmembers"');
  const signedIn = await issuer.signIn(browser, '/dashboard/members');
  expect(signedIn.headers.get('location')).toBe('/dashboard/members');
  expect([await openPage(browser), await createKey(browser)]).toEqual([200, 201]);
  // After the next password sign-in, single sign-on is required again.
  const again = new Browser(service.url);
  await again.signIn(issuer.claims.email as string);
  expect(await openPage(again)).toBe(303);
  expect(organization.slug).not.toBe('');
});

it('leaves other Organizations of the person open', async () => {
  const { browser, user } = await member();
  const other = await createOrganization(database.db);
  await addMember(database.db, other.id, user.id, 'owner');
  await browser.send('POST', '/dashboard/organization', { form: { organization: other.slug } });
  expect(await openPage(browser)).toBe(200);
});

describe('while the issuer is down', () => {
  it('owners continue for an hour, if the operator allows it, and the audit log says so', async () => {
    const { browser } = await member();
    issuer.broken = { path: '/openid-configuration', status: 502 };
    const waived = await waive(browser);
    expect([waived.status, waived.headers.get('location')]).toEqual([303, '/dashboard/members']);
    expect([await openPage(browser), await createKey(browser)]).toEqual([200, 201]);
    expect((await browser.get('/dashboard/audit-log', html)).text).toContain(
      'Signed in without single sign-on for an hour',
    );
    service.clock.advance(60 * 60_000);
    expect([await openPage(browser), await createKey(browser)]).toEqual([303, 403]);
  });

  it('an owner without a recent proof gives it first', async () => {
    const { browser } = await member();
    await forgetConfirmation(service, browser);
    issuer.broken = { path: '/openid-configuration', status: 502 };
    expect((await waive(browser)).headers.get('location')).toMatch(/^\/confirm/);
    expect(await openPage(browser)).toBe(303);
  });

  it('nobody continues while the issuer responds', async () => {
    const { browser } = await member();
    const refused = await waive(browser);
    expect([refused.status, refused.text]).toEqual([400, expect.stringContaining('Test Login responds')]);
    expect(await openPage(browser)).toBe(303);
  });

  it('admins and members never continue, nor does anybody where the operator does not allow it', async () => {
    const other = await startAnother({ env: issuer.env() });
    for (const role of ['owner', 'admin', 'member', 'billing'] as const) {
      const { browser } = await member(role);
      issuer.broken = { path: '/openid-configuration', status: 502 };
      const here = role === 'owner' ? browser.copy(other.url) : browser;
      expect((await here.get(ACCOUNT, html)).text).not.toContain('/waiver');
      expect((await waive(here)).status).toBe(403);
      expect(await openPage(browser)).toBe(303);
      issuer.broken = undefined;
    }
    expect((await waive(new Browser(service.url))).status).toBe(401);
  });

  it('a waiver opens no Organization in which the person is not an owner', async () => {
    const { browser, user } = await member();
    const { organization } = await member();
    await addMember(database.db, organization.id, user.id, 'admin');
    issuer.broken = { path: '/openid-configuration', status: 502 };
    await waive(browser);
    expect(await openPage(browser)).toBe(200);
    await browser.send('POST', '/dashboard/organization', { form: { organization: organization.slug } });
    expect([await openPage(browser), await createKey(browser)]).toEqual([303, 403]);
  });
});

describe('the setting', () => {
  const path = '/dashboard/members/single-sign-on';
  const send = (browser: Browser, required: string) =>
    browser.send('POST', path, { form: { required }, headers: html });

  it('can be changed by an owner who has signed in that way', async () => {
    const { browser, user } = await signedIn(database.db, service.url);
    expect((await browser.get(path, html)).text).toContain('First sign in with Test Login');
    const refused = await send(browser, 'yes');
    expect([refused.status, refused.text]).toEqual([
      400,
      expect.stringContaining('Sign in with single sign-on first.'),
    ]);
    issuer.claims = { sub: uuid(), email: user.email, email_verified: true };
    await issuer.signIn(browser);
    expect((await send(browser, 'perhaps')).status).toBe(400);
    expect((await send(browser, 'yes')).headers.get('location')).toBe('/dashboard/members?done=sso-required');
    expect((await browser.get('/dashboard/audit-log', html)).text).toContain(
      'Required single sign-on for every member',
    );
    expect((await send(browser, 'no')).headers.get('location')).toBe('/dashboard/members?done=sso-optional');
  });

  it('can be changed by the operator, unless the service has no single sign-on', async () => {
    const { slug, name } = await createOrganization(database.db);
    const body = { name, requireSingleSignOn: true };
    const set = await call('PUT', `/organizations/${slug}`, body);
    expect(set.body).toMatchObject({ requireSingleSignOn: true });
    expect((await call('PUT', `/organizations/${slug}`, { name })).body).toMatchObject(body);
    const other = await startAnother();
    const refused = await operatorClient(() => other)('PUT', `/organizations/${slug}`, body);
    expect([refused.status, refused.body]).toMatchObject([
      400,
      { errors: [{ pointer: '/requireSingleSignOn' }] },
    ]);
  });

  it('hides the Organization if the service no longer has single sign-on, until the operator lifts the requirement', async () => {
    const { browser, organization } = await member();
    const other = await startAnother();
    const there = browser.copy(other.url);
    expect((await there.get(ACCOUNT, html)).text).toContain('no longer offers it');
    const { slug, name } = organization;
    const call = operatorClient(() => other);
    await call('PUT', `/organizations/${slug}`, { name, requireSingleSignOn: false });
    expect(await openPage(there)).toBe(200);
  });
});

it('new members find the requirement after they sign in', async () => {
  const { organization } = await member();
  const user = await createUser(database.db);
  await addMember(database.db, organization.id, user.id, 'member');
  const browser = new Browser(service.url);
  await browser.signIn(user.email);
  expect(await openPage(browser)).toBe(303);
});
