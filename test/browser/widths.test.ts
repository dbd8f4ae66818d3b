import { beforeAll, expect, it } from 'vitest';
import { browserWorld } from '../support/browser.js';
import { ordinaryNames, populate, type Populated } from '../support/populated.js';
import { toPath } from './barriers.js';

const world = browserWorld();

let own: Populated;
beforeAll(async () => {
  own = await populate(world.service, ordinaryNames);
});

const widths = [320, 360, 480, 640, 704, 720, 768, 800, 900, 960, 1000, 1024, 1100, 1152, 1280, 1600, 1920];

it.each([
  'get /dashboard',
  'get /dashboard/api-keys',
  'get /dashboard/api-keys/new',
  'get /dashboard/api-keys/{id}',
  'get /dashboard/api-keys/{id}/rename',
  'get /dashboard/api-keys/{id}/cut-over',
  'get /dashboard/usage',
  'get /dashboard/usage/products',
  'get /dashboard/usage/events',
  'get /dashboard/entitlements',
  'get /dashboard/members',
  'get /dashboard/members/second-factor',
  'get /dashboard/audit-log',
  'get /dashboard/account/sessions',
])('%s never scrolls sideways, and no number breaks over lines', async (address) => {
  const page = await world.visit({ as: own.people.owner.browser });
  await page.goto(await toPath(address, own));
  const found: string[] = [];
  for (const width of widths) {
    await page.setViewportSize({ width, height: 800 });
    const wide = await page.evaluate<number>(
      `document.documentElement.scrollWidth - document.documentElement.clientWidth`,
    );
    if (wide > 0) found.push(`${width} px: ${wide} px too wide`);
    const broken = await page.evaluate<string[]>(brokenNumbers);
    found.push(...broken.map((text) => `${width} px: ${text}`));
  }
  expect(found).toEqual([]);
});

/** Numbers that lie in more than one line; what is part of a name, an address or an id is none. */
const brokenNumbers = `(() => {
  const texts = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
  const broken = [];
  for (let node = texts.nextNode(); node; node = texts.nextNode()) {
    if (node.parentElement.closest('code, pre, svg, option, .visually-hidden')) continue;
    // What is folded has no place of its own.
    if (node.parentElement.closest('details:not([open]) > :not(summary)')) continue;
    for (const { 0: number, index } of node.data.matchAll(/(?<![\\w.@-])[+−±]?\\d{1,3}(?:,\\d{3})*(?:\\.\\d+)?(?:\\u00a0%)?(?![\\w.@-]*[\\w@])/g)) {
      const range = document.createRange();
      range.setStart(node, index);
      range.setEnd(node, index + number.length);
      const tops = [...range.getClientRects()].map(({ top }) => Math.round(top));
      if (new Set(tops).size > 1) broken.push('broken: ' + number);
    }
  }
  return broken;
})()`;
