import { eq } from 'drizzle-orm';
import { describe, expect, it } from 'vitest';
import { memberships } from '../../../../src/accounts/organizations/table.js';
import { addMember, signedIn } from '../../../support/accounts.js';
import { createOrganization } from '../../../support/fixtures.js';
import { useService } from '../../../support/use.js';

const { database, service } = useService();

/** Creates an owner who later joined a second Organization in the billing role. */
async function inTwo() {
  const { browser, user, organization: first } = await signedIn(database.db, service.url);
  const second = await createOrganization(database.db);
  await addMember(database.db, second.id, user.id, 'billing', new Date('2021-01-01T00:00:00Z'));
  return { browser, user, first, second };
}

describe('GET /dashboard/session', () => {
  it('returns the person, their current Organization and role, and their other Organizations', async () => {
    const { browser, user, first, second } = await inTwo();
    const answer = await browser.get('/dashboard/session');
    expect(answer.status).toBe(200);
    expect(answer.headers.get('cache-control')).toBe('no-store');
    expect(answer.body).toEqual({
      user: { id: user.id, email: user.email, name: user.name },
      organization: { id: first.id, slug: first.slug, name: first.name },
      role: 'owner',
      organizations: [
        { id: first.id, slug: first.slug, name: first.name, role: 'owner' },
        { id: second.id, slug: second.slug, name: second.name, role: 'billing' },
      ].toSorted((a, b) => (a.name < b.name ? -1 : 1)),
    });
  });
});

describe('POST /dashboard/organization', () => {
  it('switches this session only', async () => {
    const { browser, user, first, second } = await inTwo();
    const answer = await browser.send('POST', '/dashboard/organization', {
      json: { organization: second.slug },
    });
    expect(answer).toMatchObject({
      status: 200,
      body: { organization: { id: second.id }, role: 'billing', user: { id: user.id } },
    });
    expect((await browser.get('/dashboard/session')).body).toEqual(answer.body);
    const again = await browser.send('POST', '/dashboard/organization', {
      json: { organization: second.slug },
    });
    expect(again.body).toEqual(answer.body);
    const elsewhere = browser.copy();
    elsewhere.cookies.clear();
    await elsewhere.signIn(user.email);
    expect((await elsewhere.get('/dashboard/session')).body.organization.id).toBe(first.id);
  });

  it('also works as a form', async () => {
    const { browser, second } = await inTwo();
    const answer = await browser.send('POST', '/dashboard/organization', {
      form: { organization: second.slug },
    });
    expect(answer.status).toBe(303);
    expect(answer.headers.get('location')).toBe('/dashboard');
    expect((await browser.get('/dashboard/session')).body.organization.id).toBe(second.id);
  });

  it('gives the same answer for an unknown Organization as for someone else’s', async () => {
    const { browser, first } = await inTwo();
    const foreign = await createOrganization(database.db);
    for (const organization of [foreign.slug, 'no-such-organization', '__proto__', '<script>', '👾']) {
      const answer = await browser.send('POST', '/dashboard/organization', { json: { organization } });
      expect(answer).toMatchObject({ status: 404, body: { code: 'not_found' } });
    }
    expect((await browser.get('/dashboard/session')).body.organization.id).toBe(first.id);
  });

  it('does not return to an Organization that the person left', async () => {
    const { browser, first, second } = await inTwo();
    await browser.send('POST', '/dashboard/organization', { json: { organization: second.slug } });
    await database.db.orm.delete(memberships).where(eq(memberships.orgId, second.id));
    expect((await browser.get('/dashboard/session')).body.organization.id).toBe(first.id);
    const back = await browser.send('POST', '/dashboard/organization', {
      json: { organization: second.slug },
    });
    expect(back.status).toBe(404);
  });

  it.each([
    {},
    { organization: 5 },
    { organization: 'a\0b' },
    { organization: '\ud800' },
    { organization: 'x'.repeat(300) },
    { organization: '' },
    { organization: 'x', role: 'owner' },
    [],
    null,
  ])('rejects %j with 400', async (json) => {
    const { browser } = await signedIn(database.db, service.url);
    const answer = await browser.send('POST', '/dashboard/organization', { json });
    expect(answer).toMatchObject({ status: 400, body: { code: 'invalid_request' } });
  });

  it('rejects a repeated form field and a body that is neither form nor JSON', async () => {
    const { browser } = await signedIn(database.db, service.url);
    const headers = { 'content-type': 'application/x-www-form-urlencoded' };
    const twice = await fetch(`${service.url}/dashboard/organization`, {
      method: 'POST',
      body: 'organization=a&organization=b',
      headers: { ...headers, cookie: [...browser.cookies].map((pair) => pair.join('=')).join('; ') },
    });
    expect(twice.status).toBe(400);
    const xml = await browser.send('POST', '/dashboard/organization', {
      form: { organization: 'a' },
      headers: { 'content-type': 'text/xml' },
    });
    expect(xml).toMatchObject({ status: 415, body: { code: 'unsupported_media_type' } });
  });
});
