import { beforeAll, expect, it } from 'vitest';
import { everything } from '../../src/markets/venue/simulation/world.js';
import { signedIn } from '../support/accounts.js';
import { browserWorld } from '../support/browser.js';
import { createKey, createOrganization } from '../support/fixtures.js';
import { addGrant } from '../metering/support/credits.js';
import { createProduct, grant } from '../metering/support/products.js';
import { signedInOperator } from '../support/operators.js';

const world = browserWorld({ trading: { selection: everything } });
beforeAll(() => world.service.trading.refresher.refresh());

/**
 * Forms with a field that applies to only one option of a choice. `open` returns the caller's browser and the form's
 * path.
 */
const forms = [
  {
    form: 'an entitlement',
    choice: 'cap',
    chosen: 'own',
    other: 'none',
    field: 'unitCap',
    value: '1000',
    async open() {
      await createProduct(world.db);
      const { slug } = await createOrganization(world.db);
      const { browser } = await signedInOperator(world.service);
      return { browser, path: `/console/customers/${slug}/entitlement` };
    },
  },
  {
    form: 'the owner of a first start',
    choice: 'owner',
    chosen: 'other',
    other: 'me',
    field: 'email',
    value: 'olga@acme.example',
    async open() {
      await createOrganization(world.db);
      const { browser } = await signedInOperator(world.service);
      return { browser, path: '/set-up/owner' };
    },
  },
  {
    form: 'a new API key',
    choice: 'expiry',
    chosen: 'at',
    other: '30',
    field: 'expiresAt',
    value: '2131-05-06T07:08',
    async open() {
      const { browser } = await signedIn(world.db, world.service.url);
      return { browser, path: '/dashboard/api-keys/new' };
    },
  },
  {
    form: 'a rotation',
    choice: 'grace',
    chosen: 'custom',
    other: '60',
    field: 'graceMinutes',
    value: '5',
    async open() {
      const { browser, organization } = await signedIn(world.db, world.service.url);
      const { id } = await createKey(world.db, organization.id);
      return { browser, path: `/dashboard/api-keys/${id}/rotate` };
    },
  },
  {
    form: 'an order',
    choice: 'timeInForce',
    chosen: 'good_till_time',
    other: 'immediate_or_cancel',
    field: 'expiresAt',
    value: '2131-05-06T07:08',
    async open() {
      const { browser } = await signedIn(world.db, world.service.url);
      const markets = [...world.service.trading.snapshots.current!.markets.values()];
      const { ticker } = markets.find(({ status }) => status === 'active')!;
      return { browser, path: `/dashboard/markets/${ticker}` };
    },
  },
];

it.each(forms)('the choice of $form follows what is typed', async (form) => {
  const { browser, path } = await form.open();
  const page = await world.visit({ as: browser });
  await page.goto(path);
  const { choice, other, chosen } = form;
  const isChosen = (value: string) =>
    page.locator(
      `input[name=${choice}][value="${value}"]:checked, select[name=${choice}]:has(option[value="${value}"]:checked)`,
    );
  const choose = async (value: string) => {
    const select = page.locator(`select[name=${choice}]`);
    if ((await select.count()) > 0) await select.selectOption(value);
    else await page.locator(`input[name=${choice}][value="${value}"]`).check();
  };
  const field = page.locator(`input[name=${form.field}][data-choice]`);
  await choose(other);
  // Some forms hide the field until its option is chosen.
  if (!(await field.isVisible())) await choose(chosen);
  await field.fill(form.value);
  expect(await isChosen(chosen).count()).toBe(1);
  await choose(other);
  expect(await field.inputValue()).toBe('');
  await choose(chosen);
  expect(await field.inputValue()).toBe(form.value);
});

it('shows a custom cap only with its choice, also without a script', async () => {
  const product = await createProduct(world.db, { unitCap: '250.5' });
  const { slug } = await createOrganization(world.db);
  const { browser } = await signedInOperator(world.service);
  const page = await world.visit({ as: browser, javaScript: false });
  await page.goto(`/console/customers/${slug}/entitlement?product=${product.slug}`);
  const field = page.getByLabel('Custom cap');
  expect([await field.isVisible(), await field.inputValue()]).toEqual([false, '250.5']);
  await page.getByLabel('Cap per month (UTC)').selectOption('own');
  expect(await field.isVisible()).toBe(true);
  await field.fill('7');
  await page.getByLabel('Cap per month (UTC)').selectOption('product');
  await page.getByRole('button', { name: 'Grant' }).click();
  expect([await field.isVisible(), await field.inputValue()]).toEqual([true, '7']);
});

it('only an order that rests in the book can be post only', async () => {
  const { browser, path } = await forms.find(({ form }) => form === 'an order')!.open();
  const page = await world.visit({ as: browser });
  await page.goto(path);
  const [timeInForce, postOnly] = [page.locator('select[name=timeInForce]'), page.getByLabel('Post only')];
  expect(await postOnly.isVisible()).toBe(false);
  await timeInForce.selectOption('good_till_cancelled');
  await postOnly.check();
  await timeInForce.selectOption('good_till_time');
  expect(await postOnly.isChecked()).toBe(true);
  // The order ends with the market unless another time is typed.
  await expect.poll(() => page.getByLabel('Expires (UTC)').inputValue()).toMatch(/20\d\d \d\d:\d\d$/);
  expect(await page.locator('.error').count()).toBe(0);
  await timeInForce.selectOption('fill_or_kill');
  expect(await postOnly.isChecked()).toBe(false);
});

it('each kind of alert suggests a level until one is typed', async () => {
  const { browser, organization } = await signedIn(world.db, world.service.url);
  const product = await createProduct(world.db, { unitCap: '10' });
  await grant(world.db, organization.id, product.id);
  await addGrant(world.db, organization.id, { amount: '500' }, new Date(world.service.clock.now()));
  const page = await world.visit({ as: browser });
  await page.goto('/dashboard/usage/alerts');
  const [kind, level] = [page.getByLabel('Alert on'), page.getByLabel('Level')];
  for (const [chosen, suggested] of [
    [product.slug, '95'],
    [':left', '100'],
    ['', ''],
  ] as const) {
    await kind.selectOption(chosen);
    expect(await level.inputValue()).toBe(suggested);
  }
  await level.fill('60');
  await kind.selectOption(product.slug);
  expect(await level.inputValue()).toBe('60');
});
