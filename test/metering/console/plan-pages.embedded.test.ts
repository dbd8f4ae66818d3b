import { beforeAll, expect, it } from 'vitest';
import { createOrganization } from '../../support/fixtures.js';
import { signedInOperator, type TestOperator } from '../../support/operators.js';
import { useService } from '../../support/use.js';
import { createProduct } from '../support/products.js';

const { database, service } = useService();
let operator: TestOperator;
beforeAll(async () => {
  operator = await signedInOperator(service);
});

const html = { accept: 'text/html' };
const get = async (path: string) => (await operator.browser.get(path, html)).text;
const post = (path: string, form: Record<string, string>) =>
  operator.browser.send('POST', path, { form, headers: html });

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
  expect(await get(`/console/plans/${plan}`)).toContain(`unitCap: ${digits}`);

  const own = `/console/customers/${slug}/plan`;
  expect((await post(own, { plan })).text).toContain(`entitlement ${product.slug}`);
  expect((await post(own, { plan, step: 'save' })).status).toBe(303);
  expect(await get(own)).toContain('Active');
  expect(await get(`/console/customers/${slug}/entitlements`)).toContain(product.slug);

  const changed = { name: 'Team', definition: definition('7'), step: 'save' };
  expect((await post(`/console/plans/${plan}`, changed)).status).toBe(303);
  expect(await get(`/console/plans/${plan}/move`)).toContain('1 customer on earlier versions');
  expect((await post(`/console/plans/${plan}/move`, {})).status).toBe(303);
  expect(await get(`/console/plans/${plan}/move`)).toContain('Nothing to move');
  expect(await get(`${own}/end`)).toContain('End');
  expect((await post(`${own}/end`, {})).status).toBe(303);
  expect(await get(own)).toContain('Put this customer on a plan');
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
