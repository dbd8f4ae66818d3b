import { spawn, type ChildProcess } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, statSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseEnv } from 'node:util';
import { afterAll, beforeAll, expect, inject, it, vi } from 'vitest';
import { codeOfApp } from '../browser/steps.js';
import { Browser } from '../support/accounts.js';
import { dropDatabase, inDatabase, query } from '../support/postgres-server.js';

// These tests start the service as on a new machine, with the same build that `npm ci` would create.

const root = fileURLToPath(new URL('../..', import.meta.url));
const [, section] = /^## In production$(.*?)^## /ms.exec(readFileSync(join(root, 'README.md'), 'utf8'))!;
const blocks = [...section!.matchAll(/^```sh\n(.*?)^```$/gms)].map(([, lines]) => lines!);
const [makeEnv, containers, start] = blocks as [string, string, string];

let folder: string;
let databaseUrl: string;
const running: ChildProcess[] = [];
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'gauge-first-start-'));
  for (const name of [
    '.env.example',
    'package.json',
    'tsconfig.json',
    'tsconfig.build.json',
    'src',
    'views',
    'migrations',
    'clients',
    'LICENSE',
    'dist',
    'tools',
  ])
    if (existsSync(join(root, name)))
      // `npm start` compares modification times to decide whether the build is up to date.
      cpSync(join(root, name), join(folder, name), { recursive: true, preserveTimestamps: true });
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  const name = `first_start_${process.pid}`;
  await query(inject('postgresUrl'), `create database ${name}`);
  databaseUrl = inDatabase(inject('postgresUrl'), name);
});
afterAll(async () => {
  await Promise.all(running.map(end));
  await dropDatabase([inject('postgresUrl')], new URL(databaseUrl).pathname.slice(1));
  rmSync(folder, { recursive: true, force: true });
});

/** Runs shell commands in the new folder. `npm ci` is skipped, because the packages are already installed. */
function shell(lines: string, env: Record<string, string> = {}) {
  const npm = 'npm() { [ "$1" = ci ] || command npm "$@"; }\n';
  const child = spawn('sh', ['-ec', npm + lines], {
    cwd: folder,
    detached: true,
    env: { PATH: process.env.PATH, HOME: process.env.HOME, ...env },
  });
  running.push(child);
  const printed = { text: '' };
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => (printed.text += chunk.toString()));
  return { child, printed, ended: new Promise<number | null>((resolve) => child.once('close', resolve)) };
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((resolve) => child.once('close', resolve));
  process.kill(-child.pid!, 'SIGTERM');
  await ended;
}

/** Returns the distinct set-up links in the text. */
const linksIn = (text: string) => [
  ...new Set(text.match(/https:\/\/gauge\.example\.com\/set-up#[\w-]{43}/g)),
];

it('the README’s commands create a configuration with every secret that is needed', async () => {
  expect(blocks).toHaveLength(3);
  const made = shell(makeEnv);
  expect([await made.ended, made.printed.text]).toEqual([0, '']);
  const file = join(folder, '.env');
  expect(statSync(file).mode & 0o777).toBe(0o600);
  const env = parseEnv(readFileSync(file, 'utf8')) as Record<string, string>;
  const secrets = Object.entries(env).filter(([name]) => !/^(PUBLIC_URL|TRUST_PROXY)$/.test(name));
  for (const [, secret] of secrets) expect(secret).toMatch(/^[\da-f]{64}$/);
  expect(new Set(secrets.map(([, secret]) => secret)).size).toBe(secrets.length);
  const compose = readFileSync(join(root, 'docker-compose.yml'), 'utf8');
  const needed = [...compose.matchAll(/(?<!\$)\$\{(\w+):\?/g)].map(([, name]) => name!);
  expect(Object.keys(env)).toEqual(expect.arrayContaining(needed));
  expect(containers).toMatch(/^docker compose up .*\ndocker compose logs app/);
});

it('the README’s commands end with a person signed in, and an owner whose first event counts', async () => {
  const lines = start.replace(/^echo DATABASE_URL=\S+/m, `echo DATABASE_URL=${databaseUrl}`);
  expect(lines).not.toBe(start);
  const { printed, ended } = shell(lines, { PORT: '0', HOST: '127.0.0.1' });
  const ready = () => /"url":"(http:\/\/127\.0\.0\.1:\d+)".*Gauge is ready/.exec(printed.text)?.[1];
  const failed = ended.then((code) => expect.unreachable(`ended with ${code}: ${printed.text}`));
  await Promise.race([
    vi.waitFor(() => expect(ready()).toBeDefined(), { timeout: 600_000, interval: 200 }),
    failed,
  ]);
  const [link, ...others] = linksIn(printed.text);
  expect(others).toEqual([]);

  const operator = new Browser(ready()!);
  const password = 'plenty of unrelated harbour words';
  const html = { accept: 'text/html', 'x-forwarded-proto': 'https' };
  const post = async (browser: Browser, path: string, form: Record<string, string>) => {
    const answer = await browser.send('POST', path, {
      form,
      headers: { ...html, origin: 'https://gauge.example.com', 'sec-fetch-site': 'same-origin' },
    });
    expect(answer.status, `${path}: ${answer.text}`).toBeLessThan(400);
    return answer;
  };
  await post(operator, '/set-up/open', { link: link! });
  await post(operator, '/set-up/person', { name: 'Ada', email: 'ada@example.com', password });
  await post(operator, '/set-up/second-factor', { currentPassword: password });
  const secret = /secret=([A-Z2-7]{32})/.exec((await operator.get('/set-up', html)).text)![1]!;
  const code = codeOfApp(secret, Date.now());
  expect((await post(operator, '/set-up/second-factor/confirm', { code })).text).toContain('recovery codes');
  const product = {
    productSlug: 'forecast-api',
    productName: 'Forecast API',
    usageMetric: 'requests',
    unitCap: '1000',
  };
  await post(operator, '/set-up/product', { ...product, orgSlug: 'acme', orgName: 'Acme' });
  const owner = { organization: 'acme', owner: 'other', email: 'olga@acme.example' };
  const invited = await post(operator, '/set-up/owner', owner);
  const invitation = /https:\/\/gauge\.example\.com\/dashboard\/join#([\w-]+)/.exec(invited.text)![1]!;
  expect((await operator.get('/dashboard/account', html)).status).toBe(200);

  const olga = new Browser(operator.url);
  await post(olga, '/dashboard/join/open', { invitation });
  await post(olga, '/dashboard/join/account', { invitation, name: 'Olga', password });
  expect((await olga.get('/dashboard', html)).status).toBe(200);
  const made = await olga.send('POST', '/dashboard/api-keys', { json: { name: 'first', livemode: true } });
  expect(made.status).toBe(201);
  const { secret: key } = made.body as { secret: string };
  const event = {
    productSlug: 'forecast-api',
    metric: 'requests',
    quantity: 1,
    idempotencyKey: 'first-event',
  };
  const sent = await new Browser(operator.url).send('POST', '/api/usage/events', {
    json: { events: [event] },
    headers: { authorization: `Bearer ${key}` },
  });
  expect(sent).toMatchObject({ status: 202, body: { accepted: 1, deduped: 0 } });

  // The printed link no longer works, and no other secret was printed.
  const late = new Browser(operator.url);
  await post(late, '/set-up/open', { link: link! });
  expect((await late.get('/set-up', html)).status).toBe(404);
  for (const hidden of [password, secret, code, invitation, key, ...olga.cookies.values()])
    expect(printed.text).not.toContain(hidden);
  const used = printed.text.split(link!.split('#')[1]!);
  expect(used).toHaveLength(2);
});

it('the next start prints no link, and neither does the command', async () => {
  await Promise.all(running.map(end));
  const again = shell('NODE_ENV=production node --env-file=.env dist/main.js', {
    PORT: '0',
    HOST: '127.0.0.1',
  });
  await vi.waitFor(() => expect(again.printed.text).toContain('Gauge is ready'), { timeout: 600_000 });
  await end(again.child);
  expect(linksIn(again.printed.text)).toEqual([]);
  const refused = shell('npm run --silent setup-link');
  expect([await refused.ended, refused.printed.text]).toEqual([
    1,
    expect.stringMatching(/already an operator/),
  ]);
  const forced = shell('npm run --silent setup-link -- --force');
  expect([await forced.ended, linksIn(forced.printed.text)]).toEqual([0, [expect.any(String)]]);
});
