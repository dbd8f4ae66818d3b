import type { Page } from 'playwright-core';
import { matrix } from '../pages/matrix.js';
import { findBarriers } from '../support/axe.js';
import { DESKTOP, PHONE } from '../support/browser.js';
import type { Populated } from '../pages/populated.js';

/** Every dashboard page that an owner can open, from the permission matrix. */
export const pages: string[] = Object.entries(matrix)
  .filter(
    ([address, { own }]) =>
      address.startsWith('get /dashboard') && !/\/assets\/|\.csv$/.test(address) && own[4] === 200,
  )
  .map(([address]) => address);

/** Path of a page in the matrix, for an owner of the Organization. */
export const toPath = async (address: string, of: Populated): Promise<string> =>
  (await matrix[address]?.path?.(of, 'owner')) ?? address.split(' ')[1]!;

const viewports = [
  DESKTOP,
  { width: 1024, height: 768 },
  { width: 768, height: 1024 },
  { width: 320, height: 640 },
  PHONE,
];

/**
 * Finds the page's accessibility barriers at every width from desktop to phone. The colour scheme affects only the
 * colour contrast, because `light-dark()` takes only colours.
 * @param analysed viewports that get the full accessibility analysis, not only the overflow check; desktop alone is
 * enough for a page that resembles another
 */
export async function findAllBarriers(page: Page, analysed = [DESKTOP, PHONE]): Promise<string[]> {
  const found: string[] = [];
  for (const viewport of viewports) {
    const say = (barriers: string[], scheme: string) =>
      found.push(...barriers.map((barrier) => `${viewport.width} px, ${scheme}: ${barrier}`));
    await page.setViewportSize(viewport);
    say(await findOverflow(page), 'light');
    if (!analysed.includes(viewport)) continue;
    say(await findBarriers(page, viewport === analysed[0] ? undefined : 'layout'), 'light');
    await page.emulateMedia({ colorScheme: 'dark' });
    say(await findBarriers(page, 'colours'), 'dark');
    await page.emulateMedia({ colorScheme: 'light' });
  }
  return found;
}

const widths = [320, 360, 480, 640, 704, 768, 900, 961, 1024, 1280];

/** Finds places where the page scrolls sideways or a number breaks across lines. */
export async function findBrokenNumbers(page: Page): Promise<string[]> {
  const found: string[] = [];
  for (const width of widths) {
    await page.setViewportSize({ width, height: 800 });
    found.push(...(await page.evaluate<string[]>(brokenNumbers)).map((text) => `${width} px: ${text}`));
  }
  return found;
}

/** Skips digits in names, addresses and ids, which may break across lines. */
const brokenNumbers = `(() => {
  const texts = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
  const { scrollWidth, clientWidth } = document.documentElement;
  const broken = scrollWidth > clientWidth ? [scrollWidth - clientWidth + ' px too wide'] : [];
  for (let node = texts.nextNode(); node; node = texts.nextNode()) {
    if (node.parentElement.closest('code:not(.scope), pre, svg, option, .visually-hidden')) continue;
    // Folded content has no position.
    if (node.parentElement.closest('details:not([open]) > :not(summary)')) continue;
    for (const { 0: whole, index } of node.data.matchAll(
      /[a-z]+:(?:read|write)\\b|(?<![\\w.@-])[+−±]?\\$?\\d{1,3}(?:,\\d{3})*(?:\\.\\d+)?(?:\\u00a0%|[¢°])?(?![\\w.@-]*[\\w@])/g,
    )) {
      const range = document.createRange();
      range.setStart(node, index);
      range.setEnd(node, index + whole.length);
      const tops = [...range.getClientRects()].map(({ top }) => Math.round(top));
      if (new Set(tops).size > 1) broken.push('broken: ' + whole);
    }
  }
  return broken;
})()`;

/** Finds elements, including the page itself, whose content is wider than they are. */
export const findOverflow = (page: Page) =>
  page.evaluate<
    string[]
  >(`[document.documentElement, ...document.querySelectorAll('main, .card, td, th, dd, li')]
    .filter((part) => part.scrollWidth > part.clientWidth + 1 && part.clientWidth > 0
      && !['auto', 'scroll'].includes(getComputedStyle(part).overflowX) && getComputedStyle(part).display !== 'inline'
      && !part.querySelector('.visually-hidden'))
    .map((part) => 'wider than its room: <' + part.localName + ' class="' + part.className + '"> ' + part.scrollWidth
      + ' > ' + part.clientWidth + ' ' + part.textContent.trim().slice(0, 80))`);

/** Counts elements that exist only if a name was rendered as markup. */
export const countInjected = (page: Page) =>
  page.locator('main i:not([class]), main b, img[src="x"], .hostile, script:not([src])').count();
