import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { beforeAll, expect, it } from 'vitest';
import { signedIn } from '../support/accounts.js';
import { createKey } from '../support/fixtures.js';
import { hasPython, pythonClient } from '../support/python.js';
import { use, useService } from '../support/use.js';
import { createProduct, grant } from '../metering/support/products.js';

const run = promisify(execFile);
const { database, service } = useService();
const folder = use(
  () => ({ path: mkdtempSync(join(tmpdir(), 'gauge-samples-')) }),
  ({ path }) => rmSync(path, { recursive: true }),
);
let secret: string;
let html: string;

beforeAll(async () => {
  const { organization, browser } = await signedIn(database.db, service.url, 'member');
  // As in the demo, whose product the README names.
  const product = await createProduct(database.db, { slug: 'forecast-api', usageMetric: 'requests' });
  await grant(database.db, organization.id, product.id);
  ({ secret } = await createKey(database.db, organization.id, {
    scopes: ['usage:write', 'entitlements:read'],
  }));
  const cookie = [...browser.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
  html = await (await fetch(`${service.url}/docs/start`, { headers: { cookie } })).text();
});

const unescape = (text: string) =>
  text
    .replaceAll('&#34;', '"')
    .replaceAll('&#39;', "'")
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&amp;', '&');

/** The page's examples in a language, in order, with the member's key in place of its prefix. */
function readSamples(language: string): string[] {
  const found = [...html.matchAll(new RegExp(`<code id="[^"]+-${language}">([\\s\\S]*?)</code>`, 'g'))];
  return found.map(([, code]) => unescape(code!).replaceAll(`${secret.slice(0, 12)}…`, secret));
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
    const samples = readSamples(language);
    expect(samples).toHaveLength(3);
    const printed: string[] = [];
    for (const code of samples) printed.push((await interpreters[language]!(code)).stdout);
    expect(printed[0]).toContain('forecast-api');
    expect(printed[1]).toMatch(/['"]?accepted['"]?: ?\d/);
    expect(printed[2]).toMatch(/['"]?used['"]?: ?\d/);
  },
  120_000,
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
