import { describe, expect, it } from 'vitest';
import { addMember, PASSWORD, signedIn } from '../support/accounts.js';
import { findBarriers } from '../support/axe.js';
import { browserWorld, PHONE } from '../support/browser.js';
import { createOrganization } from '../support/fixtures.js';

const world = browserWorld();

async function person() {
  const { user, organization, browser } = await signedIn(world.db, world.service.url);
  return { user, organization, browser };
}

describe.each([{ javaScript: true }, { javaScript: false }])(
  'with scripts: $javaScript',
  ({ javaScript }) => {
    it('signing in continues to the page that the person requested', async () => {
      const { user } = await person();
      const page = await world.visit({ javaScript });
      await page.goto('/dashboard/nowhere?from=elsewhere');
      expect(new URL(page.url()).pathname).toBe('/login');
      await page.getByLabel('E-mail address').fill(user.email);
      await page.getByLabel('Password').fill(PASSWORD);
      await page.getByRole('button', { name: 'Sign in', exact: true }).click();
      await page.waitForURL('**/dashboard/nowhere?from=elsewhere');
    });

    it('a wrong password shows an error and keeps the e-mail address, not the password', async () => {
      const { user } = await person();
      const page = await world.visit({ javaScript });
      await page.goto('/login');
      await page.getByLabel('E-mail address').fill(user.email);
      await page.getByLabel('Password').fill('wrong');
      await page.getByRole('button', { name: 'Sign in', exact: true }).click();
      expect(await page.getByRole('alert').textContent()).toContain(
        'e-mail address or the password is wrong',
      );
      expect(await page.getByLabel('E-mail address').inputValue()).toBe(user.email);
      expect(await page.getByLabel('Password').inputValue()).toBe('');
      await page.getByLabel('Password').fill(PASSWORD);
      await page.getByRole('button', { name: 'Sign in', exact: true }).click();
      await page.waitForURL('**/dashboard');
    });

    it('an unknown address shows an error page in the same design, with the request ID', async () => {
      const { browser } = await person();
      const page = await world.visit({ javaScript, as: browser, viewport: PHONE });
      const response = await page.goto('/dashboard/no-such-page');
      expect(response!.status()).toBe(404);
      expect(await page.getByRole('heading', { level: 1 }).textContent()).toBe('Page not found');
      expect(await page.getByRole('main').textContent()).toContain(response!.headers()['x-request-id']!);
      expect(await page.getByRole('navigation', { name: 'Dashboard' }).count()).toBe(1);
    });

    it('the chooser changes the Organization, and signing out ends the session', async () => {
      const { browser, user, organization } = await person();
      const second = await createOrganization(world.db, { name: '<b>Second</b> & Söhne' });
      await addMember(world.db, second.id, user.id, 'billing', new Date('2021-01-01T00:00:00Z'));
      const page = await world.visit({ javaScript, as: browser });
      await page.goto('/dashboard/no-such-page');
      const chooser = page.locator('summary').filter({ hasText: organization.name });
      await chooser.click();
      await page.getByRole('button', { name: second.name }).click();
      await page.waitForURL('**/dashboard');
      await page.goto('/dashboard/no-such-page');
      await page.locator('summary').filter({ hasText: second.name }).waitFor();
      await page.locator('summary').filter({ hasText: user.name }).click();
      await page.getByRole('button', { name: 'Sign out' }).click();
      await page.waitForURL('**/login*');
      await page.goto('/dashboard/no-such-page');
      expect(new URL(page.url()).pathname).toBe('/login');
    });
  },
);

it('the button beside the password shows and hides it, and it is sent as a password', async () => {
  const { user } = await person();
  const page = await world.visit({ viewport: PHONE });
  await page.goto('/login');
  await page.getByLabel('Password').fill(PASSWORD);
  const button = page.getByRole('button', { name: 'Show password' });
  const type = () => page.getByLabel('Password').getAttribute('type');
  expect([await type(), await button.getAttribute('aria-pressed')]).toEqual(['password', 'false']);
  await button.press('Enter');
  expect([await type(), await button.getAttribute('aria-pressed')]).toEqual(['text', 'true']);
  expect(await findBarriers(page)).toEqual([]);
  await button.press('Enter');
  expect(await type()).toBe('password');
  await button.press('Enter');
  await page.getByLabel('E-mail address').fill(user.email);
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
  await page.waitForURL('**/dashboard');
});

it('without a script there is no such button', async () => {
  const page = await world.visit({ javaScript: false });
  await page.goto('/login');
  expect(await page.getByRole('button', { name: 'Show password' }).count()).toBe(0);
});

it('the navigation and the heading stay at one place from page to page of a wide window, and text has one size', async () => {
  const { browser } = await person();
  const page = await world.visit({ as: browser, viewport: { width: 1920, height: 1000 } });
  const places = [];
  for (const path of ['/dashboard/markets', '/dashboard/members', '/dashboard/members/second-factor']) {
    await page.goto(path);
    places.push([
      (await page.getByRole('navigation', { name: 'Dashboard' }).boundingBox())?.x,
      (await page.getByRole('heading', { level: 1 }).boundingBox())?.x,
    ]);
  }
  expect(new Set(places.map(String)).size).toBe(1);
  const sizes = await page.evaluate<string[]>(
    `[...document.querySelectorAll('main .card p')].map((text) => getComputedStyle(text).fontSize)`,
  );
  expect(new Set(sizes)).toEqual(new Set(['15px']));
});

it('on a narrow phone the menu opens by keyboard and does not repeat the name of the page', async () => {
  const { browser } = await person();
  const page = await world.visit({ as: browser, viewport: { width: 320, height: 640 } });
  await page.goto('/dashboard/members');
  const navigation = page.getByRole('navigation', { name: 'Dashboard' });
  expect((await navigation.innerText()).trim()).toBe('Menu');
  await navigation.locator('summary').press('Enter');
  await navigation.getByRole('link', { name: 'Audit log' }).press('Enter');
  await page.waitForURL('**/audit-log');
});
