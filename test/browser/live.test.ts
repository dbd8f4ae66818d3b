import { expect, it } from 'vitest';
import { signedIn } from '../support/accounts.js';
import { browserWorld } from '../support/browser.js';
import { createKey } from '../support/fixtures.js';

const world = browserWorld();

it('a page that updates itself does not stay open when its session has ended elsewhere', async () => {
  const { browser } = await signedIn(world.db, world.service.url);
  const page = await world.visit({ as: browser });
  await page.goto('/dashboard');
  expect(await page.locator('[data-live]').count()).toBeGreaterThan(0);
  await browser.send('POST', '/logout');
  await page.waitForURL('**/login?next=%2Fdashboard');
});

it('a filter applies itself while it is typed, keeps the focus, and shortens a pasted key', async () => {
  const { browser, organization } = await signedIn(world.db, world.service.url);
  await createKey(world.db, organization.id, { name: 'Nightly import' });
  const page = await world.visit({ as: browser });
  await page.goto('/dashboard/api-keys');
  const field = page.getByLabel('Name or prefix');
  const row = page.getByRole('link', { name: 'Nightly import', exact: true });
  await field.pressSequentially('zzz');
  await row.waitFor({ state: 'detached' });
  await field.press('ControlOrMeta+a');
  await page.keyboard.insertText('night');
  await row.waitFor();
  expect(await field.evaluate((part) => part === part.ownerDocument.activeElement)).toBe(true);
  await field.fill(`org_live_${'a1B2'.repeat(11)}`);
  await page.waitForURL(/q=org_live_a1B(&|$)/);
});
