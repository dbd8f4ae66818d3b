import { eq } from 'drizzle-orm';
import { describe, expect, it } from 'vitest';
import { roles, users } from '../../../../src/accounts/organizations/table.js';
import { addMember, Browser, createUser, signedIn } from '../../../support/accounts.js';
import { createOrganization } from '../../../support/fixtures.js';
import { ACCOUNT, follow, html, logOf, open, post } from './account.js';
import { useService } from '../../../support/use.js';

const { database, service } = useService();

const pages = ['', '/password', '/second-factor', '/sessions'];

async function nameOf(id: string) {
  const [user] = await database.db.orm.select().from(users).where(eq(users.id, id));
  return user!.name;
}

describe('account pages', () => {
  it.each(roles)('are open to the role %s', async (role) => {
    const { browser, user } = await signedIn(database.db, service.url, role);
    for (const path of pages) expect((await open(browser, path)).status, path).toBe(200);
    expect((await open(browser, '')).text).toContain(user.email);
  });

  it('are open to people without an Organization', async () => {
    const user = await createUser(database.db);
    const browser = new Browser(service.url);
    await browser.signIn(user.email);
    for (const path of pages) expect((await open(browser, path)).status, path).toBe(200);
    expect((await open(browser, '')).text).toContain('You are not a member of an Organization yet');
    expect((await post(browser, '', { name: 'Without' })).status).toBe(303);
    expect(await nameOf(user.id)).toBe('Without');
    // For a signed-in person, the sign-in page redirects to `next` if they may open it; otherwise, it links to their
    // account.
    expect((await browser.get(`/login?next=${ACCOUNT}`, html)).headers.get('location')).toBe(ACCOUNT);
    expect((await browser.get('/login', html)).text).toContain(`href="${ACCOUNT}"`);
  });

  it('lead to the profile if the service offers no single sign-on', async () => {
    const { browser } = await signedIn(database.db, service.url);
    expect((await open(browser, '/single-sign-on')).headers.get('location')).toBe(ACCOUNT);
  });

  it('redirect through the sign-in and back', async () => {
    for (const path of pages) {
      const answer = await open(new Browser(service.url), path);
      expect(answer.headers.get('location')).toBe(`/login?next=${encodeURIComponent(ACCOUNT + path)}`);
    }
  });

  it('list the person’s Organizations with their roles and switch between them', async () => {
    const { browser, user, organization } = await signedIn(database.db, service.url, 'admin');
    const other = await createOrganization(database.db, { name: 'Other <b>Works</b>' });
    await addMember(database.db, other.id, user.id, 'billing', new Date('2021-01-01T00:00:00Z'));
    const { text } = await open(browser, '');
    expect(text).toContain(organization.name);
    expect(text).toContain('Other &lt;b&gt;Works&lt;/b&gt;');
    expect(text).toMatch(/billing/);
    expect(text).toContain(`name="organization" value="${other.slug}"`);
  });
});

describe('the name', () => {
  it('is changed, shown at once and logged with the old name', async () => {
    const { browser, user } = await signedIn(database.db, service.url);
    const answer = await post(browser, '', { name: '  Ada Lovelace ' });
    expect(answer.status).toBe(303);
    const page = await follow(browser, answer);
    expect(page.text).toContain('Your name is saved');
    expect(page.text).toContain('value="Ada Lovelace"');
    expect((await browser.get('/dashboard/session')).body.user.name).toBe('Ada Lovelace');
    const [entry] = await logOf(database, user.email);
    expect(entry).toMatchObject({
      action: 'user.changed',
      actor: user.id,
      details: { before: { name: user.name }, after: { name: 'Ada Lovelace' } },
      ip: expect.any(String),
      requestId: expect.any(String),
    });
  });

  it('is neither changed nor logged if it is the same', async () => {
    const { browser, user } = await signedIn(database.db, service.url);
    const answer = await post(browser, '', { name: user.name });
    expect((await follow(browser, answer)).text).toContain('That is already your name');
    expect(await logOf(database, user.email)).toEqual([]);
  });

  it.each(['<script>alert(1)</script>', '\u202eevil', '👩🏽‍🚀', 'x'.repeat(100), '"><img src=x>', '=1+1'])(
    'is shown as text: %s',
    async (name) => {
      const { browser, user } = await signedIn(database.db, service.url);
      const page = await follow(browser, await post(browser, '', { name }));
      expect(await nameOf(user.id)).toBe(name);
      expect(page.text).not.toContain('<script>alert');
      expect(page.text).not.toContain('<img');
    },
  );

  it.each([
    ['empty', ''],
    ['blank', '   '],
    ['too long', 'x'.repeat(101)],
    ['with a NUL', 'a\0b'],
    ['of two lines', 'a\nb'],
  ])('is rejected next to the field if it is %s, and the typed value stays', async (_name, name) => {
    const { browser, user } = await signedIn(database.db, service.url);
    const answer = await post(browser, '', { name });
    expect(answer.status).toBe(400);
    expect(answer.text).toContain('id="field-name-error"');
    if (name.length > 100) expect(answer.text).toContain(`value="${name}"`);
    expect(await nameOf(user.id)).toBe(user.name);
  });

  it('is the only field accepted', async () => {
    const { browser, user } = await signedIn(database.db, service.url);
    expect((await post(browser, '', { name: 'x', email: 'other@example.com' })).status).toBe(400);
    expect(await nameOf(user.id)).toBe(user.name);
  });
});
