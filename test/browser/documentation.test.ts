import { expect, it } from 'vitest';
import { findBarriers } from '../support/axe.js';
import { browserWorld, DESKTOP } from '../support/browser.js';
import { createTenant } from '../metering/support/usage.js';
import { findAllBarriers } from './barriers.js';

const world = browserWorld();

it('no documentation page has accessibility barriers', async () => {
  const page = await world.visit();
  await page.goto('/docs');
  const paths = await page.evaluate<string[]>(
    `[...new Set([...document.querySelectorAll('a[href^="/docs/"]')].map((link) => link.pathname))]`,
  );
  expect(paths.length).toBeGreaterThan(12);
  // Reference pages differ only in their text, so one page gets the full analysis.
  const full = '/docs/reference/usage';
  expect(paths).toContain(full);
  const analysed = (path: string) => {
    if (path === full || path === '/docs') return undefined;
    return path.startsWith('/docs/reference/') ? [] : [DESKTOP];
  };
  for (const path of ['/docs', ...paths]) {
    await page.goto(path);
    expect([path, await findAllBarriers(page, analysed(path))]).toEqual([path, []]);
    expect([path, await findBarriers(page, 'colours')]).toEqual([path, []]);
  }
});

it('a request is tried with the keyboard alone', async () => {
  const { key } = await createTenant(world.db);
  const page = await world.visit();
  await page.goto('/docs/reference/entitlements');
  const form = page.locator('form[data-try]').first();
  await page.locator('[data-try-part] summary').first().press('Enter');
  await form.getByLabel('Example').focus();
  for (let stops = 0; stops < 3; stops++) await page.keyboard.press('Tab');
  await page.keyboard.type(key.secret);
  await page.keyboard.press('Enter');
  await form.getByText('Returned 200 OK').waitFor();
  expect(await form.locator('[data-answer]').innerText()).toContain('"entitlements": [');
  expect(await findBarriers(page)).toEqual([]);
});

it('without a key it names what is missing, and without a script everything is readable', async () => {
  const page = await world.visit();
  await page.goto('/docs/reference/usage');
  expect(await page.evaluate('document.documentElement.scrollHeight')).toBeLessThan(7_500);
  // On a long page, only the fields of the request that the address names are open.
  await page.goto('/docs/reference/usage#recordUsageEvents');
  await page.locator('#recordUsageEvents').getByText('Try it').click();
  const path = (await page.locator('#recordUsageEvents').getByLabel('Path').boundingBox())!;
  expect(path.y + path.height).toBeLessThan(page.viewportSize()!.height);
  expect(
    await page.evaluate(
      `[...document.querySelectorAll('.example pre')].filter((pre) => pre.scrollWidth > pre.clientWidth).length`,
    ),
  ).toBe(0);
  await page.getByRole('button', { name: 'Send the request' }).first().click();
  await page.getByText('Enter an API key first.').waitFor();
  const plain = await world.visit({ javaScript: false });
  await plain.goto('/docs/reference/usage');
  expect(await plain.locator('form[data-try]').first().isVisible()).toBe(false);
  expect(await plain.getByText('"accepted": 2').first().isVisible()).toBe(true);
  const fields = plain.locator('#recordUsageEvents').getByText('Response fields').first();
  expect(await fields.isVisible()).toBe(false);
  await plain.getByText('Fields, responses and errors').first().click();
  expect(await fields.isVisible()).toBe(true);
});

it('a language chosen once is shown by every example, also on the next page', async () => {
  const page = await world.visit();
  await page.goto('/docs/start');
  await page.locator('label', { hasText: 'Python' }).nth(1).click();
  expect(await page.getByRole('radio', { name: 'Python' }).nth(2).isChecked()).toBe(true);
  for (const path of [undefined, '/docs/retries']) {
    if (path) await page.goto(path);
    expect(await page.getByText('from gauge import GaugeClient').first().isVisible()).toBe(true);
    expect(await page.getByText('curl -sS').first().isVisible()).toBe(false);
  }
  expect(await findBarriers(page)).toEqual([]);
  const plain = await world.visit({ javaScript: false });
  await plain.goto('/docs/start');
  await plain.getByText('TypeScript', { exact: true }).first().click();
  expect(await plain.getByText('await gauge.GET').first().isVisible()).toBe(true);
});

it('the table of contents marks the section being read', async () => {
  const page = await world.visit();
  await page.goto('/docs/reference/usage#settleReservation');
  const contents = page.getByRole('navigation', { name: 'Documentation' });
  await contents.locator('[aria-current="true"]', { hasText: 'Settle a reservation' }).waitFor();
  const settled = page.locator('#settleReservation');
  // Required fields are shown without opening anything, and methods differ in colour.
  expect(await settled.getByText('The id of the reservation.').first().isVisible()).toBe(true);
  const colours = await page.evaluate<string[]>(
    `[...document.querySelectorAll('.operations .method')].map((one) => one.textContent + getComputedStyle(one).color)`,
  );
  const get = colours.find((text) => text.startsWith('GET'));
  const post = colours.find((text) => text.startsWith('POST'));
  expect(get!.slice(3)).not.toBe(post!.slice(4));
  await page.goto('/docs/reference/operator-users');
  const box = (await contents.locator('[aria-current="page"]').boundingBox())!;
  expect(box.y + box.height).toBeLessThan(page.viewportSize()!.height);
});

it('the search works with the keyboard and without a script', async () => {
  const page = await world.visit();
  await page.goto('/docs/errors');
  await page.keyboard.press('/');
  await page.keyboard.type('rotate a key');
  await page.keyboard.press('Enter');
  await page.getByRole('link', { name: 'Rotating keys' }).last().waitFor();
  expect(await findBarriers(page)).toEqual([]);
  // Results appear while the reader types, on the overview, too.
  for (const path of ['/docs/search?q=plan', '/docs', '/docs/retries']) {
    await page.goto(path);
    await page.getByRole('searchbox').fill('rate_limited');
    await page.locator('[data-found]').getByRole('link', { name: 'rate_limited' }).first().waitFor();
    expect(new URL(page.url()).pathname + new URL(page.url()).search).toBe(path);
    expect(await findBarriers(page)).toEqual([]);
  }
  // The arrows choose a result while the focus stays in the field.
  await page.getByRole('searchbox').press('ArrowDown');
  expect(await page.locator('[data-found] [data-chosen]').innerText()).toBe('rate_limited');
  await page.keyboard.press('Enter');
  await page.waitForURL('**/docs/errors#rate_limited');
  const plain = await world.visit({ javaScript: false });
  await plain.goto('/docs');
  await plain.getByRole('searchbox').fill('rate_limited');
  await plain.keyboard.press('Enter');
  await plain.getByRole('link', { name: 'rate_limited' }).first().click();
  await plain.waitForURL('**/docs/errors#rate_limited');
});
