import { beforeAll, expect, it } from 'vitest';
import { browserWorld, DESKTOP, PHONE } from '../support/browser.js';
import { ordinaryNames, populate, type Populated } from '../support/populated.js';
import { findAllBarriers } from './barriers.js';
import { readMain } from './steps.js';

const world = browserWorld();

let own: Populated;
beforeAll(async () => {
  own = await populate(world.service, ordinaryNames);
});

it.each([
  ['phone', PHONE, 'light'],
  ['phone', PHONE, 'dark'],
  ['desktop', DESKTOP, 'light'],
  ['desktop', DESKTOP, 'dark'],
] as const)(
  'limits and what is held are read without scripts: %s, %o, %s',
  async (device, viewport, scheme) => {
    const page = await world.visit({ as: own.people.billing.browser, javaScript: false, viewport, scheme });
    for (const path of ['/dashboard/entitlements', `/dashboard/usage?product=${own.productSlugs[0]}`]) {
      await page.goto(path);
      const text = await readMain(page);
      expect(text).toMatch(/Last 7.days: [\d.]+ used, 2\.5 held of 2 requests Warns Over the limit by/);
      expect(text).toMatch(
        /Last 5.minutes: 1\.25 used, 2\.5 held of 3\.75 requests Blocks 0 left · resets \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC/,
      );
      expect(text).toMatch(/This month \(UTC\): .* held of 123,456,789,012\.123 requests Blocks/);
      const folder = process.env.SHOTS;
      if (folder) {
        const part = page.locator('.limits').first();
        await part.scrollIntoViewIfNeeded();
        await page.screenshot({
          path: `${folder}/${path.includes('usage') ? 'usage' : 'entitlements'}-${device}-${scheme}.png`,
        });
      }
    }
    if (device === 'phone')
      expect(text(await page.locator('#held + table').innerText())).toMatch(
        /production runtime.*2\.5 requests/,
      );
  },
);

const text = (shown: string) => shown.replace(/\s+/g, ' ');

it('has no barriers', async () => {
  const page = await world.look(own.people.owner.browser);
  await page.goto(`/dashboard/usage?product=${own.productSlugs[0]}`);
  expect(await findAllBarriers(page)).toEqual([]);
});
