import { beforeAll, expect, it } from 'vitest';
import { Browser, PASSWORD, signedIn } from '../support/accounts.js';
import { openLiveAccount, removeKeys } from '../markets/support/live-account.js';
import { browserWorld, PHONE } from '../support/browser.js';
import { createKey, createOrganization } from '../support/fixtures.js';
import { forgetConfirmation, signedInOperator, type TestOperator } from '../support/operators.js';
import { hostileNames, populate, type Populated } from '../pages/populated.js';
import { operatorClient } from '../support/operator.js';
import { startTestService } from '../support/service.js';
import { consoleRoutes } from '../pages/matrix.js';
import { countInjected, findAllBarriers } from './barriers.js';
import { readMain } from './steps.js';

const world = browserWorld();

let hostile: Populated;
let operator: TestOperator;
let serviceKeyId: string;
const PLAN = 'hostile';
beforeAll(async () => {
  hostile = await populate(world.service, hostileNames);
  operator = await signedInOperator(world.service);
  await new Browser(world.service.url).signIn(hostile.people.admin.email, 'wrong');
  const operate = operatorClient(() => world.service);
  const [name] = hostileNames.keys;
  const key = await operate('POST', '/service-keys', { name, livemode: true, scopes: ['usage:write'] });
  serviceKeyId = (key.body as { serviceKey: { id: string } }).serviceKey.id;
  for (const productSlug of hostile.productSlugs.slice(0, 2))
    await operate('PUT', `/plans/${PLAN}`, {
      name,
      entitlements: [{ productSlug, limits: [{ quantity: 5, window: 'calendar_month' }] }],
      grants: [{ key: 'credits', amount: 10, every: 'month', expires: 'period' }],
    });
  const put = await operate('PUT', `/organizations/${hostile.slug}/plan`, { plan: PLAN });
  expect(put).toMatchObject({ status: 201, body: { version: 2 } });
});

/** Pages that show a person's failed sign-ins. */
const failedShown = new Set<string>(['get /console/customers/{slug}/people', 'get /console/people/{userId}']);

/** Fills in the path of a console route with the customer and its objects. */
function toConsolePath(route: string): string {
  return route
    .slice('get '.length)
    .replace(/entitlement\/withdraw$/, `$&?product=${hostile.productSlugs[0]!}`)
    .replace(/trading\/switch$/, '$&?state=halt')
    .replace(/credits\/void$/, `$&?grant=${encodeURIComponent(hostileNames.keys[0]!)}`)
    .replace(/credits\/forgive$/, `$&?product=${hostile.productSlugs[0]!}`)
    .replace('/plans/{slug}', `/plans/${PLAN}`)
    .replace('/service-keys/{id}', `/service-keys/${serviceKeyId}`)
    .replace('{slug}', route.includes('/products/') ? hostile.productSlugs[0]! : hostile.slug)
    .replace('{userId}', route.includes('operators') ? operator.id : hostile.people.admin.id)
    .replace('{id}', route.includes('/webhooks/') ? hostile.webhook.id : hostile.keyIds[0]!);
}

/** Route of a page that exists only for customers that trade live. */
const RECONCILIATION = 'get /console/trading/reconciliation';
const SHARDS = 'get /console/shards';

it('the live account and its differences from the venue are accessible', async () => {
  const account = await openLiveAccount(world.db);
  try {
    const { browser } = await signedInOperator(account.service);
    account.venue.exchange.balanceCents -= 1_000;
    account.venue.exchange.positions.set('KXOTHER-1', -25);
    await account.live.reconcile();
    const page = await world.visit({ as: browser, at: account.service });
    for (const path of ['/console/trading', toConsolePath(RECONCILIATION)]) {
      await page.goto(path);
      await page.getByRole('table', { name: 'Differences' }).waitFor();
      expect(await findAllBarriers(page)).toEqual([]);
    }
  } finally {
    await account.stop();
    removeKeys();
  }
});

it('shard groups are accessible, even if one is unreachable', async () => {
  const { shards } = world.db;
  const group = (id: string, worker: string, ping: () => Promise<void>) => ({
    ...shards.groups[0]!,
    id,
    worker,
    ping,
  });
  const groups = [
    group('102010', 'worker-1.database.internal:5432', () => Promise.resolve()),
    group('102012', 'worker-2.database.internal:5432', () => Promise.reject(new Error('away'))),
  ];
  const service = await startTestService({ ...world.db, shards: { ...shards, groups } });
  try {
    const { browser } = await signedInOperator(service);
    const page = await world.visit({ as: browser, at: service });
    await page.goto('/console');
    await page.getByRole('link', { name: 'Shard groups' }).click();
    await page.getByText('Unreachable').waitFor();
    expect(await readMain(page)).toContain('Serving');
    expect(await findAllBarriers(page)).toEqual([]);
  } finally {
    await service.stop();
  }
});

/** False for routes that return a file. */
const isPage = (route: string) => route.startsWith('get ') && !route.endsWith('.csv');

it.each(consoleRoutes.filter(isPage))('%s shows hostile names as text and is accessible', async (route) => {
  const page = await world.look(operator.browser);
  const response = await page.goto(toConsolePath(route));
  // No customer of this service trades live, and its database has no shards.
  expect(response!.status()).toBe([RECONCILIATION, SHARDS].includes(route) ? 404 : 200);
  expect(await countInjected(page)).toBe(0);
  if (failedShown.has(route)) expect(await readMain(page)).toContain('1 wrong password');
  expect(await findAllBarriers(page)).toEqual([]);
});

it.each([{ javaScript: true }, { javaScript: false }])(
  'a customer that an operator archives is locked out on the next call and click, and gets back in when restored (scripts: $javaScript)',
  async ({ javaScript }) => {
    const { db, service } = world;
    const { browser, organization } = await signedIn(db, service.url);
    const { secret } = await createKey(db, organization.id);
    const call = async () =>
      (await fetch(`${service.url}/api/key`, { headers: { authorization: `Bearer ${secret}` } })).status;
    expect(await call()).toBe(200);
    const owner = await world.visit({ javaScript, as: browser });
    await owner.goto('/dashboard/members');

    const console = await world.visit({ javaScript, as: operator.browser });
    await console.goto('/console');
    await console.getByLabel('Search', { exact: true }).fill(organization.slug);
    await console.keyboard.press('Enter');
    await console.getByRole('link', { name: organization.name }).first().click();
    await console.getByRole('link', { name: 'Settings' }).click();
    await console.getByRole('link', { name: 'Archive…' }).click();
    await console.getByRole('button', { name: 'Archive', exact: true }).click();
    await console.getByRole('link', { name: 'Settings' }).click();
    await console.getByRole('link', { name: 'Restore…' }).first().waitFor();
    expect(await call()).toBe(401);
    await owner.reload();
    expect(await readMain(owner)).toContain('archived');

    await console.getByRole('link', { name: 'Restore…' }).first().click();
    await console.getByRole('button', { name: 'Restore', exact: true }).click();
    await console.getByRole('link', { name: 'Settings' }).click();
    await console.getByRole('link', { name: 'Archive…' }).waitFor();
    expect(await call()).toBe(200);
    await owner.goto('/dashboard/members');
    expect(await readMain(owner)).toContain('Members');
  },
);

it.each([{ javaScript: true }, { javaScript: false }])(
  'trading limits that are raised long after the sign-in survive the confirmation as they were typed (scripts: $javaScript)',
  async ({ javaScript }) => {
    const late = await signedInOperator(world.service);
    await forgetConfirmation(world.service, late.browser);
    const page = await world.visit({ javaScript, as: late.browser });
    await page.goto(`/console/customers/${hostile.slug}/trading`);
    const contracts = page.getByLabel('Contracts per order');
    const raised = javaScript ? '1,234' : '2345';
    await contracts.fill(raised);
    await page.getByRole('button', { name: 'Set limits' }).click();
    await page.getByLabel('Your password').fill(PASSWORD);
    await page.getByLabel(/^Code/).fill(late.app.code());
    await page.getByRole('button', { name: 'Continue' }).click();
    expect(await readMain(page)).toContain('Nothing has been changed yet.');
    expect(await contracts.inputValue()).toBe(raised);
    await page.getByRole('button', { name: 'Set limits' }).click();
    expect(await readMain(page)).toContain('The limits are set.');
  },
);

it('limits are edited in rows without scripts on a phone, and a wrong row is named', async () => {
  const address = `/console/customers/${hostile.slug}/entitlement?product=${hostile.productSlugs[0]}`;
  const saved = 'It takes effect on the next request';
  const page = await world.visit({ as: operator.browser, javaScript: false, viewport: PHONE });
  await page.goto(address);
  const row = page.getByRole('group', { name: 'Limit 4' });
  const quantity = row.getByLabel('Quantity');
  await page.getByRole('button', { name: 'Add a limit' }).click();
  await page.locator('[name="limits.3.quantity"]:focus').waitFor();
  await quantity.fill('1,5');
  expect(await row.getByLabel('Length').isVisible()).toBe(false);
  await row.getByLabel('Window').selectOption('hours');
  await row.getByLabel('When exceeded').selectOption('block');
  // Enter saves the form instead of pressing a row's button.
  await page.keyboard.press('Enter');
  await page.getByRole('alert').getByRole('link', { name: 'Limit 4, quantity' }).waitFor();
  expect(await quantity.inputValue()).toBe('1,5');
  await quantity.fill('1,000.5');
  await page.getByRole('button', { name: 'Preview' }).click();
  await page.getByRole('alert').getByRole('link', { name: 'Limit 4, length' }).waitFor();
  await row.getByLabel('Window').selectOption('calendar_month');
  // The field with the error stays visible.
  expect(await row.getByLabel('Length').isVisible()).toBe(true);
  await row.getByLabel('Window').selectOption('hours');
  await row.getByLabel('Length').fill('5');
  await page.getByRole('button', { name: 'Preview' }).click();
  // This customer uses the product, so the change is previewed.
  await page.getByRole('heading', { name: /^Change the entitlement to/ }).waitFor();
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('status').getByText(saved).waitFor();
  expect(await readMain(page)).toMatch(/Last 5.hours: [\d.,]+ used.* of 1,000\.5 \S+.* Blocks/);
  await page.goto(address);
  expect(await quantity.inputValue()).toBe('1000.5');
  await page.getByRole('button', { name: 'Remove limit 4' }).click();
  expect(await row.count()).toBe(0);
  await page.getByRole('button', { name: 'Preview' }).click();
  await page.getByRole('heading', { name: /^Change the entitlement to/ }).waitFor();
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('status').getByText(saved).waitFor();
});

it('wrong rows of limits and thresholds are accessible', async () => {
  const looked = await world.look(operator.browser);
  await looked.goto(`/console/customers/${hostile.slug}/entitlement?product=${hostile.productSlugs[0]}`);
  await looked.getByRole('textbox', { name: 'Thresholds' }).fill('0');
  await looked.getByRole('button', { name: 'Add a limit' }).click();
  await looked.getByRole('button', { name: 'Preview' }).click();
  await looked.getByRole('alert').getByRole('link', { name: 'Thresholds' }).waitFor();
  expect(await findAllBarriers(looked)).toEqual([]);
});

it('after going back, the keys go on from the customer that was opened', async () => {
  for (const _ of [1, 2]) await createOrganization(world.db);
  const page = await world.visit({ as: operator.browser });
  await page.goto('/console');
  const focused = () => page.evaluate<string>('document.activeElement.getAttribute("href")');
  const hrefs = await page
    .locator('[data-row]')
    .evaluateAll((rows) => rows.map((row) => row.getAttribute('href')));
  for (const _ of [1, 2]) await page.keyboard.press('j');
  await Promise.all([page.waitForURL(`**${hrefs[1]!}`), page.keyboard.press('Enter')]);
  await page.goBack();
  await expect.poll(focused).toBe(hrefs[1]);
  await page.keyboard.press('k');
  expect(await focused()).toBe(hrefs[0]);
  await page.keyboard.press('?');
  await page.getByRole('dialog', { name: 'Shortcuts' }).waitFor();
  await page.goto('/console?sort=-name');
  await page.keyboard.press('f');
  expect(await page.evaluate<string>('document.activeElement.name')).toBe('search');
  await page.locator('[data-row]').first().click();
  await page.getByRole('navigation', { name: 'Breadcrumb' }).getByRole('link').click();
  await page.waitForURL('**/console?sort=-name');
});

it('numbers are apart from the text after them, and only what floats has a shadow', async () => {
  const page = await world.visit({ as: operator.browser, viewport: { width: 1280, height: 800 } });
  await page.goto('/console?sort=-month');
  const ends = await page.evaluate<{ isNumber: boolean; start: number; end: number }[]>(`
    [...document.querySelectorAll('.customers thead th')].map((column) => {
      const { left, right } = column.getBoundingClientRect();
      const { paddingLeft, paddingRight, textAlign } = getComputedStyle(column);
      return { isNumber: textAlign === 'end', start: left + parseFloat(paddingLeft), end: right - parseFloat(paddingRight) };
    })`);
  const gaps = ends.flatMap(({ isNumber, end }, i) => (isNumber ? [ends[i + 1]!.start - end] : []));
  expect(gaps.map((gap) => gap >= 32)).toEqual([true, true]);
  const arrow = `getComputedStyle(document.querySelector('[aria-sort] a'), '::after')`;
  expect(await page.evaluate(`parseFloat(${arrow}.left) < 0`)).toBe(true);
  await page.goto(`/console/customers/${hostile.slug}/keys`);
  const shadow = `getComputedStyle(document.querySelector('main section h2')).boxShadow`;
  expect(await page.evaluate(shadow)).toBe('none');
});
