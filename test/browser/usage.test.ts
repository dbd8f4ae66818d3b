import { expect, it } from 'vitest';
import { eq } from 'drizzle-orm';
import { entitlements } from '../../src/metering/entitlements/table.js';
import { DAY_MS } from '../../src/core/time.js';
import { createProduct, grant } from '../metering/support/products.js';
import { sendUsage, usageEvent } from '../metering/support/usage.js';
import { signedIn } from '../support/accounts.js';
import { browserWorld } from '../support/browser.js';
import { createKey } from '../support/fixtures.js';
import { signedInOperator } from '../support/operators.js';
import { findOverflow } from './barriers.js';

const world = browserWorld();

async function arrive(own: Parameters<typeof createProduct>[1] = {}) {
  const { db, service } = world;
  const { browser, organization } = await signedIn(db, service.url);
  const product = await createProduct(db, own);
  await grant(db, organization.id, product.id);
  const { secret } = await createKey(db, organization.id);
  const send = (key: string, daysAgo = 0) =>
    sendUsage(service.url, secret, [
      usageEvent(product.slug, key, {
        quantity: 5,
        occurredAt: new Date(service.clock.now() - daysAgo * DAY_MS).toISOString(),
      }),
    ]);
  for (let i = 0; i < 4; i++) await send(`day-${i}`, i);
  return { as: browser, send, secret, organization, product };
}

const OPEN = { name: /^5 calls, / };

it('an event opens beside the page and closes with Escape, where the focus was', async () => {
  const { as } = await arrive();
  const page = await world.visit({ as });
  await page.goto('/dashboard/usage?range=last7');
  await page.getByRole('row', { name: /day-1/ }).getByRole('cell').last().click({ force: true });
  const panel = page.getByRole('complementary', OPEN);
  await panel.waitFor();
  expect(await page.evaluate<string>('document.activeElement.id')).toBe('event');
  const shown = () => new URL(page.url()).searchParams.get('event');
  expect(shown()).toBe('day-1');
  for (const [key, event] of [
    ['j', 'day-2'],
    ['k', 'day-1'],
    ['ArrowDown', 'day-2'],
    ['ArrowUp', 'day-1'],
  ] as const) {
    await page.keyboard.press(key);
    await page.waitForURL((address) => address.searchParams.get('event') === event);
  }
  await panel.waitFor();
  const list = (await page.getByRole('region', { name: 'Events' }).boundingBox())!;
  const { x, width } = (await panel.boundingBox())!;
  expect(x + width).toBeLessThanOrEqual(list.x);
  await page.keyboard.press('Escape');
  await panel.waitFor({ state: 'detached' });
  const focused = () => page.evaluate<string>('document.activeElement.innerText');
  expect(await focused()).toContain('day-1');
  await page.keyboard.press('ArrowDown');
  expect(await focused()).toContain('day-2');
  await page.keyboard.press('k');
  await page.keyboard.press('Enter');
  await panel.waitFor();
});

it('the keys of a customer’s events go on to the next page, and an open event leaves the quantities in view', async () => {
  const { secret, organization, product } = await arrive();
  const events = Array.from({ length: 60 }, (_, i) => usageEvent(product.slug, `more-${i}`));
  await sendUsage(world.service.url, secret, events);
  const { browser } = await signedInOperator(world.service);
  const page = await world.visit({ as: browser, viewport: { width: 1280, height: 800 } });
  await page.goto(`/console/customers/${organization.slug}/usage`);
  await page.keyboard.press('?');
  await page.getByRole('dialog', { name: 'Shortcuts' }).waitFor();
  await page.keyboard.press('Escape');
  await page.locator('[data-row]').last().focus();
  await page.keyboard.press('j');
  await page.waitForURL('**cursor=**');
  const isFirst = `document.activeElement === document.querySelector('[data-row]') && document.activeElement.title`;
  await expect.poll(() => page.evaluate<string>(isFirst)).toMatch(/^(day|more)-/);
  await page.keyboard.press('Enter');
  const panel = (await page.locator('.side-panel').boundingBox())!;
  const quantity = (await page.locator('td[data-label="Quantity"]').first().boundingBox())!;
  expect(quantity.x + quantity.width).toBeLessThanOrEqual(panel.x);
});

it.each([
  { javaScript: true, viewport: { width: 1280, height: 800 } },
  { javaScript: true, viewport: { width: 360, height: 780 } },
  { javaScript: false, viewport: { width: 360, height: 480 } },
])(
  'the effect of a correction has the focus, with its button in view ($viewport.width px, scripts: $javaScript)',
  async ({ javaScript, viewport }) => {
    const { organization, product } = await arrive({
      unitCap: '19',
      creditPrice: '2',
      creditEnforcement: 'warn',
    });
    const limits = [{ quantity: '300', window: 'P12D', enforcement: 'warn' }] as never;
    await world.db.orm.update(entitlements).set({ limits }).where(eq(entitlements.productId, product.id));
    const { browser } = await signedInOperator(world.service);
    const page = await world.visit({ as: browser, javaScript, viewport });
    await page.goto(`/console/customers/${organization.slug}/usage?product=${product.slug}&event=day-0`);
    await page.getByRole('link', { name: 'Correct', exact: true }).click();
    await page.locator('[name="quantity"]:focus').fill('500');
    await page.getByLabel('Reason').fill('Counted too little');
    await page.getByRole('button', { name: 'Show the effect' }).click();
    await page.waitForURL('**#correct-title');
    const focused = () => page.evaluate<string>('document.activeElement.innerText');
    expect(await focused()).toBe('Check the correction');
    for (const part of [
      page.locator('#correct-title'),
      page.getByRole('button', { name: 'Correct this event' }),
    ]) {
      const { y, height } = (await part.boundingBox())!;
      expect([y >= 0, y + height <= viewport.height]).toEqual([true, true]);
    }
    const row = (await page.getByRole('row', { name: /Used in the rolling 12.days/ }).boundingBox())!;
    expect(row.x + row.width).toBeLessThanOrEqual(viewport.width);
    await page.getByRole('button', { name: 'Correct this event' }).click();
    await page.getByText('The event is corrected.').waitFor();
    expect(await page.evaluate<string>('document.activeElement.id')).toBe('event');
  },
);

it('a phone folds the filters of a customer’s events, so that the first event is near', async () => {
  const { organization } = await arrive();
  const { browser } = await signedInOperator(world.service);
  const page = await world.visit({ as: browser, viewport: { width: 360, height: 780 } });
  await page.goto(`/console/customers/${organization.slug}/usage`);
  const from = page.getByLabel('From (UTC)');
  expect(await from.isVisible()).toBe(false);
  const filters = (await page.getByRole('region', { name: 'Filters' }).boundingBox())!;
  const first = (await page.locator('[data-row]').first().boundingBox())!;
  expect(first.y - filters.y).toBeLessThan(400);
  expect(first.y).toBeLessThan(780);
  await page.getByText('More filters').click();
  expect(await from.isVisible()).toBe(true);
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.reload();
  expect([await from.isVisible(), await page.getByText('More filters').isVisible()]).toEqual([true, false]);
});

it('a wrong day is named beside its field, and the last valid days stay', async () => {
  const { as } = await arrive();
  const page = await world.visit({ as });
  const today = new Date(world.service.clock.now()).toISOString().slice(0, 10);
  await page.goto(`/dashboard/usage?range=custom&from=${today}&to=${today}`);
  const from = page.getByLabel('From', { exact: true });
  await from.fill('abc');
  await from.press('Tab');
  await page.getByText('Must be a date like 29 Nov 2026').waitFor();
  expect(await page.locator('[data-chart]').count()).toBe(1);
  expect(page.url()).not.toContain('abc');
  expect(await page.getByRole('button', { name: 'Choose a day' }).count()).toBe(2);
});

it('a day can be chosen in the browser’s calendar, and the filter applies itself', async () => {
  const { as } = await arrive();
  const page = await world.visit({ as });
  const today = new Date(world.service.clock.now()).toISOString().slice(0, 10);
  await page.goto(`/dashboard/usage?range=custom&from=${today}&to=${today}`);
  await page.evaluate('HTMLInputElement.prototype.showPicker = function () { window.picker = this; }');
  const choose = async (day: string) => {
    const button = page.getByRole('button', { name: 'Choose a day' }).first();
    await button.focus();
    await page.keyboard.press('Enter');
    const shown = await page.evaluate('window.picker.value');
    await page.evaluate(`window.picker.value = '${day}'`);
    for (const type of ['input', 'change'])
      await page.evaluate(`window.picker.dispatchEvent(new Event('${type}', { bubbles: true }))`);
    await page.locator('[data-chart]').waitFor();
    return shown;
  };
  expect(await choose('2026-01-01')).toBe(today);
  expect(await page.getByLabel('From', { exact: true }).inputValue()).toBe('1 Jan 2026');
  // The new page's button works, too, and knows the chosen day.
  expect(await choose('2026-02-01')).toBe('2026-01-01');
  expect(await page.getByLabel('From', { exact: true }).inputValue()).toBe('1 Feb 2026');
  await page.setViewportSize({ width: 360, height: 700 });
  expect(await findOverflow(page)).toEqual([]);
});

it('links of the explorer keep the place and the focus, and the way back', async () => {
  const { as } = await arrive({ unitCap: '1000' });
  const page = await world.visit({ as, viewport: { width: 360, height: 500 } });
  await page.goto('/dashboard/usage');
  await page.evaluate('window.isSame = true');
  const place = async () => [
    await page.evaluate('scrollY'),
    await page.evaluate('document.activeElement.innerText'),
    await page.evaluate('window.isSame'),
  ];
  const link = page.getByRole('link', { name: 'Cumulative' });
  await link.focus();
  const before = await place();
  expect(before[0]).toBeGreaterThan(100);
  await page.keyboard.press('Enter');
  await page.waitForURL(/sum=1/);
  expect(await link.getAttribute('aria-current')).toBe('true');
  expect(await place()).toEqual(before);
  await page.goBack();
  await page.locator('a[aria-current]', { hasText: 'Each day' }).waitFor();
  expect(page.url()).not.toContain('sum=1');
  expect(await page.evaluate('window.isSame')).toBe(true);
  const opened = page.context().waitForEvent('page');
  await link.click({ modifiers: ['Control'] });
  await (await opened).close();
  expect(page.url()).not.toContain('sum=1');
});

it('the way back leads through each choice in a select, which shows the earlier one', async () => {
  const { db } = world;
  const { as, organization, product } = await arrive();
  await grant(db, organization.id, (await createProduct(db)).id);
  const page = await world.visit({ as });
  await page.goto('/dashboard/usage');
  const entries = () => page.evaluate<number>('history.length');
  const before = await entries();
  const select = page.getByLabel('Product', { exact: true });
  await select.focus();
  await select.selectOption(product.name);
  await page.locator('h2', { hasText: product.name }).waitFor({ state: 'attached' });
  await page.getByLabel('Month (UTC)').dispatchEvent('change');
  await page.locator('#main:not([aria-busy])').waitFor();
  expect(await entries()).toBe(before + 1);
  await page.goBack();
  await page.getByRole('heading', { name: 'By product' }).waitFor();
  expect(await select.inputValue()).toBe('');
  expect(await page.evaluate('document.activeElement.name')).toBe('product');
  // Also on a page whose links are not shown in place.
  await page.goto('/dashboard/credits/ledger');
  await page.locator('select[name=kind]').selectOption('burn');
  await page.waitForURL('**kind=burn*');
  await page.goBack();
  await page.locator('select[name=kind]:has([value=""]:checked)').waitFor();
});

it('a chosen part shows the chips and figures again, and a chosen bar keeps no frame on another one', async () => {
  const { as, send } = await arrive({ unitCap: '1000' });
  for (let i = 0; i < 3; i++) await send(`today-${i}`);
  const page = await world.visit({ as, viewport: { width: 360, height: 500 } });
  await page.goto('/dashboard/usage');
  const row = page.locator('.part-list a').first();
  await row.evaluate((link) => link.scrollIntoView());
  const before = await page.evaluate<number>('scrollY');
  await row.click();
  const chip = page.getByRole('link', { name: /^API key: / });
  await chip.waitFor();
  const isInView = (selector: string) =>
    page.evaluate<boolean>(
      `(() => { const { top, bottom } = document.querySelector('${selector}').getBoundingClientRect(); return top >= 0 && bottom <= innerHeight; })()`,
    );
  await expect.poll(() => isInView('.chosen-parts')).toBe(true);
  expect(await isInView('#usage .tile')).toBe(true);
  expect(await page.evaluate<number>('scrollY')).toBeLessThan(before);
  await chip.click();
  await chip.waitFor({ state: 'detached' });
  expect(await isInView('#usage .tile')).toBe(true);
  const bar = page.locator('[data-chart] a').last();
  await bar.locator('.hit').click();
  await page.waitForURL(/range=day/);
  await expect.poll(() => page.evaluate('document.activeElement.id')).toBe('main');
});

it('the next page of events begins at its top, and the headings of a long list stay in view', async () => {
  const { organization, product, as } = await arrive();
  const { secret } = await createKey(world.db, organization.id);
  const events = Array.from({ length: 110 }, (_, i) => usageEvent(product.slug, `many-${i}`));
  expect((await sendUsage(world.service.url, secret, events)).status).toBe(202);
  const { browser } = await signedInOperator(world.service);
  for (const [reader, path] of [
    [as, '/dashboard/usage'],
    [browser, `/console/customers/${organization.slug}/usage`],
  ] as const) {
    const page = await world.visit({ as: reader, viewport: { width: 1280, height: 500 } });
    await page.goto(path);
    const top = () => page.locator('#events').evaluate((list) => list.getBoundingClientRect().top);
    for (let turn = 0; turn < 2; turn++) {
      const next = page.getByRole('link', { name: 'Next page' });
      const address = await next.getAttribute('href');
      await next.click();
      await page.waitForURL((url) => address!.endsWith(url.search + url.hash));
      await expect.poll(() => page.evaluate('document.activeElement.id')).toBe('events');
      expect(Math.abs(await top())).toBeLessThan(60);
    }
  }
  const page = await world.visit({ as: browser, viewport: { width: 1280, height: 500 } });
  await page.goto(`/console/customers/${organization.slug}/usage`);
  await page.evaluate('scrollTo(0, 1200)');
  const heading = page.getByRole('columnheader', { name: 'Occurred' });
  expect((await heading.boundingBox())!.y).toBe(0);
  const covers = `(() => {
    const keys = [...document.querySelectorAll('.event-list thead th')].find((th) => th.innerText === 'API key');
    const { x, y, width, height } = keys.getBoundingClientRect();
    return keys.contains(document.elementFromPoint(x + Math.min(width, 60) / 2, y + height / 2));
  })()`;
  for (let y = 1200; y < 1300; y += 5) {
    await page.evaluate(`scrollTo(0, ${y})`);
    expect([y, await page.evaluate(covers)]).toEqual([y, true]);
  }
  const ground = `getComputedStyle(document.querySelector('.event-list thead th')).backgroundColor`;
  expect(await page.evaluate(ground)).toMatch(/^rgb\(/);
});

it('a page that takes long to arrive is dimmed until it is shown', async () => {
  const { as } = await arrive({ unitCap: '1000' });
  const page = await world.visit({ as });
  await page.goto('/dashboard/usage');
  const opacity = () => page.evaluate("getComputedStyle(document.querySelector('#main > *')).opacity");
  let arrives = (): void => undefined;
  await page.route(/sum=1/, async (route) => {
    await new Promise<void>((resolve) => (arrives = resolve));
    await route.continue();
  });
  await page.getByRole('link', { name: 'Cumulative' }).click();
  await expect.poll(opacity).toBe('0.6');
  arrives();
  await page.waitForURL(/sum=1/);
  await expect.poll(opacity).toBe('1');
});

it('a list leads back page by page, also after a reload', async () => {
  const { as, secret, product } = await arrive();
  const events = Array.from({ length: 60 }, (_, i) => usageEvent(product.slug, `more-${i}`));
  await sendUsage(world.service.url, secret, events);
  const page = await world.visit({ as });
  await page.goto('/dashboard/usage');
  const [next, previous] = ['Next page', 'Previous page'].map((name) => page.getByRole('link', { name }));
  const places = [page.url()];
  expect(await previous!.count()).toBe(0);
  for (let i = 0; i < 2; i++) {
    const cursor = new URL((await next!.getAttribute('href'))!, page.url()).searchParams.get('cursor');
    await next!.click();
    await page.waitForURL((address) => address.searchParams.get('cursor') === cursor);
    places.push(page.url());
  }
  await page.reload();
  for (const place of places.slice(0, 2).toReversed()) {
    await previous!.click();
    await page.waitForURL(place);
  }
  await previous!.waitFor({ state: 'detached' });
});

it('without scripts, an event opens by its link and closes by another', async () => {
  const { as } = await arrive();
  const page = await world.visit({ as, javaScript: false });
  await page.goto('/dashboard/usage?range=last7');
  await page.getByRole('link', { name: 'day-1' }).click();
  await page.getByRole('link', { name: 'Close' }).click();
  expect(await page.getByRole('complementary', OPEN).count()).toBe(0);
  expect(await page.getByRole('link', { name: 'Refresh' }).count()).toBe(1);
  expect(await page.getByRole('button', { name: 'Pause' }).count()).toBe(0);
});

it('new events appear by themselves, unless they are paused', async () => {
  const { as, send } = await arrive();
  const page = await world.visit({ as });
  await page.goto('/dashboard/usage?range=last7');
  const pause = page.getByRole('button', { name: 'Pause' });
  await pause.click();
  await send('while-paused');
  await page.waitForTimeout(6_000);
  expect(await page.getByRole('link', { name: 'while-paused' }).count()).toBe(0);
  await pause.click();
  await page.getByRole('link', { name: 'while-paused' }).waitFor();
});

it('dragging over the bars of days chooses these days', async () => {
  const { as } = await arrive();
  const page = await world.visit({ as });
  await page.goto('/dashboard/usage?range=last7');
  const bars = page.locator('[data-chart] [data-label]');
  const [first, last] = [await bars.nth(3).boundingBox(), await bars.nth(5).boundingBox()];
  await page.mouse.move(first!.x + 5, first!.y + 50);
  await page.mouse.down();
  await page.mouse.move(last!.x + 5, last!.y + 50, { steps: 4 });
  const names = await page.evaluate<string[]>(
    `[...document.querySelectorAll('[data-hovered]')].map((bar) => bar.dataset.label.split(':')[0])`,
  );
  expect(names).toHaveLength(3);
  const tip = await page.locator('.chart-tip').innerText();
  expect(tip).toMatch(/^\d+.* ?– ?.*[A-Z][a-z]+$/);
  for (const name of [names[0]!, names[2]!]) expect(tip).toContain(name.split(' ')[0]);
  await page.mouse.up();
  // Moving on before the chart is replaced leaves neither a tooltip nor a frame.
  await page.mouse.move(last!.x + 8, last!.y + 52);
  await page.mouse.move(0, 0);
  await page.waitForURL(/range=custom/);
  expect(await page.locator('.chart-tip, [data-hovered]').count()).toBe(0);
  const { searchParams } = new URL(page.url());
  const day = (daysAgo: number) =>
    new Date(world.service.clock.now() - daysAgo * DAY_MS).toISOString().slice(0, 10);
  expect([searchParams.get('from'), searchParams.get('to')]).toEqual([day(3), day(1)]);
});

it('alerts on credits are only beside products that burn some', async () => {
  const { as, organization, product } = await arrive();
  const priced = await createProduct(world.db, { creditPrice: '1', creditEnforcement: 'warn' });
  await grant(world.db, organization.id, priced.id);
  const page = await world.visit({ as });
  const alerts = page.getByRole('region', { name: 'Alerts' });
  await page.goto(`/dashboard/usage?product=${product.slug}`);
  await page.getByRole('region', { name: 'Events' }).waitFor();
  expect(await alerts.count()).toBe(0);
  await page.goto(`/dashboard/usage?product=${priced.slug}`);
  await alerts.waitFor();
});

it('a printed statement has a letterhead and no controls', async () => {
  const { as, organization } = await arrive();
  const page = await world.visit({ as });
  await page.goto('/dashboard/statement');
  await page.setViewportSize({ width: 794, height: 1123 });
  await page.emulateMedia({ media: 'print' });
  await page.getByRole('definition').filter({ hasText: organization.name }).waitFor();
  for (const control of ['.button', '.tabs', 'select', 'summary', '.badge'])
    expect(await page.locator(`main ${control}`).filter({ visible: true }).count()).toBe(0);
  expect(await page.evaluate<number>('document.documentElement.scrollWidth')).toBe(794);
});

it('a short slug stays on one line of a table', async () => {
  const { as, organization } = await arrive();
  const short = await createProduct(world.db, { slug: `api-${String(Date.now()).slice(-8)}` });
  await grant(world.db, organization.id, short.id);
  const page = await world.visit({ as });
  await page.goto('/dashboard/entitlements');
  expect((await page.locator('code', { hasText: short.slug }).boundingBox())!.height).toBeLessThan(30);
});

it('alerts and events are beside the chart, and folded below it on a phone', async () => {
  const { as } = await arrive({ unitCap: '1000' });
  const page = await world.visit({ as });
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.goto('/dashboard/usage');
  const chart = (await page.locator('[data-chart]').boundingBox())!;
  for (const name of ['Alerts', 'Events'])
    expect((await page.getByRole('region', { name }).boundingBox())!.x).toBeGreaterThan(
      chart.x + chart.width,
    );
  await page.setViewportSize({ width: 360, height: 800 });
  const event = page.getByRole('link', { name: 'day-0' });
  expect(await event.isVisible()).toBe(false);
  await page.locator('summary', { hasText: 'Events' }).click();
  await event.waitFor();
  const month = page.getByLabel('Month (UTC)');
  expect((await month.boundingBox())!.width).toBeGreaterThan(200);
});

it('a phone has room for the headings of parts', async () => {
  const { as, organization } = await arrive();
  const priced = await createProduct(world.db, { creditPrice: '1', creditEnforcement: 'warn' });
  await grant(world.db, organization.id, priced.id);
  const { secret } = await createKey(world.db, organization.id);
  await sendUsage(world.service.url, secret, [usageEvent(priced.slug, 'priced', { quantity: 5 })]);
  const page = await world.visit({ as, viewport: { width: 390, height: 844 } });
  await page.goto('/dashboard/usage?range=last7');
  const parts = page.getByRole('table', { name: 'By product' });
  await parts.getByRole('columnheader', { name: 'Share of credits' }).waitFor();
  expect(await findOverflow(page)).toEqual([]);
});

it('the five largest parts are shown until all are wanted', async () => {
  const { as, organization, product } = await arrive();
  for (let at = 0; at < 6; at++) {
    const { secret } = await createKey(world.db, organization.id);
    await sendUsage(world.service.url, secret, [usageEvent(product.slug, `of-${at}`, { quantity: 1 })]);
  }
  const page = await world.visit({ as });
  await page.goto('/dashboard/usage');
  const rows = page.getByRole('table', { name: 'By API key' }).locator('tbody').getByRole('row');
  expect(await rows.count()).toBe(5);
  await page.getByText('Show all 7').click();
  expect(await rows.count()).toBe(7);
});

it('a limit that is nearly used fits the card of its subject, and an event has two lines', async () => {
  const { as, organization } = await arrive();
  const product = await createProduct(world.db, {
    dimensions: ['region'],
    subjectsSince: new Date(0),
    creditPrice: '0.125',
    creditEnforcement: 'warn',
  });
  await grant(world.db, organization.id, product.id);
  const limits = [{ quantity: '1800', window: 'P7D', enforcement: 'warn', per: 'subject' }] as never;
  await world.db.orm.update(entitlements).set({ limits }).where(eq(entitlements.productId, product.id));
  const { secret } = await createKey(world.db, organization.id);
  for (const [i, quantity] of [1584, 1, 1234567].entries()) {
    const event = usageEvent(product.slug, `0193a6b0-7d1c-7000-8000-00000000000${i}`, {
      quantity,
      subject: ['customer-of-a-long-name@example.com', 'ada', 'b'][i]!,
      dimensions: { region: 'eu-central-1' },
    });
    expect((await sendUsage(world.service.url, secret, [event])).status).toBe(202);
  }
  const page = await world.visit({ as });
  await page.goto(`/dashboard/usage?product=${product.slug}&range=last7`);
  await page.getByText('1,584 of 1,800 in the rolling 7 days').waitFor();
  for (const width of [1024, 1280, 1850, 1920, 2200]) {
    await page.setViewportSize({ width, height: 900 });
    expect(await findOverflow(page)).toEqual([]);
  }
  await page.setViewportSize({ width: 1280, height: 900 });
  const heights = await page.evaluate<number[]>(
    `[...document.querySelectorAll('.event-list tbody tr')].map((row) => row.clientHeight)`,
  );
  expect(heights).toHaveLength(3);
  for (const height of heights) expect(height).toBeLessThan(64);
  await page.setViewportSize({ width: 1850, height: 900 });
  await page.setViewportSize({ width: 1280, height: 900 });
  await page.goto(`/dashboard/usage?product=${product.slug}&range=last7&event=0193a6b0`);
});
