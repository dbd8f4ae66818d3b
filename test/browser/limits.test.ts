import { beforeAll, expect, it } from 'vitest';
import { signedIn } from '../support/accounts.js';
import { browserWorld, DESKTOP, PHONE } from '../support/browser.js';
import { createKey } from '../support/fixtures.js';
import { createProduct, grant } from '../metering/support/products.js';
import { ordinaryNames, populate, type Populated } from '../pages/populated.js';
import { sendUsage, usageEvent } from '../metering/support/usage.js';
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
  'limits and held quantities can be read without scripts: %s, %o, %s',
  async (device, viewport, scheme) => {
    const page = await world.visit({ as: own.people.billing.browser, javaScript: false, viewport, scheme });
    for (const path of ['/dashboard/entitlements', `/dashboard/usage?product=${own.productSlugs[0]}`]) {
      await page.goto(path);
      const text = await readMain(page);
      expect(text).toMatch(/Rolling 7.days: [\d.]+ used, 2\.5 held of 2 requests Warns Over the limit by/);
      expect(text).toMatch(
        /Last 5.minutes: 1\.25 used, 2\.5 held of 3\.75 requests Blocks 0 left · some is available again \d{1,2} \w{3,4} \d{4}, \d\d:\d\d:\d\d UTC/,
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

it.each([320, 360])('sums in the millions do not break on a page of %d px', async (width) => {
  const { db, service } = world;
  const { organization, browser } = await signedIn(db, service.url);
  const product = await createProduct(db);
  await grant(db, organization.id, product.id);
  const { secret } = await createKey(db, organization.id);
  const event = usageEvent(product.slug, `millions on ${width}`, { quantity: 160_233_212 });
  expect((await sendUsage(service.url, secret, [event])).status).toBe(202);
  const page = await world.visit({ as: browser, viewport: { width, height: 740 } });
  await page.goto(`/dashboard/usage?product=${product.slug}`);
  await page.locator('details.numbers > summary').click();
  const lines = await page.evaluate<{ text: string; lines: number }[]>(`
    [...document.querySelectorAll('.numbers td.number')].map((cell) => {
      const range = document.createRange();
      range.selectNodeContents(cell);
      const tops = [...range.getClientRects()].map(({ top }) => top);
      return { text: cell.textContent.trim(), lines: new Set(tops).size };
    })`);
  const ofMillions = lines.filter(({ text }) => text === '160,233,212');
  expect(ofMillions.length).toBeGreaterThan(0);
  expect(ofMillions.filter((cell) => cell.lines > 1)).toEqual([]);
});
