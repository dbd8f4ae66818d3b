import type { Page } from 'playwright-core';
import { describe, expect, it } from 'vitest';
import { bookTrade } from '../markets/support/portfolio.js';
import { signedIn } from '../support/accounts.js';
import { browserWorld } from '../support/browser.js';
import { createKey } from '../support/fixtures.js';
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
    await page.goto('/dashboard/markets');
    await page
      .getByRole('link', { name: /^Close/ })
      .first()
      .click();
    if (javaScript) expect(await findAllBarriers(page)).toEqual([]);
    const held = await page.getByLabel('Contracts').inputValue();
    await page.getByRole('heading', { name: new RegExp(`^Sell ${held} `) }).waitFor();
    await page.getByLabel('Contracts').fill('3');
    if (!javaScript) await page.getByRole('button', { name: 'Review' }).click();
    await page.getByRole('heading', { name: /^Sell 3 / }).waitFor();
    const quoted = Number(/You receive \$([\d.]+)/.exec(await readMain(page))![1]);
    await page.getByRole('button', { name: /^Sell (on paper|anyway)$/ }).click();
    await page.getByText(/^Sold 3 /).waitFor();
    // The next order is for as many, if they are left.
    expect(await page.getByLabel('Contracts').inputValue()).toBe(String(Math.min(3, Number(held) - 3)));
    if (javaScript) expect(await findAllBarriers(page)).toEqual([]);
    await page.goto('/dashboard/portfolio');
    // Each of the three amounts is rounded to cents.
    expect(Math.abs((await cash()) - before - quoted)).toBeLessThan(0.016);
  },
);

describe('the orders', () => {
  /**
   * Opens the orders page of a customer who has bought and partly sold a position, and who has a partially filled order
   * with a stated reason.
   */
  async function visitOrders(width: number): Promise<Page> {
    const { browser, organization } = await signedIn(world.db, world.service.url);
    const { id } = await createKey(world.db, organization.id, {});
    const trade = { orgId: organization.id, by: { apiKeyId: id } };
    const at = (minute: number) => new Date(Date.UTC(2026, 10, 25, 12, minute));
    await bookTrade(world.db, { ...trade, at: at(0), fills: [['0.5912', 115, '1.90']] });
    await bookTrade(world.db, { ...trade, at: at(1), action: 'sell', fills: [['0.8812', 101, '0.90']] });
    await bookTrade(world.db, {
      ...trade,
      at: at(2),
      contracts: 15,
      fills: [['0.69', 5, '0.08']],
      status: 'partially_filled',
      reason: 'The book held 5 of 15 contracts at the limit price or better; the rest was cancelled.',
    });
    const page = await world.visit({ as: browser, viewport: { width, height: 900 } });
    await page.goto('/dashboard/portfolio/orders');
    return page;
  }

  it('stay within their card, in a few lines each', async () => {
    const page = await visitOrders(720);
    for (const [width, height] of [
      [720, 130],
      [1024, 130],
      [1280, 96],
      [1440, 96],
    ] as const) {
      await page.setViewportSize({ width, height: 900 });
      const { heights, table, card } = await page.locator('.table.orders').evaluate((element) => ({
        heights: [...element.querySelectorAll('tbody tr')].map((row) => row.getBoundingClientRect().height),
        table: element.getBoundingClientRect().right,
        card: element.closest('.card')!.getBoundingClientRect().right,
      }));
      expect(Math.max(...heights), `${width} px`).toBeLessThan(height);
      expect(table, `${width} px`).toBeLessThanOrEqual(card);
    }
  });

  it('show each amount and status on one line of a phone', async () => {
    const page = await visitOrders(360);
    const wrapped = await page
      .locator('.table.orders')
      .evaluate((element) =>
        [...element.querySelectorAll('tbody th a, .badge, .change')]
          .filter((part) => part.getClientRects().length > 1 || part.getBoundingClientRect().height > 30)
          .map((part) => part.textContent),
      );
    expect(wrapped).toEqual([]);
    expect(await page.locator('.table.orders .badge').first().innerText()).toBe('5 of 15 filled');
  });
});
