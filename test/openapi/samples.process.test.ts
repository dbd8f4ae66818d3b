import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { beforeAll, expect, it } from 'vitest';
import { signedIn } from '../support/accounts.js';
import { createKey, createOrganization } from '../support/fixtures.js';
import { operatorClient } from '../support/operator.js';
import { checkTypes, hasMypy, hasPython, pythonClient } from '../support/python.js';
import { use, useService } from '../support/use.js';
import { createProduct, grant } from '../metering/support/products.js';
import { usageEvent } from '../metering/support/usage.js';

const run = promisify(execFile);
const { database, service } = useService();
const folder = use(
  () => ({ path: mkdtempSync(join(tmpdir(), 'gauge-samples-')) }),
  ({ path }) => rmSync(path, { recursive: true }),
);
let secret: string;
let testSecret: string;
let serviceKey: string;
let cookie: string;

beforeAll(async () => {
  const { organization, browser } = await signedIn(database.db, service.url, 'member');
  // The demo's product, which the README names.
  const product = await createProduct(database.db, { slug: 'forecast-api', usageMetric: 'requests' });
  await grant(database.db, organization.id, product.id);
  const scopes = ['usage:write', 'usage:read', 'usage:correct', 'entitlements:read'];
  ({ secret } = await createKey(database.db, organization.id, { scopes }));
  ({ secret: testSecret } = await createKey(database.db, organization.id, { scopes, livemode: false }));
  const acme = await createOrganization(database.db, { slug: 'acme' });
  await grant(database.db, acme.id, product.id);
  const { body } = await operatorClient(() => service)('POST', '/service-keys', {
    name: 'reference',
    livemode: true,
    scopes: [...scopes, 'keys:verify'],
  });
  ({ secret: serviceKey } = body as { secret: string });
  cookie = [...browser.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
});

const unescape = (text: string) =>
  text
    .replaceAll(/<\/?span[^>]*>/g, '')
    .replaceAll('&#34;', '"')
    .replaceAll('&#39;', "'")
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&amp;', '&');

/** Returns a page's examples in a language, in order, with the member's keys in place of the displayed prefixes. */
async function readSamples(language: string, page: string): Promise<string[]> {
  const html = await (await fetch(`${service.url}/docs/${page}`, { headers: { cookie } })).text();
  const found = [...html.matchAll(new RegExp(`<code id="[^"]+-${language}"[^>]*>([\\s\\S]*?)</code>`, 'g'))];
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
    // `package.process.test.ts` runs the commands that install a client.
    const shown = await readSamples(language, 'start');
    const [list, send, ...others] = shown.filter((code) => !/^(npm|pip) install /.test(code));
    expect(others).toEqual([]);
    const print = async (code: string) => (await interpreters[language]!(code)).stdout;
    const numberIn = (text: string, name: string) =>
      Number(new RegExp(`${name}['"]?: ?([\\d.]+)`).exec(text)![1]);
    const before = await print(list!);
    expect(before).toContain('forecast-api');
    // Each language sends the same event.
    const counted = numberIn(await print(send!), 'accepted') * numberIn(send!, 'quantity');
    expect(numberIn(await print(list!), 'used')).toBe(numberIn(before, 'used') + counted);
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

/** Examples read or correct events that an earlier request of the page has recorded. */
async function recordNamed(samples: string[], key: string, organization?: string): Promise<void> {
  const named =
    /(?:gauge\.event\(|gauge\.correct\([^"]*"idempotencyKey": |idempotency_?key(?:'|")?: )["']([^"']+)["']/i;
  const events = samples.flatMap((code) => {
    const name = named.exec(code)?.[1];
    return name === undefined ? [] : [usageEvent('forecast-api', name, { metric: 'requests' })];
  });
  const path =
    organization === undefined ? '/api/usage/events' : `/service/organizations/${organization}/usage/events`;
  const response = await fetch(service.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ events }),
  });
  if (events.length > 0) expect(response.status).toBe(202);
}

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
    await recordNamed(samples, secret);
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

/** One program, because each start takes a second. */
const programs: Record<string, (samples: string[]) => Promise<{ stdout: string }>> = {
  python: (samples) => run('python3', ['-c', runAll, JSON.stringify(samples)], withKey()),
  typescript(samples) {
    const [opening] = /^import.*/.exec(samples[0]!)!;
    const blocks = samples.map((code) => `{\n${code.replace(opening, '')}\n}`);
    return interpreters.typescript!([opening, ...blocks].join('\n'));
  },
};

it.each(Object.keys(programs))('the examples for a service key work as shown, in %s', async (language) => {
  if (language === 'python' && !hasPython) return;
  const group = await (await fetch(`${service.url}/docs/reference/on-behalf-of-customers`)).text();
  const pages = new Set(
    [...group.matchAll(/reference\/on-behalf-of-customers-[a-z-]+/g)].map(([page]) => page),
  );
  const shown = await Promise.all([...pages].map((page) => readSamples(language, page)));
  const samples = shown
    .flat()
    .map((code) => code.replaceAll('service_live_…', serviceKey))
    // The ids of the examples' reservations are made up.
    .filter((code) => /GaugeClient/.test(code) && !/…|reservation\(|reservations\/\{?\w/.test(code));
  await recordNamed(samples, serviceKey, 'acme');
  const { stdout } = await programs[language]!(samples);
  expect(samples.length).toBeGreaterThan(10);
  expect(stdout).toMatch(/['"]?(accepted|deduped)['"]?: ?[1-9]/);
  expect(stdout).toMatch(/['"]?allowed['"]?: ?true/i);
  expect(stdout).not.toMatch(/Organization "acme"/);
});
