import type { Page } from 'playwright-core';
import { expect, it } from 'vitest';
import { addMember, createUser, PASSWORD } from '../support/accounts.js';
import { browserWorld } from '../support/browser.js';
import { createOrganization } from '../support/fixtures.js';
import { findAllBarriers } from './barriers.js';
import { readMain, signIn, signOut } from './steps.js';

// Browsers create passkeys only for domain names, not for IP addresses.
const world = browserWorld({ host: 'localhost' });

const ADDRESS = '/dashboard/account/passkeys';

async function newMember() {
  const user = await createUser(world.db);
  await addMember(world.db, (await createOrganization(world.db)).id, user.id, 'owner');
  return user;
}

/** Adds a virtual authenticator that approves every request. */
async function plugIn(page: Page) {
  const cdp = await page.context().newCDPSession(page);
  await cdp.send('WebAuthn.enable');
  const { authenticatorId } = await cdp.send('WebAuthn.addVirtualAuthenticator', {
    options: {
      protocol: 'ctap2',
      transport: 'internal',
      hasResidentKey: true,
      hasUserVerification: true,
      isUserVerified: true,
    },
  });
  return {
    /** Makes user verification fail (true) or succeed (false). */
    refuse: (isRefused: boolean) =>
      cdp.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified: !isRefused }),
  };
}

it('a passkey is added, signs in with and without the password, and is removed', async () => {
  const user = await newMember();
  const page = await world.visit();
  const device = await plugIn(page);
  await signIn(page, user.email);
  await page.waitForURL('**/dashboard');
  await page.goto(ADDRESS);
  expect(await readMain(page)).toContain('No passkeys yet.');
  // The first step asks for a name.
  await page.getByRole('button', { name: 'Add a passkey' }).click();
  await page.getByLabel('Name').fill('Work laptop');
  await page.getByRole('button', { name: 'Add a passkey' }).click();
  await page.getByRole('heading', { name: 'Save these recovery codes' }).waitFor();
  await page.goto(ADDRESS);
  expect(await readMain(page)).toMatch(/1 of 10 .* Work laptop .* Never/);
  expect(await findAllBarriers(page)).toEqual([]);

  await signOut(page);
  await signIn(page, user.email);
  await page.waitForURL('**/login/code*');
  expect(await findAllBarriers(page)).toEqual([]);
  await page.getByRole('button', { name: 'Use a passkey' }).click();
  await page.waitForURL('**/dashboard');

  await signOut(page);
  await device.refuse(true);
  await page.getByRole('button', { name: 'Sign in with a passkey' }).click();
  await page.getByText('No passkey was used').waitFor();
  await device.refuse(false);
  await page.getByRole('button', { name: 'Sign in with a passkey' }).click();
  await page.waitForURL('**/dashboard');

  // Long after the sign-in, the page asks for confirmation and accepts a passkey.
  world.service.clock.advance(11 * 60_000);
  await page.goto(ADDRESS);
  await page.getByRole('link', { name: 'confirm it’s you' }).click();
  await page.getByLabel('Your password').fill(PASSWORD);
  expect(await findAllBarriers(page)).toEqual([]);
  await page.getByRole('button', { name: 'Use a passkey instead of a code' }).click();
  await page.waitForURL(`**${ADDRESS}`);
  await page.getByRole('button', { name: 'Remove Work laptop' }).click();
  await page.getByRole('status').getByText('The passkey is removed').waitFor();
  await signOut(page);
  await signIn(page, user.email);
  await page.waitForURL('**/dashboard');
});

it('without a script the pages name the alternatives', async () => {
  const user = await newMember();
  const page = await world.visit({ javaScript: false });
  await page.goto('/login');
  expect(await readMain(page)).toContain('Passkeys need JavaScript');
  expect(await page.getByRole('button', { name: 'Sign in with a passkey' }).count()).toBe(0);
  await signIn(page, user.email);
  await page.waitForURL('**/dashboard');
  await page.goto(ADDRESS);
  expect(await readMain(page)).toMatch(/Passkeys need JavaScript.* authenticator app/);
  expect(await page.getByRole('button', { name: 'Add a passkey' }).count()).toBe(0);
});
