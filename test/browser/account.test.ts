import { describe, expect, it } from 'vitest';
import { PASSWORD, signedIn } from '../support/accounts.js';
import { browserWorld } from '../support/browser.js';
import { readMain, signIn } from './steps.js';

const world = browserWorld();

describe.each([{ javaScript: true }, { javaScript: false }])(
  'with scripts: $javaScript',
  ({ javaScript }) => {
    it('a person changes their name, and sees it in the header', async () => {
      const { browser } = await signedIn(world.db, world.service.url);
      const page = await world.visit({ javaScript, as: browser });
      await page.goto('/dashboard/account');
      await page.getByLabel('Name').fill('<i>Zoë</i>');
      await page.getByRole('button', { name: 'Save' }).click();
      await page.getByRole('status').getByText('saved').waitFor();
      await page.locator('summary').filter({ hasText: '<i>Zoë</i>' }).waitFor();
    });

    it('a new password ends the other sessions; an error is shown beside its field', async () => {
      const { user, browser } = await signedIn(world.db, world.service.url);
      const page = await world.visit({ javaScript, as: browser });
      const elsewhere = await world.visit({ javaScript });
      await signIn(elsewhere, user.email);
      await elsewhere.waitForURL('**/dashboard');
      // This page does not refresh itself.
      await elsewhere.goto('/dashboard/account');

      await page.goto('/dashboard/account/password');
      const change = async (again: string) => {
        await page.getByLabel('Current password').fill(PASSWORD);
        await page.getByLabel('New password', { exact: true }).fill('four unrelated words here');
        await page.getByLabel('Repeat the new password').fill(again);
        await page.getByRole('button', { name: 'Change password' }).click();
      };
      await change('four unrelated words hear');
      const field = page.getByLabel('Repeat the new password');
      expect(await field.getAttribute('aria-invalid')).toBe('true');
      const described = (await field.getAttribute('aria-describedby'))!.split(' ');
      expect(await page.locator(`#${described.at(-1)}`).innerText()).toContain('match');
      await change('four unrelated words here');
      await page.getByRole('status').getByText('password is changed').waitFor();

      await elsewhere.reload();
      await elsewhere.waitForURL('**/login*');
      await signIn(elsewhere, user.email, 'four unrelated words here');
      await elsewhere.waitForURL('**/dashboard');
    });

    it('a session that was ended elsewhere is over on its next click', async () => {
      const { user, browser } = await signedIn(world.db, world.service.url);
      const page = await world.visit({ javaScript, as: browser });
      const elsewhere = await world.visit({ javaScript });
      await signIn(elsewhere, user.email);
      await elsewhere.waitForURL('**/dashboard');
      // This page does not refresh itself.
      await elsewhere.goto('/dashboard/account');
      await page.goto('/dashboard/account/sessions');
      expect(await readMain(page)).toContain('2 sessions');
      await page.getByRole('button', { name: /^End/ }).click();
      await page.getByRole('status').getByText('session has ended').waitFor();
      await elsewhere.reload();
      await elsewhere.waitForURL('**/login*');
      await page.getByRole('button', { name: 'Sign out everywhere' }).click();
      await page.waitForURL('**/login*');
    });
  },
);
