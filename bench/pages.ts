/**
 * `npm run bench:pages`: response times for sequential requests over one connection, and the compressed size of a first
 * visit.
 */
import { Agent, get } from 'node:http';
import { availableParallelism } from 'node:os';
import { brotliDecompressSync } from 'node:zlib';
import { Command } from 'commander';
import pg from 'pg';
import { pino } from 'pino';
import type { Database } from '../src/core/db/client.js';
import { openDatabase } from '../src/core/db/open.js';
import { addMember, Browser, createUser } from '../test/support/accounts.js';
import { createKey, createOrganization, createServiceKey } from '../test/support/fixtures.js';
import { createProduct, grant } from '../test/metering/support/products.js';
import { createPostgresServer } from '../test/support/postgres-server.js';
import { machine } from './embedded.js';
import { fillEvents } from './fill.js';
import { startProduct } from './world.js';

const TARGET_MS = 100;
const TARGET_KB = 75;
const DAYS = 60;
/** Sorts before all other slugs, because `fillEvents` uses the first product. */
const SLUG = 'a-product';

const options = new Command('bench:pages')
  .option('--rows <n>', 'the Organization’s events', '200000')
  .option('--keys <n>', 'API keys that sent the events', '20')
  .option('--requests <n>', 'requests per page', '200')
  .parse()
  .opts<{ rows: string; keys: string; requests: string }>();
const rows = Number(options.rows);
const keys = Number(options.keys);

function listPages(): [name: string, path: string][] {
  const day = (daysAgo: number) => new Date(Date.now() - daysAgo * 86_400_000).toISOString().slice(0, 10);
  const month = `?product=${SLUG}`;
  const usage = `/dashboard/usage${month}`;
  return [
    ['overview', '/dashboard'],
    ['API keys', '/dashboard/api-keys'],
    ['usage, this month', usage],
    ['usage, this month, in the portal', `/portal/usage${month}`],
    ['usage, a day by hours', `${usage}&range=day&date=${day(1)}`],
    ['usage, 366 days', `${usage}&range=custom&from=${day(365)}&to=${day(0)}`],
    ['usage, a day a month ago', `${usage}&range=day&date=${day(30)}`],
    ['usage, the only three events of test mode', `${usage}&mode=test`],
    ['usage of all products', '/dashboard/usage'],
    ['one event by its idempotency key', `/dashboard/usage?event=${'7'.padStart(32, '0')}`],
    ['entitlements', '/dashboard/entitlements'],
  ];
}

interface Owner {
  email: string;
  slug: string;
  /** A service key's; it opens the portal. */
  secret: string;
}

async function createWorld(db: Database): Promise<Owner> {
  const organization = await createOrganization(db);
  const products = [await createProduct(db, { slug: SLUG, unitCap: String(rows / 2) })];
  while (products.length < 50) products.push(await createProduct(db, { unitCap: '1000000' }));
  for (const product of products) await grant(db, organization.id, product.id);
  for (let i = 0; i < keys; i++) await createKey(db, organization.id, { name: `runtime ${i}` });
  const user = await createUser(db);
  await addMember(db, organization.id, user.id, 'owner');
  const { secret } = await createServiceKey(db, ['portal:create']);
  return { email: user.email, slug: organization.slug, secret };
}

async function addTestEvents(url: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(
    `insert into usage_events (org_id, idempotency_key, product_id, metric, quantity, livemode, api_key_id, occurred_at, received_at)
     select k.org_id, 'test ' || i, p.id, 'calls', 1, false, k.id, now() - interval '50 days', now()
     from generate_series(1, 3) i cross join (select * from api_keys limit 1) k cross join (select id from products where slug = $1) p`,
    [SLUG],
  );
  await client.end();
}

interface Loaded {
  ms: number;
  bytes: number;
  text: string;
}

const agent = new Agent({ keepAlive: true, maxSockets: 1 });

/** Measures the time to the last byte, as a browser sees it. */
function load(address: string, cookie: string): Promise<Loaded> {
  return new Promise((resolve, reject) => {
    const startedAt = performance.now();
    const headers = { cookie, accept: 'text/html', 'accept-encoding': 'gzip, deflate, br' };
    get(address, { agent, headers }, (response) => {
      if (response.statusCode !== 200) {
        reject(new Error(`${address} answered ${response.statusCode}`));
        return;
      }
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('error', reject);
      response.on('end', () => {
        const ms = performance.now() - startedAt;
        const body = Buffer.concat(chunks);
        const isBrotli = response.headers['content-encoding'] === 'br';
        resolve({ ms, bytes: body.length, text: (isBrotli ? brotliDecompressSync(body) : body).toString() });
      });
    }).on('error', reject);
  });
}

/** Bytes of the style sheet, icon, script and its modules. */
async function weighAssets(origin: string, cookie: string, page: string): Promise<number> {
  const found = [...page.matchAll(/(?:href|src)="(\/dashboard\/assets\/[^"]+)"/g)].map(([, path]) => path!);
  const seen = new Set<string>();
  let bytes = 0;
  for (const path of found) {
    if (seen.has(path)) continue;
    seen.add(path);
    const asset = await load(origin + path, cookie);
    bytes += asset.bytes;
    for (const [, name] of asset.text.matchAll(/from '\.\/([\w-]+\.js)'/g))
      found.push(path.replace(/[^/]+$/, name!));
  }
  return bytes;
}

const server = await createPostgresServer({ max_wal_size: '4GB', shared_buffers: '512MB' });
try {
  const url = server.url('postgres');
  const db = await openDatabase({ databaseUrl: url, dataDir: '' }, pino({ level: 'silent' }));
  const owner = await createWorld(db);
  await db.close();
  await addTestEvents(url);
  await fillEvents(url, rows, { keys, days: DAYS });
  const product = await startProduct({ DATABASE_URL: url });
  try {
    await measure(`http://127.0.0.1:${product.port}`, owner);
  } finally {
    agent.destroy();
    await product.stop();
  }
} finally {
  await server.remove();
}

async function openPortal(browser: Browser, { slug, secret }: Owner): Promise<void> {
  const headers = { authorization: `Bearer ${secret}` };
  const path = `/service/organizations/${slug}/portal-sessions`;
  const { body } = await new Browser(browser.url).send('POST', path, { json: {}, headers });
  const { pathname, search } = new URL((body as { url: string }).url);
  await browser.send('GET', pathname + search);
}

async function measure(origin: string, owner: Owner): Promise<void> {
  const browser = new Browser(origin);
  await browser.signIn(owner.email);
  await openPortal(browser, owner);
  const cookie = [...browser.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
  console.log(
    `${machine()}, ${availableParallelism()} cores, Node ${process.version}; ${rows.toLocaleString('en')} events over ${DAYS} days through ${keys} API keys, ${options.requests} requests of each page\n`,
  );
  console.log(
    `| page | p50 | p95 (≤ ${TARGET_MS} ms) | page, compressed | first visit (≤ ${TARGET_KB} KB) |\n|---|---|---|---|---|`,
  );
  for (const [name, path] of listPages()) {
    for (let i = 0; i < 20; i++) await load(origin + path, cookie);
    const times: number[] = [];
    let last: Loaded | undefined;
    for (let i = 0; i < Number(options.requests); i++) {
      last = await load(origin + path, cookie);
      times.push(last.ms);
    }
    times.sort((a, b) => a - b);
    const at = (share: number) => times[Math.min(times.length - 1, Math.floor(times.length * share))]!;
    const kb = (bytes: number) => (bytes / 1024).toFixed(1);
    const total = last!.bytes + (await weighAssets(origin, cookie, last!.text));
    const miss = at(0.95) > TARGET_MS || total > TARGET_KB * 1024 ? ' ✗' : '';
    console.log(
      `| ${name}${miss} | ${at(0.5).toFixed(1)} ms | ${at(0.95).toFixed(1)} ms | ${kb(last!.bytes)} KB | ${kb(total)} KB |`,
    );
  }
}
