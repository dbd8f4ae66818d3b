import { expect, it } from 'vitest';
import { and, eq } from 'drizzle-orm';
import { operatorLog } from '../../src/accounts/audit/table.js';
import { operators } from '../../src/accounts/identity/table.js';
import { memberships, organizations, users } from '../../src/accounts/organizations/table.js';
import { entitlements, products } from '../../src/metering/entitlements/table.js';
import { addMember, Browser, createUser, PASSWORD } from '../support/accounts.js';
import { createOrganization } from '../support/fixtures.js';
import { forgetConfirmation, makeOperator, signedInOperator } from '../support/operators.js';
import { authenticator } from '../support/second-factor.js';
import { openLink } from '../accounts/identity/members/support.js';
import { createSetUpLink } from '../../src/accounts/identity/operators/operators.js';
import { useService } from '../support/use.js';

// Passwords and recovery codes are hashed as in production, which is slow on a busy machine.

const { database, service } = useService();

const html = { accept: 'text/html' };
const post = (browser: Browser, path: string, form: Record<string, string>, headers = {}) =>
  browser.send('POST', path, { form, headers: { ...html, ...headers } });
const password = 'a long phrase of my own';

async function open(token: string, browser = new Browser(service.url)): Promise<Browser> {
  expect((await post(browser, '/set-up/open', { link: `${service.url}/set-up#${token}` })).status).toBe(303);
  return browser;
}

it('a first start ends with a person signed in, and an invited owner who creates a key', async () => {
  const link = (await createSetUpLink(service.context))!;
  const browser = await open(link.path.split('#')[1]!);
  expect((await browser.get('/set-up', html)).text).toContain('Step 1 of 4');
  const weak = await post(browser, '/set-up/person', {
    name: 'Ada',
    email: 'ada@example.com',
    password: 'x',
  });
  expect([weak.status, weak.text.includes('at least 12 characters')]).toEqual([400, true]);
  const made = await post(browser, '/set-up/person', { name: 'Ada', email: ' ADA@example.com', password });
  expect([made.status, made.headers.get('location')]).toEqual([303, '/set-up']);

  // Until there is a second factor, all other pages redirect here, in any browser.
  expect((await browser.get('/dashboard', html)).headers.get('location')).toBe('/set-up');
  expect((await post(browser, '/set-up/product', {})).status).toBe(403);
  const other = new Browser(service.url);
  await other.signIn('ada@example.com', password);
  expect((await other.get('/set-up', html)).text).toContain('Step 2 of 4');

  // This browser has just created the account and set its password, so the page shows the secret without asking for the
  // password again.
  const secret = /secret=([A-Z2-7]{32})/.exec((await browser.get('/set-up', html)).text)![1]!;
  const app = authenticator(secret, service.clock);
  const codes = await post(browser, '/set-up/second-factor/confirm', { code: app() });
  expect([codes.status, codes.text.includes('Save these recovery codes')]).toEqual([200, true]);
  expect(codes.headers.get('cache-control')).toBe('no-store, no-transform');

  expect((await browser.get('/set-up', html)).text).toContain('Step 3 of 4');
  const first = { productSlug: 'api', productName: 'API', usageMetric: 'requests', unitCap: '0100.50' };
  const bad = await post(browser, '/set-up/product', { ...first, orgSlug: '<x>', orgName: 'Acme' });
  expect([bad.status, />Organization slug<\/a>: Must be 1 to 64/.test(bad.text)]).toEqual([400, true]);
  const declared = await post(browser, '/set-up/product', { ...first, orgSlug: 'acme', orgName: 'Acme' });
  expect(declared.status).toBe(303);
  expect((await browser.get('/set-up', html)).headers.get('location')).toBe('/set-up/owner');

  await forgetConfirmation(service, browser);
  const asked = await browser.get('/set-up/owner', html);
  expect(asked.headers.get('location')).toBe('/confirm?next=%2Fset-up%2Fowner');
  const proof = { currentPassword: password, next: '/set-up/owner' };
  expect((await post(browser, '/confirm', proof)).status).toBe(400);
  expect((await post(browser, '/confirm', { ...proof, code: '000000' })).status).toBe(400);
  const owned = { organization: 'acme' };
  const confirmed = await post(browser, '/confirm', { ...proof, code: app(1) });
  expect([confirmed.status, confirmed.headers.get('location')]).toEqual([303, '/set-up/owner']);
  expect((await post(browser, '/set-up/owner', { ...owned, owner: 'other', email: '' })).status).toBe(400);
  const invited = await post(browser, '/set-up/owner', {
    ...owned,
    owner: 'other',
    email: 'owner@acme.example',
  });
  expect(invited.headers.get('cache-control')).toBe('no-store, no-transform');
  const token = /dashboard\/join#([\w-]+)/.exec(invited.text)![1]!;
  expect((await browser.get('/set-up', html)).text).toContain('owner@acme.example');

  const owner = new Browser(service.url);
  await openLink(owner, token);
  const joined = await post(owner, '/dashboard/join/account', { invitation: token, name: 'Olga', password });
  expect(joined.status).toBe(303);
  const key = await owner.send('POST', '/dashboard/api-keys', { json: { name: 'first', livemode: true } });
  expect(key.status).toBe(201);

  const rows = await database.db.orm.select().from(operatorLog).orderBy(operatorLog.seq);
  expect(rows.find(({ action }) => action === 'product.created')).toMatchObject({
    actor: 'operator:ada@example.com',
    target: 'api',
    details: { after: { unitCap: '100.5' } },
  });
  expect(rows.map(({ action }) => action)).toEqual(
    expect.arrayContaining(['link.created', 'user.created', 'operator.added', 'user.confirmed']),
  );
  expect(await createSetUpLink(service.context)).toBeUndefined();
});

const first = (slug: string, name = 'New') => ({
  productSlug: `product-${slug}`,
  productName: name,
  usageMetric: 'requests',
  unitCap: '',
  orgSlug: slug,
  orgName: name,
});

it('an authenticator app needs no second password seconds after the first, but needs it later', async () => {
  const user = await createUser(database.db);
  await makeOperator(service, user.id);
  const browser = new Browser(service.url);
  const begin = (form: Record<string, string> = {}) => post(browser, '/set-up/second-factor', form);
  const secretOf = async () => /secret=([A-Z2-7]{32})/.exec((await browser.get('/set-up', html)).text)?.[1];
  await browser.signIn(user.email);
  expect((await browser.get('/set-up', html)).text).not.toContain('name="currentPassword"');
  // If a password is entered, it is checked.
  expect((await begin({ currentPassword: 'wrong' })).status).toBe(400);
  await forgetConfirmation(service, browser);
  const late = await begin();
  expect([late.status, late.text.includes('field-currentPassword-error')]).toEqual([400, true]);
  expect(await secretOf()).toBeUndefined();
  expect((await begin({ currentPassword: PASSWORD })).status).toBe(303);
  expect(await secretOf()).toBeDefined();
  await browser.signIn(user.email);
  expect(await secretOf()).toBeUndefined();
  expect((await begin()).status).toBe(303);
  expect(await secretOf()).toBeDefined();
});

it('an empty slug is derived from the name, and 1,000 is a number', async () => {
  const { browser } = await signedInOperator(service);
  const typed = { ...first(''), productSlug: '', productName: ' Prévision & Straße API! ', orgName: 'Zed 9' };
  expect((await post(browser, '/set-up/product', { ...typed, unitCap: '1,000' })).status).toBe(303);
  const [product] = await database.db.orm
    .select()
    .from(products)
    .where(eq(products.slug, 'prevision-strasse-api'));
  expect(product).toMatchObject({ unitCap: '1000' });
  expect((await browser.get('/console/customers/zed-9', html)).status).toBe(200);
  // If the slug derived from the name is already taken, the form shows it in the slug field.
  const taken = await post(browser, '/console/new-customer', { name: 'ZED 9', slug: '' });
  expect([taken.status, /name="slug"[^>]*value="zed-9"/s.test(taken.text)]).toEqual([400, true]);
  expect((await post(browser, '/console/new-product', { ...typed, name: 'Zed', slug: '' })).status).toBe(400);
  const made = { name: 'Zed', slug: '', usageMetric: 'calls' };
  expect((await post(browser, '/console/new-product', made)).status).toBe(303);
  expect((await browser.get('/console/products/zed', html)).status).toBe(200);
  const none = await post(browser, '/console/new-customer', { name: '東京', slug: '' });
  expect([none.status, none.text.includes('id="field-slug-error"')]).toEqual([400, true]);
});

it('repeating the first product changes nothing, and an existing one is not overwritten', async () => {
  const { browser } = await signedInOperator(service);
  const { db } = database;
  expect((await post(browser, '/set-up/product', first('again'))).status).toBe(303);
  const isThis = eq(products.slug, 'product-again');
  await db.orm.update(products).set({ maxQuantity: '7' }).where(isThis);
  await db.orm.update(entitlements).set({ kind: 'read_only' });
  expect((await post(browser, '/set-up/product', first('again'))).status).toBe(303);
  for (const [field, changed] of [
    ['productSlug', { productName: 'Other' }],
    ['productSlug', { usageMetric: 'calls' }],
    ['productSlug', { unitCap: '1' }],
    ['orgSlug', { orgName: 'Other' }],
  ] as const) {
    const refused = await post(browser, '/set-up/product', { ...first('again'), ...changed });
    expect([refused.status, refused.text.includes(`id="field-${field}-error"`)]).toEqual([400, true]);
  }
  const [product] = await db.orm.select().from(products).where(isThis);
  expect(product).toMatchObject({ name: 'New', usageMetric: 'requests', unitCap: null, maxQuantity: '7' });
  for (const { kind } of await db.orm.select().from(entitlements)) expect(kind).toBe('read_only');
});

it('an owner form applies to the Organization that it shows, however often it is sent', async () => {
  const { browser, email } = await signedInOperator(service);
  const [one, next] = [await createOrganization(database.db), await createOrganization(database.db)];
  const shown = (await browser.get('/set-up/owner', html)).text;
  expect(shown).toContain(`name="organization" value="${one.slug}"`);
  const form = { organization: one.slug, owner: 'me' };
  const unclear = await post(browser, '/set-up/owner', { ...form, email: 'other@example.com' });
  expect([unclear.status, unclear.text.includes('choose another person, or clear this field')]).toEqual([
    400,
    true,
  ]);
  for (let n = 0; n < 2; n++)
    expect((await post(browser, '/set-up/owner', form)).headers.get('location')).toBe('/dashboard');
  const late = await post(browser, '/set-up/owner', { ...form, owner: 'other', email: 'late@example.com' });
  expect(late.headers.get('location')).toBe('/set-up');
  for (const organization of ['', '../x', 'no-such', `${next.slug}\u0000`]) {
    const { status } = await post(browser, '/set-up/owner', { ...form, organization });
    expect([organization, status < 400]).toEqual([organization, organization === 'no-such']);
  }
  const owned = await database.db.orm
    .select({ orgId: memberships.orgId })
    .from(memberships)
    .innerJoin(users, and(eq(users.id, memberships.userId), eq(users.email, email)));
  expect(owned).toEqual([{ orgId: one.id }]);
});

it('a person who is no longer an operator cannot continue, at any step', async () => {
  const { browser, id } = await signedInOperator(service);
  await createOrganization(database.db);
  expect((await browser.get('/set-up/owner', html)).status).toBe(200);
  await database.db.orm.delete(operators).where(eq(operators.userId, id));
  expect((await browser.get('/set-up', html)).text).toContain('name="link"');
  expect((await browser.get('/set-up/owner', html)).status).toBe(403);
  for (const step of ['second-factor', 'second-factor/confirm', 'product', 'owner'])
    expect((await post(browser, `/set-up/${step}`, {})).status).toBe(403);
  expect((await browser.get('/dashboard/account', html)).status).toBe(200);
});

it('an operator without an Organization arrives at the console once nothing is left to set up', async () => {
  const { browser } = await signedInOperator(service);
  const arrive = async () => (await browser.get('/set-up', html)).headers.get('location');
  expect((await post(browser, '/set-up/product', first('last'))).status).toBe(303);
  const owner = await createUser(database.db);
  for (const { id } of await database.db.orm.select().from(organizations))
    await addMember(database.db, id, owner.id, 'owner');
  expect((await browser.get('/dashboard', html)).headers.get('location')).toBe('/set-up');
  expect(await arrive()).toBe('/console');
  // Another customer without an owner is the console's matter.
  await createOrganization(database.db);
  expect(await arrive()).toBe('/console');
});
