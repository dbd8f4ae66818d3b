/**
 * `npm run bench -- --compare REF` (see README.md). Each version has its own database on one private Postgres.
 * `--without stripe` and `--without markets` compare this build with and without that part, in ten-second turns.
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import pg from 'pg';
import { createPostgresServer } from '../test/support/postgres-server.js';
import { machine } from './embedded.js';
import { startFakeStripe } from '../test/metering/support/fake-stripe.js';
import { measureLoad, type LoadOptions } from './measures.js';
import { LIMITS, settling } from './reservations.js';
import { listOrders, orderOptions } from './trades.js';
import {
  checkRequest,
  cpuMsOf,
  reserveRequest,
  startProduct,
  usageRequest,
  waitUntilIdle,
  type Product,
  type Tenant,
} from './world.js';

const settings = { max_wal_size: '4GB', shared_buffers: '512MB', max_connections: '500' };

/** A one-line message instead of a stack trace. */
export class Failure extends Error {}

interface Load extends LoadOptions {
  /** Per request; default: 1. */
  events?: number;
  requests: string[] | Promise<string[]>;
}
type ToLoad = (version: Version) => Load;

const batch =
  (events: number, connections: number): ToLoad =>
  ({ tenants }) => ({ events, connections, requests: tenants.map((tenant) => usageRequest(tenant, events)) });

/** In batches of 100. Only this folder's version has the product of `OWN_SEED`. */
const own =
  (slug: 'priced' | 'detailed', more?: (index: number) => object, senders?: number): ToLoad =>
  ({ database, tenants }) => ({
    events: 100,
    connections: 8,
    requests: tenants
      .slice(0, senders)
      .map((tenant) =>
        database === 'version_0'
          ? usageRequest({ ...tenant, slugs: [slug] }, 100, undefined, more)
          : usageRequest(tenant, 100),
      ),
  });

const loads = new Map<string, ToLoad>([
  ['batch-1', batch(1, 64)],
  ['batch-100', batch(100, 8)],
  ['batch-500', batch(500, 8)],
  [
    'check',
    ({ tenants }) => ({ connections: 64, requests: tenants.map((tenant) => checkRequest(tenant, 50)) }),
  ],
  ['memory', batch(500, 8)],
  ['credits', own('priced')],
  ['credits-hot', own('priced', undefined, 1)],
  ['dimensions', own('detailed', (i) => ({ dimensions: { model: `model-${i % 10}` } }))],
  ['subjects-10', own('detailed', (i) => ({ subject: `subject-${i % 10}` }))],
  ['subjects-100', own('detailed', (i) => ({ subject: `subject-${i}` }))],
  ['reserve', ({ limited }) => ({ ...settling(limited), requests: limited.map(reserveRequest) })],
  [
    'trade',
    ({ product, tenants }) => ({
      ...orderOptions,
      requests: listOrders(
        product.port,
        tenants.map(({ secret }) => secret),
      ),
    }),
  ],
]);

interface Version {
  name: string;
  database: string;
  product: Product;
  tenants: Tenant[];
  /** Organizations with blocking limits. */
  limited: Tenant[];
}

const run = (file: string, args: string[], cwd?: string): string =>
  execFileSync(file, args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] }).trim();

const findReason = (text: string) =>
  text.split('\n').find((line) => /Error: |error [A-Z]/.test(line)) ?? text.trim().split('\n').at(-1);

function findCommit(ref: string): string {
  try {
    return run('git', ['rev-parse', '--verify', '--quiet', '--short', '--end-of-options', `${ref}^{commit}`]);
  } catch {
    throw new Failure(`"${ref}" names no commit of this repository.`);
  }
}

/** Uses the packages installed here if the commit has the same package-lock.json. */
function buildCommit(commit: string, folder: string): void {
  try {
    run('sh', ['-c', 'mkdir "$1" && git archive "$0" | tar -x -C "$1"', commit, folder]);
    const [theirs, ours] = [folder, '.'].map((root) => readFileSync(join(root, 'package-lock.json'), 'utf8'));
    if (theirs === ours) symlinkSync(resolve('node_modules'), join(folder, 'node_modules'));
    else {
      console.log(`${commit} has another package-lock.json; its packages are being installed.`);
      // Some old commits have a package-lock.json that does not match their package.json.
      run('sh', ['-c', 'npm ci --ignore-scripts || npm install --ignore-scripts'], folder);
    }
    run('npm', ['run', 'build'], folder);
  } catch (error) {
    const { stdout, stderr } = error as Record<string, string>;
    throw new Failure(`${commit} cannot be built: ${findReason(`${stdout}\n${stderr}`)}`);
  }
}

/** Skips tables and columns that a version does not have. */
const SEED = `
insert into products (id, slug, name, usage_metric, unit_cap, created_at, updated_at)
  select gen_random_uuid(), 'product-' || i, 'Product', 'calls', case when i % 2 = 1 then 1000000000 end, now(), now()
  from generate_series(0, 49) i;
insert into organizations (id, slug, name, created_at)
  select gen_random_uuid(), kind || i, 'Organization', now() from generate_series(1, 16) i, unnest('{org-,limited-}'::text[]) kind;
insert into entitlements (org_id, product_id, kind, starts_at, created_at, updated_at)
  select o.id, p.id, 'live', '2020-01-01', now(), now() from organizations o, products p;
insert into api_keys (org_id, id, name, prefix, hashed_secret, scopes, livemode, created_at)
  select id, gen_random_uuid(), 'Key', 'org_live_', encode(sha256(('org_live_' || md5(slug))::bytea), 'hex'),
    '{usage:write,entitlements:read,trading:write}', true, now() from organizations;
do $$ begin
  if to_regclass('api_key_directory') is not null then
    insert into api_key_directory (hashed_secret, org_id) select hashed_secret, org_id from api_keys;
  end if;
  if exists (select from information_schema.columns where table_name = 'entitlements' and column_name = 'limits') then
    update entitlements set limits = '${JSON.stringify(LIMITS.rolling)}'
    where org_id in (select id from organizations where slug like 'limited-%');
  end if;
end $$;
insert into risk_limits (org_id, max_order_contracts, max_order_cost, max_position_contracts, max_event_loss, max_daily_loss, max_open_orders, price_collar, updated_at)
  select id, 1000000, 1e12, 1000000, 1e12, 1e12, 1000, 1000000, now() from organizations;
analyze products, organizations, entitlements, api_keys;`;

const OWN_SEED = `
insert into products (id, slug, name, usage_metric, dimensions, subjects_since, credit_price, credit_enforcement, created_at, updated_at)
  values (gen_random_uuid(), 'priced', 'Product', 'calls', '{}', null, 0.5, 'block', now(), now()),
    (gen_random_uuid(), 'detailed', 'Product', 'calls', '{model}', '2020-01-01', null, null, now(), now());
insert into entitlements (org_id, product_id, kind, starts_at, created_at, updated_at)
  select o.id, p.id, 'live', '2020-01-01', now(), now() from organizations o, products p where p.slug in ('priced', 'detailed');
insert into credit_accounts (org_id, livemode, grants, rests, starts, ends, scopes, priorities, roll_percents, roll_days)
  select id, true, array[gen_random_uuid()], '{1000000000000}', '{2020-01-01}', '{infinity}', '{""}', '{50}', '{0}', '{0}' from organizations;
analyze products, entitlements, credit_accounts`;

/** Ten of the resulting meter events become due each second. */
const STRIPE_SEED = `
update organizations set stripe_customer_id = 'cus_' || replace(slug, '-', ''), stripe_since = now() - interval '2 days';
update products set stripe_meter_event = slug, stripe_since = now() - interval '2 days';
insert into usage_hours (org_id, product_id, livemode, hour, metric, api_key_id, quantity, events)
  select k.org_id, p.id, true, date_trunc('hour', now()) - i * interval '1 hour', 'calls', k.id, 1, 1
  from api_keys k, organizations o, products p, generate_series(1, 24) i where o.id = k.org_id and o.slug like 'org-%';
insert into stripe_events (org_id, product_id, livemode, hour, revision, metric, quantity, customer_id, event_name, planned_at, next_attempt_at)
  select o.id, p.id, true, h.hour, 1, 'calls', 1, o.stripe_customer_id, p.slug, now(),
    now() + row_number() over (order by h.hour, o.id, p.id) * interval '100 milliseconds'
  from usage_hours h join organizations o on o.id = h.org_id join products p on p.id = h.product_id;
analyze usage_hours, stripe_events`;

async function createTenants(
  databaseUrl: string,
  seed: string,
): Promise<Pick<Version, 'tenants' | 'limited'>> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  await client.query(SEED + seed);
  const slugs = Array.from({ length: 50 }, (_, i) => `product-${i}`);
  const { rows } = await client.query<{ organization: string; orgId: string; secret: string }>(
    `select slug as organization, id as "orgId", 'org_live_' || md5(slug) as secret from organizations`,
  );
  await client.end();
  const startingWith = (name: string) =>
    rows.filter(({ organization }) => organization.startsWith(name)).map((row) => ({ ...row, slugs }));
  return { tenants: startingWith('org-'), limited: startingWith('limited-') };
}

/** In ms, by process ID, without processes that serve another version's database. */
function readDatabaseCpu(postmaster: number, database: string): Map<number, number> {
  const children = readFileSync(`/proc/${postmaster}/task/${postmaster}/children`, 'utf8');
  const times = new Map<number, number>();
  for (const pid of children.split(' ').filter(Boolean).map(Number)) {
    try {
      const served = / (version_\d+)\b/.exec(readFileSync(`/proc/${pid}/cmdline`, 'utf8'))?.[1];
      if (served === undefined || served === database) times.set(pid, cpuMsOf(pid));
    } catch {
      // The process has exited since it was listed.
    }
  }
  return times;
}

const columns = ['requests/s', 'server, µs', 'database, µs', 'memory, MB'];

/** With the other versions paused. CPU times are per event. */
async function measureTurn(
  versions: Version[],
  version: Version,
  toLoad: ToLoad,
  seconds: number,
  postmaster: number,
) {
  const { product, database } = version;
  const signalOthers = (signal: NodeJS.Signals) => {
    for (const other of versions) if (other !== version) process.kill(other.product.pid, signal);
  };
  signalOthers('SIGSTOP');
  try {
    const { events = 1, requests: texts, ...options } = toLoad(version);
    const requestTexts = await texts;
    const serverBefore = cpuMsOf(product.pid);
    const databaseBefore = readDatabaseCpu(postmaster, database);
    const { perSecond, requests } = await measureLoad(product.port, seconds, requestTexts, options);
    let databaseMs = 0;
    for (const [pid, ms] of readDatabaseCpu(postmaster, database))
      databaseMs += ms - (databaseBefore.get(pid) ?? 0);
    const toUs = (ms: number) => (ms * 1000) / (requests * events);
    return [perSecond, toUs(cpuMsOf(product.pid) - serverBefore), toUs(databaseMs), product.memoryMb().now];
  } finally {
    signalOthers('SIGCONT');
  }
}

function quartilesOf(values: number[]): number[] {
  const sorted = values.toSorted((a, b) => a - b);
  return [0.25, 0.5, 0.75].map((share) => sorted[Math.round((sorted.length - 1) * share)]!);
}

/** @param turns indexed by version, turn and column */
function printTable(key: string, versions: Version[], turns: number[][][]): void {
  console.log(`\n| ${[key, ...columns].join(' | ')} (highest) |\n|${'---|'.repeat(columns.length + 1)}`);
  for (const [i, { name, product }] of versions.entries()) {
    const medians = columns.map((_, column) => quartilesOf(turns[i]!.map((turn) => turn[column]!))[1]!);
    const cells = medians.map((median) => median.toFixed(median < 100 ? 1 : 0)).join(' | ');
    console.log(`| ${name} | ${cells} (${product.memoryMb().peak}) |`);
    if (i === 0) continue;
    const ratios = columns.map((_, column) => {
      const quartiles = quartilesOf(turns[i]!.map((turn, n) => turns[0]![n]![column]! / turn[column]!));
      const [low, median, high] = quartiles.map((value) => value.toFixed(2));
      return `**${median}** (${low} – ${high})`;
    });
    console.log(`| ${versions[0]!.name} ÷ ${name} | ${ratios.join(' | ')} |`);
  }
}

interface Side {
  name: string;
  root: string;
  env: Record<string, string>;
  seed?: string;
}

interface Comparison {
  refs: string[];
  /** Undefined to compare commits. */
  without: 'stripe' | 'markets' | undefined;
  keys: string[];
  markets: string;
  turns: number;
}

export async function compareVersions({ refs, without, keys, markets, turns }: Comparison) {
  const unknown = keys.find((key) => !loads.has(key));
  if (unknown)
    throw new Failure(`There is no "${unknown}" to compare, only ${[...loads.keys()].join(', ')}.`);
  const commits = [...new Set(refs.map(findCommit))];
  const folder = mkdtempSync(join(tmpdir(), 'gauge-compare-'));
  const versions: Version[] = [];
  let server: Awaited<ReturnType<typeof createPostgresServer>> | undefined;
  const stripe = await startFakeStripe(() => Date.now() / 1000);
  for (let i = 1; i <= 16; i++) stripe.customers.set(`cus_org${i}`, { deleted: false });
  for (let i = 0; i < 50; i++) stripe.meters.set(`product-${i}`, {});
  try {
    for (const commit of commits) buildCommit(commit, join(folder, commit));
    server = await createPostgresServer(settings);
    const here = {
      name: run('git', ['describe', '--always', '--dirty']),
      root: '.',
      env: { MARKETS: markets },
    };
    const sides: Side[] = [
      { ...here, seed: OWN_SEED },
      ...commits.map((name) => ({ ...here, name, root: join(folder, name) })),
    ];
    if (without === 'markets') sides.push({ ...here, name: 'without markets', env: { MARKETS: 'off' } });
    if (without === 'stripe') {
      sides[0] = {
        ...here,
        env: { ...here.env, STRIPE_API_KEY: stripe.key, STRIPE_URL: stripe.url },
        seed: STRIPE_SEED,
      };
      sides.push({ ...here, name: 'without stripe', seed: STRIPE_SEED });
    }
    const admin = new pg.Client({ connectionString: server.url('postgres') });
    await admin.connect();
    for (const i of sides.keys()) await admin.query(`create database version_${i}`);
    await admin.end();
    for (const [i, { name, root, env, seed = '' }] of sides.entries()) {
      const databaseUrl = server.url(`version_${i}`);
      const main = join(root, 'dist/main.js');
      const product = await startProduct({ ...env, DATABASE_URL: databaseUrl }, [], main).catch(
        (error: Error) => {
          throw new Failure(`${name} did not start: ${findReason(error.message)}`);
        },
      );
      await waitUntilIdle(product);
      versions.push({ name, database: `version_${i}`, product, tenants: [], limited: [] });
      Object.assign(versions[i]!, await createTenants(databaseUrl, seed));
    }
    const postmaster = Number(readFileSync(join(server.dataDir, 'postmaster.pid'), 'utf8').split('\n')[0]);
    const seconds = without ? 10 : 1;
    console.log(`${machine()}, Node ${process.version}, markets ${markets}, ${turns} turns of ${seconds} s`);
    for (const key of keys) {
      const load = loads.get(key)!;
      const figures: number[][][] = versions.map(() => []);
      for (const version of versions) await measureTurn(versions, version, load, 2, postmaster);
      for (let turn = 0; turn < turns; turn++) {
        // A version that has been paused for longer uses up to a third more CPU time in its turn.
        for (const [i, version] of versions.entries())
          figures[i]!.push(await measureTurn(versions, version, load, seconds, postmaster));
      }
      printTable(key, versions, figures);
    }
    if (without === 'stripe') console.log(`\nStripe counted ${stripe.counted.length} meter events.`);
  } finally {
    for (const { product } of versions) await product.stop();
    await server?.remove();
    await stripe.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}
