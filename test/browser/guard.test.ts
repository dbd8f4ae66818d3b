import { createServer, type Server } from 'node:http';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { findBarriers } from '../support/axe.js';
import { DESKTOP, PHONE } from '../support/browser.js';
import { sharedChromium } from '../support/chromium.js';
import { guardPages } from '../support/page-guard.js';

let chromium: Browser;
let server: Server;
let origin: string;

const pages: Record<string, [status: number, html: string]> = {
  '/good': [200, '<h1>Good</h1>'],
  '/missing': [404, '<h1>Nothing here</h1>'],
  '/warns': [200, '<script nonce="n">console.warn("careful")</script>'],
  '/throws': [200, '<script nonce="n">throw new Error("broken")</script>'],
  '/inline': [200, '<p style="color: red">Red</p>'],
  '/dialog': [200, '<script nonce="n">alert("hello")</script>'],
  '/elsewhere': [200, '<img src="http://127.0.0.2:9/x.png" alt="">'],
  '/no-picture': [200, '<img src="/missing" alt="">'],
  '/failing': [500, '<h1>Failing</h1>'],
  '/pale': [200, '<style nonce="n">p { color: #bbb; background: #fff }</style><p>Pale</p><button></button>'],
  '/changing': [
    200,
    `<style nonce="n">body { color: #000; background: #fff }
    @media (max-width: 400px) { p { color: #aaa } }
    @media (prefers-color-scheme: dark) { p { color: #bbb } }
    div { background: #222; height: 99px }
    @media (min-width: 2000px) { p { position: absolute; margin-top: -90px } }</style>
    <h1>Changing</h1><div></div><p>Changing</p>`,
  ],
  '/wide': [200, `<p>${'x'.repeat(2_000)}</p>`],
};

beforeAll(async () => {
  chromium = await sharedChromium();
  server = createServer((req, res) => {
    const [status, html] = pages[req.url ?? ''] ?? [204, ''];
    res.writeHead(status, {
      'content-type': 'text/html',
      'content-security-policy': "default-src 'none'; script-src 'nonce-n'; style-src 'nonce-n'; img-src *",
    });
    res.end(`<!doctype html><html lang="en"><head><link rel="icon" href="/icon"></head>${html}</html>`);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  origin = `http://127.0.0.1:${(server.address() as { port: number }).port}`;
});
afterAll(() => server.close());

const all = { withScripts: true, without: true };
it.each<{ path: string; complaint: RegExp | undefined; withScripts: boolean; without: boolean }>([
  { path: '/good', complaint: undefined, ...all },
  { path: '/missing', complaint: undefined, ...all },
  { path: '/warns', complaint: /careful/, ...all, without: false },
  { path: '/throws', complaint: /broken/, ...all, without: false },
  { path: '/inline', complaint: /style/i, ...all },
  { path: '/dialog', complaint: /opens a dialog: hello/, ...all, without: false },
  { path: '/elsewhere', complaint: /asks another host/, ...all },
  { path: '/no-picture', complaint: /404/, ...all },
  { path: '/failing', complaint: /answers 500/, ...all },
  { path: '/wide', complaint: /scrolls sideways/, ...all },
])('reports on $path: $complaint', async ({ path, complaint, withScripts, without }) => {
  for (const javaScriptEnabled of [true, false]) {
    const context = await chromium.newContext({ javaScriptEnabled });
    const guard = await guardPages(context, origin);
    const page = await context.newPage();
    await page.goto(origin + path);
    const complaints = await guard.complaints();
    await context.close();
    if (complaint && (javaScriptEnabled ? withScripts : without))
      expect(complaints.join('\n')).toMatch(complaint);
    else expect(complaints).toEqual([]);
  }
});

it('reports pale text and a button without a name', async () => {
  const page = await chromium.newPage();
  await page.goto(`${origin}/pale`);
  const barriers = (await findBarriers(page)).join('\n');
  expect(barriers).toContain('color-contrast at p');
  expect(barriers).toContain('button-name at button');
  expect(await findBarriers(page, 'colours')).toEqual([expect.stringContaining('color-contrast at p')]);
  await page.close();
});

it('reports text that is pale on a phone, in dark mode or over another element, even if it is readable elsewhere', async () => {
  const page = await chromium.newPage({ viewport: DESKTOP });
  await page.goto(`${origin}/changing`);
  const isPale = async () => (await findBarriers(page, 'colours')).join().includes('color-contrast at p');
  expect([await isPale(), await isPale()]).toEqual([false, false]);
  await page.emulateMedia({ colorScheme: 'dark' });
  expect(await isPale()).toBe(true);
  await page.emulateMedia({ colorScheme: 'light' });
  await page.setViewportSize(PHONE);
  expect(await isPale()).toBe(true);
  await page.setViewportSize({ width: 2000, height: 900 });
  expect(await isPale()).toBe(true);
  await page.close();
});
