import { eq } from 'drizzle-orm';
import type { Page } from 'playwright-core';
import { beforeAll, expect, it } from 'vitest';
import { organizations } from '../../src/accounts/organizations/table.js';
import { signedIn } from '../support/accounts.js';
import { everything } from '../../src/markets/venue/simulation/world.js';
import { browserWorld, DESKTOP, PHONE } from '../support/browser.js';
import { hostileNames, ordinaryNames, populate, type Populated } from '../pages/populated.js';
import { countInjected, findAllBarriers, findBrokenNumbers, pages, toPath } from './barriers.js';
import { readMain } from './steps.js';

/** Opens every dashboard page at every width and in every colour scheme. */
const world = browserWorld({ trading: { selection: everything } });

let hostile: Populated;
let ordinary: Populated;
beforeAll(async () => {
  hostile = await populate(world.service, hostileNames);
  ordinary = await populate(world.service, ordinaryNames);
  await world.service.trading.prices.record();
});

/** Opens every `<details>` element. Pages with ordinary names are checked with these elements closed. */
const unfold = (page: Page) =>
  page.evaluate(`for (const part of document.querySelectorAll('main details')) part.open = true`);

/** Pages reached from other pages: filters, second pages and form results. */
const more: [name: string, path: (of: Populated) => string][] = [
  ['the overview of test usage', () => '/dashboard?mode=test'],
  ['the usage of a day', ({ productSlugs }) => `/dashboard/usage?product=${productSlugs[0]}&range=day`],
  ['usage of an impossible range', () => '/dashboard/usage?range=custom&from=2026-02-28&to=2026-02-01'],
  [
    'one event',
    ({ eventKeys }) => `/dashboard/usage?${new URLSearchParams({ event: eventKeys[0]! }).toString()}`,
  ],
  ['an event that is not there', () => `/dashboard/usage?event=${'<b>'.repeat(80)}`],
  ['a revoked key', ({ revokedKeyId }) => `/dashboard/api-keys/${revokedKeyId}`],
  ['a key in its grace', ({ rotated }) => `/dashboard/api-keys/${rotated.oldKeyId}`],
  ['keys that are looked for in vain', () => `/dashboard/api-keys?q=${'<i>'.repeat(30)}`],
  ['members who are looked for in vain', () => `/dashboard/members?search=${'<i>'.repeat(30)}`],
  ['oneself among the members', ({ people }) => `/dashboard/members/${people.owner.id}`],
  ['an error page', () => '/dashboard/no-such-page'],
  ['the overview of markets', () => '/dashboard/markets'],
  ['other markets', () => '/dashboard/markets?kind=others'],
  ['cities that are looked for in vain', () => '/dashboard/markets?q=nowhere'],
  ['minima of a city', () => '/dashboard/markets?station=KMIA&kind=daily_minimum'],
  ['hours of a city', () => '/dashboard/markets?station=INDEX-MIAMI&kind=hourly'],
  ['filtered orders', () => '/dashboard/portfolio/orders?status=filled&station=KNYC&sort=market'],
  ['orders of impossible days', () => '/dashboard/portfolio/orders?from=2026-02-28&to=2026-02-01'],
  ['scores of hours', () => '/dashboard/scores?kind=hourly'],
];

/** Text that each page must show. */
const shown: Record<string, string[]> = {
  'get /dashboard': [hostileNames.metric],
  'get /dashboard/api-keys': hostileNames.keys,
  'get /dashboard/audit-log': hostileNames.keys,
  'get /dashboard/entitlements': hostileNames.products,
  'get /dashboard/members': hostileNames.people,
  'get /dashboard/usage': [hostileNames.metric],
};

const singleSpaced = (text: string) => text.replace(/\s+/g, ' ');

it.each([
  ...pages.map((address) => [address, (of: Populated) => toPath(address, of), 200] as const),
  ...more.map(([name, toAddress]) => [name, toAddress, undefined] as const),
])('%s shows hostile names as text and is accessible', async (name, toAddress, status) => {
  const page = await world.look(hostile.people.owner.browser);
  const response = await page.goto(await toAddress(hostile));
  if (status) expect(response!.status()).toBe(status);
  expect(await countInjected(page)).toBe(0);
  const text = await readMain(page);
  for (const each of shown[name] ?? []) expect(text).toContain(singleSpaced(each));
  await unfold(page);
  // Pages that are not in the matrix resemble one that is, so checking the desktop layout is enough.
  expect(await findAllBarriers(page, status ? undefined : [DESKTOP])).toEqual([]);
});

it.each([...pages, 'get /dashboard/markets?kind=daily_maximum'])(
  '%s breaks no number across lines',
  async (address) => {
    const page = await world.look(ordinary.people.owner.browser);
    await page.goto(await toPath(address, ordinary));
    expect(await findBrokenNumbers(page)).toEqual([]);
  },
);

it('an Organization that may only read markets sees a notice, and its pages are accessible', async () => {
  const { browser, organization } = await signedIn(world.db, world.service.url);
  await world.db.orm
    .update(organizations)
    .set({ marketAccess: 'read' })
    .where(eq(organizations.id, organization.id));
  const page = await world.look(browser);
  for (const path of ['/dashboard/markets', `/dashboard/markets/${ordinary.market.ticker}`]) {
    await page.goto(path);
    await page.getByText('may view markets and sell what it holds').waitFor();
    expect(await findAllBarriers(page)).toEqual([]);
  }
});

it.each(['get /dashboard/markets?kind=daily_maximum', 'get /dashboard/markets/{ticker}'])(
  '%s has room for text twice as large',
  async (address) => {
    const page = await world.look(ordinary.people.owner.browser);
    await page.goto(await toPath(address, ordinary));
    await page.evaluate(`document.documentElement.style.fontSize = '200%'`);
    for (const width of [320, 360, 640, 1280]) {
      await page.setViewportSize({ width, height: 800 });
      const tooWide = await page.evaluate<number>(
        'document.documentElement.scrollWidth - document.documentElement.clientWidth',
      );
      expect([width, tooWide]).toEqual([width, 0]);
    }
  },
);

it('the menus of the header are accessible', async () => {
  const page = await world.look(hostile.people.owner.browser);
  await page.goto('/dashboard');
  await page.evaluate(`for (const menu of document.querySelectorAll('header details')) menu.open = true`);
  // An open menu would cover the elements below it, so the content is moved down.
  await page.evaluate(`document.querySelector('main').style.paddingTop = '40rem'`);
  expect(await findAllBarriers(page)).toEqual([]);
});

it('in forced colours, the current choice is distinguishable', async () => {
  const page = await world.visit({ as: ordinary.people.owner.browser });
  await page.emulateMedia({ forcedColors: 'active' });
  await page.goto('/dashboard/usage');
  const read = (selector: string, style: string) =>
    page.evaluate<string>(`getComputedStyle(document.querySelector('${selector}')).${style}`);
  const other = await read('main .tabs a:not([aria-current])', 'backgroundColor');
  expect(await read('main .tabs a[aria-current]', 'backgroundColor')).not.toBe(other);
  await page.goto('/dashboard/api-keys');
  expect(await read('main .badge', 'borderStyle')).toBe('solid');
});

const tracks = (page: Page, selector: string) =>
  page.evaluate<number>(
    `getComputedStyle(document.querySelector('${selector}')).gridTemplateColumns.split(' ').length`,
  );

it('on a phone each value of a row is beside its label', async () => {
  const page = await world.visit({ as: ordinary.people.owner.browser, viewport: PHONE });
  await page.goto('/dashboard/api-keys');
  expect(await tracks(page, 'td[data-label]')).toBe(2);
});

it('five tiles fill their rows if there is room', async () => {
  const page = await world.visit({ as: ordinary.people.owner.browser });
  await page.goto('/dashboard/portfolio');
  expect(await page.locator('.tiles .tile').count()).toBe(5);
  expect([3, 5]).toContain(await tracks(page, '.tiles'));
});

it('the actions of a row are at its end', async () => {
  const page = await world.visit({ as: ordinary.people.owner.browser });
  await page.goto('/dashboard/members');
  const alignments = await page.evaluate<string[]>(
    `[...document.querySelectorAll('td.row-action')].map((cell) => getComputedStyle(cell).textAlign)`,
  );
  expect(new Set(alignments)).toEqual(new Set(['end']));
});

it('times in the reader’s zone have the page’s format, whatever the language', async () => {
  const page = await world.visit({ as: ordinary.people.owner.browser });
  await page.addInitScript(
    `const format = Intl.DateTimeFormat;
     Intl.DateTimeFormat = function (locale = 'en-US', options) { return format(locale, options); };`,
  );
  await page.goto('/dashboard/members');
  const times = await page.locator('time[data-zoned]').allInnerTexts();
  expect(times.length).toBeGreaterThan(0);
  for (const time of times) expect(time).toMatch(/^\d{1,2} [A-Z][a-z]{2,3} \d{4}, \d\d:\d\d$/);
});
