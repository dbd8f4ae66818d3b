import { and, eq } from 'drizzle-orm';
import { beforeAll, describe, expect, it } from 'vitest';
import { invitations, organizations } from '../../../src/accounts/organizations/table.js';
import { HOUR_MS, monthOf } from '../../../src/core/time.js';
import { entitlements } from '../../../src/metering/entitlements/table.js';
import { usageHours, usageTotals } from '../../../src/metering/ingestion/table.js';
import { organizationPlans, planVersions } from '../../../src/metering/plans/table.js';
import { auditOf } from '../../support/audit.js';
import { createOrganization } from '../../support/fixtures.js';
import { forgetConfirmation, signedInOperator, type TestOperator } from '../../support/operators.js';
import { useService } from '../../support/use.js';
import { createProduct } from '../support/products.js';

const { database, service } = useService();
let operator: TestOperator;
beforeAll(async () => {
  operator = await signedInOperator(service);
});

interface Own {
  id: string;
  slug: string;
}

const html = { accept: 'text/html' };
const get = async (path: string) => (await operator.browser.get(path, html)).text;
const post = (path: string, form: Record<string, string> | [name: string, value: string][]) =>
  operator.browser.send('POST', path, { form, headers: html });

it('a preview and the list of plans say in words what a plan has', async () => {
  const product = await createProduct(database.db, { name: 'Forecasts' });
  const slug = `words-${product.slug}`;
  const definition = (cap: string, amount: number) =>
    `entitlements: [{ productSlug: ${product.slug}, unitCap: ${cap} }]
grants: [{ key: credits, amount: ${amount}, every: month, expires: period }]`;
  const form = { name: 'Words', slug, definition: definition('50000', 1500), step: 'save' };
  expect((await post('/console/new-plan', form)).status).toBe(303);
  const list = await get('/console/plans');
  expect(list).toMatch(/<bdi>Forecasts<\/bdi><\/strong>\s*<p>\s*50,000 <bdi>calls<\/bdi> a month/);
  expect(list).toContain('<strong>1,500 credits</strong> each month');
  const changed = { name: 'Words', definition: definition('null', 2500) };
  const preview = (await post(`/console/plans/${slug}`, changed)).text;
  expect(preview).toContain('<bdi>Monthly credits: 1,500 → 2,500</bdi>');
  expect(preview).toContain('<bdi>Forecasts: cap 50,000 → no cap</bdi>');
  expect(preview).toContain('Save as version 2');
  expect(preview).toContain('Keep editing');
  const added = {
    name: 'Words',
    slug: `new-${slug}`,
    definition: `entitlements: [{ productSlug: ${product.slug} }]`,
  };
  expect((await post('/console/new-plan', added)).text).toContain('Forecasts: live, the product’s cap: none');
});

it('a plan is previewed, saved, given to a customer, changed and moved', async () => {
  const product = await createProduct(database.db);
  const { slug } = await createOrganization(database.db);
  const plan = `team-${slug}`;
  const digits = '12345678901234567890.5';
  const definition = (cap: string) =>
    `entitlements:\n  - { productSlug: ${product.slug}, unitCap: ${cap} }\n`;
  const form = { name: 'Team', slug: plan, definition: definition(digits) };
  const preview = await post('/console/new-plan', form);
  expect(preview.status).toBe(200);
  expect(preview.text).toContain('What changes');
  expect(await get('/console/plans')).not.toContain(plan);
  expect((await post('/console/new-plan', { ...form, step: 'save' })).status).toBe(303);
  expect(await get('/console/plans')).toContain(plan);
  expect(await get(`/console/plans/${plan}`)).toContain(`value="${digits}"`);

  const own = `/console/customers/${slug}/plan`;
  expect((await post(own, { plan })).text).toContain(`<bdi>${product.name}: live, cap 12,345`);
  expect((await post(own, { plan, step: 'save' })).status).toBe(303);
  const toWords = (text: string) => text.replaceAll(/<[^>]*>/g, ' ').replaceAll(/\s+/g, ' ');
  for (const path of [`/console/customers/${slug}`, `/console/customers/${slug}/audit-log`])
    expect(toWords(await get(path))).toContain('Put the customer on the Team plan');
  expect(toWords(await get('/console/audit-log'))).toContain('Created the plan Team');
  const tab = `href="/console/customers/${slug}/plan"><bdi>Team</bdi>`;
  expect(await get(`/console/customers/${slug}`)).toContain(tab);
  expect(await get(own)).toContain('Active');
  const anchored = await get(own);
  expect(anchored).toMatch(/name="anchor"\s+type="text"\s+value="\d\d? \w{3,4} \d{4} \d\d:\d\d"/);
  expect((await post(own, { plan, anchor: '2026-01-01 00:00', step: 'save' })).status).toBe(303);
  expect(await get(`/console/customers/${slug}/entitlements`)).toContain(product.slug);

  const changed = { name: 'Team', definition: definition('7'), step: 'save' };
  expect((await post(`/console/plans/${plan}`, changed)).status).toBe(303);
  const edited = await get(`/console/plans/${plan}`);
  expect(edited).toContain('Move 1 customer to version 2');
  expect(edited).toContain(`<a href="/console?plan=${plan}">Customers on this plan</a>`);
  expect(toWords(await get('/console/plans'))).toContain('1 (on version 1, newest is 2)');
  expect((await post(`/console/plans/${plan}/move`, {})).status).toBe(303);
  expect(await get(`/console/plans/${plan}`)).not.toContain('to version 2');
  const ending = (await post(own, { plan: '' })).text;
  expect(ending).toContain(`<bdi>${product.name}</bdi>`);
  expect(ending).toMatch(/<button class="button danger"[^>]*>End the plan/);
  expect(ending).toMatch(/0(<[^>]+>)* credits \(unchanged\)/);
  expect((await post(own, { plan: '', step: 'save' })).headers.get('location')).toContain('done=ended');
  expect(await get(own)).toContain('Put this customer on a plan');
  expect((await post(own, { plan: '', step: 'save' })).status).toBe(400);
});

it('the preview of a plan names each limit that changes, and who is over it now', async () => {
  const product = await createProduct(database.db, { name: 'Tiles' });
  const { id: orgId, slug } = await createOrganization(database.db, { name: 'Northwind Labs' });
  const plan = `limits-${slug}`;
  const definition = (daily: number) => `entitlements:
  - { productSlug: ${product.slug}, limits: [{ quantity: ${daily}, window: calendar_day, enforcement: warn }, { quantity: 9, window: PT5H, enforcement: block }] }
grants: [{ key: credits, amount: 1500, every: month, expires: period }]`;
  await post('/console/new-plan', { name: 'Limits', slug: plan, definition: definition(80), step: 'save' });
  await post(`/console/customers/${slug}/plan`, { plan, step: 'save' });
  const hour = new Date(Math.floor(service.clock.now() / HOUR_MS) * HOUR_MS);
  const use = { orgId, productId: product.id, livemode: true, metric: 'calls', quantity: '70', events: 1 };
  await database.db.orm.insert(usageHours).values({ ...use, apiKeyId: orgId, dimensions: '', hour });
  const { text } = await post(`/console/plans/${plan}`, { name: 'Limits', definition: definition(60) });
  expect(text).toContain('<bdi>Tiles, each day (UTC): 80 → 60</bdi>');
  expect(text).not.toContain('5\u00a0hours');
  expect(text).toContain('1 customer</strong> would exceed a cap or limit, or lose a product.');
  expect(text).toContain('<bdi>Tiles, each day (UTC)</bdi>');
  expect(text).not.toContain('Credits by customer');
  await database.db.orm
    .update(organizations)
    .set({ archivedAt: new Date() })
    .where(eq(organizations.id, orgId));
  const archived = (await post(`/console/plans/${plan}`, { name: 'Limits', definition: definition(60) }))
    .text;
  expect(archived).not.toMatch(/Northwind Labs|1 customer/);
  expect(archived).toContain('Save as version 2');
});

it('the plans are listed by their credits of a month, then by name', async () => {
  const { slug } = await createOrganization(database.db);
  for (const [name, amount, every] of [
    ['Large', 100, 'day'],
    ['Middle', 1000, 'week'],
    ['Small', 1000, 'month'],
  ] as const) {
    const definition = `entitlements: []\ngrants: [{ key: credits, amount: ${amount}, every: ${every}, expires: period }]`;
    await post('/console/new-plan', {
      name,
      slug: `${name.toLowerCase()}-${slug}`,
      definition,
      step: 'save',
    });
  }
  const list = await get('/console/plans');
  const places = ['small', 'large', 'middle'].map((name) => list.indexOf(`>${name}-${slug}<`));
  expect(places).toEqual(places.toSorted((a, b) => a - b));
  expect(places[0]).toBeGreaterThan(0);
});

it('a customer’s plan keeps and shows an entitlement that was set by hand, unless it is replaced', async () => {
  const product = await createProduct(database.db, { name: 'Forecasts' });
  const { slug } = await createOrganization(database.db);
  const plan = `hand-${slug}`;
  const definition = `entitlements:
  - { productSlug: ${product.slug}, unitCap: 9, limits: [{ quantity: 1234, window: PT1H, enforcement: block }], features: { models: [small, large] } }
grants: [{ key: bonus, amount: 500, every: month, expires: period }]`;
  await post('/console/new-plan', { name: 'Hand', slug: plan, definition, step: 'save' });
  const byHand = { product: product.slug, kind: 'live', cap: 'own', unitCap: '10000', thresholds: '80' };
  const customer = `/console/customers/${slug}`;
  expect((await post(`${customer}/entitlement`, byHand)).status).toBe(303);
  const preview = (await post(`${customer}/plan`, { plan })).text;
  expect(preview).toContain('<bdi>Forecasts: stays as it was set by hand</bdi>');
  expect(preview).toContain('<bdi>Monthly credits (bonus): 500, expire at the end of the period</bdi>');
  expect(preview).not.toContain('small');
  expect(preview).toContain(`<a class="button" href="${customer}/plan">Cancel</a>`);
  expect((await post(`${customer}/plan`, { plan, step: 'save' })).status).toBe(303);
  const contents = async () =>
    (await get(`${customer}/plan`)).split(`value="${plan}" checked`)[1]!.split('</ul>')[0]!;
  expect(await contents()).toMatch(/Set by hand[^]*10,000 <bdi>calls<\/bdi> a month/);
  expect(await contents()).not.toContain('small');
  const replacing = (await post(`${customer}/plan`, { plan, replace: 'yes' })).text;
  for (const line of [
    'cap 10,000 → cap 9',
    'the product’s features → models: small, large',
    'warnings at 80% → warnings at 50, 80, 100%',
  ])
    expect(replacing).toContain(`<bdi>Forecasts: ${line}</bdi>`);
  expect(replacing).toContain('<bdi>Forecasts, last 1\u00a0hour: no limit → 1,234 (blocks)</bdi>');
  expect((await post(`${customer}/plan`, { plan, replace: 'yes', step: 'save' })).status).toBe(303);
  expect(await contents()).toContain('small, large');
});

it('the preview of a customer’s plan names the customer, the first credits and what stays', async () => {
  const product = await createProduct(database.db, { name: 'Forecasts' });
  const { slug } = await createOrganization(database.db, { name: 'Northwind Labs' });
  const plan = `first-${slug}`;
  const definition = `entitlements: [{ productSlug: ${product.slug}, unitCap: 9 }]
grants: [{ key: credits, amount: 1500, every: month, expires: period }]`;
  await post('/console/new-plan', { name: 'Team', slug: plan, definition, step: 'save' });
  const own = `/console/customers/${slug}/plan`;
  const preview = async (form: Record<string, string>) =>
    (await post(own, form)).text
      .split('<main')[1]!
      .replaceAll(/<[^>]*>|\s+/g, ' ')
      .replaceAll(/ +/g, ' ');
  const first = await preview({ plan });
  for (const part of ['Put Northwind Labs on Team', 'From Now First credits 1,500 from', 'Balance 0 → 1,500'])
    expect(first).toContain(part);
  expect(await preview({ plan, startsAt: '1 Jan 2100 00:00' })).toMatch(
    /From 1 Jan 2100[^→]*1,500 from 1 Jan 2100[^→]*Balance 0 credits \(unchanged\)/,
  );
  expect(first).not.toContain('granted by hand');
  const byHand = { amount: '700', reason: 'Monthly plan', startsAt: '2100-12-01 00:00', grantKey: 'by-hand' };
  const granting = await post(`/console/customers/${slug}/credits/grant`, { ...byHand, step: 'save' });
  expect(granting.status).toBe(303);
  expect(await preview({ plan })).toMatch(
    /added to these, which were granted by hand and stay.*Monthly plan : 700 from 1 Dec 2100/,
  );
  const text = await get(own);
  const [, shown] = text.split(`name="plan" value="${plan}"`);
  expect(shown!.split('class="plan-choice"')[0]).toMatch(/9 <bdi>calls<\/bdi> a month.*1,500 credits/s);
  await post(own, { plan, step: 'save' });
  expect(await get(own)).toMatch(/<dt>Since<\/dt>\s*<dd><time[^>]*>[^<]* UTC</);
  expect(await get(own)).not.toContain('data-zoned');
  const again = await preview({ plan });
  expect(again).toContain(
    'Does not change = Unchanged: Forecasts: live, cap 9 = Unchanged: Monthly credits: 1,500',
  );
  expect(again).toContain('Nothing to change. Keep editing');
  expect(again).not.toContain('Save Team');
  expect(await preview({ plan, anchor: '2026-01-01 00:00' })).toContain('Save Team for Northwind Labs');
  const same = (await post(`/console/plans/${plan}`, { name: 'Team', definition })).text;
  expect(same).toMatch(/Nothing to change\.(?![^]*value="save")/);
  expect((await post(`/console/plans/${plan}`, { name: 'Team 2', definition })).text).toContain(
    'value="save"',
  );
  expect(await preview({ plan: '' })).toContain('End the plan of Northwind Labs');
});

it('the preview of a customer’s plan says what would be over the cap, what goes and what stays', async () => {
  const product = await createProduct(database.db, { name: 'Forecasts', unitCap: '10000' });
  const other = await createProduct(database.db, { name: 'Tiles' });
  const { id: orgId, slug } = await createOrganization(database.db);
  const plan = `small-${slug}`;
  const definition = `entitlements: [{ productSlug: ${product.slug}, unitCap: 1000 }]\ntrial: { days: 14 }`;
  await post('/console/new-plan', { name: 'Small', slug: plan, definition, step: 'save' });
  const customer = `/console/customers/${slug}`;
  for (const one of [product, other])
    await post(`${customer}/entitlement`, {
      product: one.slug,
      kind: 'live',
      cap: 'product',
      thresholds: '80',
    });
  const use = { orgId, productId: product.id, period: monthOf(Date.now()), livemode: true, metric: 'calls' };
  await database.db.orm.insert(usageTotals).values({ ...use, quantity: '9197', events: 1 });
  const preview = async (form: Record<string, string>) =>
    (await post(`${customer}/plan`, form)).text
      .split('<main')[1]!
      .replaceAll(/<[^>]*>|\s+/g, ' ')
      .replaceAll(/ +/g, ' ');
  const replacing = await preview({ plan, replace: 'yes' });
  expect(replacing).toContain(
    'Forecasts: the product’s cap: 10,000 → cap 1,000 ; 9,197 calls used this month, so over the cap at once',
  );
  expect(replacing).toContain('Tiles: stays as it was set by hand');
  expect(await get(`${customer}/plan`)).toContain('Begin with the trial of ');
  await post(`${customer}/plan`, { plan, replace: 'yes', trial: plan, step: 'save' });
  expect(await get(`${customer}/plan`)).toMatch(/name="trial"[^<]*checked[^<]*<span>Keep the trial/);
  expect(await preview({ plan: '' })).toContain('Forecasts removed; 9,197 calls used this month');
  await post(`${customer}/plan`, { plan, step: 'save' });
  expect(await get(`${customer}/plan`)).not.toContain('name="trial"');
});

it('a change of a product is previewed by customer before it is saved', async () => {
  const product = await createProduct(database.db, { name: 'Forecasts', unitCap: '10000' });
  const { id: orgId, slug } = await createOrganization(database.db, { name: 'Northwind Labs' });
  const byHand = { product: product.slug, kind: 'live', cap: 'product', thresholds: '80' };
  await post(`/console/customers/${slug}/entitlement`, byHand);
  const use = { orgId, productId: product.id, period: monthOf(Date.now()), livemode: true, metric: 'calls' };
  await database.db.orm.insert(usageTotals).values({ ...use, quantity: '9197', events: 1 });
  const path = `/console/products/${product.slug}`;
  const form = { name: 'Forecasts', usageMetric: 'calls', unitCap: '1000' };
  const preview = (await post(path, form)).text;
  for (const part of [
    'For 1 customer',
    'Cap: 10,000 → 1,000',
    '1 customer is over the new cap at once',
    '920%',
  ])
    expect(preview).toContain(part);
  expect(preview).toContain(`href="/console/customers/${slug}"`);
  expect(await get(path)).toContain('value="10000"');
  expect((await post(path, { ...form, step: 'edit' })).text).toContain('value="1000"');
  expect((await post(path, { ...form, step: 'save' })).status).toBe(303);
  expect((await post(path, { ...form, name: 'Renamed' })).status).toBe(303);
});

describe('a plan in rows', () => {
  const terms = (n: number, own: Record<string, string>) =>
    Object.fromEntries(
      Object.entries({ kind: 'live', cap: 'product', ...own }).map(([name, value]) => [
        `entitlements.${n}.${name}`,
        value,
      ]),
    );
  const credits = (n: number, own: Record<string, string>) =>
    Object.fromEntries(
      Object.entries({ key: 'credits', every: 'month', expires: 'period', ...own }).map(([name, value]) => [
        `grants.${n}.${name}`,
        value,
      ]),
    );
  /** The values of the form's fields, as a browser would send them. */
  const fieldsOf = (text: string) => {
    const form = text.split('class="card stack terms"')[1]!.split('</form>')[0]!;
    const unescape = (value: string) => value.replaceAll('&#34;', '"').replaceAll('&amp;', '&');
    const inputs = [...form.matchAll(/<input [^>]*?name="([^"]+)"[^>]*>/g)]
      .filter(([tag]) => !tag.includes('type="checkbox"') || /\schecked[\s>]/.test(tag))
      .map(([tag, name]) => [name!, unescape(/value="([^"]*)"/.exec(tag)?.[1] ?? '')]);
    const areas = [...form.matchAll(/<textarea [^>]*?name="([^"]+)"[^>]*>\n?(.*?)<\/textarea>/gs)].map(
      ([, name, value]) => [name!, unescape(value!)],
    );
    const selects = [...form.matchAll(/<select [^>]*?name="([^"]+)"[^>]*>(.*?)<\/select>/gs)].map(
      ([, name, options]) => [name!, /value="([^"]*)" selected/.exec(options!)?.[1] ?? ''],
    );
    return Object.fromEntries([...inputs, ...areas, ...selects]) as Record<string, string>;
  };
  const definitionOf = async (slug: string) => {
    const { orm } = database.db;
    return (await orm.select().from(planVersions).where(eq(planVersions.plan, slug))).at(-1)?.definition;
  };

  it('stores products with limits, credits and a trial, and saving it again changes nothing', async () => {
    const [one, other] = [await createProduct(database.db), await createProduct(database.db)];
    const slug = `rows-${one.slug}`;
    const digits = '12345678901234567890.5';
    const form = {
      name: 'Rows',
      slug,
      ...terms(0, {
        productSlug: one.slug,
        cap: 'own',
        unitCap: digits,
        thresholds: '90, 75',
        features: 'seats = 5\r\nnote = "a"',
        'limits.0.quantity': '1,000',
        'limits.0.window': 'hours',
        'limits.0.length': '5',
        'limits.0.enforcement': 'block',
      }),
      // A blank row between two others is ignored.
      ...terms(1, { productSlug: '', thresholds: '50, 80, 100' }),
      ...terms(2, { productSlug: other.slug, kind: 'read_only', cap: 'none', thresholds: '50, 80, 100' }),
      ...credits(0, {
        amount: '1,000.25',
        priority: '7',
        'rollover.percent': '20',
        'rollover.for': '30',
        productSlugs: other.slug,
      }),
      ...credits(1, { key: '', amount: '' }),
      'trial.days': '14',
    };
    const preview = await post('/console/new-plan', form);
    expect([preview.status, preview.text.includes('What changes')]).toEqual([200, true]);
    const empty = await post('/console/new-plan', { name: 'Empty', slug: `${slug}-empty` });
    expect([empty.status, empty.text.includes('Must have a product or credits.')]).toEqual([400, true]);
    const both = await post('/console/new-plan', [
      ...Object.entries(form),
      ['grants.0.productSlugs', one.slug],
    ]);
    expect(both.text.match(/name="grants.0.productSlugs" value="[^"]+"/g)).toHaveLength(2);
    expect(both.text).toContain(`pay for ${other.name}, ${one.name}`);
    expect((await post('/console/new-plan', { ...form, step: 'save' })).status).toBe(303);
    const stored = await definitionOf(slug);
    expect(stored).toEqual({
      entitlements: expect.arrayContaining([
        {
          productSlug: one.slug,
          kind: 'live',
          unitCap: digits,
          limits: [{ quantity: '1000', window: 'PT5H', enforcement: 'block' }],
          thresholds: [75, 90],
          features: { note: 'a', seats: 5 },
        },
        { productSlug: other.slug, kind: 'read_only', unitCap: null },
      ]) as unknown,
      grants: [
        {
          key: 'credits',
          amount: '1000.25',
          every: 'month',
          expires: 'period',
          priority: 7,
          rollover: { percent: 20, for: 'P30D' },
          productSlugs: [other.slug],
        },
      ],
      trial: { days: 14 },
    });
    const page = `/console/plans/${slug}`;
    const again = await post(page, { ...fieldsOf(await get(page)), step: 'save' });
    expect([again.status, await definitionOf(slug)]).toEqual([303, stored]);
    expect(await get('/console/plans')).toMatch(new RegExp(`${slug}[^]*?Customers"><div><bdi>0`));
    expect(await get(`${page}?as=yaml`)).toContain(`unitCap: ${digits}`);
  });

  it('keeps the credits of a trial, which have fields of their own', async () => {
    const slug = `kept-${(await createProduct(database.db)).slug}`;
    const definition = `entitlements: []
trial: { days: 7, grants: [{ key: trial, amount: 5, every: day, expires: period }] }`;
    await post('/console/new-plan', { name: 'Kept', slug, definition, step: 'save' });
    const page = `/console/plans/${slug}`;
    const amount = { 'trial.days': '9', 'trial.grants.0.amount': '6' };
    await post(page, { ...fieldsOf(await get(page)), ...amount, step: 'save' });
    expect(await definitionOf(slug)).toMatchObject({
      trial: { days: 9, grants: [{ key: 'trial', amount: '6' }] },
    });
    const none = 'entitlements: []\ntrial: { days: 7, grants: [] }';
    await post(page, { name: 'Kept', definition: none, step: 'save' });
    await post(page, { ...fieldsOf(await get(page)), 'trial.days': '9', step: 'save' });
    expect(await definitionOf(slug)).toMatchObject({ trial: { days: 9, grants: [] } });
  });

  it('adds and removes rows, keeps what was typed and stores nothing', async () => {
    const product = await createProduct(database.db);
    const first = fieldsOf(await get('/console/new-plan'));
    const typed = { ...first, name: 'Typed', 'entitlements.0.productSlug': product.slug };
    const added = await post('/console/new-plan', { ...typed, edit: 'add entitlements' });
    expect([added.status, fieldsOf(added.text)]).toMatchObject([
      200,
      { ...typed, 'entitlements.1.productSlug': '' },
    ]);
    expect(added.text).toMatch(/name="entitlements\.1\.productSlug"[^>]* autofocus/);
    const limited = fieldsOf(
      (await post('/console/new-plan', { ...typed, edit: 'add entitlements.0.limits' })).text,
    );
    expect(limited).toMatchObject({ 'entitlements.0.limits.0.window': 'calendar_month' });
    const removed = fieldsOf(
      (await post('/console/new-plan', { ...limited, edit: 'remove entitlements.0' })).text,
    );
    expect(Object.keys(removed).filter((name) => name.startsWith('entitlements'))).toEqual([]);
    for (const edit of ['add __proto__', 'add constructor', 'remove limits', 'add', 'remove a.b.c.1']) {
      const refused = await post('/console/new-plan', { ...typed, edit });
      expect([edit, refused.status, refused.text.includes('Not a known button')]).toEqual([edit, 400, true]);
    }
  });

  it.each([
    [terms(0, { productSlug: '', unitCap: '5' }), 'entitlements.0.productSlug', 'Product 1, name'],
    [terms(0, { productSlug: 'one', cap: 'own' }), 'entitlements.0.unitCap', 'Product 1, custom cap'],
    [terms(0, { productSlug: 'one', features: 'A b = 1' }), 'entitlements.0.features', 'Product 1, features'],
    [
      { ...terms(0, {}), ...terms(1, { productSlug: 'one', thresholds: '0' }) },
      'entitlements.0.thresholds',
      'Product 1, thresholds',
    ],
    [
      terms(0, { productSlug: 'one', 'limits.0.quantity': 'x', 'limits.0.window': 'calendar_day' }),
      'entitlements.0.limits.0.quantity',
      'Product 1, limit 1, quantity',
    ],
    [credits(0, { amount: '0' }), 'grants.0.amount', 'Credits 1, amount'],
    [credits(0, { amount: '0.1234567890123' }), 'grants.0.amount', 'Credits 1, amount'],
    [credits(0, { amount: '1', key: 'A b' }), 'grants.0.key', 'Credits 1, key'],
    [credits(0, { amount: '1', every: 'year' }), 'grants.0.every', 'Credits 1, every'],
    [credits(0, { amount: '1', priority: '101' }), 'grants.0.priority', 'Credits 1, priority'],
    [
      credits(0, { amount: '1', 'rollover.percent': '5', 'rollover.for': '' }),
      'grants.0.rollover.for',
      'Credits 1, rollover, days',
    ],
    [{ 'trial.days': '400' }, 'trial.days', 'Trial, days'],
    [
      terms(0, { productSlug: 'one', features: 'a = \u00011\u0001' }),
      'entitlements.0.features',
      'Product 1, features',
    ],
  ])('names the field of %j', async (fields, name, label) => {
    const typed = { name: 'Wrong', slug: 'wrong', [name]: '', ...fields };
    const { status, text } = await post('/console/new-plan', { ...typed, step: 'save' });
    expect([status, text]).toEqual([400, expect.stringContaining(`<a href="#field-${name}">${label}</a>`)]);
    expect(text).toMatch(new RegExp(`id="field-${name}"[^>]* aria-invalid="true"`));
    expect(await definitionOf('wrong')).toBeUndefined();
  });

  it.each([
    { '__proto__.0.productSlug': 'x' },
    { 'entitlements.__proto__.productSlug': 'x' },
    { 'entitlements.0.limits': 'x', 'entitlements.0.limits.0.quantity': '1' },
    { entitlements: 'x' },
    { 'entitlements.0.productSlug.0.x': '1' },
    { [`entitlements${'.0'.repeat(3000)}`]: '1' },
    { 'entitlements.999999999999.productSlug': '<b>' },
    { 'entitlements.0.productSlug': 'no-such-product', ...terms(0, { productSlug: 'no-such-product' }) },
  ])('refuses %j without failing', async (fields) => {
    const slug = 'hostile-rows';
    const { status, text } = await post('/console/new-plan', { name: 'Hostile', slug, ...fields });
    expect(status).toBeLessThan(500);
    expect(text).not.toContain('<b>');
    expect(({} as { productSlug?: string }).productSlug).toBeUndefined();
  });
});

it('refuses to preview a product that does not exist', async () => {
  const slug = `unknown-${(await createProduct(database.db)).slug}`;
  await post('/console/new-plan', { name: 'Unknown', slug, definition: 'entitlements: []', step: 'save' });
  const definition = 'entitlements: [{ productSlug: no-such-product }]';
  const refused = await post(`/console/plans/${slug}`, { name: 'Unknown', definition });
  expect([refused.status, refused.text.includes('no product')]).toEqual([422, true]);
});

it('names a mistake in the definition, and keeps what was typed', async () => {
  const refused = await post('/console/new-plan', {
    name: 'Bad',
    definition: 'entitlements:\n  - { kind: live }\n',
  });
  expect(refused.status).toBe(400);
  expect(refused.text).toContain('entitlements/0/productSlug is required');
  expect(refused.text).toContain('- { kind: live }');
  const broken = await post('/console/new-plan', { name: 'Bad', definition: 'a: [' });
  expect(broken.text).toContain('YAML');
});

it('previews a new version by customer, against this month’s usage', async () => {
  const [kept, gone] = [await createProduct(database.db), await createProduct(database.db)];
  const plan = `effect-${kept.slug}`;
  const terms = (cap: number, more = '') =>
    `entitlements:\n  - { productSlug: ${kept.slug}, unitCap: ${cap}, limits: [{ quantity: 90, window: calendar_month, enforcement: warn }] }\n${more}`;
  const first = { name: 'Effect', slug: plan, step: 'save' };
  const more = `  - { productSlug: ${gone.slug} }\n`;
  await post('/console/new-plan', { ...first, definition: terms(1000, more) });
  const period = monthOf(service.clock.now());
  const customers = [];
  for (const quantity of ['85', '20', undefined, '50']) {
    const { id, slug } = await createOrganization(database.db);
    await post(`/console/customers/${slug}/plan`, { plan, step: 'save' });
    const use = { orgId: id, period, livemode: true, metric: kept.usageMetric, events: 1 };
    if (quantity) await database.db.orm.insert(usageTotals).values({ ...use, productId: kept.id, quantity });
    customers.push({ id, slug });
  }
  const [over, near, idle, byHand] = customers as [Own, Own, Own, Own];
  await database.db.orm
    .update(entitlements)
    .set({ plan: null })
    .where(and(eq(entitlements.orgId, byHand.id), eq(entitlements.productId, kept.id)));
  const changed = { name: 'Effect', definition: terms(40) };
  const credits = `${terms(1000, more)}grants: [{ key: credits, amount: 500, every: month, expires: period }]`;
  const added = (await post(`/console/plans/${plan}`, { ...changed, definition: credits })).text;
  const granted = added
    .split('id="credits-of"')[1]!
    .split('</table>')[0]!
    .replaceAll(/<[^>]*>|\s+/g, ' ');
  expect(granted.match(/1 +None +500 each month/g)).toHaveLength(customers.length);
  const expectEffect = (text: string) => {
    const [, table = ''] = text.split('id="by-customer"');
    const rows = table.split('<tbody')[1]!.split('</tbody>')[0]!.split('<tr').slice(1);
    const find = ({ slug }: Own, { name }: { name: string }) =>
      rows.find((row) => row.includes(`/${slug}"`) && row.includes(name))?.replace(/<[^>]*>|\s+/g, ' ');
    expect(find(over, kept)).toMatch(/85 .* 90 .* 40 .* 213%/);
    expect(find(near, kept)).toMatch(/20 .* 90 .* 40 .* 50.0%/);
    expect(find(idle, kept)).toMatch(/ 0 .* 90 .* 40 .* 0%/);
    expect(find(byHand, kept)).toBeUndefined();
    expect(find(byHand, gone)).toMatch(/Withdrawn/);
    expect(rows.findIndex((row) => row.includes(`/${over.slug}"`))).toBe(0);
    expect(text).toContain('From version 1: 4 customers');
  };
  expectEffect((await post(`/console/plans/${plan}`, changed)).text);
  await post(`/console/plans/${plan}`, { ...changed, step: 'save' });
  expectEffect(await get(`/console/plans/${plan}`));
  await post(`/console/plans/${plan}/move`, {});
  const none = await post(`/console/plans/${plan}`, { ...changed, definition: terms(40, '# same\n') });
  expect(none.text).not.toContain('id="by-customer"');
});

describe('a new customer on one page', () => {
  const page = '/console/new-customer';
  let plan: string;
  let product: { slug: string; name: string };
  beforeAll(async () => {
    product = await createProduct(database.db, { unitCap: '50000' });
    plan = `pro-${product.slug}`;
    const definition = `entitlements:
  - { productSlug: ${product.slug}, limits: [{ quantity: 1234, window: PT1H, enforcement: block }], features: { sso: true } }
grants: [{ key: monthly, amount: 4321, every: month, expires: period }]
trial: { days: 14 }`;
    await post('/console/new-plan', { name: '<Pro>', slug: plan, definition, step: 'save' });
  });
  const find = async (slug: string) =>
    (await database.db.orm.select().from(organizations).where(eq(organizations.slug, slug)))[0];
  const planOf = async (id: string) =>
    (await database.db.orm.select().from(organizationPlans).where(eq(organizationPlans.orgId, id)))[0];

  it('shows what the owner of each plan will see', async () => {
    const text = await get(page);
    const view = text.split(`name="plan" value="${plan}"`)[1]!;
    for (const part of [
      product.name,
      '50,000',
      '1,234',
      'Blocks',
      'sso',
      '4,321 credits',
      'trial of 14 days',
    ])
      expect([part, view.split('class="plan-choice"')[0]!.includes(part)]).toEqual([part, true]);
    expect(text).toContain('&lt;Pro&gt;');
  });

  it('gets its plan and its owner’s invitation with one submit', async () => {
    const [slug, email] = [`one-${product.slug}`, `owner@${product.slug}.example`];
    const made = await post(page, {
      name: 'One',
      slug,
      plan,
      email: ` ${email.toUpperCase()} `,
      trial: plan,
    });
    expect([made.status, made.headers.get('cache-control')]).toEqual([201, 'no-store, no-transform']);
    expect(made.text).toMatch(/\/dashboard\/join#[\w-]{64}/);
    const { id } = (await find(slug))!;
    expect(await planOf(id)).toMatchObject({ plan, tried: [plan], trialEndsAt: expect.any(Date) as Date });
    const [invited] = await database.db.orm.select().from(invitations).where(eq(invitations.orgId, id));
    expect(invited).toMatchObject({ email, role: 'owner', acceptedAt: null });
    const actions = (await auditOf(database.db, id)).map(({ action }) => action);
    expect(actions).toEqual(
      expect.arrayContaining(['organization.created', 'plan.started', 'member.invited']),
    );
    expect(await get(`/console/customers/${slug}/credits`)).toContain('4,321');
  });

  it('has no trial of a plan that was not chosen', async () => {
    const slug = `two-${product.slug}`;
    expect((await post(page, { name: 'Two', slug, plan, trial: 'another' })).status).toBe(303);
    expect((await planOf((await find(slug))!.id))!.trialEndsAt).toBeNull();
  });

  it('is not created if a part of it is refused, and what was typed stays', async () => {
    const slug = `three-${product.slug}`;
    const typed = { name: '"Three" & co', slug, plan, email: 'owner@three.example' };
    for (const [wrong, detail, status] of [
      [{ plan: 'no-such-plan' }, 'no plan', 422],
      [{ plan: '<b>' }, 'Must be', 400],
      [{ email: 'nobody' }, 'Must be', 400],
      [{ name: '' }, 'Required', 400],
    ] as const) {
      const refused = await post(page, { ...typed, ...wrong });
      expect([wrong, refused.status, refused.text.includes(detail)]).toEqual([wrong, status, true]);
      for (const value of Object.values({ ...typed, ...wrong }))
        if (value !== 'no-such-plan' && value !== '<b>')
          expect(refused.text).toContain(`value="${value.replace('"Three" &', '&#34;Three&#34; &amp;')}"`);
      expect(await find(slug)).toBeUndefined();
    }
  });

  it('needs a fresh proof to invite its owner, and none without one', async () => {
    const [slug, other] = [`four-${product.slug}`, `five-${product.slug}`];
    await forgetConfirmation(service, operator.browser);
    const headers = { ...html, referer: service.url + page };
    const late = { name: 'Four', slug, plan, email: 'owner@four.example' };
    const asked = await operator.browser.send('POST', page, { form: late, headers });
    expect([asked.status, asked.headers.get('location')]).toEqual([
      303,
      `/confirm?next=${encodeURIComponent(page)}`,
    ]);
    expect(await find(slug)).toBeUndefined();
    expect((await post(page, { name: 'Five', slug: other, plan })).status).toBe(303);
  });
});

it('a customer’s plan says since when the customer is on it, and the log from which plan it came', async () => {
  const product = await createProduct(database.db, { name: 'Tiles' });
  const { slug } = await createOrganization(database.db);
  const own = `/console/customers/${slug}`;
  const start = service.clock.now();
  for (const [name, quantity] of [
    ['Growth', 70],
    ['Team', 80_000],
  ] as const) {
    const definition = `entitlements: [{ productSlug: ${product.slug}, limits: [{ quantity: ${quantity}, window: calendar_day, enforcement: warn }] }]`;
    const plan = `${name.toLowerCase()}-${slug}`;
    await post('/console/new-plan', { name, slug: plan, definition, step: 'save' });
    await post(`${own}/plan`, { plan, step: 'save' });
    service.clock.advance(HOUR_MS);
  }
  const since = new Date(start + HOUR_MS).toISOString().slice(0, 16);
  expect(await get(`${own}/plan`)).toMatch(new RegExp(`<dt>Since</dt>\\s*<dd>\\s*<time datetime="${since}`));
  const words = (await get(`${own}/audit-log`)).replaceAll(/<[^>]*>/g, '').replaceAll(/\s+/g, ' ');
  expect(words).toContain('Moved the customer from Growth to Team');
  expect(words).toContain('Changed the entitlement to Tiles: each day (UTC) 70 → 80,000,');
});
