import { expect, it } from 'vitest';
import { signedIn } from '../support/accounts.js';
import { findBarriers } from '../support/axe.js';
import { browserWorld, PHONE } from '../support/browser.js';
import { createKey } from '../support/fixtures.js';

const world = browserWorld();

async function person() {
  const { organization, browser } = await signedIn(world.db, world.service.url);
  const { id } = await createKey(world.db, organization.id, { name: 'Nightly <i>import</i>' });
  return { browser, keyPath: `/dashboard/api-keys/${id}` };
}

it('a slash or Ctrl+K opens the search, and arrows and Enter lead to what was found', async () => {
  const { browser, keyPath } = await person();
  const page = await world.visit({ as: browser });
  await page.goto('/dashboard/members');
  await page.keyboard.press('/');
  const dialog = page.getByRole('dialog', { name: 'Search' });
  await page.keyboard.type('ap');
  await dialog.getByRole('link', { name: 'New API key' }).waitFor();
  // The focus stays in the field.
  await page.keyboard.press('ArrowDown');
  await page.keyboard.type('i');
  await dialog.locator('.search-results[aria-busy="false"]').waitFor();
  expect(await findBarriers(page)).toEqual([]);
  expect(await dialog.getByRole('searchbox').inputValue()).toBe('api');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await page.waitForURL('**/dashboard/api-keys/new');

  // A slash typed into a field does not open the search.
  await page.getByLabel('Name').focus();
  await page.keyboard.press('/');
  expect([await dialog.count(), await page.getByLabel('Name').inputValue()]).toEqual([0, '/']);
  await page.keyboard.press('Control+k');
  await page.keyboard.type('nightly');
  await dialog.getByRole('link', { name: 'Nightly <i>import</i>' }).waitFor();
  await page.keyboard.press('Enter');
  await page.waitForURL(`**${keyPath}`);
});

it('Escape closes the search and returns to the place before it', async () => {
  const { browser } = await person();
  const page = await world.visit({ as: browser, viewport: PHONE, scheme: 'dark' });
  await page.goto('/dashboard/api-keys');
  await page.getByLabel('State').focus();
  await page.keyboard.press('Control+k');
  await page.keyboard.type('zzz');
  const dialog = page.getByRole('dialog', { name: 'Search' });
  await dialog.getByText('Nothing here matches').waitFor();
  expect(await findBarriers(page)).toEqual([]);
  await page.keyboard.press('Escape');
  expect(await dialog.isVisible()).toBe(false);
  expect(
    await page.getByLabel('State').evaluate((field) => field === field.ownerDocument.activeElement),
  ).toBe(true);
});

it.each(['org_live_', 'service_test_'])('a pasted secret %s… is not sent', async (prefix) => {
  const { browser } = await person();
  const page = await world.visit({ as: browser });
  const asked: string[] = [];
  page.on('request', (request) => asked.push(request.url()));
  await page.goto('/dashboard');
  await page.keyboard.press('/');
  await page.keyboard.insertText(` ${prefix}${'a1B2'.repeat(11)} `);
  await page.getByRole('dialog').getByText('Nothing here matches').waitFor();
  expect(asked.filter((url) => url.includes(`q=${prefix}a1B`))).toHaveLength(1);
  expect(asked.filter((url) => url.includes('a1B2'))).toEqual([]);
});

it('without a script the link leads to a page with the same results', async () => {
  const { browser, keyPath } = await person();
  const page = await world.visit({ as: browser, javaScript: false });
  await page.goto('/dashboard');
  await page.getByRole('link', { name: 'Search' }).click();
  await page.getByRole('searchbox').fill('import');
  await page.keyboard.press('Enter');
  await page.getByRole('link', { name: 'Nightly <i>import</i>' }).click();
  await page.waitForURL(`**${keyPath}`);
});
