import type { Locator, Page } from 'playwright-core';
import { beforeAll, describe, expect, it } from 'vitest';
import { isPlaced, type Market } from '../../src/markets/market/market.js';
import { everything } from '../../src/markets/venue/simulation/world.js';
import { CENT, parseDollars } from '../../src/markets/market/money.js';
import { inCents } from '../../src/markets/pages/addresses.js';
import { listLatestOrders } from '../../src/markets/portfolio/order-queries.js';
import { formatMoney, formatPrice } from '../../src/core/pages/format.js';
import { signedIn } from '../support/accounts.js';
import { browserWorld, DESKTOP, PHONE } from '../support/browser.js';
import { createKey } from '../support/fixtures.js';
import { findAllBarriers } from './barriers.js';
import { follow, readMain } from './steps.js';

/** Grey if the order loses on average. */
const PLACE = /^(Place (paper order|anyway)|Sell (on paper|anyway))$/;

/** Simulated books change every 15 s: now and then, a price moves between its quote and the order. */
const quoted = { retry: 2 };

const world = browserWorld({ trading: { selection: everything } });
beforeAll(async () => {
  await world.service.trading.refresher.refresh();
  await world.service.trading.prices.record();
});

/** Finds a market whose price is well away from both 0 and a dollar. No observation decides one of the last day yet. */
function findMarket(isOfLastDay = false): Market {
  const placed = [...world.service.trading.snapshots.current!.markets.values()]
    .filter(isPlaced)
    .filter(({ kind }) => kind === 'daily_maximum')
    .toSorted((one, other) => (isOfLastDay ? other.date.localeCompare(one.date) : 0));
  return placed.find(({ yesAsk }) => yesAsk !== null && yesAsk > 5n * CENT && yesAsk < 90n * CENT)!;
}

const amountOf = async (page: Page, label: string) =>
  (await page.locator('.bill > div').filter({ hasText: label }).first().locator('dd').innerText()).slice(1);

describe.each([{ javaScript: true }, { javaScript: false }])(
  'with scripts: $javaScript',
  ({ javaScript }) => {
    it('a paper trade is in the portfolio and in GET /portfolio, to the cent', quoted, async () => {
      const { browser, organization } = await signedIn(world.db, world.service.url);
      const { station, date, ticker } = findMarket();
      const page = await world.visit({ javaScript, as: browser });
      await page.goto('/dashboard');
      await follow(page, 'Markets');
      await page.getByRole('searchbox', { name: 'City' }).fill(station.city.toLowerCase());
      await page.keyboard.press('Enter');
      await page
        .getByRole('navigation', { name: 'Opportunities' })
        .getByRole('link', { name: station.city })
        .first()
        .click();
      await page.locator(`nav[aria-label=Days] a[href*="station=${station.id}&date=${date}"]`).click();
      await page.locator(`a[href*="/${ticker}?side=yes"]`).first().click();
      await page.getByLabel('Contracts').fill('3');
      if (!javaScript) {
        await page.getByRole('button', { name: 'Review' }).click();
        await page.waitForURL(/#review$/);
      }
      await page.getByRole('heading', { name: /^Buy 3 YES/ }).waitFor();
      const [cost, fee] = [await amountOf(page, 'Cost'), await amountOf(page, 'Fee')];
      const after = await page
        .locator('.bill > div')
        .filter({ hasText: 'Cash after' })
        .locator('dd')
        .innerText();
      // The second click arrives after the form was submitted, and may abort the first response.
      await page.getByRole('button', { name: PLACE }).dblclick();
      await page.getByText('Bought 3 YES for').waitFor();
      const row = page.getByRole('table', { name: 'Orders' }).getByRole('row', { name: 'Buy 3 YES' });
      expect(await row.innerText()).toMatch(/3\s+at /);
      const close = page.getByRole('table', { name: 'Positions' }).getByRole('link', { name: 'Close' });
      expect(await close.getAttribute('href')).toContain('action=sell');
      await page.goto('/dashboard/portfolio');
      expect(await readMain(page)).toContain(after);

      const { secret } = await createKey(world.db, organization.id, { scopes: ['trading:read'] });
      const headers = { authorization: `Bearer ${secret}` };
      const response = await fetch(`${world.service.url}/portfolio`, { headers });
      const { portfolio } = (await response.json()) as { portfolio: Record<string, string> };
      const inCents = (dollars: string) => formatMoney(parseDollars(dollars));
      expect(inCents(portfolio.cash!)).toBe(after);
      expect(inCents(portfolio.fees!)).toBe(`$${fee}`);
      expect(formatMoney(parseDollars('1000') - parseDollars(portfolio.cash!))).toBe(`$${cost}`);
      expect(portfolio.positions).toMatchObject([{ ticker, side: 'yes', contracts: 3 }]);
    });
  },
);

it('the quote follows the form, and no order can be placed before it is current', async () => {
  const { browser } = await signedIn(world.db, world.service.url);
  const { ticker } = findMarket();
  const page = await world.visit({ as: browser });
  await page.goto(`/dashboard/markets/${ticker}?side=yes&action=buy&contracts=1`);
  const place = page.getByRole('button', { name: PLACE });
  await page.getByLabel('Contracts').fill('');
  await expect.poll(() => page.locator('[data-place] button').isEnabled()).toBe(false);
  expect(await page.locator('#ticket .error').count()).toBe(0);
  // The old quote would contradict the field.
  expect(await page.locator('#review-title').isVisible()).toBe(false);
  await page.keyboard.press('Tab');
  const error = page.locator('#ticket .error', { hasText: 'From 0.01 to 1,000' });
  await error.waitFor();
  expect((await error.boundingBox())!.width).toBeCloseTo(
    (await page.locator('form#ticket').boundingBox())!.width,
  );
  await page.getByRole('heading', { name: 'No quote' }).waitFor();
  expect(await place.count()).toBe(0);
  await page.getByLabel('Contracts').fill('2');
  await error.waitFor({ state: 'detached' });
  await page.getByLabel('Contracts').fill('0');
  await error.waitFor();
  await page.getByLabel('Contracts').fill('2');
  await page.getByRole('heading', { name: /^Buy 2 YES/ }).waitFor();
  await expect.poll(() => place.isEnabled()).toBe(true);
  expect(await page.locator('[data-place] input[name=contracts]').inputValue()).toBe('2');
  expect(page.url()).toContain('contracts=2');
  const limit = page.getByLabel('Limit in cents');
  await limit.fill('150');
  await page.locator('#ticket .error', { hasText: 'Must be more than 0 and less than 100 cents' }).waitFor();
  await page.getByText('The quote appears once all fields are valid.').waitFor();
  expect(await place.count()).toBe(0);
  expect(await limit.getAttribute('aria-invalid')).toBe('true');
  await limit.fill('42');
  await page.getByRole('heading', { name: /^Buy 2 YES at 42¢/ }).waitFor();
  // The field still has the focus.
  expect(await limit.getAttribute('aria-invalid')).toBeNull();
  await limit.fill('');
  await limit.pressSequentially('e');
  await page.locator('#ticket .error').waitFor();
  await limit.fill('42');
  await page.getByLabel('Contracts').fill('5000');
  await page.getByRole('heading', { name: /^Buy 5,000 YES/ }).waitFor();
});

it('the limit of a ticket is the current price until the reader changes it', async () => {
  const { browser } = await signedIn(world.db, world.service.url);
  const { ticker } = findMarket();
  const page = await world.visit({ as: browser });
  const streamed = page.waitForRequest('**/stream?station=*');
  await page.goto(`/dashboard/markets/${ticker}?side=yes&action=buy&contracts=1`);
  await streamed;
  const limit = page.getByLabel('Limit in cents');
  const priceOf = () => world.service.trading.snapshots.current!.markets.get(ticker)!.yesAsk;
  const asText = (price: bigint | null) => inCents(price!);
  expect(await limit.inputValue()).toBe(asText(priceOf()));
  const first = priceOf();
  for (let i = 0; i < 40 && (priceOf() === first || priceOf() === null); i++) {
    world.service.clock.advance(15_000);
    await world.service.trading.refresher.refresh();
  }
  expect(priceOf()).not.toBe(first);
  await expect.poll(() => limit.inputValue()).toBe(asText(priceOf()));
  await page.getByRole('heading', { name: `at ${formatPrice(priceOf()!)} or less` }).waitFor();
  await limit.fill('99');
  await page.getByRole('heading', { name: 'at 99¢ or less' }).waitFor();
  expect(page.url()).toContain('limitPrice=99');
  world.service.clock.advance(15_000);
  await world.service.trading.refresher.refresh();
  await expect
    .poll(() => page.locator('#desk-status').getAttribute('data-as-of'))
    .toBe(world.service.trading.snapshots.current!.asOf.toISOString());
  expect(await limit.inputValue()).toBe('99');
});

it('a ticket has one limit everywhere, and places no second order without a change', quoted, async () => {
  const { browser, organization } = await signedIn(world.db, world.service.url);
  const { ticker, yesAsk } = findMarket();
  const page = await world.visit({ as: browser });
  const limitPrice = inCents(yesAsk! + 5n * CENT);
  await page.goto(`/dashboard/markets/${ticker}?side=yes&action=buy&contracts=1&limitPrice=${limitPrice}`);
  const limit = page.getByLabel('Limit in cents');
  const shown = async () => ({
    field: await limit.inputValue(),
    sent: await page.locator('[data-place] input[name=limitPrice]').inputValue(),
    summary: / at (.+)¢ or less/.exec(await page.locator('#review-title').innerText())?.[1],
  });
  const expectOne = () => expect.poll(async () => new Set(Object.values(await shown())).size).toBe(1);
  await expectOne();
  await page.getByLabel('Contracts').fill('3');
  await page.getByRole('heading', { name: /^Buy 3 YES/ }).waitFor();
  await expectOne();
  await page.getByRole('button', { name: PLACE }).click();
  await page.locator('#review').getByText('Bought').waitFor();
  expect(await page.evaluate('document.activeElement.id')).toBe('review-title');
  expect(await page.getByRole('button', { name: PLACE }).count()).toBe(0);
  await page.getByLabel('Contracts').fill('2');
  await page.getByRole('heading', { name: /^Buy 2 YES/ }).waitFor();
  await expectOne();
  const { sent } = await shown();
  await page.getByRole('button', { name: PLACE }).click();
  await page.locator('#review').getByText('Bought 2 YES for').waitFor();
  const orders = await listLatestOrders(world.db.orm, organization.id, 'paper', 5);
  expect(orders.map(({ limitPrice }) => inCents(limitPrice))[0]).toBe(sent);
  expect(orders).toHaveLength(2);
});

it('new prices arrive automatically and keep the focus and open details', async () => {
  const { browser } = await signedIn(world.db, world.service.url);
  const { station, date, ticker } = findMarket();
  const page = await world.visit({ as: browser });
  const streamed = page.waitForRequest('**/stream?station=*');
  await page.goto(`/dashboard/markets?station=${station.id}&date=${date}`);
  await streamed;
  await page.getByText('Price', { exact: true }).first().click();
  await page.locator('#price-numbers > summary').click();
  const buy = page.locator(`a[href*="/${ticker}?side=yes"]`).first();
  await buy.focus();
  const before = await page.locator('#desk-status').getAttribute('data-as-of');
  // The order book changes every 15 seconds.
  world.service.clock.advance(15_000);
  await world.service.trading.refresher.refresh();
  await expect.poll(() => page.locator('#desk-status').getAttribute('data-as-of')).not.toBe(before);
  const { yesAsk } = world.service.trading.snapshots.current!.markets.get(ticker)!;
  await expect.poll(() => buy.innerText()).toContain(formatPrice(yesAsk!));
  // A new price lights up its whole tile.
  expect(await page.locator('a.buy.flash').count()).toBeGreaterThan(0);
  expect(await page.locator('a .flash').count()).toBe(0);
  expect(await page.evaluate<string>('document.activeElement.href')).toContain(
    await buy.getAttribute('href'),
  );
  expect(await page.locator('#price-numbers').getAttribute('open')).not.toBe(null);
  const price = page.getByRole('radio', { name: 'Price' });
  expect(await price.isChecked()).toBe(true);
  const numbers = page.locator('#distribution-numbers > summary');
  expect(await numbers.isVisible()).toBe(false);
  // The choice stays for the next city, and arrows change it.
  await page.getByRole('navigation', { name: 'Opportunities' }).getByRole('link').last().click();
  await page.locator('.opportunities li:last-child [aria-current]').waitFor();
  // Another city's prices are no changes.
  expect(await page.locator('.flash').count()).toBe(0);
  const isCut = `{
    const list = document.querySelector('.opportunities');
    const isEnd = list.scrollTop + list.clientHeight >= list.scrollHeight - 1;
    list.scrollTop > 0 && !isEnd && [...list.querySelectorAll("h3, a")].every((row) => row.offsetTop !== list.scrollTop);
  }`;
  expect(await page.evaluate(isCut)).toBe(false);
  expect(await price.isChecked()).toBe(true);
  await price.press('ArrowLeft');
  await numbers.waitFor();
});

it('links of the desk keep the place and the focus, and the ticket stays alive', async () => {
  const { browser } = await signedIn(world.db, world.service.url);
  const { station, date, ticker } = findMarket();
  for (const viewport of [DESKTOP, PHONE]) {
    const page = await world.visit({ as: browser, viewport });
    await page.goto(`/dashboard/markets?station=${station.id}&date=${date}`);
    await page.evaluate('window.isSame = true');
    const buy = page.locator(`.ladder a[href*="/${ticker}?side=no"]`).first();
    await buy.focus();
    const top = (await page.locator('#ticket-tabs').boundingBox())?.y;
    const scrolled = await page.evaluate('scrollY');
    await page.keyboard.press('Enter');
    await page.waitForURL(/side=no/);
    await page.locator('#ticket-tabs a[aria-current]', { hasText: 'Buy NO' }).waitFor();
    if (viewport === DESKTOP) {
      expect(await page.evaluate('scrollY')).toBe(scrolled);
      // The link that closes the chosen ticket moves nothing.
      expect((await page.locator('#ticket-tabs').boundingBox())!.y).toBe(top);
      expect(await page.evaluate('document.activeElement.href')).toContain('side=no');
    }
    await page.getByLabel('Contracts').fill('2');
    await page.getByRole('heading', { name: /^Buy 2 NO/ }).waitFor();
    await page.goBack();
    await page.waitForURL(/station=/);
    expect(await page.evaluate('window.isSame')).toBe(true);
  }
});

it('links to a part of the desk end at that part, and the way back at their own place', async () => {
  const { browser } = await signedIn(world.db, world.service.url);
  const { station, date } = findMarket(true);
  const page = await world.visit({ as: browser, viewport: DESKTOP });
  await page.goto(`/dashboard/markets?station=${station.id}&date=${date}`);
  const link = page.locator('.signal-line a[href="#signals-title"]');
  await page.setViewportSize({ width: 1280, height: 320 });
  await link.scrollIntoViewIfNeeded();
  const isShown = async (locator: Locator) => {
    const { y } = (await locator.boundingBox())!;
    return y >= 0 && y < 320;
  };
  await page.evaluate('window.shows = 0; document.addEventListener("shown", () => window.shows++)');
  const before = await page.evaluate('scrollY');
  for (const [go, end, shows] of [
    [() => link.click(), page.locator('#signals-title'), 1],
    [() => page.goBack(), link, 2],
  ] as const) {
    await go();
    await expect.poll(() => page.evaluate('window.shows')).toBe(shows);
    expect(await isShown(end)).toBe(true);
  }
  expect(await page.evaluate('scrollY')).toBe(before);
});

it('the orders of an outcome are one link away, and are cancelled in place, also on the portfolio', async () => {
  const { browser, organization } = await signedIn(world.db, world.service.url);
  const { ticker } = findMarket(true);
  const { secret } = await createKey(world.db, organization.id, { scopes: ['trading:write'] });
  const order = {
    ticker,
    side: 'yes',
    action: 'buy',
    contracts: 2,
    timeInForce: 'good_till_cancelled',
    cancelOn: [],
  };
  for (const limitPrice of ['0.0100', '0.0200']) {
    const answer = await fetch(`${world.service.url}/trade`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${secret}`,
        'content-type': 'application/json',
        'idempotency-key': limitPrice,
      },
      body: JSON.stringify({ ...order, limitPrice }),
    });
    expect(await answer.json()).toMatchObject({ trade: { status: 'resting' } });
  }
  for (const viewport of [DESKTOP, PHONE]) {
    const page = await world.visit({ as: browser, viewport });
    await page.goto(`/dashboard/markets/${ticker}`);
    await page.locator('.ladder').getByRole('link', { name: '2 orders' }).click();
    const row = page.getByRole('table', { name: 'Open orders' }).getByRole('row').last();
    await expect.poll(async () => (await row.boundingBox())?.y ?? Infinity).toBeLessThan(viewport.height);
  }
  const page = await world.visit({ as: browser });
  await page.goto('/dashboard/portfolio');
  await page.evaluate('window.isSame = true');
  const buttons = page.getByRole('button', { name: /^Cancel/ });
  for (const left of [1, 0]) {
    await buttons.first().click();
    await expect.poll(() => buttons.count()).toBe(left);
    await page.getByText('Order cancelled. The unfilled part is no longer in the book.').waitFor();
    await expect.poll(() => page.evaluate('document.activeElement.id')).toBe('book-title');
  }
  expect(await page.evaluate('window.isSame')).toBe(true);
  expect(new URL(page.url()).pathname).toBe('/dashboard/portfolio');
});

it('a slow ticket takes no input until it is the chosen one, and keeps what is typed after that', async () => {
  const { browser } = await signedIn(world.db, world.service.url);
  const { station, date, ticker } = findMarket();
  const page = await world.visit({ as: browser });
  await page.goto(`/dashboard/markets?station=${station.id}&date=${date}`);
  let answer = () => {};
  const seen = new Promise<void>((resolve) => (answer = resolve));
  await page.route('**/dashboard/markets/*side=no*', async (route) => {
    await seen;
    await route.continue();
  });
  await page.locator(`.ladder a[href*="/${ticker}?side=no"]`).first().click();
  for (const part of ['form#ticket', '#review'])
    await page.locator(`${part}[inert][aria-busy=true]`).waitFor();
  answer();
  await page.locator('[data-chosen] #ticket-tabs a[aria-current]', { hasText: 'Buy NO' }).waitFor();
  expect(await page.locator('[inert]').count()).toBe(0);
  await page.getByLabel('Contracts').fill('2');
  expect(await page.locator('.ladder a[href*="action=buy"]:not([href*="contracts=2"])').count()).toBe(0);
  // The other side opens with the number, although the quote has not followed yet.
  expect(await page.locator('#ticket-tabs a[href*="side=yes"]').first().getAttribute('href')).toContain(
    'contracts=2',
  );
  await page.getByRole('heading', { name: /^Buy 2 NO/ }).waitFor();
  expect(await page.getByLabel('Contracts').inputValue()).toBe('2');
});

it('the chosen bracket has its day as a picture and as text, with and without scripts', async () => {
  const { browser } = await signedIn(world.db, world.service.url);
  const { station, date } = findMarket();
  for (const javaScript of [true, false]) {
    const page = await world.visit({ javaScript, as: browser });
    await page.goto(`/dashboard/markets?station=${station.id}&date=${date}`);
    await page.getByRole('radio', { name: 'Price' }).check({ force: true });
    await page.getByRole('img', { name: /its price and the forecast’s probability/ }).waitFor();
    await page.locator('#price-numbers > summary').click();
    await page.getByRole('table', { name: 'Bid and ask of YES, and the forecast' }).waitFor();
  }
});

it('the list updates while the reader types, and the focus stays in the search', async () => {
  const { browser } = await signedIn(world.db, world.service.url);
  const page = await world.visit({ as: browser });
  await page.goto('/dashboard/markets');
  const cities = page.getByRole('navigation', { name: 'Opportunities' }).getByRole('listitem');
  const all = await cities.count();
  expect(all).toBeGreaterThan(10);
  const search = page.getByRole('searchbox', { name: 'City' });
  const ticket = async () => [
    await page.locator('#ticket-head h2').innerText(),
    new URL((await page.locator('form#ticket').getAttribute('action'))!, page.url()).pathname,
  ];
  const chosen = await ticket();
  // The loaded list is narrowed before the server answers.
  await page.route('**/dashboard/markets?*q=*', async (route) => {
    await seen;
    await route.continue();
  });
  let answer = () => {};
  const seen = new Promise<void>((resolve) => (answer = resolve));
  await search.pressSequentially('chic');
  expect(await cities.filter({ visible: true }).allInnerTexts()).toEqual([
    expect.stringContaining('Chicago'),
  ]);
  answer();
  await page.waitForURL('**q=chic');
  await expect.poll(() => cities.count()).toBe(1);
  // Enter opens the first match, and its row has the focus.
  await page.keyboard.press('Enter');
  await page.locator('.desk-city', { hasText: 'Chicago' }).waitFor();
  await expect.poll(() => page.evaluate<string>('document.activeElement.innerText')).toContain('Chicago');
  expect(page.url()).toContain('q=chic');
  await page.goto('/dashboard/markets');
  await search.pressSequentially('san');
  // Typing the first letters already narrows the list.
  await expect
    .poll(async () => (await cities.allInnerTexts()).every((text) => text.toLowerCase().includes('san')))
    .toBe(true);
  expect(await cities.count()).toBeLessThan(all);
  await page.waitForURL('**q=san');
  expect(await page.evaluate<string>('document.activeElement.id')).toBe('q');
  await expect.poll(() => page.locator('[data-found]').innerText()).toContain('for “san”');
  // Only the list is filtered: heading and form of the ticket keep their market.
  expect(await ticket()).toEqual(chosen);
  // Links to the other kinds keep the search term.
  await page.getByRole('link', { name: /^Lows/ }).click();
  await page.waitForURL('**/dashboard/markets?kind=daily_minimum&q=san');
  await page.getByRole('searchbox', { name: 'City' }).fill('nowhere');
  await page.getByRole('heading', { name: 'No cities match' }).waitFor();
  await page.getByRole('link', { name: 'Show all cities' }).click();
  await expect.poll(() => cities.count()).toBe(all);
});

it('the overview shows new prices of all cities, and refreshes at most every few seconds', async () => {
  const { browser } = await signedIn(world.db, world.service.url);
  const page = await world.visit({ as: browser });
  const streamed = page.waitForResponse('**/stream');
  await page.goto('/dashboard/markets');
  await streamed;
  const before = await page.locator('#desk-status').getAttribute('data-as-of');
  for (let i = 0; i < 8; i++) {
    world.service.clock.advance(1_000);
    await world.service.trading.refresher.refresh();
  }
  await expect.poll(() => page.locator('#desk-status').getAttribute('data-as-of')).not.toBe(before);
  const paceMs = Number(await page.locator('[data-pace]').getAttribute('data-pace'));
  expect(paceMs).toBeGreaterThan(2_000);
  // Measured by the page's clock, so the time that this test spends creating prices does not count.
  const asked = await page.evaluate<number[]>(`performance.getEntriesByType('resource')
    .filter(({ name, initiatorType }) => name.endsWith('/dashboard/markets') && initiatorType === 'fetch')
    .map(({ startTime }) => startTime)`);
  expect(asked).not.toEqual([]);
  for (const [n, at] of asked.entries()) expect(at - (asked[n - 1] ?? 0)).toBeGreaterThanOrEqual(paceMs);
});

it('a refused order shows the reason to every reader, on a desktop and on a phone', async () => {
  const { browser } = await signedIn(world.db, world.service.url);
  const { ticker, yesAsk } = findMarket();
  const page = await world.visit({ as: browser, viewport: PHONE });
  await page.goto(
    `/dashboard/markets/${ticker}?side=yes&action=buy&contracts=90000&limitPrice=${inCents(yesAsk!)}`,
  );
  await page.getByText(/^Contracts: at most [\d,]+ now\./).waitFor();
  expect(await page.getByRole('button', { name: PLACE }).count()).toBe(0);
  expect(await findAllBarriers(page)).toEqual([]);
  await page.getByRole('link', { name: /^Use / }).click();
  await page.getByRole('button', { name: PLACE }).waitFor();
});

it.each([
  { width: 1280, height: 900 },
  { width: 1920, height: 1080 },
])('at $width px, the ticket covers no other part, at either end of the page', async (viewport) => {
  const { browser } = await signedIn(world.db, world.service.url);
  const page = await world.visit({ as: browser, viewport });
  const { station, date } = findMarket();
  await page.goto(`/dashboard/markets?station=${station.id}&date=${date}`);
  await page.mouse.move(viewport.width / 2, viewport.height / 2);
  for (const wheel of [0, 20_000]) {
    await page.mouse.wheel(0, wheel);
    if (wheel > 0) await expect.poll(() => page.evaluate<number>('scrollY')).toBeGreaterThan(0);
    // Read at once, because the page may still be scrolling.
    const covered = await page.evaluate<string[]>(`{
      const ticket = document.querySelector('.desk-ticket').getBoundingClientRect();
      [...document.querySelectorAll('.desk > *:not(.desk-ticket)')].flatMap((part) => {
        const box = part.getBoundingClientRect();
        const isApart = box.right <= ticket.left || box.bottom <= ticket.top || box.top >= ticket.bottom;
        return isApart ? [] : [part.className];
      });
    }`);
    expect(covered).toEqual([]);
  }
  const boxOf = async (name: string) => (await page.locator(name).boundingBox())!;
  const [list, ticket, ...rows] = await Promise.all(
    ['.desk-list', '.desk-ticket', '.desk-facts', '.desk-orders'].map(boxOf),
  );
  const market = await boxOf('.desk-market > .card:last-child');
  const isWide = viewport.width === 1920;
  for (const [i, { x, width }] of rows.entries()) {
    // On a wide screen, positions are below the market, between the list and the ticket.
    const [first, last] = isWide && i === 1 ? [market, market] : [list!, ticket!];
    expect(x).toBeCloseTo(first.x);
    expect(x + width).toBeCloseTo(last.x + last.width);
  }
  if (!isWide) expect(market.y + market.height).toBeGreaterThanOrEqual(ticket!.y + ticket!.height - 1);
  const [ladder, book] = [await boxOf('.ladder'), await boxOf('.desk-market .book')];
  if (isWide) expect(book.x).toBeGreaterThan(ladder.x + ladder.width);
  expect(isWide ? book.y : ladder.y + ladder.height).toBeLessThanOrEqual(isWide ? ladder.y + 1 : book.y);
  const tables = await page.locator('.views summary').filter({ visible: true }).all();
  const places = await Promise.all(tables.map(async (table) => (await table.boundingBox())!.y));
  expect(new Set(places).size).toBe(1);
  // A select of the ticket's whole width cuts no order type.
  expect((await boxOf('#field-timeInForce')).width).toBeCloseTo((await boxOf('form#ticket')).width);
  // A window of 900 px shows the order, its button and its cost.
  const cost = await boxOf('.bill .sum');
  expect(cost.y + cost.height - ticket!.y).toBeLessThan(640);
  const chart = await boxOf('.desk-facts');
  const orders = await boxOf('.desk-orders');
  expect(orders.y).toBeGreaterThan((await boxOf('.desk-market')).y);
  expect(chart.y).toBeGreaterThan(orders.y);
});

it('at 1280×800, all brackets and the button of a resting order are in view', async () => {
  const { browser } = await signedIn(world.db, world.service.url);
  const page = await world.visit({ as: browser, viewport: { width: 1280, height: 800 } });
  const { ticker, yesAsk } = findMarket(true);
  await page.goto(`/dashboard/markets/${ticker}?side=yes&action=buy&contracts=2`);
  const bottomOf = async (locator: Locator) => {
    const { y, height } = (await locator.boundingBox())!;
    return y + height;
  };
  expect(await bottomOf(page.locator('.ladder tr').last())).toBeLessThan(800);
  // The book begins in view, because the switches are beside the title and the signals beside the charts.
  expect(await bottomOf(page.locator('.desk-market .book tbody tr').first())).toBeLessThan(800);
  const isBeside = async (first: string, second: string) => {
    const [a, b] = await Promise.all([first, second].map((each) => page.locator(each).first().boundingBox()));
    return a!.y < b!.y + b!.height && b!.y < a!.y + a!.height && a!.x + a!.width <= b!.x;
  };
  expect(await isBeside('.desk-city', '.event-choices > nav')).toBe(true);
  expect(await isBeside('.event-choices > nav', '.event-choices > nav + nav')).toBe(true);
  expect(await isBeside('.event-choices', '.watch .button')).toBe(true);
  expect(await isBeside('.signal-line', '.views > .tabs')).toBe(true);
  await page.getByLabel('Order type').selectOption('good_till_time');
  await expect
    .poll(() => page.locator('[data-place] [name=timeInForce]').inputValue())
    .toBe('good_till_time');
  expect(await bottomOf(page.getByRole('button', { name: PLACE }))).toBeLessThan(800);
  // A level of the book becomes the limit, and the rest of the ticket stays.
  const book = page.locator('.desk-market .book');
  expect(await book.locator('tbody tr').count()).toBeLessThanOrEqual(5);
  const bid = book.locator('.bid a').first();
  const price = /limitPrice=([\d.]+)/.exec((await bid.getAttribute('href'))!)![1]!;
  expect(Number(price)).toBeLessThan(Number(inCents(yesAsk!)));
  await bid.click();
  await page.getByRole('heading', { name: `Buy 2 YES at ${price}¢ or less` }).waitFor();
  expect(await page.getByLabel('Order type').inputValue()).toBe('good_till_time');
  await page.getByLabel('Keep resting after an observation decides the market').waitFor();
  // Own orders have a mark at their price, also where nobody else bids.
  await page.getByLabel('Limit in cents').fill('1');
  await page.getByRole('heading', { name: 'Buy 2 YES at 1¢ or less' }).waitFor();
  await page.getByRole('button', { name: PLACE }).click();
  // Positions begin below the first screen.
  await page.locator('#review').getByText('rests in the book').waitFor();
  await page.locator('body').click({ position: { x: 1, y: 1 } });
  await page.keyboard.press('p');
  await expect.poll(() => page.evaluate('document.activeElement.id')).toBe('book-title');
  await page.evaluate('scrollTo(0, 0)');
  for (const [number, isShown] of [
    ['Bid', true],
    ['Volume', false],
  ] as const)
    expect(await page.locator('.ladder').getByText(number, { exact: true }).isVisible()).toBe(isShown);
  const level = page.locator('.desk-market .book tr', { hasText: '2 yours' });
  await expect
    .poll(() => level.locator('.bid').allInnerTexts())
    .toEqual([/2 yours/, /1¢/].map((text) => expect.stringMatching(text)));
  await page.keyboard.press('n');
  await expect.poll(() => level.locator('.ask').first().innerText()).toContain('99¢');
  const order = page.locator('.ladder .held').getByRole('link', { name: /^1 order/ });
  expect(await order.getAttribute('href')).toMatch(/portfolio\/orders\//);
  const outcome = page.locator('.ladder tr', { has: page.getByRole('link', { name: /^1 order/ }) });
  expect((await outcome.boundingBox())!.height).toBeLessThan(36);
  // Sizes stand beside their prices at every width.
  await page.setViewportSize({ width: 1920, height: 1080 });
  const [size, cost] = ['.bid.size span', '.bid.price a'].map((name) => book.locator(name).first());
  const sizeBox = (await size!.boundingBox())!;
  expect((await cost!.boundingBox())!.x - sizeBox.x - sizeBox.width).toBeLessThan(40);
  // Where the ticket covers the market, the book stays below it.
  await page.setViewportSize({ width: 900, height: 800 });
  expect(await page.locator('.ladder').isVisible()).toBe(false);
  const ticket = page.locator('.desk-ticket');
  await expect.poll(async () => (await book.boundingBox())!.y).toBeGreaterThan(await bottomOf(ticket));
});

it('an order does not change by itself while the pointer is in its ticket', async () => {
  const { browser } = await signedIn(world.db, world.service.url);
  const page = await world.visit({ as: browser });
  const { ticker } = findMarket(true);
  await page.goto(`/dashboard/markets/${ticker}`);
  await page.getByText('Both follow the price until you edit them.').waitFor();
  const size = page.getByLabel('Contracts', { exact: true });
  const own = await size.inputValue();
  // The next answer has another size.
  await page.route(`**/dashboard/markets/${ticker}`, async (route) => {
    const response = await route.fetch();
    const body = (await response.text()).replaceAll(
      /(?<before>name="contracts"[^>]*value=")[^"]*/g,
      '$<before>7.77',
    );
    await route.fulfill({ response, body });
  });
  const refresh = async () => {
    const answered = page.waitForResponse(`**/dashboard/markets/${ticker}`);
    world.service.clock.advance(15_000);
    await world.service.trading.refresher.refresh();
    await answered;
    const { asOf } = world.service.trading.snapshots.current!;
    await expect.poll(() => page.locator('#desk-status').getAttribute('data-as-of')).toBe(asOf.toISOString());
  };
  await page.locator('.desk-ticket').hover();
  await refresh();
  expect(await size.inputValue()).toBe(own);
  await page.mouse.move(0, 0);
  await refresh();
  await expect.poll(() => size.inputValue()).toBe('7.77');
  await page.unrouteAll();
});

it('keys go through the opportunities, choose a side and list themselves', async () => {
  const { browser } = await signedIn(world.db, world.service.url);
  const page = await world.visit({ as: browser });
  const { station, date, ticker } = findMarket();
  await page.goto(`/dashboard/markets/${ticker}?side=no&action=buy&contracts=2`);
  const rows = page.getByRole('navigation', { name: 'Opportunities' }).getByRole('link');
  const focused = () => page.evaluate<string>('document.activeElement.getAttribute("href")');
  const hrefs = await rows.evaluateAll((links) => links.map((link) => link.getAttribute('href')));
  const current = hrefs.findIndex((href) => href!.includes(`station=${station.id}&date=${date}`));
  await page.keyboard.press('j');
  expect(await focused()).toBe(hrefs[current + 1]);
  await page.keyboard.press('ArrowUp');
  // A day that the list leaves out has no row.
  expect(await focused()).toBe(hrefs[Math.max(current, 0)]);
  await page.keyboard.press('y');
  await page.locator('#ticket-tabs a[aria-current]', { hasText: 'Buy YES' }).waitFor();
  await page.keyboard.press('n');
  await page.locator('#ticket-tabs a[aria-current]', { hasText: 'Buy NO' }).waitFor();
  // Nothing is held that could be sold.
  await page.keyboard.press('s');
  await page.keyboard.press('y');
  await page.locator('#ticket-tabs a[aria-current]', { hasText: 'Buy YES' }).waitFor();
  await page.getByRole('button', { name: PLACE }).click();
  await page.locator('#ticket-tabs a', { hasText: 'Sell YES' }).waitFor();
  await page.keyboard.press('s');
  await page.locator('#ticket-tabs a[aria-current]', { hasText: 'Sell YES' }).waitFor();
  await page.keyboard.press('y');
  await page.locator('#ticket-tabs a[aria-current]', { hasText: 'Buy YES' }).waitFor();
  // Brackets open the neighbours in the table as a click does, also on keyboards that type them with AltGr.
  await page.getByLabel('Contracts', { exact: true }).fill('3');
  await page.getByRole('heading', { name: /^Buy 3 YES/ }).waitFor();
  const names = page.locator('.ladder .bracket-name');
  const readOutcomes = async () =>
    names.evaluateAll((links) => links.map((link) => link.getAttribute('href')!));
  await expect
    .poll(async () => (await readOutcomes()).every((href) => href.includes('contracts=3')))
    .toBe(true);
  const outcomes = await readOutcomes();
  const at = outcomes.findIndex((href) => href.includes(`/${ticker}?`));
  const [forth, back] = at + 1 < outcomes.length ? [']', '['] : ['[', ']'];
  const neighbour = outcomes[forth === ']' ? at + 1 : at - 1]!;
  await page.keyboard.press(forth);
  await page.waitForURL(`**${neighbour}`);
  await page
    .locator(`.ladder tr:has([aria-current]) a[href^="${neighbour.split('?')[0]}?"]`)
    .first()
    .waitFor();
  expect(await page.getByLabel('Contracts', { exact: true }).inputValue()).toBe('3');
  await page.evaluate(`document.activeElement.dispatchEvent(
    new KeyboardEvent('keydown', { key: '${back}', ctrlKey: true, altKey: true, modifierAltGraph: true, bubbles: true }),
  )`);
  await page.waitForURL(`**/${ticker}?*`);
  await page.keyboard.press('y');
  await page.waitForURL(`**/${ticker}?side=yes*`);
  await page.locator('#ticket-tabs a[aria-current]', { hasText: 'Buy YES' }).waitFor();
  await page.keyboard.press('?');
  await page.getByRole('dialog', { name: 'Shortcuts' }).getByText('previous, next outcome').waitFor();
  expect(await findAllBarriers(page)).toEqual([]);
  await page.keyboard.press('Escape');
  await page.keyboard.press('t');
  expect(await page.evaluate('document.activeElement.id')).toBe('field-contracts');
  // In a field for text, a key is only typed.
  await page.locator('#q').focus();
  await page.keyboard.press('s');
  expect(await page.getByRole('dialog', { name: 'Shortcuts' }).isVisible()).toBe(false);
  expect(page.url()).toContain('side=yes');
});

it('typing replaces the number of a field in focus, and keys alone place an order', quoted, async () => {
  const { browser } = await signedIn(world.db, world.service.url);
  const page = await world.visit({ as: browser });
  const { ticker } = findMarket();
  await page.goto(`/dashboard/markets/${ticker}?side=no&action=buy&contracts=20`);
  const contracts = page.getByLabel('Contracts', { exact: true });
  const type = async (text: string) => page.keyboard.type(text);
  await page.keyboard.press('t');
  await type('7');
  expect(await contracts.inputValue()).toBe('7');
  await page.keyboard.press('Tab');
  await type('42');
  expect(await page.getByLabel('Limit in cents').inputValue()).toBe('42');
  const { width, height } = (await contracts.boundingBox())!;
  const atEnd = { position: { x: width / 2, y: height / 2 } };
  await contracts.click(atEnd);
  await type('5');
  expect(await contracts.inputValue()).toBe('5');
  // A second click puts the caret between the digits.
  await contracts.click(atEnd);
  await type('1');
  expect(await contracts.inputValue()).toBe('51');
  await contracts.blur();
  const focused = () =>
    page.evaluate<string>('document.activeElement.id || document.activeElement.innerText');
  const headline = page.locator('#review-title');
  for (const key of ['n', 'y']) {
    await page.keyboard.press(key);
    await expect.poll(focused).toBe('field-contracts');
    await page.locator('#ticket-tabs a[aria-current]', { hasText: key === 'n' ? 'NO' : 'YES' }).waitFor();
  }
  await type('0');
  await page.keyboard.press('Enter');
  await expect.poll(() => page.locator('#ticket .error').count()).toBe(1);
  expect(await focused()).toBe('field-contracts');
  await contracts.fill('2');
  await page.keyboard.press('Enter');
  await expect.poll(focused).toMatch(PLACE);
  expect(await headline.innerText()).toMatch(/^Buy 2 YES/);
  await page.keyboard.press('Enter');
  await page.locator('#review').getByText('Bought 2 YES for').waitFor();
  expect((await page.locator('.positions tbody tr').boundingBox())!.height).toBeLessThanOrEqual(36);
  await page.keyboard.press('s');
  await page.locator('#ticket-tabs a[aria-current]', { hasText: 'Sell YES' }).waitFor();
  await expect.poll(focused).toBe('field-contracts');
  await type('1');
  expect(await contracts.inputValue()).toBe('1');
});

it('on a phone, the ticket of a chosen market comes first, and places its order', quoted, async () => {
  const { browser } = await signedIn(world.db, world.service.url);
  const { ticker } = findMarket();
  const page = await world.visit({ as: browser, viewport: PHONE });
  await page.goto(`/dashboard/markets/${ticker}?side=yes&action=buy&contracts=1`);
  const place = page.getByRole('button', { name: PLACE });
  expect((await page.locator('#ticket-head').boundingBox())!.y).toBeLessThan(PHONE.height / 2);
  const { y, height } = (await place.boundingBox())!;
  expect(y + height).toBeLessThan(PHONE.height);
  // A click fails where something covers the link.
  for (const [menu, link] of [
    ['.navigation-toggle', '.navigation a[href="/dashboard/members"]'],
    ['.account', '.account a[href="/dashboard/account"]'],
  ] as const) {
    await page.locator(`${menu} > summary`).click();
    await page.locator(link).click({ trial: true });
    await page.locator(`${menu} > summary`).click();
  }
  await place.click();
  await page.getByText(/^Bought 1 YES for/).waitFor();
  expect(await findAllBarriers(page)).toEqual([]);
  const heightsOf = async (name: string) => {
    const boxes = await page.locator(name).all();
    return Promise.all(boxes.map(async (one) => (await one.boundingBox())?.height ?? 100));
  };
  const low = async (name: string) => Math.min(...(await heightsOf(name)));
  expect(await low('.desk-ticket .card-head a')).toBeGreaterThanOrEqual(44);
  for (const name of ['.desk-market .book a', '.ladder .buy'])
    expect(await low(name)).toBeGreaterThanOrEqual(32);
  const cash = (await page.locator('#desk-summary a').boundingBox())!;
  const sheet = (await page.locator('.desk-ticket').boundingBox())!;
  expect(cash.y + cash.height).toBeLessThanOrEqual(sheet.y);
  await page.goto('/dashboard/markets?show=orders');
  const position = page.locator('.positions tbody tr');
  expect(await low('.positions .button')).toBeGreaterThanOrEqual(32);
  const [name, profit, row] = await Promise.all(
    [position.locator('.market-name > a'), position.locator('[data-label=Profit]'), position].map(
      async (part) => (await part.boundingBox())!,
    ),
  );
  expect(profit!.y).toBeLessThan(name!.y + name!.height);
  expect(row!.height).toBeLessThan(110);
});

it('on a phone, a market without a chosen ticket leaves it out', async () => {
  const { browser } = await signedIn(world.db, world.service.url);
  const page = await world.visit({ as: browser, viewport: PHONE });
  await page.goto('/dashboard/markets?station=KMIA');
  expect(await page.locator('#ticket-head').isVisible()).toBe(false);
  expect(await page.locator('.ladder').isVisible()).toBe(true);
  // One head names the figures of all outcomes, so that each takes little room.
  await page.getByRole('columnheader', { name: 'Buy YES' }).waitFor();
  const heights = await page
    .locator('.ladder tbody tr')
    .evaluateAll((rows) => rows.map((row) => row.getBoundingClientRect().height));
  expect(Math.max(...heights)).toBeLessThanOrEqual(60);
  const edgesOf = async (name: string) => {
    const { x, y, width, height } = (await page.locator(name).first().boundingBox())!;
    return { right: x + width, top: y, bottom: y + height };
  };
  expect((await edgesOf('.freshness')).top).toBeLessThan((await edgesOf('h1')).bottom);
  // The days are on one line, which shows the chosen one.
  await page.getByRole('navigation', { name: 'Days' }).getByRole('link').last().click();
  await page.locator('nav[aria-label=Days] li:last-child [aria-current]').waitFor();
  const [days, day] = await Promise.all(
    ['.event-choices', 'nav[aria-label=Days] [aria-current]'].map(edgesOf),
  );
  expect(day!.right).toBeLessThanOrEqual(days!.right + 1);
  expect(day!.top).toBeLessThan((await edgesOf('nav[aria-label=Kinds]')).bottom);
});

it.each([1180, 1280, 1366])('at %i px, a ladder with every edge is within its card', async (width) => {
  const { browser } = await signedIn(world.db, world.service.url);
  const page = await world.visit({ as: browser, viewport: { width, height: 900 } });
  const { station, date } = findMarket();
  await page.goto(`/dashboard/markets?station=${station.id}&date=${date}`);
  const beyond = await page.evaluate<number>(`{
    for (const quoted of document.querySelectorAll('.ladder .quoted')) {
      quoted.querySelector('strong')?.replaceChildren('99.5¢');
      quoted.insertAdjacentHTML('beforeend', '<span class="badge" data-tone="info">Hedge</span>');
    }
    const { right } = document.querySelector('.ladder').closest('.card').getBoundingClientRect();
    [...document.querySelectorAll('.ladder :is(th, td, .badge)')].filter(
      (part) => part.getBoundingClientRect().right > right,
    ).length;
  }`);
  expect(beyond).toBe(0);
});

it('the keys open below their button and close with a button of their own', async () => {
  const { browser } = await signedIn(world.db, world.service.url);
  const page = await world.visit({ as: browser });
  for (const width of [1280, 1920]) {
    await page.setViewportSize({ width, height: 900 });
    await page.goto('/dashboard/markets');
    const button = page.getByRole('button', { name: 'Shortcuts' });
    await button.click();
    const keys = page.getByRole('dialog', { name: 'Shortcuts' });
    const [above, below] = [(await button.boundingBox())!, (await keys.boundingBox())!];
    expect(below.y).toBeGreaterThanOrEqual(above.y + above.height);
    expect(below.y - above.y - above.height).toBeLessThan(40);
    expect(Math.abs(below.x + below.width - above.x - above.width)).toBeLessThan(40);
    await keys.getByRole('button', { name: 'Close' }).click();
    await keys.waitFor({ state: 'hidden' });
  }
});
