import { createHmac } from 'node:crypto';
import type { Page } from 'playwright-core';
import { PASSWORD } from '../support/accounts.js';

/** Steps that many tests share. They find elements by their visible text. */

export async function signIn(page: Page, email: string, password = PASSWORD): Promise<void> {
  await page.goto('/login');
  await page.getByLabel('E-mail address').fill(email);
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
}

export async function signOut(page: Page): Promise<void> {
  await page.locator('summary').filter({ hasText: 'Signed in as' }).click();
  await page.getByRole('button', { name: 'Sign out', exact: true }).click();
  await page.waitForURL('**/login*');
}

export async function follow(page: Page, entry: string): Promise<void> {
  await page.getByRole('navigation', { name: 'Dashboard' }).getByRole('link', { name: entry }).click();
}

/** The text of the page's main element. */
export const readMain = async (page: Page): Promise<string> =>
  (await page.getByRole('main').innerText()).replace(/\s+/g, ' ');

/**
 * Returns the code that an authenticator app (RFC 6238) shows at the given time, for a base32 secret with or without
 * spaces.
 */
export function codeOfApp(secret: string, ms: number): string {
  const letters = Array.from(secret.replace(/\s/g, ''));
  const bits = letters.map((letter) =>
    'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'.indexOf(letter).toString(2).padStart(5, '0'),
  );
  const key = Buffer.from((bits.join('').match(/.{8}/g) ?? []).map((byte) => Number.parseInt(byte, 2)));
  const step = Buffer.alloc(8);
  step.writeBigUInt64BE(BigInt(Math.floor(ms / 30_000)));
  const mac = createHmac('sha1', key).update(step).digest();
  const code = mac.readUInt32BE(mac.at(-1)! & 15) & 0x7fffffff;
  return String(code % 1_000_000).padStart(6, '0');
}
