import { sql } from 'drizzle-orm';
import { beforeAll, describe, expect, it } from 'vitest';
import { createOrganization } from '../../support/fixtures.js';
import { operatorClient, unique } from '../../support/operator.js';
import { signedInOperator, type TestOperator } from '../../support/operators.js';
import { useService } from '../../support/use.js';
import { createTenant } from '../support/usage.js';

const { database, service } = useService();
const call = operatorClient(() => service);
let operator: TestOperator;
beforeAll(async () => {
  operator = await signedInOperator(service);
});

const html = { accept: 'text/html' };
const open = async (path: string) => (await operator.browser.get(path, html)).text;
const post = (path: string, form: Record<string, string>) =>
  operator.browser.send('POST', path, { form, headers: html });
const hourOf = (ms: number) => new Date(Math.floor(ms / 3_600_000) * 3_600_000).toISOString();

describe.each([
  ['/organizations', { name: 'Acme' }, 'stripeCustomerId', 'cus_NciAYcXfLnqBoz', 'cus_other'],
  ['/products', { name: 'Forecasts', usageMetric: 'calls' }, 'stripeMeterEvent', 'api_calls', 'calls v2'],
])('PUT /operator%s/:slug', (path, input, field, value, other) => {
  it(`sets, keeps, changes and clears ${field}; the first hour stays that of the first setting`, async () => {
    const address = `${path}/${unique('stripe')}`;
    const put = async (more: object = {}) => (await call('PUT', address, { ...input, ...more })).body;
    expect(await put()).toMatchObject({ [field]: null, stripeSince: null });
    const since = hourOf(service.clock.now());
    expect(await put({ [field]: value })).toMatchObject({ [field]: value, stripeSince: since });
    service.clock.advance(2 * 3_600_000);
    expect(await put()).toMatchObject({ [field]: value, stripeSince: since });
    expect(await put({ [field]: other })).toMatchObject({ [field]: other, stripeSince: since });
    expect((await call('GET', address)).body).toMatchObject({ [field]: other, stripeSince: since });
    expect(await put({ [field]: null })).toMatchObject({ [field]: null, stripeSince: null });
    expect(await put({ [field]: value })).toMatchObject({ stripeSince: hourOf(service.clock.now()) });
    const { body } = await call('GET', `${path === '/products' ? '' : address}/audit-log?limit=50`);
    const change = body.auditLog.find(({ details }: any) => details?.after?.[field] !== undefined);
    expect(change.details).toEqual({ before: { [field]: null }, after: { [field]: value } });
  });

  it(`refuses other values of ${field} and names it`, async () => {
    const values = ['', 'x'.repeat(101), 7, ['a'], {}, 'a\u0000b'];
    if (field === 'stripeCustomerId') values.push('acct_1', 'cus_', "cus_1' or 1=1", 'cus_1/../x', 'cus_é');
    for (const wrong of values) {
      const { status, body } = await call('PUT', `${path}/${unique('stripe')}`, { ...input, [field]: wrong });
      expect([wrong, status, body.errors[0].pointer]).toEqual([wrong, 400, `/${field}`]);
    }
  });
});

describe('the console', () => {
  // Changing the Stripe customer needs a fresh proof, and the clock has been advanced.
  beforeAll(async () => {
    operator = await signedInOperator(service);
  });

  it('warns about Organizations with one Stripe customer, on both pages and in the list', async () => {
    const [first, second, other] = [
      await createOrganization(database.db),
      await createOrganization(database.db),
      await createOrganization(database.db),
    ];
    const customer = `cus_${unique('shared').replaceAll('-', '')}`;
    const set = (slug: string, stripeCustomerId: string) =>
      call('PUT', `/organizations/${slug}`, { name: slug, stripeCustomerId });
    await set(first.slug, customer);
    await set(other.slug, `${customer}2`);
    const page = (slug: string) => open(`/console/customers/${slug}`);
    expect(await page(first.slug)).not.toContain('also pays for');
    await set(second.slug, customer);
    for (const [own, sharer] of [
      [first, second],
      [second, first],
    ] as const) {
      const text = await page(own.slug);
      expect(text).toContain(`<code>${customer}</code> also pays for`);
      expect(text).toContain(`href="/console/customers/${sharer.slug}"`);
      expect(text).toContain('Shared Stripe customer');
    }
    expect(await page(other.slug)).not.toContain('also pays for');
    const listed = await open('/console?signal=stripe');
    expect([first, second, other].map(({ slug }) => listed.includes(slug))).toEqual([true, true, false]);
  });

  it('sets and clears the Stripe customer, and the audit log says so', async () => {
    const { slug, name } = await createOrganization(database.db);
    const path = `/console/customers/${slug}/settings`;
    expect((await post(path, { name, stripeCustomerId: 'cus_one' })).status).toBe(303);
    expect(await open(path)).toContain('value="cus_one"');
    // A form opened before the field existed does not include the field.
    expect((await post(path, { name: 'Renamed' })).status).toBe(303);
    expect(await open(path)).toContain('value="cus_one"');
    const refused = await post(path, { name: 'Typed', stripeCustomerId: 'acct_<b>' });
    expect([refused.status, refused.text.includes('value="acct_&lt;b&gt;"')]).toEqual([400, true]);
    expect(refused.text).toContain('Must be the id of a Stripe customer');
    expect(refused.text).toContain('value="Typed"');
    expect((await post(path, { name: 'Renamed', stripeCustomerId: '' })).status).toBe(303);
    expect(await open(path)).not.toContain('cus_one');
    const log = await open(`/console/customers/${slug}/audit-log`);
    expect(log).toContain('et the Stripe customer');
    expect(log).toContain('emoved the Stripe customer');
  });

  it('sets and clears the meter of a product', async () => {
    const { product } = await createTenant(database.db);
    const path = `/console/products/${product.slug}`;
    const form = { name: product.name, usageMetric: 'calls', step: 'save' };
    expect((await post(path, { ...form, stripeMeterEvent: 'api <b>' })).status).toBe(303);
    expect(await open(path)).toContain('value="api &lt;b&gt;"');
    expect((await post(path, form)).status).toBe(303);
    expect(await open(path)).toContain('value="api &lt;b&gt;"');
    expect((await post(path, { ...form, stripeMeterEvent: 'x'.repeat(101) })).status).toBe(400);
    expect((await post(path, { ...form, stripeMeterEvent: '' })).status).toBe(303);
    expect(await open(path)).not.toContain('api &lt;b&gt;');
  });

  it('shows the last error from Stripe on its customer and product, and nowhere else', async () => {
    const own = await createTenant(database.db);
    const other = await createTenant(database.db);
    const fail = (state: string, error: string, revision: number) =>
      database.db.orm.execute(sql`insert into stripe_events
        (org_id, product_id, livemode, hour, revision, metric, quantity, customer_id, event_name, planned_at, next_attempt_at, state, last_error)
        values (${own.organization.id}::uuid, ${own.product.id}::uuid, true, '2031-01-01', ${revision}, 'calls', 1, 'cus_1', 'calls',
          timestamptz '2031-01-01' + ${revision} * interval '1 hour', '2031-01-01', ${state}, ${error})`);
    await fail('waiting', 'No such customer: <b>cus_1', 1);
    const pages = [`/console/customers/${own.organization.slug}`, `/console/products/${own.product.slug}`];
    for (const page of pages) {
      const text = await open(page);
      expect(text).toContain('No such customer: &lt;b&gt;cus_1');
      expect(text).toContain('Gauge will send it again.');
    }
    await fail('unknown', 'Stripe did not answer', 2);
    for (const page of pages) expect(await open(page)).toContain('npm run stripe');
    for (const page of [
      `/console/customers/${other.organization.slug}`,
      `/console/products/${other.product.slug}`,
    ])
      expect(await open(page)).not.toContain('Stripe did not answer');
  });
});
