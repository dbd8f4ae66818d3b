import { and, eq } from 'drizzle-orm';
import { beforeAll, expect, it } from 'vitest';
import { monthOf } from '../../../src/core/time.js';
import { entitlements, products } from '../../../src/metering/entitlements/table.js';
import { usageSubjects, usageTotals } from '../../../src/metering/ingestion/table.js';
import { createOrganization } from '../../support/fixtures.js';
import { signedInOperator, type TestOperator } from '../../support/operators.js';
import { useService } from '../../support/use.js';
import { createProduct, grant } from '../support/products.js';

const { database, service } = useService();
let operator: TestOperator;
beforeAll(async () => {
  operator = await signedInOperator(service);
});

const html = { accept: 'text/html' };
const terms = { kind: 'live', cap: 'product' };

async function scene(values: Parameters<typeof grant>[3] = {}) {
  const { id, slug } = await createOrganization(database.db);
  const product = await createProduct(database.db);
  await grant(database.db, id, product.id, values);
  const path = `/console/customers/${slug}/entitlement?product=${product.slug}`;
  return {
    path,
    slug,
    product,
    open: async () => (await operator.browser.get(path, html)).text,
    post: (form: Record<string, string>, at = path) =>
      operator.browser.send('POST', at, { form, headers: html }),
    stored: async () => {
      const isThis = and(eq(entitlements.orgId, id), eq(entitlements.productId, product.id));
      const [row] = await database.db.orm.select().from(entitlements).where(isThis);
      return row!;
    },
  };
}

const limit = (n: number, quantity: string, window: string, length: string, enforcement: string) => ({
  [`limits.${n - 1}.quantity`]: quantity,
  [`limits.${n - 1}.window`]: window,
  [`limits.${n - 1}.length`]: length,
  [`limits.${n - 1}.enforcement`]: enforcement,
});

/** The values of the form's fields, as a browser would send them. */
function fieldsOf(text: string): Record<string, string> {
  const form = text.split('class="stack terms"')[1]!.split('</form>')[0]!;
  const inputs = [...form.matchAll(/<input [^>]*?name="([^"]+)"[^>]*>/g)]
    .filter(([tag]) => !tag.includes('type="radio"') || / checked/.test(tag))
    .map(([tag, name]) => [name!, /value="([^"]*)"/.exec(tag)?.[1] ?? '']);
  const selects = [...form.matchAll(/<select [^>]*?name="([^"]+)"[^>]*>(.*?)<\/select>/gs)].map(
    ([, name, options]) => [name!, /value="([^"]*)" selected/.exec(options!)?.[1] ?? ''],
  );
  return Object.fromEntries([...inputs, ...selects]) as Record<string, string>;
}

it('names products without their slugs, and says in words how features are written', async () => {
  const { slug, product } = await scene();
  const { text } = await operator.browser.get(`/console/customers/${slug}/entitlement`, html);
  expect(text).toMatch(new RegExp(`value="${product.slug}"[^>]*>\\s*${product.name}\\s*</option>`));
  expect(text).toContain('One per line, such as seats = 5.');
});

it('fills in the product’s cap for a custom one, and takes it only with that choice', async () => {
  const { open, post, product, stored } = await scene();
  await database.db.orm.update(products).set({ unitCap: '250.5' }).where(eq(products.id, product.id));
  const text = await open();
  const fields = fieldsOf(text);
  const [, example] = /name="startsAt"[^>]* placeholder="([^"]*) 12:00"/.exec(text)!;
  expect(Date.parse(`${example!} UTC`)).toBeGreaterThan(Date.now());
  expect(fields).toMatchObject({ cap: 'product', unitCap: '250.5' });
  for (const [cap, unitCap] of [
    ['product', null],
    ['none', null],
    ['own', '250.5'],
  ] as const) {
    expect([cap, (await post({ ...fields, cap, step: 'save' })).status]).toEqual([cap, 303]);
    expect((await stored()).unitCap).toBe(unitCap);
  }
  expect((await post({ ...fields, unitCap: '7' })).status).toBe(400);
});

it('stores the rows of limits, and thresholds', async () => {
  const { post, stored } = await scene();
  const { status } = await post({
    step: 'save',
    ...terms,
    ...limit(1, '1,000', 'hours', '5', 'block'),
    ...limit(2, '0.5', 'calendar_week', '', 'warn'),
    thresholds: '90, 75 %',
  });
  expect([status, await stored()]).toMatchObject([
    303,
    {
      limits: [
        { quantity: '1000', window: 'PT5H', enforcement: 'block' },
        { quantity: '0.5', window: 'calendar_week', enforcement: 'warn' },
      ],
      thresholds: [75, 90],
    },
  ]);
  await post({ ...terms, step: 'save' });
  expect(await stored()).toMatchObject({ limits: null, thresholds: [] });
});

it('previews each change to an entitlement, and shows the limits of each subject', async () => {
  const limits = [{ quantity: '1800', window: 'P7D', enforcement: 'warn', per: 'subject' } as const];
  const { post, stored, slug } = await scene({ limits });
  const { orgId, productId } = await stored();
  const use = { orgId, productId, period: monthOf(Date.now()), livemode: true, metric: 'calls' };
  await database.db.orm.insert(usageTotals).values({ ...use, quantity: '42', events: 1 });
  const sum = { orgId, productId, livemode: true, metric: 'calls', slot: new Date(), events: 1 };
  const sums = ['low', 'high'].map((subject, i) => ({ ...sum, subject, quantity: String(1540 + i) }));
  await database.db.orm.insert(usageSubjects).values(sums);
  const highest =
    /Highest: <a href="\/console[^"]*&amp;subject=high"><bdi>high<\/bdi><\/a> <strong>1,541<\/strong> of 1,800/;
  const list = await operator.browser.get(`/console/customers/${slug}/entitlements`, html);
  expect(list.text).toMatch(highest);
  const overview = await operator.browser.get(`/console/customers/${slug}`, html);
  expect(overview.text).toMatch(highest);
  for (const { text } of [list, overview])
    expect(text).toMatch(/data-tone="warn"[^>]*aria-label="1,541 of 1,800 used"/);
  // The dot stays beside its link.
  expect(overview.text).toMatch(/nowrap">· <a href="[^"]*\/entitlement\?product=[^"]*">Change the limit</);
  expect(list.text).toMatch(/Each subject, rolling 7\sdays: at most\s+1,800 <bdi>calls/);
  expect(list.text).toMatch(/42<\/strong>\s+<bdi>calls<\/bdi>, no cap/);
  const change = { kind: 'live', cap: 'own', unitCap: '40', thresholds: '50, 250' };
  const { status, text } = await post(change);
  expect([status, (await stored()).unitCap]).toEqual([200, null]);
  const words = text.replaceAll(/<[^>]*>/g, ' ').replaceAll(/\s+/g, ' ');
  for (const part of [
    'Thresholds 50, 80, 100 50, 250',
    'Cap none (the product’s) 40',
    'Used this month No cap 105% of 40',
    'over the new cap at once',
  ])
    expect(words).toContain(part);
  await database.db.orm.update(products).set({ unitCap: '10000' }).where(eq(products.id, productId));
  expect((await post(change)).text).toMatch(/>10,000 \(the product’s\)<.*?>40</s);
  expect((await post({ ...change, step: 'edit' })).text).toContain('value="50, 250"');
  expect((await post({ ...change, step: 'save' })).status).toBe(303);
  expect(await stored()).toMatchObject({ unitCap: '40', thresholds: [50, 250] });
});

it('tells that a change by hand takes an entitlement out of its plan, whose cap is not a custom one', async () => {
  const { open, post, product, slug, stored } = await scene();
  const customer = `/console/customers/${slug}`;
  const plan = `own-${slug}`;
  const definition = `entitlements: [{ productSlug: ${product.slug}, unitCap: 1000 }]`;
  await post({ name: 'Own', slug: plan, definition, step: 'save' }, '/console/new-plan');
  await post({ plan, replace: 'yes', step: 'save' }, `${customer}/plan`);
  expect(await stored()).toMatchObject({ plan, unitCap: '1000' });
  const list = async () => (await operator.browser.get(`${customer}/entitlements`, html)).text;
  expect(await list()).toMatch(
    /From the plan<.*?of 1,000\s+<bdi>calls<\/bdi> <span class="badge">Warns<.*?>Resets .*? · 0% of the cap</s,
  );
  expect(await open()).toContain('no longer changes it');
  // Nothing is used, and the terms stay as they are.
  const kept = fieldsOf(await open());
  const { text } = await post(kept);
  expect(text).toContain('Nothing to change.');
  expect(text).not.toContain('Nothing has changed yet.');
  expect(await stored()).toMatchObject({ plan });
  const changed = (await post({ ...kept, cap: 'own', unitCap: '500' })).text;
  expect(changed).toMatch(/>1,000<.*?>500<.*?>Set<.*?>by the plan Own.*?>by hand</s);
  expect((await post({ ...kept, cap: 'own', unitCap: '500', step: 'save' })).status).toBe(303);
  expect(await stored()).toMatchObject({ plan: null, unitCap: '500' });
  expect(await list()).toMatch(/0% of the cap, custom</);
});

it('saving the form as it was opened changes nothing', async () => {
  const startsAt = new Date('2026-01-02T03:04:05.678Z');
  const { open, post, stored } = await scene({
    startsAt,
    endsAt: new Date('2999-01-02T03:04:05.678Z'),
    hasOwnCap: true,
    unitCap: '1234.5',
    limits: [
      { quantity: '10', window: 'P1DT12H', enforcement: 'warn' },
      { quantity: '3', window: 'PT90S', enforcement: 'block' },
      { quantity: '7', window: 'P31D', enforcement: 'block' },
    ],
    thresholds: [5, 1000],
  });
  const before = await stored();
  const fields = fieldsOf(await open());
  expect(fields).toMatchObject({
    'limits.0.window': 'hours',
    'limits.0.length': '36',
    'limits.1.length': '90',
    cap: 'own',
  });
  expect((await post(fields)).text).toContain('Nothing to change.');
  expect((await post({ ...fields, step: 'save' })).status).toBe(303);
  expect(await stored()).toEqual(before);
});

it('adding and removing rows keeps everything that was typed, and stores nothing', async () => {
  const { open, post, stored } = await scene();
  const before = await stored();
  const typed = { ...fieldsOf(await open()), startsAt: '3 Feb 2026 04:05', cap: 'own', unitCap: '1,5' };
  const added = await post({ ...typed, edit: 'add limits' });
  expect([added.status, / name="limits.0.quantity"[^>]* autofocus/.test(added.text)]).toEqual([200, true]);
  const first = fieldsOf(added.text);
  expect(first).toMatchObject({ ...typed, 'limits.0.quantity': '', 'limits.0.window': 'calendar_month' });
  const filled = { ...first, 'limits.0.quantity': 'many', 'limits.0.window': 'days' };
  const second = fieldsOf((await post({ ...filled, edit: 'add limits' })).text);
  expect(second).toMatchObject({ ...filled, 'limits.1.quantity': '' });
  const removed = fieldsOf(
    (await post({ ...second, 'limits.1.quantity': '9', edit: 'remove limits.0' })).text,
  );
  expect(removed).toMatchObject({ ...typed, 'limits.0.quantity': '9' });
  expect(removed).not.toHaveProperty('limits.1.quantity');
  expect([removed.thresholds, await stored()]).toEqual(['50, 80, 100', before]);
});

it('has room for eight limits', async () => {
  const { post } = await scene();
  const eight = Object.assign({}, ...[1, 2, 3, 4, 5, 6, 7, 8].map((n) => limit(n, '1', 'days', '1', 'warn')));
  const { text } = await post({ ...terms, ...eight, edit: 'add limits' });
  expect([text.includes('name="limits.7.quantity"'), text.includes('name="limits.8')]).toEqual([true, false]);
  expect(text).not.toContain('Add a limit');
  const nine = await post({ ...terms, ...eight, ...limit(9, '1', 'days', '1', 'warn') });
  expect([nine.status, nine.text.includes('Must have at most 8 limits')]).toEqual([400, true]);
});

it.each([
  [limit(1, '', 'calendar_day', '', 'warn'), 'limits.0.quantity', 'Limit 1, quantity', 'Required'],
  [limit(1, '1,5', 'calendar_day', '', 'warn'), 'limits.0.quantity', 'Limit 1, quantity', 'Must be a number'],
  [
    limit(1, '1.000', 'calendar_day', '', 'warn'),
    'limits.0.quantity',
    'Limit 1, quantity',
    'Could mean 1000 or 1',
  ],
  [
    limit(1, '1', 'fortnight', '', 'warn'),
    'limits.0.window',
    'Limit 1, window',
    'Must be one of the options',
  ],
  [limit(1, '1', 'toString', '', 'warn'), 'limits.0.window', 'Limit 1, window', 'Must be one of the options'],
  [
    limit(1, '1', 'calendar_day', '5', 'warn'),
    'limits.0.length',
    'Limit 1, length',
    'Filled in, but a calendar',
  ],
  [limit(1, '1', 'hours', '', 'warn'), 'limits.0.length', 'Limit 1, length', 'Required for a window'],
  [limit(1, '1', 'hours', '1.5', 'warn'), 'limits.0.length', 'Limit 1, length', 'Must be a whole number'],
  [
    limit(1, '1', 'days', '32', 'warn'),
    'limits.0.length',
    'Limit 1, length',
    'Must be from 1 minute to 31 days',
  ],
  [
    limit(1, '1', 'seconds', '59', 'warn'),
    'limits.0.length',
    'Limit 1, length',
    'Must be from 1 minute to 31 days',
  ],
  [limit(1, '1', 'hours', '5', 'stop'), 'limits.0.enforcement', 'Limit 1, enforcement', 'Must be one of'],
  [{ thresholds: '0' }, 'thresholds', 'Thresholds', 'Must be at most 10 whole numbers from 1 to 1000'],
  [{ thresholds: '1.5' }, 'thresholds', 'Thresholds', 'Must be at most 10 whole numbers from 1 to 1000'],
  [{ thresholds: '1 2 3 4 5 6 7 8 9 10 11' }, 'thresholds', 'Thresholds', 'Must be at most 10 whole'],
  [{ thresholds: '50, 50%' }, 'thresholds', 'Thresholds', 'Must not repeat a percentage'],
  [{ edit: 'removeEverything' }, 'edit', 'Edit', 'Not a known button'],
])('names the row and the field of %j', async (fields, name, label, message) => {
  const { post, stored } = await scene();
  const before = await stored();
  const { status, text } = await post({ ...terms, ...fields });
  expect([status, text]).toEqual([
    400,
    expect.stringContaining(`<a href="#field-${name}">${label}</a>: ${message}`),
  ]);
  if (name !== 'edit') expect(text).toMatch(new RegExp(`id="field-${name}"[^>]* aria-invalid="true"`));
  expect(await stored()).toEqual(before);
});

it('never replaces the terms of an entitlement that its form does not show', async () => {
  const { post, stored, slug, product } = await scene({ hasOwnCap: true, unitCap: '7' });
  const before = await stored();
  const other = await createProduct(database.db);
  const form = `/console/customers/${slug}/entitlement`;
  for (const [at, named, problem] of [
    [form, product.slug, 'Already granted'],
    [`${form}?product=${other.slug}`, product.slug, 'Not the product of this page'],
  ] as const) {
    const { status, text } = await post({ ...terms, product: named }, at);
    expect([at, status, text.includes(problem)]).toEqual([at, 400, true]);
  }
  expect(await stored()).toEqual(before);
});

it('takes features as lines, and names the wrong one', async () => {
  const { post, open, stored } = await scene();
  const features = 'sso\r\nmax_seats = 5\r\nregions = ["eu"]\r\nold = null';
  expect((await post({ ...terms, features, step: 'save' })).status).toBe(303);
  expect((await stored()).features).toEqual({ sso: true, max_seats: 5, regions: ['eu'], old: null });
  expect(await open()).toContain(
    'max_seats = 5\nold = null\nregions = [&#34;eu&#34;]\nsso = true</textarea>',
  );
  const refused = await post({ ...terms, features: 'Max seats = 5' });
  expect(refused.status).toBe(400);
  expect(refused.text).toContain('“Max seats” must be a name');
  expect(refused.text).toContain('>\nMax seats = 5</textarea>');
});

it('a product without a metric is created with features and shows no usage', async () => {
  const { slug } = await createOrganization(database.db);
  const form = { name: 'Single sign-on', slug: `sso-${slug}`, features: 'sso = true' };
  const made = await operator.browser.send('POST', '/console/new-product', { form, headers: html });
  expect(made.status).toBe(303);
  await operator.browser.send('POST', `/console/customers/${slug}/entitlement`, {
    form: { ...terms, product: form.slug },
    headers: html,
  });
  const page = await operator.browser.get(`/console/customers/${slug}/entitlements`, html);
  expect(page.text).toContain('No usage');
  expect(page.text).toMatch(/>sso<\/dt> <dd><bdi>yes<\/bdi>/);
});

it('the form of a product reports all mistakes at once', async () => {
  const form = {
    name: 'Seats',
    slug: '',
    usageMetric: 'calls',
    unitCap: '-1',
    features: 'seats: 5',
    dimensions: 'a b',
  };
  const refused = await operator.browser.send('POST', '/console/new-product', { form, headers: html });
  expect(refused.status).toBe(400);
  for (const name of ['unitCap', 'features', 'dimensions'])
    expect(refused.text).toMatch(new RegExp(`name="${name}"[^>]* aria-invalid="true"`));
  expect(refused.text).toContain('Needs “=” after the name, like seats = 5.');
});
