import { expect, it } from 'vitest';
import { signedIn } from '../support/accounts.js';
import { browserWorld } from '../support/browser.js';
import { follow, readMain, signIn } from './steps.js';

const world = browserWorld();

it.each([{ javaScript: true }, { javaScript: false }])(
  'a person is invited, joins with a new account, becomes admin, and is removed on the next click (scripts: $javaScript)',
  async ({ javaScript }) => {
    const { browser, organization } = await signedIn(world.db, world.service.url);
    const owner = await world.visit({ javaScript, as: browser });
    await owner.goto('/dashboard/members');
    await owner.getByRole('link', { name: 'Invite a member' }).first().click();
    const email = `noor-${javaScript}@example.com`;
    await owner.getByLabel('E-mail address').fill(email);
    await owner.getByRole('radio', { name: /^Member/ }).check();
    await owner.getByRole('button', { name: 'Create invitation' }).click();
    const link = await owner.locator('#invitation-link').innerText();
    const open = async (page: typeof owner) => {
      await page.goto(link);
      if (javaScript) return;
      await page.getByLabel('Invitation link').fill(link);
      await page.getByRole('button', { name: 'Open invitation' }).click();
    };
    await follow(owner, 'Members');
    expect(await readMain(owner)).toContain(email);

    const name = 'Noor “<b>bold</b>” نور';
    const password = 'quite another long phrase';
    const guest = await world.visit({ javaScript });
    await open(guest);
    expect(await readMain(guest)).toContain(organization.name);
    await guest.getByLabel('Your name').fill(name);
    await guest.getByLabel('Password').fill('short');
    // The browser's own validation would block this form.
    await guest.evaluate(`for (const form of document.forms) form.noValidate = true`);
    await guest.getByRole('button', { name: 'Create account and join' }).click();
    await guest
      .getByText(/at least 12|12 to/i)
      .first()
      .waitFor();
    expect(await guest.getByLabel('Your name').inputValue()).toBe(name);
    await guest.getByLabel('Password').fill(password);
    await guest.getByRole('button', { name: 'Create account and join' }).click();
    await guest.waitForURL('**/dashboard?done=joined');
    expect(await readMain(guest)).toContain('Welcome');
    const navigation = guest.getByRole('navigation', { name: 'Dashboard' });
    expect(await navigation.getByRole('link', { name: 'Audit log' }).count()).toBe(0);

    // The link has already been used.
    const another = await world.visit({ javaScript });
    await open(another);
    await another.getByText('This invitation does not work').first().waitFor();
    if (javaScript) expect(another.url()).not.toContain('#');

    await follow(owner, 'Members');
    await owner.getByRole('link', { name: `Manage ${name}` }).click();
    await owner.getByRole('radio', { name: /^Admin/ }).check();
    await owner.getByRole('button', { name: 'Change role' }).click();
    await owner.getByRole('status').getByText('The role is now admin').waitFor();
    await follow(guest, 'Members');
    expect(await navigation.getByRole('link', { name: 'Audit log' }).count()).toBe(1);

    await owner.getByRole('link', { name: 'Remove…' }).click();
    await owner.getByRole('button', { name: `Remove ${name}` }).click();
    await owner.getByRole('status').getByText('was removed').waitFor();
    expect(await readMain(owner)).not.toContain(email);
    await follow(guest, 'Members');
    expect(await readMain(guest)).toContain('You do not belong to an Organization');
    await signIn(guest, email, password);
    expect(await readMain(guest)).toContain('You do not belong to an Organization');
  },
);
