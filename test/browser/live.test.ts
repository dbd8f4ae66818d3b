import { expect, it } from 'vitest';
import { signedIn } from '../support/accounts.js';
import { browserWorld } from '../support/browser.js';

const world = browserWorld();

it('a page that updates itself does not stay open when its session has ended elsewhere', async () => {
  const { browser } = await signedIn(world.db, world.service.url);
  const page = await world.visit({ as: browser });
  await page.goto('/dashboard');
  expect(await page.locator('[data-live]').count()).toBeGreaterThan(0);
  await browser.send('POST', '/logout');
  await page.waitForURL('**/login?next=%2Fdashboard');
});
