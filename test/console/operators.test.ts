import { eq } from 'drizzle-orm';
import { beforeAll, describe, expect, it } from 'vitest';
import { operatorLog } from '../../src/accounts/audit/table.js';
import { operators, sessions } from '../../src/accounts/identity/table.js';
import { users } from '../../src/accounts/organizations/table.js';
import { monthOf, DAY_MS } from '../../src/core/time.js';
import { usageTotals } from '../../src/metering/ingestion/table.js';
import { createProduct, grant } from '../metering/support/products.js';
import { createOrganization } from '../support/fixtures.js';
import { isEmbedded } from '../support/database.js';
import { Browser, createUser, PASSWORD, signedIn } from '../support/accounts.js';
import {
  forgetConfirmation,
  makeOperator,
  signedInOperator,
  type TestOperator,
} from '../support/operators.js';
import { giveSecondFactor } from '../support/second-factor.js';
import { useService } from '../support/use.js';

const { database, service } = useService();
let operator: TestOperator;
beforeAll(async () => {
  operator = await signedInOperator(service);
});

const html = { accept: 'text/html' };
const toWords = (text: string) => text.replaceAll(/<[^>]*>/g, ' ').replaceAll(/\s+/g, ' ');
const open = (path: string, browser = operator.browser) => browser.get(path, html);
const post = (path: string, form: Record<string, string> = {}, browser = operator.browser) =>
  browser.send('POST', path, { form, headers: html });
const audited = async (action: string) =>
  (await database.db.orm.select().from(operatorLog).orderBy(operatorLog.seq)).filter(
    (row) => row.action === action,
  );

describe('products', () => {
  it('are listed with their customers, and what all of them used this month', async () => {
    const { id: productId } = await createProduct(database.db, { name: 'Counted' });
    const now = service.clock.now();
    const startsAt = new Date(now - 2 * DAY_MS);
    for (const [quantity, values] of [
      ['1000.5', { startsAt }],
      ['0.25', { startsAt }],
      ['9', { startsAt, endsAt: new Date(now - DAY_MS) }],
      ['0', { startsAt: new Date(now + DAY_MS) }],
    ] as const) {
      const { id: orgId } = await createOrganization(database.db);
      await grant(database.db, orgId, productId, values);
      const live = { orgId, productId, period: monthOf(now), livemode: true, events: 1, metric: 'calls' };
      await database.db.orm.insert(usageTotals).values([
        { ...live, quantity },
        { ...live, metric: 'earlier', quantity: '7' },
        { ...live, livemode: false, quantity: '5' },
      ]);
    }
    const words = toWords((await open('/console/products')).text);
    expect(words).toMatch(/ Counted \S+ calls 2 1,009\.75 No cap None /);
  });

  it('are created once, changed, archived and restored', async () => {
    const product = { slug: 'maps', name: '<b>Maps', usageMetric: 'tiles', unitCap: '0100.5' };
    expect((await post('/console/new-product', product)).status).toBe(303);
    const again = await post('/console/new-product', product);
    expect([again.status, again.text.includes('Taken by another product')]).toEqual([400, true]);
    for (const bad of [
      { unitCap: '-1' },
      { maxQuantity: '0' },
      { name: ' ' },
      { slug: 'Ü' },
      { usageMetric: '' },
    ])
      expect((await post('/console/new-product', { ...product, slug: 'other', ...bad })).status).toBe(400);
    expect((await open('/console/products')).text).toContain('&lt;b&gt;Maps');
    expect((await open('/console/products/maps')).text).toContain('value="100.5"');
    const { slug: _slug, ...changed } = { ...product, unitCap: '' };
    expect((await post('/console/products/maps', changed)).status).toBe(303);
    expect((await post('/console/products/none', changed)).status).toBe(404);
    expect((await post('/console/products/maps/archive', { archived: 'maybe' })).status).toBe(400);
    expect((await post('/console/products/maps/archive', { archived: 'yes' })).status).toBe(303);
    expect((await open('/console/products')).text).toContain('Archived');
    expect((await post('/console/products/maps/archive', { archived: 'no' })).status).toBe(303);
    for (const action of ['product.created', 'product.changed', 'product.archived', 'product.restored'])
      expect(await audited(action)).toMatchObject([{ actor: `operator:${operator.email}`, target: 'maps' }]);
    const log = await open('/console/audit-log?action=product.archived');
    expect([log.text.includes(operator.email), log.text.includes('Product created')]).toEqual([true, true]);
    expect(log.text).toContain('<a href="/console/products/maps"><bdi>');
    const today = new Date(service.clock.now()).toISOString().slice(0, 10);
    const todayPage = await open(`/console/audit-log?action=product.archived&from=${today}&to=${today}`);
    expect(todayPage.text).toContain(`${today} `);
    expect(todayPage.text).toContain('data-zoned');
    expect((await open(`/console/audit-log?action=product.archived&to=2020-01-31`)).text).toContain(
      'No entries match',
    );
    const [changes, everything] = [
      await open('/console/audit-log'),
      await open('/console/audit-log?action=all'),
    ];
    expect(toWords(everything.text)).toContain('Signed in Details');
    expect(toWords(changes.text)).not.toContain('Signed in Details');
    const byOperator = `/console/audit-log?actor=${encodeURIComponent(operator.email)}`;
    expect(everything.text).toContain(byOperator.replace('?', '?action=all&amp;'));
    const own = toWords((await open(`${byOperator}&action=all`)).text);
    expect([own.includes('Signed in Details'), own.includes('Archived the product')]).toEqual([true, true]);
    expect((await open('/console/audit-log?actor=nobody')).text).toContain('No entries match');
    for (const query of ['cursor=x', 'action=a&action=b'])
      expect((await open(`/console/audit-log?${query}`)).status).toBe(400);
  });
});

describe('changes to customers', () => {
  it('are listed over all customers, by person and by customer, with the address', async () => {
    for (const slug of ['north', 'south']) {
      expect((await post('/console/new-customer', { name: `The ${slug}`, slug })).status).toBe(303);
      // Entries of one millisecond have any order.
      service.clock.advance(1_000);
    }
    const path = '/console/audit-log/customers';
    const namesIn = async (query: string) =>
      [...(await open(path + query)).text.matchAll(/Only entries of <\/span><bdi>(The \w+)/g)].map(
        ([, name]) => name,
      );
    expect(await namesIn('')).toEqual(['The south', 'The north']);
    const byOperator = `?actor=${encodeURIComponent(operator.email)}`;
    expect(await namesIn(byOperator)).toEqual(['The south', 'The north']);
    expect(await namesIn('?actor=nobody')).toEqual([]);
    expect(await namesIn(`${byOperator}&organization=north`)).toEqual(['The north']);
    expect(await namesIn('?organization=nowhere')).toEqual([]);
    expect(await namesIn('?to=2020-01-31')).toEqual([]);
    const { text } = await open(path);
    expect(text).toContain(`href="${path}${byOperator}"`);
    expect(text).toMatch(/data-label="IP address" class="audit-ip"><bdi>/);
    expect(toWords(text)).toContain('Created the customer The south');
    expect((await open(`${path}?from=soon`)).status).toBe(400);
  });
});

describe.runIf(isEmbedded)('operators', () => {
  it('are invited with a link that works once', async () => {
    const made = await post('/console/operators/invite', { email: ' New@Example.com ' });
    expect(made.status).toBe(201);
    const link = /\/set-up#([\w-]{43})/.exec(made.text)![1]!;
    const browser = new Browser(service.url);
    await post('/set-up/open', { link }, browser);
    const person = { name: 'New', password: 'a long phrase of my own' };
    expect((await post('/set-up/person', person, browser)).status).toBe(303);
    expect((await open('/console', browser)).headers.get('location')).toBe('/set-up');
    expect((await open('/console/operators')).text).toContain('new@example.com');
    expect((await post('/console/operators/invite', { email: 'new@example.com' })).status).toBe(400);
  });

  it('can be removed, except for the last one', async () => {
    const rows = await database.db.orm.select().from(operators);
    for (const { userId } of rows)
      if (userId !== operator.id)
        expect((await post(`/console/operators/${userId}/remove`)).status).toBe(303);
    const last = await post(`/console/operators/${operator.id}/remove`);
    expect([last.status, last.text.includes('the only operator')]).toEqual([400, true]);
    const stranger = await createUser(database.db);
    expect((await post(`/console/operators/${stranger.id}/remove`)).status).toBe(404);
    expect(await audited('operator.removed')).toMatchObject([{ actor: `operator:${operator.email}` }]);
  });

  it('cannot both vanish when two of them remove each other at once', async () => {
    const other = await signedInOperator(service);
    const third = await signedInOperator(service);
    const answers = await Promise.all([
      post(`/console/operators/${third.id}/remove`, {}, other.browser),
      post(`/console/operators/${other.id}/remove`, {}, third.browser),
    ]);
    expect(answers.filter(({ status }) => status === 303)).toHaveLength(1);
    const left = await database.db.orm.select().from(operators);
    expect(left.length).toBe(2);
  });
});

describe.runIf(isEmbedded)('people', () => {
  it('are found by any part of their address or name', async () => {
    const other = await createUser(database.db);
    const { email } = await createUser(database.db, { email: 'q%_ueen@example.com', name: '<i>Queen' });
    const found = await open(`/console/people?search=${encodeURIComponent('Q%_U')}`);
    expect([
      found.text.includes(email),
      found.text.includes('<i>'),
      found.text.includes(other.email),
    ]).toEqual([true, false, false]);
    expect(found.text).toMatch(/<label for="field-search">Name or e-mail<\/label>/);
    expect((await open('/console/people?search=%25_UEEN')).text).toContain(email);
    expect((await open('/console/people?search=ueen')).text).toContain(email);
    expect((await open('/console/people?search=%25%25')).text).not.toContain(email);
    expect((await open('/console/people?cursor=%00')).status).toBe(400);
  });

  it('are listed with their customers, second factor and when they were last seen', async () => {
    const { user, organization } = await signedIn(database.db, service.url);
    await createUser(database.db, { email: `x-${user.email}` });
    await giveSecondFactor(database.db, user.id, service.clock);
    const { text } = await open(`/console/people?search=${encodeURIComponent(user.email)}`);
    const rows = text.split('<tbody')[1]!.replaceAll(/\s+/g, ' ').split('<tr ').slice(1);
    const [own, other] = [rows.find((row) => !row.includes('x-')), rows.find((row) => row.includes('x-'))];
    expect(own).toContain(
      `<a href="/console/customers/${organization.slug}"><bdi>${organization.name}</bdi></a>`,
    );
    expect(own).toMatch(/"Second factor"><div><bdi>On<.*"Last seen"><div><time /);
    expect(other).toMatch(/>None<.*>Off<.*Not in 90 days/);
    const created = { createdAt: new Date(service.clock.now()) };
    await database.db.orm
      .update(users)
      .set(created)
      .where(eq(users.email, `x-${user.email}`));
    const asNew = await open(`/console/people?search=${encodeURIComponent(`x-${user.email}`)}`);
    expect(asNew.text).toMatch(/"Last seen"><div><span class="quiet">Never</);
    // A person who has signed out was still seen.
    await database.db.orm.delete(sessions).where(eq(sessions.userId, user.id));
    const later = (await open(`/console/people?search=${encodeURIComponent(user.email)}`)).text;
    expect(later.replaceAll(/\s+/g, ' ')).toMatch(/"Last seen"><div> ?<time /);
  });

  it('get a link for a lost password and one for a lost second factor', async () => {
    const { db } = service.context;
    const user = await createUser(db);
    expect((await open(`/console/people/${user.id}`)).text).toContain(user.email);
    const early = await post(`/console/people/${user.id}/link`, { kind: 'second_factor_reset' });
    expect(early.status).toBe(400);
    expect((await post(`/console/people/${user.id}/link`, { kind: 'setup' })).status).toBe(400);
    const made = await post(`/console/people/${user.id}/link`, { kind: 'password_reset' });
    const browser = new Browser(service.url);
    await post('/reset/open', { link: /\/reset#([\w-]{43})/.exec(made.text)![1]! }, browser);
    const chosen = { newPassword: 'another long phrase', newPasswordAgain: 'another long phrase' };
    expect((await post('/reset', chosen, browser)).status).toBe(303);
    const secured = await createUser(db);
    await giveSecondFactor(db, secured.id, service.clock);
    const second = await post(`/console/people/${secured.id}/link`, { kind: 'second_factor_reset' });
    expect(second.status).toBe(201);
    expect(await audited('link.created')).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ actor: `operator:${operator.email}`, target: secured.email }),
      ]),
    );
    for (const id of ['none', '00000000-0000-4000-8000-000000000000'])
      expect((await open(`/console/people/${id}`)).status).toBe(404);
  });
});

describe.runIf(isEmbedded)('an operator', () => {
  it('proves their identity once more before a dangerous action', async () => {
    const { id } = await createUser(database.db);
    const browser = operator.browser;
    await forgetConfirmation(service, browser);
    const path = `/console/people/${id}/link`;
    expect((await open(path)).headers.get('location')).toBe(`/confirm?next=${encodeURIComponent(path)}`);
    const sent = await browser.send('POST', path, {
      form: { kind: 'password_reset' },
      headers: { ...html, referer: service.url + path },
    });
    expect([sent.status, sent.headers.get('location')]).toEqual([
      303,
      `/confirm?next=${encodeURIComponent(path)}`,
    ]);
    const proof = { currentPassword: PASSWORD, code: operator.app.code(1), next: path };
    expect((await post('/confirm', proof)).headers.get('location')).toBe(path);
    expect((await post(path, { kind: 'password_reset' })).status).toBe(201);
  });

  it('reaches the console through the account menu, which does not offer it to others', async () => {
    const person = await createUser(database.db);
    const browser = new Browser(service.url);
    await browser.signIn(person.email);
    expect((await open('/dashboard/account', browser)).text).not.toContain('/console');
    await makeOperator(service, person.id);
    const own = (await open('/dashboard/account', browser)).text;
    // The console's menu and search.
    for (const part of ['href="/console/plans"', 'href="/console/search"']) expect(own).toContain(part);
    expect(own).not.toContain('Ask an owner or admin to invite');
    expect((await open('/console')).text).toContain('href="/dashboard/account"');
  });
});
