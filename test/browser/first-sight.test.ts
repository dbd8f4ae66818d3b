import type { Page } from 'playwright-core';
import { beforeAll, describe, expect, it } from 'vitest';
import { PASSWORD, signedIn, type Browser } from '../support/accounts.js';
import { browserWorld, DESKTOP } from '../support/browser.js';
import { createProduct, grant } from '../metering/support/products.js';
import { hostileNames, ordinaryNames, populate, type Populated } from '../pages/populated.js';
import { countInjected, findAllBarriers, pages, toPath } from './barriers.js';
import { codeOfApp, signIn } from './steps.js';

const world = browserWorld({ app: { signInLimits: { perAddress: 10_000 } } });

async function open(as: Browser, path: string): Promise<Page> {
  const page = await world.visit({ as });
  await page.goto(path);
  return page;
}

describe('a new Organization', () => {
  let another: Populated;
  let newcomer: Browser;
  beforeAll(async () => {
    another = await populate(world.service, ordinaryNames);
    newcomer = (await signedIn(world.db, world.service.url)).browser;
  });

  it.each(pages.filter((address) => !address.includes('{')))(
    '%s has nothing to show, and says so',
    async (address) => {
      // Drops the query string, which would name the other Organization's objects.
      const [path] = (await toPath(address, another)).split('?');
      const page = await world.look(newcomer);
      await page.goto(path!);
      // Desktop is enough here, because the same pages with content are also analysed on a phone.
      expect(await findAllBarriers(page, [DESKTOP])).toEqual([]);
    },
  );
});

it.each([
  '/',
  '/login',
  '/login?next=/dashboard/usage',
  '/forgot',
  '/reset',
  '/set-up',
  '/dashboard/join',
  '/no-such-page',
])('%s, which anyone may open, is accessible', async (path) => {
  const page = await world.look();
  await page.goto(path);
  expect(await findAllBarriers(page)).toEqual([]);
});

it('a failed sign-in is accessible', async () => {
  const page = await world.visit();
  await page.goto('/login');
  await page.getByLabel('E-mail address').fill('nobody@example.com');
  await page.getByLabel('Password').fill('wrong');
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
  await page.getByRole('alert').waitFor();
  expect(await findAllBarriers(page)).toEqual([]);
});

describe('pages that are reached only through a form', () => {
  const name = hostileNames.keys[1]!;

  it('the secret of a new key', async () => {
    const { browser, organization } = await signedIn(world.db, world.service.url);
    const product = await createProduct(world.db);
    await grant(world.db, organization.id, product.id);
    const page = await open(browser, '/dashboard/api-keys/new');
    await page.evaluate(`for (const form of document.forms) form.noValidate = true`);
    await page.getByRole('button', { name: 'Create key' }).click();
    await page.getByRole('alert').waitFor();
    expect(await findAllBarriers(page)).toEqual([]);
    await page.getByLabel('Name').fill(name);
    await page.getByRole('button', { name: 'Create key' }).click();
    await page.locator('#secret').waitFor();
    expect(await countInjected(page)).toBe(0);
    expect(await findAllBarriers(page)).toEqual([]);
  });

  it('the link of an invitation, and the page that a guest sees', async () => {
    const { browser } = await signedIn(world.db, world.service.url);
    const page = await open(browser, '/dashboard/members/invite');
    await page.getByLabel('E-mail address').fill(`${'guest'.repeat(12)}@${'example.'.repeat(20)}com`);
    await page.getByRole('radio', { name: /^Member/ }).check();
    await page.getByRole('button', { name: 'Create invitation' }).click();
    const link = await page.locator('#invitation-link').innerText();
    expect(await findAllBarriers(page)).toEqual([]);
    const guest = await world.visit();
    await guest.goto(link);
    expect(await countInjected(guest)).toBe(0);
    expect(await findAllBarriers(guest)).toEqual([]);
    await guest.goto(`${link}x`);
    expect(await findAllBarriers(guest)).toEqual([]);
  });

  it('the set-up of the second factor, its recovery codes, and the question for a code', async () => {
    const { browser, user } = await signedIn(world.db, world.service.url);
    const page = await open(browser, '/dashboard/account/second-factor');
    await page.getByLabel('Your password').fill(PASSWORD);
    await page.getByRole('button', { name: 'Set up' }).click();
    await page.getByText('Enter the secret by hand').click();
    expect(await findAllBarriers(page)).toEqual([]);
    const secret = await page.locator('#secret').innerText();
    await page.getByLabel('6-digit code from the app').fill(codeOfApp(secret, world.service.clock.now()));
    await page.getByRole('button', { name: 'Turn on' }).click();
    await page.locator('#recovery-codes').waitFor();
    expect(await findAllBarriers(page)).toEqual([]);
    for (const path of ['', '/recovery-codes', '/off']) {
      await page.goto(`/dashboard/account/second-factor${path}`);
      expect(await findAllBarriers(page)).toEqual([]);
    }
    const another = await world.visit();
    await signIn(another, user.email);
    await another.getByLabel('Code', { exact: true }).waitFor();
    expect(await findAllBarriers(another)).toEqual([]);
    await another.getByRole('link', { name: 'Use a recovery code instead' }).click();
    expect(await findAllBarriers(another)).toEqual([]);
  });
});
