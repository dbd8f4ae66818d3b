import type { Page } from 'playwright-core';
import { expect, it } from 'vitest';
import { addMember, Browser, createUser, PASSWORD, signedIn } from '../support/accounts.js';
import { browserWorld } from '../support/browser.js';
import { giveSecondFactor } from '../support/second-factor.js';
import { codeOfApp, follow, readMain, signIn, signOut } from './steps.js';

const world = browserWorld();

/** Returns the app's next code, because the current one may have been used. */
function nextCode(secret: string): string {
  world.service.clock.advance(30_000);
  return codeOfApp(secret, world.service.clock.now());
}

async function enterCode(page: Page, code: string): Promise<void> {
  await page.getByLabel(/^(Recovery code|Code)$/).fill(code);
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
}

it.each([{ javaScript: true }, { javaScript: false }])(
  'a second factor is turned on, asked for at sign-in, replaced by a recovery code, and turned off (scripts: $javaScript)',
  async ({ javaScript }) => {
    const { user, browser } = await signedIn(world.db, world.service.url);
    const page = await world.visit({ javaScript, as: browser });
    await page.goto('/dashboard/account/second-factor');
    await page.getByLabel('Your password').fill(PASSWORD);
    await page.getByRole('button', { name: 'Set up' }).click();
    await page.getByRole('img', { name: /QR code/ }).waitFor();
    await page.getByText('Enter the secret by hand').click();
    const secret = await page.locator('#secret').innerText();

    // A wrong code does not end the set-up.
    await page.getByLabel('6-digit code from the app').fill('000000');
    await page.getByRole('button', { name: 'Turn on' }).click();
    await page.getByText('Enter the secret by hand').click();
    expect(await page.locator('#secret').innerText()).toBe(secret);
    await page.getByLabel('6-digit code from the app').fill(nextCode(secret));
    await page.getByRole('button', { name: 'Turn on' }).click();
    const recoveryCodes = (await page.locator('#recovery-codes').innerText()).trim().split(/\s+/);
    expect(recoveryCodes).toHaveLength(10);
    await page.getByRole('link', { name: 'I have saved them' }).click();
    expect(await readMain(page)).toMatch(/Authenticator app On .* 10 codes left/);

    await signOut(page);
    await signIn(page, user.email);
    await page.waitForURL('**/login/code*');
    const code = nextCode(secret);
    await enterCode(page, code);
    await page.waitForURL('**/dashboard');

    // The used code no longer works; a recovery code works once.
    await signOut(page);
    await signIn(page, user.email);
    await enterCode(page, code);
    await page.getByText(/wrong or has been used before/).waitFor();
    for (const isNew of [true, false]) {
      await page.getByRole('link', { name: 'Use a recovery code instead' }).click();
      await enterCode(page, recoveryCodes[0]!);
      if (!isNew) break;
      await page.waitForURL('**/dashboard');
      await signOut(page);
      await signIn(page, user.email);
    }
    await page.getByText(/wrong or has been used before/).waitFor();
    await enterCode(page, recoveryCodes[1]!);
    await page.waitForURL('**/dashboard');

    await page.goto('/dashboard/account/second-factor');
    expect(await readMain(page)).toContain('8 codes left');
    await page.getByRole('link', { name: 'Turn off' }).click();
    await page.getByLabel('Your password').fill(PASSWORD);
    await page.getByLabel('Code', { exact: true }).fill(nextCode(secret));
    await page.getByRole('button', { name: 'Turn off' }).click();
    expect(await readMain(page)).toMatch(/Authenticator app Off/);
    await signOut(page);
    await signIn(page, user.email);
    await page.waitForURL('**/dashboard');
  },
);

it.each([{ javaScript: true }, { javaScript: false }])(
  'a second factor that an Organization requires keeps members out until they have set it up (scripts: $javaScript)',
  async ({ javaScript }) => {
    const { db, service } = world;
    const { user: owner, browser, organization } = await signedIn(db, service.url);
    await giveSecondFactor(db, owner.id, service.clock);
    const member = await createUser(db);
    await addMember(db, organization.id, member.id, 'member');
    const theirs = new Browser(service.url);
    await theirs.signIn(member.email);
    const page = await world.visit({ javaScript, as: theirs });
    await page.goto('/dashboard/members');

    const own = await world.visit({ javaScript, as: browser });
    await own.goto('/dashboard/members/second-factor');
    expect(await readMain(own)).toContain('1 of 2 members has no second factor');
    await own.getByRole('button', { name: 'Require a second factor' }).click();
    await own.waitForURL('**/dashboard/members?*');

    for (const entry of ['API keys', 'Usage']) {
      await follow(page, entry);
      expect(await readMain(page)).toContain('requires a second factor');
    }
    await page.getByLabel('Your password').fill(PASSWORD);
    await page.getByRole('button', { name: 'Set up' }).click();
    await page.getByText('Enter the secret by hand').click();
    const secret = await page.locator('#secret').innerText();
    await page.getByLabel('6-digit code from the app').fill(nextCode(secret));
    await page.getByRole('button', { name: 'Turn on' }).click();
    await page.getByRole('link', { name: 'I have saved them' }).click();
    await follow(page, 'API keys');
    await page.getByRole('heading', { name: 'API keys', level: 1 }).waitFor();
  },
);
