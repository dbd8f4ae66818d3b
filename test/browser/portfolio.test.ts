import { expect, it } from 'vitest';
import { browserWorld } from '../support/browser.js';
import { ordinaryNames, populate } from '../pages/populated.js';
import { findAllBarriers } from './barriers.js';
import { readMain } from './steps.js';

const world = browserWorld();

it.each([true, false])(
  'a paper position is sold by hand, and brings what was quoted (scripts: %s)',
  async (javaScript) => {
    const { people } = await populate(world.service, ordinaryNames);
    const page = await world.visit({ as: people.owner.browser, javaScript });
    await page.goto('/dashboard/portfolio');
    const cash = async () => Number(/Cash \$([\d.,]+)/.exec(await readMain(page))![1]!.replace(',', ''));
    const before = await cash();
    await page.getByRole('link', { name: /^Sell/ }).first().click();
    if (javaScript) expect(await findAllBarriers(page)).toEqual([]);
    const held = await page.getByLabel('Contracts').inputValue();
    await page.getByRole('heading', { name: new RegExp(`^Sell ${held} `) }).waitFor();
    await page.getByLabel('Contracts').fill('3');
    if (!javaScript) await page.getByRole('button', { name: 'Review' }).click();
    await page.getByRole('heading', { name: /^Sell 3 / }).waitFor();
    const quoted = Number(/You receive \$([\d.]+)/.exec(await readMain(page))![1]);
    await page.getByRole('button', { name: 'Place paper order' }).click();
    await page.waitForURL('**/orders/*?done=placed');
    if (javaScript) expect(await findAllBarriers(page)).toEqual([]);
    await page.goto('/dashboard/portfolio');
    // Each of the three amounts is rounded to cents.
    expect(Math.abs((await cash()) - before - quoted)).toBeLessThan(0.016);
  },
);
