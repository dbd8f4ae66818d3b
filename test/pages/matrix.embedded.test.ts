import { randomUUID } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import { beforeAll, describe, expect, it } from 'vitest';
import { listPageRoutes } from '../openapi/support/mounted-routes.js';
import { Browser, type Answer } from '../support/accounts.js';
import { countChanges } from '../support/counted-changes.js';
import { foreignNames, MARKER, ordinaryNames, populate, type Populated } from './populated.js';
import { actors, matrix, type Actor, type Row } from './matrix.js';
import { createApp } from '../../src/app.js';
import { useService } from '../support/use.js';

const { database, service } = useService({
  env: { LIMIT_KEY_CHANGES_PER_HOUR: '1000' },
  app: { signInLimits: { perAddress: 10_000 } },
});
let own: Populated;
let foreign: Populated;
let countedChanges: () => Promise<string>;
beforeAll(async () => {
  own = await populate(service, ordinaryNames);
  foreign = await populate(service, foreignNames);
  countedChanges = await countChanges(database.db);
});

const html = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' };

/** Prepares a row's request, to be sent by a person who belongs to `own`. */
async function prepare(
  address: string,
  row: Row,
  actor: Actor,
  of: Populated,
  { path = '', headers = {} }: { path?: string; headers?: Record<string, string> } = {},
): Promise<() => Promise<Answer>> {
  const [method, route] = address.split(' ') as [string, string];
  path ||= (await row.path?.(of, actor)) ?? route;
  const form = (await row.form?.(of)) ?? {};
  const person = actor === 'nobody' ? undefined : own.people[actor];
  const browser = person?.browser ?? new Browser(service.url);
  return async () => {
    const answer =
      method === 'get'
        ? await browser.get(path, { ...html, ...headers })
        : await browser.send('POST', path, { form, headers: { ...html, ...headers } });
    if (row.endsSession && person) {
      browser.cookies.clear();
      expect((await browser.signIn(person.email)).status).toBe(303);
    }
    return answer;
  };
}

it('names every page and every form, and nothing else', () => {
  const app = createApp(service.context, service.running);
  // These are API routes as well as forms.
  // Each needs a session of the portal; see its own tests.
  const pages = listPageRoutes(app).filter((address) => !address.includes(' /portal'));
  const others = ['get /login', 'post /login', 'post /logout', 'post /dashboard/organization'];
  expect(Object.keys(matrix).sort()).toEqual([...new Set([...pages, ...others])].sort());
});

describe.each(Object.entries(matrix))('%s', (address, row) => {
  const askers = row.forOperators ? (['nobody', 'owner'] as const) : actors;
  it.each(askers.map((actor) => ({ actor, status: row.own[actors.indexOf(actor)]! })))(
    'answers $actor with $status',
    async ({ actor, status }) => {
      const send = await prepare(address, row, actor, own);
      const answer = await send();
      expect([answer.status, answer.status >= 500 ? answer.text : '']).toEqual([status, '']);
      expect(answer.text).not.toContain(MARKER);
      if (status >= 400) expect(answer.text).toContain('<!doctype html>');
      if (actor === 'nobody' && status === 303 && row.own[4] === 200)
        expect(answer.headers.get('location')).toMatch(/^\/login\?next=%2F/);
    },
  );

  if (address.startsWith('post '))
    it('refuses a form from another site, and changes nothing', async () => {
      const { endsSession: _, ...kept } = row;
      const headers = { 'sec-fetch-site': 'cross-site' };
      const send = await prepare(address, kept, 'owner', own, { headers });
      const before = await countedChanges();
      expect((await send()).status).toBe(403);
      expect(await countedChanges()).toBe(before);
    });

  if (/\{(id|\w+Id)\}/.test(address))
    it('finds nothing by an unknown or malformed id', async () => {
      for (const id of ['x', '%01', "'", '__proto__', '%F0%9F%91%BE', randomUUID(), 'x'.repeat(300)]) {
        const path = address.split(' ')[1]!.replaceAll(/\{\w+\}/g, id);
        const { status, text } = await (await prepare(address, row, 'owner', own, { path }))();
        expect([id, status]).toEqual([id, 404]);
        expect(text).toContain('<!doctype html>');
      }
    });

  if (!row.foreign) return;
  it.each(actors.map((actor, index) => ({ actor, status: row.foreign?.[index] })))(
    'answers $actor with $status for another Organization’s objects, and changes nothing there',
    async ({ actor, status }) => {
      const send = await prepare(address, row, actor, foreign);
      const before = await countedChanges();
      const answer = await send();
      expect(answer.status).toBe(status);
      // The key of an event that was asked for is shown again.
      const others = answer.text.replaceAll(/\+|%20/g, ' ').replaceAll(foreign.eventKeys[0]!, '');
      expect(others).not.toContain(MARKER);
      expect(await countedChanges()).toBe(before);
    },
  );
});

interface Asset {
  text: string;
  bytes: number;
}

const assets = new Map<string, Promise<Asset>>();
const weigh = (text: string): Asset => ({ text, bytes: gzipSync(text).length });

/** Loads each file once, because pages share most of their files. */
function loadAsset(path: string): Promise<Asset> {
  const asset =
    assets.get(path) ?? fetch(service.url + path).then(async (response) => weigh(await response.text()));
  assets.set(path, asset);
  return asset;
}

/** Loads the files that a browser loads with its first page. */
async function loadAssets(page: string): Promise<Asset[]> {
  const paths = [...page.matchAll(/(?:src|href)="(\/dashboard\/assets\/[^"]+)"/g)].map((match) => match[1]!);
  const parts = await Promise.all(paths.map(loadAsset));
  const folder = paths[0]!.slice(0, paths[0]!.lastIndexOf('/'));
  const imported = parts.flatMap(({ text }) =>
    [...text.matchAll(/from '\.\/([^']+)'/g)].map((match) => `${folder}/${match[1]}`),
  );
  // A browser loads a module once.
  const others = new Set(imported.filter((path) => !paths.includes(path)));
  return [...parts, ...(await Promise.all([...others].map(loadAsset)))];
}

it('no page weighs more than 75 KB compressed, with its styles and scripts', async () => {
  for (const [address, row] of Object.entries(matrix)) {
    if (!address.startsWith('get /dashboard') || row.own[4] !== 200) continue;
    const { text, headers } = await (await prepare(address, row, 'owner', own))();
    if (!headers.get('content-type')?.includes('html')) continue;
    const parts = [weigh(text), ...(await loadAssets(text))];
    expect([address, parts.reduce((sum, { bytes }) => sum + bytes, 0) <= 75_000]).toEqual([address, true]);
  }
});
