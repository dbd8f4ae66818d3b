import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { pino } from 'pino';
import type { Browser, Page } from 'playwright-core';
import { readConfig } from '../../src/config.js';
import { startService, type Service } from '../../src/service.js';
import { launchChromium } from '../support/chromium.js';

/**
 * `npm run screenshots`: starts a service with the demo data and saves screenshots of its pages in docs/screenshots.
 * File names give the page, the device and the colour scheme: `overview-dark.png`, `overview-phone-light.png`. The front
 * page shows parts of three.
 */
const folder = fileURLToPath(new URL('../../docs/screenshots', import.meta.url));
const assets = fileURLToPath(new URL('../../views/assets', import.meta.url));
const schemes = ['light', 'dark'] as const;
const desk = { width: 1280, height: 800 };
const devices = [
  { suffix: '', viewport: desk },
  { suffix: '-phone', viewport: { width: 390, height: 844 } },
];

/** From the top left of an element. */
interface Part {
  from: string;
  width: number;
  height: number;
}

/** Shown on the front page, by the suffix of the device, in the sizes that its templates name. */
const onPhone = { width: 388, height: 430 };
const parts: Record<string, Record<string, Part>> = {
  usage: {
    '': { from: '.tiles', width: 1038, height: 518 },
    '-phone': { from: '#usage > .stack-wide', ...onPhone },
  },
  markets: {
    '': { from: '.desk-market', width: 452, height: 366 },
    '-phone': { from: ':has(> #opportunities)', ...onPhone },
  },
  customers: {
    '': { from: 'table', width: 511, height: 449 },
    '-phone': { from: 'table', ...onPhone },
  },
};

const dataDir = await mkdtemp(join(tmpdir(), 'gauge-screenshots-'));
const log = pino({ level: 'error' });
const service = await startService(
  readConfig({ NODE_ENV: 'test', HOST: '127.0.0.1', PORT: '0', DATA_DIR: dataDir }),
  {
    log,
    accessLog: pino({ level: 'silent' }),
  },
);
await service.pastReady;
const chromium = await launchChromium();
try {
  await mkdir(folder, { recursive: true });
  const owner = await signIn(chromium, service);
  const pages = await prepare(owner, service);
  for (const [name, show] of Object.entries(pages)) await picture(owner, name, show);
  await owner.context().clearCookies();
  await picture(owner, 'sign-in', '/login');
  await picture(owner, 'customers', async (page) => {
    await logIn(page, service, 'operator');
    await page.getByRole('button', { name: 'Sign in', exact: true }).click();
    await page.waitForURL('**/console');
  });
} finally {
  await chromium.close();
  await service.stop();
  await rm(dataDir, { recursive: true, force: true });
}

/** A page's URL, or the actions that lead to the page. */
type Show = string | ((page: Page) => Promise<void>);

async function picture(page: Page, name: string, show: Show): Promise<void> {
  await page.setViewportSize(desk);
  if (typeof show === 'string') await page.goto(show);
  else await show(page);
  for (const { suffix, viewport } of devices) {
    for (const colorScheme of schemes) {
      await page.setViewportSize(viewport);
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
      await page.screenshot({ path: join(folder, `${name}${suffix}-${colorScheme}.png`) });
      const part = parts[name]?.[suffix];
      if (part) await savePart(page, part, `screen-${name}${suffix}-${colorScheme}.webp`);
    }
  }
  console.log(name);
}

/** Playwright itself saves no WebP. */
async function savePart(page: Page, { from, ...size }: Part, file: string): Promise<void> {
  const { x, y } = (await page.locator(from).first().boundingBox())!;
  const margin = 11;
  const session = await page.context().newCDPSession(page);
  const { data } = await session.send('Page.captureScreenshot', {
    format: 'webp',
    quality: 80,
    // Sharp on screens with more pixels, too.
    clip: { x: x - margin, y: y - margin, ...size, scale: 2 },
    captureBeyondViewport: true,
  });
  await writeFile(join(assets, file), data, 'base64');
}

async function signIn(chromium: Browser, service: Service): Promise<Page> {
  const baseURL = service.url;
  const context = await chromium.newContext({ baseURL, locale: 'en-GB', timezoneId: 'Europe/Berlin' });
  const page = await context.newPage();
  await logIn(page, service, 'owner');
  await page.waitForURL('**/dashboard');
  return page;
}

async function logIn(page: Page, { demo }: Service, role: 'owner' | 'operator'): Promise<void> {
  const { email, password } = demo!.logins.find((login) => login.role === role)!;
  await page.goto(role === 'operator' ? '/login?next=%2Fconsole' : '/login');
  await page.getByLabel('E-mail address').fill(email);
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
}

/** Creates data for the demo's pages and returns each page's URL or the actions that lead to it. */
async function prepare(page: Page, { context: { db }, demo }: Service): Promise<Record<string, Show>> {
  const keyHref = async (name: string) => {
    await page.goto('/dashboard/api-keys');
    return (await page.getByRole('link', { name, exact: true }).first().getAttribute('href'))!;
  };
  const makeKey = async (name: string, choose?: () => Promise<void>) => {
    await page.goto('/dashboard/api-keys/new');
    await page.getByLabel('Name').fill(name);
    await choose?.();
    await page.getByRole('button', { name: 'Create key' }).click();
    await page.locator('#secret').waitFor();
  };
  await makeKey('map renderer', () => page.getByRole('radio', { name: /^Read-only/ }).check());
  await makeKey('importer', () => page.getByRole('radio', { name: 'In 30 days' }).check());
  const importer = await keyHref('importer');
  await page.goto(`${importer}/revoke`);
  await page.getByRole('button', { name: 'Revoke key' }).click();

  const production = await keyHref('eu-west worker');
  await page.goto(`${production}/rotate`);
  await page.getByRole('button', { name: 'Rotate key' }).click();
  await page.getByRole('link', { name: /watch the cut-over/ }).click();
  const cutOver = new URL(page.url()).pathname;
  await moveOver(db, production.split('/').at(-1)!, cutOver.split('/').at(-2)!);

  await page.goto('/dashboard/members/invite');
  await page.getByLabel('E-mail address').fill('farid@northwind.example');
  await page.getByRole('radio', { name: /^Billing/ }).check();
  await page.getByRole('button', { name: 'Create invitation' }).click();

  await page.goto('/dashboard/webhooks/new');
  await page.getByLabel('URL').fill('https://hooks.northwind.example/gauge');
  await page.getByRole('radio', { name: 'Only these types' }).check();
  await page.getByRole('checkbox', { name: /usage\.alert/ }).check();
  await page.getByRole('button', { name: 'Create endpoint' }).click();
  await page.locator('#secret').waitFor();
  await page.goto('/dashboard/usage/alerts');
  await page.getByLabel('Level').fill('125');
  await page.getByRole('button', { name: 'Add alert' }).click();
  await page.waitForURL('**/usage/alerts?done=added');

  const staging = await keyHref('staging runtime');
  const password = demo!.logins[0]!.password;
  return {
    overview: '/dashboard',
    'api-keys': '/dashboard/api-keys',
    'api-key': staging,
    'api-key-new': '/dashboard/api-keys/new',
    'api-key-secret': () => makeKey('billing worker, Frankfurt'),
    'api-key-rotate': `${staging}/rotate`,
    'api-key-revoke': `${production}/revoke`,
    'cut-over': cutOver,
    usage: '/dashboard/usage',
    'usage-product': '/dashboard/usage?product=forecast-api',
    'usage-day': '/dashboard/usage?range=day',
    entitlements: '/dashboard/entitlements',
    markets: async (page) => {
      await page.goto('/dashboard/markets');
      await page.getByText('The demo is still building').waitFor({ state: 'detached', timeout: 600_000 });
    },
    'markets-city': '/dashboard/markets?station=KMIA',
    'markets-minimum': '/dashboard/markets?station=KMIA&kind=daily_minimum',
    'markets-hour': '/dashboard/markets?station=INDEX-MIAMI&kind=hourly',
    'markets-others': '/dashboard/markets?kind=others',
    ticket: async (page) => {
      await page.goto('/dashboard/markets?station=KMIA');
      await page.getByRole('link', { name: /^Buy/ }).nth(2).click();
      await page.getByRole('heading', { level: 1 }).waitFor();
    },
    scores: '/dashboard/scores',
    portfolio: '/dashboard/portfolio',
    'portfolio-order': async (page) => {
      await page.goto('/dashboard/portfolio/orders');
      await page
        .getByRole('link', { name: /^Buy \d/ })
        .first()
        .click();
      await page.getByRole('heading', { level: 1 }).waitFor();
    },
    'risk-limits': '/dashboard/portfolio/risk',
    members: '/dashboard/members',
    'member-invite': '/dashboard/members/invite',
    'audit-log': '/dashboard/audit-log',
    account: '/dashboard/account',
    sessions: '/dashboard/account/sessions',
    'second-factor': async (page) => {
      await page.goto('/dashboard/account/second-factor');
      await page.getByLabel('Your password').fill(password);
      await page.getByRole('button', { name: 'Set up' }).click();
      await page.getByRole('img', { name: /QR code/ }).waitFor();
    },
    'not-found': '/dashboard/nowhere',
  };
}

/** Backdates a rotation by 40 minutes and records calls that have since moved from the old key to the new one. */
async function moveOver(db: Service['context']['db'], oldId: string, newId: string): Promise<void> {
  const minutes = 40;
  const ago = `now() - interval '${minutes} minutes'`;
  await db.run(
    {
      name: 'screenshots_new',
      text: `update api_keys set created_at = ${ago}, last_used_at = now() where id = $1`,
    },
    [newId],
  );
  await db.run(
    {
      name: 'screenshots_old',
      text: `update api_keys set expires_at = ${ago} + interval '1 hour', last_used_at = now() - interval '6 minutes' where id = $1`,
    },
    [oldId],
  );
  // Makes the demo's own keys older than the rotated key.
  await db.run(
    {
      name: 'screenshots_demo',
      text: `update api_keys set created_at = created_at - interval '20 days' where created_by is null`,
    },
    [],
  );
  const text = `
insert into api_key_calls (org_id, api_key_id, minute, calls)
select k.org_id, k.id, date_trunc('minute', now()) - make_interval(mins => ${minutes} - m),
  case when k.id = $1 then greatest(0, 210 - m * 6 - m * m / 40) else least(230, m * 6) end + (m * 37) % 11
from api_keys k, generate_series(0, ${minutes}) m
where (k.id = $1 and m < 34) or (k.id = $2 and m > 3)
on conflict do nothing`;
  await db.run({ name: 'screenshots_calls', text }, [oldId, newId]);
}
