import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { beforeAll, expect, it } from 'vitest';
import { signedIn } from '../support/accounts.js';
import { createKey } from '../support/fixtures.js';
import { checkTypes, hasMypy, hasPython, pythonClient } from '../support/python.js';
import { use, useService } from '../support/use.js';
import { createProduct, grant } from '../metering/support/products.js';
import { sendUsage, usageEvent } from '../metering/support/usage.js';

const run = promisify(execFile);
const { database, service } = useService();
const folder = use(
  () => ({ path: mkdtempSync(join(tmpdir(), 'gauge-samples-')) }),
  ({ path }) => rmSync(path, { recursive: true }),
);
let secret: string;
let testSecret: string;
let cookie: string;

beforeAll(async () => {
  const { organization, browser } = await signedIn(database.db, service.url, 'member');
  // The demo's product, which the README names.
  const product = await createProduct(database.db, { slug: 'forecast-api', usageMetric: 'requests' });
  await grant(database.db, organization.id, product.id);
  const scopes = ['usage:write', 'usage:read', 'usage:correct', 'entitlements:read'];
  ({ secret } = await createKey(database.db, organization.id, { scopes }));
  ({ secret: testSecret } = await createKey(database.db, organization.id, { scopes, livemode: false }));
  cookie = [...browser.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
});

const unescape = (text: string) =>
  text
    .replaceAll('&#34;', '"')
    .replaceAll('&#39;', "'")
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&amp;', '&');

/** Returns a page's examples in a language, in order, with the member's keys in place of the displayed prefixes. */
async function readSamples(language: string, page: string): Promise<string[]> {
  const html = await (await fetch(`${service.url}/docs/${page}`, { headers: { cookie } })).text();
  const found = [...html.matchAll(new RegExp(`<code id="[^"]+-${language}">([\\s\\S]*?)</code>`, 'g'))];
  return found.map(([, code]) =>
    [secret, testSecret].reduce((text, key) => text.replaceAll(`${key.slice(0, 12)}…`, key), unescape(code!)),
  );
}

const withKey = () => ({
  env: { ...process.env, GAUGE_API_KEY: secret, PYTHONPATH: join(pythonClient, 'src') },
});

const interpreters: Record<string, (code: string) => Promise<{ stdout: string }>> = {
  curl: (code) => run('sh', ['-c', code], withKey()),
  python: (code) => run('python3', ['-c', code], withKey()),
  typescript(code) {
    const client = pathToFileURL('src/client/client.ts').href;
    const file = join(folder.path, 'sample.mts');
    writeFileSync(file, code.replace(/'gauge-client'/, `'${client}'`));
    return run('node', ['--import', 'tsx', file], withKey());
  },
};

it.each(Object.keys(interpreters))(
  'the five-minute start works as shown, in %s',
  async (language) => {
    if (language === 'python' && !hasPython) return;
    const samples = await readSamples(language, 'start');
    expect(samples).toHaveLength(3);
    const printed: string[] = [];
    for (const code of samples) printed.push((await interpreters[language]!(code)).stdout);
    expect(printed[0]).toContain('forecast-api');
    expect(printed[1]).toMatch(/['"]?accepted['"]?: ?\d/);
    expect(printed[2]).toMatch(/['"]?used['"]?: ?\d/);
  },
  120_000,
);

/**
 * Runs each example separately. Two errors are accepted: one example mixes live and test keys, and a reservation that
 * an earlier example has settled cannot be settled or released again.
 */
const runAll = `
import json, sys
from urllib.error import HTTPError
from gauge import OtherModeError
for code in json.loads(sys.argv[1]):
    try:
        exec(code, {})
    except OtherModeError:
        pass
    except HTTPError as error:
        if not (error.code == 409 and "/reservations/" in error.url):
            raise
`;

it.skipIf(!hasPython).each(['entitlements', 'usage', 'api-keys'])(
  'the Python examples of the reference work as shown: %s',
  async (group) => {
    // Creates a reservation, which the page then shows.
    const work = { ...usageEvent('forecast-api', group, { metric: 'requests' }), quantity: 5 };
    const held = await fetch(`${service.url}/api/usage/reservations`, {
      method: 'POST',
      headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
      body: JSON.stringify(work),
    });
    expect(held.status).toBe(201);
    // Skips shortened examples, which are requests made by a signed-in member.
    const samples = (await readSamples('python', `reference/${group}`)).filter((code) => !code.includes('…'));
    const named = /gauge\.(?:event\(|correct\([^"]*"idempotencyKey": )"([^"]+)"/;
    const events = samples.flatMap((code) => {
      const key = named.exec(code)?.[1];
      return key === undefined ? [] : [usageEvent('forecast-api', key, { metric: 'requests' })];
    });
    if (events.length > 0) await sendUsage(service.url, secret, events);
    if (hasMypy) await checkTypes(samples);
    const { stdout } = await run('python3', ['-c', runAll, JSON.stringify(samples)], withKey());
    expect(stdout).not.toBe('');
  },
);

const readme = /^## The first event.*?(?=^## )/ms.exec(readFileSync('README.md', 'utf8'))![0];

it.each([
  ['curl', 'sh'],
  ['typescript', 'ts'],
  ['python', 'python'],
])('the first event of the README is counted, in %s', async (language, fence) => {
  if (language === 'python' && !hasPython) return;
  const code = new RegExp(`^\`\`\`${fence}\n(.*?)^\`\`\``, 'ms').exec(readme)![1]!;
  const lines = code.replace(/^export.*\n/m, '').replaceAll('http://localhost:3000', service.url);
  const { stdout } = await interpreters[language]!(lines);
  expect(stdout).toMatch(/['"]?accepted['"]?: ?\d/);
  expect(stdout).toContain('forecast-api');
});
