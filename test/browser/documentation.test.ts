import { expect, it } from 'vitest';
import { findBarriers } from '../support/axe.js';
import { browserWorld, DESKTOP } from '../support/browser.js';
import { createTenant } from '../metering/support/usage.js';
import { findAllBarriers } from './barriers.js';

const world = browserWorld();

it('no page of the documentation has barriers', async () => {
  const page = await world.visit();
  await page.goto('/docs');
  const paths = await page.evaluate<string[]>(
    `[...new Set([...document.querySelectorAll('a[href^="/docs/"]')].map((link) => link.pathname))]`,
  );
  expect(paths.length).toBeGreaterThan(12);
  // Reference pages differ only in their text, so one of them is enough for the phone's layout.
  const layouts = ['/docs', '/docs/reference/usage'];
  expect(paths).toContain(layouts[1]);
  for (const path of ['/docs', ...paths]) {
    await page.goto(path);
    const barriers = await findAllBarriers(page, layouts.includes(path) ? undefined : [DESKTOP]);
    expect([path, barriers]).toEqual([path, []]);
  }
}, 120_000);

it('a request is tried with the keyboard alone', async () => {
  const { key } = await createTenant(world.db);
  const page = await world.visit();
  await page.goto('/docs/reference/entitlements');
  const form = page.locator('form[data-try]').first();
  await form.getByLabel('Example').focus();
  for (let stops = 0; stops < 3; stops++) await page.keyboard.press('Tab');
  await page.keyboard.type(key.secret);
  await page.keyboard.press('Enter');
  await form.getByText('Returned 200 OK').waitFor();
  expect(await form.locator('[data-answer]').innerText()).toContain('"entitlements": [');
  expect(await findBarriers(page)).toEqual([]);
});

it('without a key it names what is missing, and without a script everything is readable', async () => {
  const page = await world.visit();
  await page.goto('/docs/reference/usage');
  await page.getByRole('button', { name: 'Send the request' }).first().click();
  await page.getByText('Enter an API key first.').waitFor();
  const plain = await world.visit({ javaScript: false });
  await plain.goto('/docs/reference/usage');
  expect(await plain.locator('form[data-try]').first().isVisible()).toBe(false);
  expect(await plain.getByText('"accepted": 2').first().isVisible()).toBe(true);
});
