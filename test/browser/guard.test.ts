import { createServer, type Server } from 'node:http';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { findBarriers } from '../support/axe.js';
import { launchChromium } from '../support/chromium.js';
import { guardPages } from '../support/page-guard.js';

let chromium: Browser;
let server: Server;
let origin: string;

/** By path: status, and what the page holds. */
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
  '/wide': [200, `<p>${'x'.repeat(2_000)}</p>`],
};

beforeAll(async () => {
  chromium = await launchChromium();
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
afterAll(async () => {
  await chromium.close();
  server.close();
});

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
])('of $path is said: $complaint', async ({ path, complaint, withScripts, without }) => {
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

it('of pale letters and a button without a name is said what is wrong', async () => {
  const page = await chromium.newPage();
  await page.goto(`${origin}/pale`);
  const barriers = (await findBarriers(page)).join('\n');
  expect(barriers).toContain('color-contrast at p');
  expect(barriers).toContain('button-name at button');
  expect(await findBarriers(page, 'colours')).toEqual([expect.stringContaining('color-contrast at p')]);
  await page.close();
});
