import type { Page } from 'playwright-core';
import { matrix } from '../pages/matrix.js';
import { findBarriers } from '../support/axe.js';
import { DESKTOP, PHONE } from '../support/browser.js';
import type { Populated } from '../support/populated.js';

/** Every page of the dashboard that an owner can open, from the table that misses none. */
export const pages: string[] = Object.entries(matrix)
  .filter(
    ([address, { own }]) =>
      address.startsWith('get /dashboard') && !/\/assets\/|\.csv$/.test(address) && own[4] === 200,
  )
  .map(([address]) => address);

/** Where a page of the table is, for an owner of the Organization. */
export const toPath = async (address: string, of: Populated): Promise<string> =>
  (await matrix[address]?.path?.(of, 'owner')) ?? address.split(' ')[1]!;

/** All that may be wrong with the page on a desk and on a phone. The scheme changes nothing but the colours. */
export async function findAllBarriers(page: Page): Promise<string[]> {
  const found: string[] = [];
  for (const viewport of [DESKTOP, PHONE]) {
    const say = (barriers: string[], scheme: string) =>
      found.push(...barriers.map((barrier) => `${viewport.width} px, ${scheme}: ${barrier}`));
    await page.setViewportSize(viewport);
    await page.emulateMedia({ colorScheme: 'light' });
    say([...(await findBarriers(page)), ...(await findOverflow(page))], 'light');
    await page.emulateMedia({ colorScheme: 'dark' });
    say(await findBarriers(page, 'colours'), 'dark');
  }
  return found;
}

/** Not only the page itself: nothing may hide what a narrow window cuts off. */
const findOverflow = (page: Page) =>
  page.evaluate<
    string[]
  >(`[document.documentElement, ...document.querySelectorAll('main, .card, td, th, dd, li')]
    .filter((part) => part.scrollWidth > part.clientWidth + 1 && part.clientWidth > 0
      && !['auto', 'scroll'].includes(getComputedStyle(part).overflowX) && getComputedStyle(part).display !== 'inline'
      && !part.querySelector('.visually-hidden'))
    .map((part) => 'wider than its room: <' + part.localName + ' class="' + part.className + '"> ' + part.scrollWidth
      + ' > ' + part.clientWidth + ' ' + part.textContent.trim().slice(0, 80))`);

/** What a name would have become if it had been taken for markup. */
export const countInjected = (page: Page) =>
  page.locator('main i:not([class]), main b, img[src="x"], .hostile, script:not([src])').count();
