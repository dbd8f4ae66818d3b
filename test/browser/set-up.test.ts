import type { Page } from 'playwright-core';
import { expect, it } from 'vitest';
import { createSetUpLink } from '../../src/accounts/identity/operators/operators.js';
import { createUser, PASSWORD } from '../support/accounts.js';
import { browserWorld } from '../support/browser.js';
import { makeLink } from '../support/operators.js';
import { giveSecondFactor } from '../support/second-factor.js';
import type { TestService } from '../support/service.js';
import { findAllBarriers } from './barriers.js';
import { codeOfApp, readMain, signIn } from './steps.js';

// Every page is checked four times, so the tests need a long time-out.

// Each test begins with the first start of its own service.
const worlds = [
  { javaScript: true, world: browserWorld() },
  { javaScript: false, world: browserWorld() },
];
const password = 'plenty of unrelated harbour words';

/** Returns the app's next code, because the current one may have been used. */
function nextCode({ clock }: TestService, secret: string): string {
  clock.advance(30_000);
  return codeOfApp(secret, clock.now());
}

/**
 * Follows a one-time link. With JavaScript, the link opens automatically; without JavaScript, it is pasted into a form.
 */
async function follow(page: Page, link: string, button: string, javaScript: boolean): Promise<void> {
  await page.goto(link);
  if (javaScript) return;
  await page.getByLabel(/link$/i).fill(link);
  await page.getByRole('button', { name: button }).click();
}

const fill = async (page: Page, fields: Record<string, string>) => {
  for (const [label, value] of Object.entries(fields))
    await page.getByLabel(label, { exact: true }).fill(value);
};
const press = (page: Page, name: string) => page.getByRole('button', { name, exact: true }).click();

/** Checks accessibility only with JavaScript, because the pages are the same without it. */
const checkIf = (isChecked: boolean) => async (page: Page, heading: string) => {
  await page.getByRole('heading', { name: heading, level: 1 }).waitFor();
  if (isChecked) expect(await findAllBarriers(page)).toEqual([]);
};

it.each(worlds)(
  'the link of a first start leads to an owner’s first key (scripts: $javaScript)',
  async ({ javaScript, world }) => {
    const { service } = world;
    const check = checkIf(javaScript);
    const { path } = (await createSetUpLink(service.context))!;
    const page = await world.visit({ javaScript });
    await page.goto('/set-up');
    await check(page, 'Set up Gauge');
    await follow(page, service.url + path, 'Open link', javaScript);
    await check(page, 'Set up Gauge');
    expect(page.url()).toBe(`${service.url}/set-up`);
    expect(await readMain(page)).toContain('Step 1 of 4');

    await fill(page, {
      'Your name': 'Ada',
      'E-mail address': 'ada@example.com',
      Password: 'password1234',
    });
    await press(page, 'Continue');
    await check(page, 'Set up Gauge');
    expect(await page.getByLabel('Your name').inputValue()).toBe('Ada');
    await fill(page, { Password: password });
    await press(page, 'Continue');

    await page.getByRole('img', { name: /QR code/ }).waitFor();
    await check(page, 'Set up the second factor');
    await page.getByText('Enter the secret by hand').click();
    const secret = await page.locator('#secret').innerText();
    await page.getByLabel('6-digit code from the app').fill(nextCode(service, secret));
    await press(page, 'Turn on');
    await check(page, 'Save these recovery codes');
    await page.getByRole('link', { name: 'I have saved them' }).click();

    await check(page, 'The first product');
    await fill(page, {
      'Product name': 'Forecast API',
      Metric: 'requests',
      'Cap (optional)': '1.000',
      'Organization name': 'Acme',
    });
    const slug = page.getByLabel('Product slug', { exact: true });
    expect(await slug.inputValue()).toBe(javaScript ? 'forecast-api' : '');
    await press(page, 'Continue');
    await check(page, 'The first product');
    expect(await slug.inputValue()).toBe('forecast-api');
    await fill(page, {
      'Organization slug': 'acme-2',
      'Organization name': 'Acme',
      'Cap (optional)': '1,000',
    });
    expect(await page.getByLabel('Organization slug').inputValue()).toBe('acme-2');
    await press(page, 'Continue');

    service.clock.advance(11 * 60_000);
    await page.goto('/set-up/owner');
    await check(page, 'Confirm it’s you');
    await fill(page, { 'Your password': password, Code: nextCode(service, secret) });
    await press(page, 'Continue');
    await check(page, 'The owner of Acme');
    const email = page.getByLabel('E-mail address of the owner');
    await page.getByLabel('I am the owner').check();
    await email.waitFor({ state: 'hidden' });
    await page.getByLabel('Someone else, who gets an invitation').check();
    await press(page, 'Continue');
    await check(page, 'The owner of Acme');
    expect(await readMain(page)).toMatch(/Required|missing/i);
    await email.fill('olga@acme.example');
    await press(page, 'Continue');
    await check(page, 'Invitation created');
    const invitation = await page.locator('#invitation-link').innerText();
    await page.getByRole('link', { name: 'Finish' }).click();
    await check(page, 'Gauge is set up');
    expect(await readMain(page)).toContain('olga@acme.example');

    const owner = await world.visit({ javaScript });
    await follow(owner, invitation, 'Open invitation', javaScript);
    await fill(owner, { 'Your name': 'Olga', Password: password });
    await press(owner, 'Create account and join');
    await owner.waitForURL('**/dashboard?done=joined');
    await owner.goto('/dashboard/api-keys/new');
    await fill(owner, { Name: 'first key' });
    await press(owner, 'Create key');
    const key = /org_live_\w+/.exec(await readMain(owner))![0];
    const event = {
      productSlug: 'forecast-api',
      metric: 'requests',
      quantity: 1,
      idempotencyKey: 'first-event',
    };
    const sent = await fetch(`${service.url}/api/usage/events`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ events: [event] }),
    });
    expect(sent.status).toBe(202);

    const late = await world.visit({ javaScript });
    await follow(late, service.url + path, 'Open link', javaScript);
    await check(late, 'This link does not work');
  },
);

it.each(worlds)(
  'a person who lost the password, then the second factor, gets back in with links (scripts: $javaScript)',
  async ({ javaScript, world }) => {
    const { db, service } = world;
    const check = checkIf(javaScript);
    const user = await createUser(db);
    const { secret } = await giveSecondFactor(db, user.id, service.clock);
    const page = await world.visit({ javaScript });
    await page.goto('/login');
    await page.getByRole('link', { name: 'Forgot your password?' }).click();
    await page.getByRole('link', { name: 'Paste it' }).click();
    await follow(
      page,
      `${service.url}/reset#${await makeLink(service, 'password_reset', user)}`,
      'Open link',
      javaScript,
    );
    await check(page, 'Choose a new password');
    const chosen = { 'New password': password, 'Repeat the new password': password };
    await fill(page, { ...chosen, Code: '000000' });
    await press(page, 'Change password');
    await check(page, 'Choose a new password');
    await fill(page, { ...chosen, Code: nextCode(service, secret) });
    await press(page, 'Change password');
    await page.waitForURL('**/dashboard');

    const other = await world.visit({ javaScript });
    await signIn(other, user.email, PASSWORD);
    await other.getByRole('alert').waitFor();
    await follow(
      other,
      `${service.url}/reset#${await makeLink(service, 'second_factor_reset', user)}`,
      'Open link',
      javaScript,
    );
    await check(other, 'Remove the second factor');
    await fill(other, { 'Your password': password });
    await press(other, 'Remove it');
    await other.waitForURL('**/dashboard');
    const third = await world.visit({ javaScript });
    await signIn(third, user.email, password);
    await third.waitForURL('**/dashboard');
  },
);
