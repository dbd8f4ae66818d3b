import type { Page } from 'playwright-core';
import { expect, it } from 'vitest';
import { createUser, addMember, PASSWORD, signedIn } from '../support/accounts.js';
import { browserWorld } from '../support/browser.js';
import { createOrganization } from '../support/fixtures.js';
import { readMain } from './steps.js';

const world = browserWorld();

interface Focus {
  name: string;
  /** Description of the focused element if its focus indicator is not visible; otherwise undefined. */
  unseen: string | undefined;
}

const readFocus = `(() => {
  const element = document.activeElement;
  const { outlineStyle, outlineWidth } = getComputedStyle(element);
  const { width, height, top, left, bottom, right } = element.getBoundingClientRect();
  const isInside = width > 0 && height > 0 && bottom > 0 && right > 0 && top < innerHeight && left < innerWidth;
  const label = element.labels?.[0]?.innerText || element.getAttribute('aria-label') || element.innerText;
  return {
    name: (label || element.localName).trim(),
    unseen: !isInside ? 'outside of the window: ' + top + ' ' + left
      : outlineStyle === 'none' || parseFloat(outlineWidth) < 2 ? 'no outline: ' + outlineStyle + ' ' + outlineWidth
      : undefined,
  };
})()`;

/** Presses Tab until an element with this name has focus. Focus must be visible at every stop. */
async function tabTo(page: Page, name: RegExp): Promise<void> {
  const seen: string[] = [];
  for (let stops = 0; stops < 60; stops++) {
    await page.keyboard.press('Tab');
    const focus = await page.evaluate<Focus>(readFocus);
    expect(focus).toEqual({ name: focus.name, unseen: undefined });
    seen.push(focus.name);
    if (name.test(focus.name)) return;
  }
  throw new Error(`nothing called ${String(name)} among: ${seen.join(' | ')}`);
}

/** Presses a key and waits for the page that it opens. */
async function go(page: Page, key: 'Enter' | 'Space'): Promise<void> {
  await Promise.all([page.waitForEvent('load'), page.keyboard.press(key)]);
}

it('the keyboard alone is enough to sign in, create a key and revoke it, and the focus is always visible', async () => {
  const organization = await createOrganization(world.db);
  const user = await createUser(world.db);
  await addMember(world.db, organization.id, user.id, 'owner');
  const page = await world.visit();
  await page.goto('/login');
  // The first field already has focus.
  await page.keyboard.type(user.email);
  await tabTo(page, /^Password/);
  await page.keyboard.type(PASSWORD);
  await go(page, 'Enter');

  await tabTo(page, /^Skip to content$/);
  await page.keyboard.press('Enter');
  expect(await page.evaluate('document.activeElement.id')).toBe('main');
  await page.goto('/dashboard');
  await tabTo(page, /^API keys$/);
  await go(page, 'Enter');
  await tabTo(page, /^Create the first key$/);
  await go(page, 'Enter');
  await tabTo(page, /^Name/);
  await page.keyboard.type('made by hand');
  await tabTo(page, /^Send usage/);
  // ArrowUp moves from the first option to the last, which reveals the scopes.
  await page.keyboard.press('ArrowUp');
  await tabTo(page, /^entitlements:read/);
  await page.keyboard.press('Space');
  await tabTo(page, /^Live/);
  await page.keyboard.press('ArrowDown');
  await tabTo(page, /^Create key$/);
  await go(page, 'Space');
  expect(await readMain(page)).toMatch(/org_test_.* entitlements:read/);
  await tabTo(page, /^I have stored it/);
  await go(page, 'Enter');
  await tabTo(page, /^Revoke$/);
  await go(page, 'Enter');
  expect(await readMain(page)).toContain('Revoke made by hand?');
  await tabTo(page, /^Revoke key$/);
  await go(page, 'Space');
  expect(await readMain(page)).toContain('The key is revoked');
});

it('a menu opens and closes with the keyboard, and gives the focus back', async () => {
  const { browser } = await signedIn(world.db, world.service.url);
  const page = await world.visit({ as: browser });
  await page.goto('/dashboard');
  await tabTo(page, /^Signed in as/);
  await page.keyboard.press('Enter');
  await tabTo(page, /^Sign out$/);
  await page.keyboard.press('Escape');
  expect(await page.getByRole('button', { name: 'Sign out' }).isVisible()).toBe(false);
  expect((await page.evaluate<Focus>(readFocus)).name).toMatch(/^Signed in as/);
});
