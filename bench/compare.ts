/**
 * `npm run bench -- --compare REF`: runs this folder's build and other commits in alternating turns of a second. Each version
 * serves its own database on one private Postgres and gets the same requests from this folder's load generator.
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import pg from 'pg';
import { createPostgresServer } from '../test/support/postgres-server.js';
import { machine } from './embedded.js';
import { measureLoad } from './measures.js';
import { checkRequest, cpuMsOf, startProduct, usageRequest, type Product, type Tenant } from './world.js';

const settings = { max_wal_size: '4GB', shared_buffers: '512MB', max_connections: '500' };

/** A reason to end with one sentence. */
export class Failure extends Error {}

const batch = (events: number, connections: number) => ({
  /** A check counts as one event. */
  events,
  connections,
  toRequest: (tenant: Tenant) => usageRequest(tenant, events),
});

interface Load extends ReturnType<typeof batch> {
  /** Sent to this version instead, to the product with this slug. */
  own?: { slug: 'priced' | 'detailed'; more?: (index: number) => object };
  /** One Organization sends everything. */
  isHot?: boolean;
}

const details = (more: (index: number) => object): Load => ({
  ...batch(100, 8),
  own: { slug: 'detailed', more },
});

const loads = new Map<string, Load>([
  ['batch-1', batch(1, 64)],
  ['batch-100', batch(100, 8)],
  ['batch-500', batch(500, 8)],
  ['check', { events: 1, connections: 64, toRequest: (tenant) => checkRequest(tenant, 50) }],
  ['memory', batch(500, 8)],
  ['credits', { ...batch(100, 8), own: { slug: 'priced' } }],
  ['credits-hot', { ...batch(100, 8), own: { slug: 'priced' }, isHot: true }],
  ['dimensions', details((i) => ({ dimensions: { model: `model-${i % 10}` } }))],
  ['subjects-10', details((i) => ({ subject: `subject-${i % 10}` }))],
  ['subjects-100', details((i) => ({ subject: `subject-${i % 100}` }))],
]);

interface Version {
  name: string;
  database: string;
  product: Product;
  tenants: Tenant[];
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

/** Builds a commit in its own folder, with the packages installed here if its package-lock.json is the same. */
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

/** Uses only columns that every version has. */
const SEED = `
insert into products (id, slug, name, usage_metric, unit_cap, created_at, updated_at)
  select gen_random_uuid(), 'product-' || i, 'Product', 'calls', case when i % 2 = 1 then 1000000000 end, now(), now()
  from generate_series(0, 49) i;
insert into organizations (id, slug, name, created_at)
  select gen_random_uuid(), 'org-' || i, 'Organization', now() from generate_series(1, 16) i;
insert into entitlements (org_id, product_id, kind, starts_at, created_at, updated_at)
  select o.id, p.id, 'live', '2020-01-01', now(), now() from organizations o, products p;
insert into api_keys (org_id, id, name, prefix, hashed_secret, scopes, livemode, created_at)
  select id, gen_random_uuid(), 'Key', 'org_live_', encode(sha256(('org_live_' || md5(slug))::bytea), 'hex'),
    '{usage:write,entitlements:read}', true, now() from organizations;
do $$ begin
  if to_regclass('api_key_directory') is not null then
    insert into api_key_directory (hashed_secret, org_id) select hashed_secret, org_id from api_keys;
  end if;
end $$;
analyze products, organizations, entitlements, api_keys`;

/** For the loads of this version alone: a product with a price and a grant, and one that counts subjects and dimensions. */
const SEED_OWN = `
insert into products (id, slug, name, usage_metric, dimensions, subjects_since, credit_price, credit_enforcement, created_at, updated_at)
  values (gen_random_uuid(), 'priced', 'Product', 'calls', '{}', null, 0.5, 'block', now(), now()),
    (gen_random_uuid(), 'detailed', 'Product', 'calls', '{model}', '2020-01-01', null, null, now(), now());
insert into entitlements (org_id, product_id, kind, starts_at, created_at, updated_at)
  select o.id, p.id, 'live', '2020-01-01', now(), now() from organizations o, products p where p.slug in ('priced', 'detailed');
insert into credit_accounts (org_id, livemode, grants, rests, starts, ends, scopes, priorities, roll_percents, roll_days)
  select id, true, array[gen_random_uuid()], '{1000000000000}', '{2020-01-01}', '{infinity}', '{""}', '{50}', '{0}', '{0}' from organizations;
analyze products, entitlements, credit_accounts`;

async function createTenants(databaseUrl: string, isOwn: boolean): Promise<Tenant[]> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  await client.query(SEED);
  if (isOwn) await client.query(SEED_OWN);
  const slugs = Array.from({ length: 50 }, (_, i) => `product-${i}`);
  const { rows } = await client.query<{ orgId: string; secret: string }>(
    `select id as "orgId", 'org_live_' || md5(slug) as secret from organizations`,
  );
  await client.end();
  return rows.map((row) => ({ ...row, slugs }));
}

/** Processor time of each process of Postgres, except those that serve another version's database, ms. */
function readDatabaseCpu(postmaster: number, database: string): Map<number, number> {
  const children = readFileSync(`/proc/${postmaster}/task/${postmaster}/children`, 'utf8');
  const times = new Map<number, number>();
  for (const pid of children.split(' ').filter(Boolean).map(Number)) {
    try {
      const served = / (version_\d+)\b/.exec(readFileSync(`/proc/${pid}/cmdline`, 'utf8'))?.[1];
      if (served === undefined || served === database) times.set(pid, cpuMsOf(pid));
    } catch {
      // The process has ended since it was listed.
    }
  }
  return times;
}

const columns = ['requests/s', 'server, µs', 'database, µs', 'memory, MB'];

/** One turn's figure for each column; processor times are those of an event or a check. */
async function measureTurn(version: Version, load: Load, seconds: number, postmaster: number) {
  const { product, tenants, database } = version;
  const { events, connections, isHot = false } = load;
  const serverBefore = cpuMsOf(product.pid);
  const databaseBefore = readDatabaseCpu(postmaster, database);
  const own = database === 'version_0' ? load.own : undefined;
  const requestTexts = tenants
    .slice(0, isHot ? 1 : undefined)
    .map((tenant) =>
      own
        ? usageRequest({ ...tenant, slugs: [own.slug] }, events, undefined, own.more)
        : load.toRequest(tenant),
    );
  const { perSecond, requests } = await measureLoad(product.port, seconds, requestTexts, { connections });
  let databaseMs = 0;
  for (const [pid, ms] of readDatabaseCpu(postmaster, database))
    databaseMs += ms - (databaseBefore.get(pid) ?? 0);
  const toUs = (ms: number) => (ms * 1000) / (requests * events);
  return [perSecond, toUs(cpuMsOf(product.pid) - serverBefore), toUs(databaseMs), product.memoryMb().now];
}

function quartilesOf(values: number[]): number[] {
  const sorted = values.toSorted((a, b) => a - b);
  return [0.25, 0.5, 0.75].map((share) => sorted[Math.round((sorted.length - 1) * share)]!);
}

/** @param turns figures by version, turn and column */
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

export async function compareVersions(refs: string[], keys: string[], markets: string, turns: number) {
  const unknown = keys.find((key) => !loads.has(key));
  if (unknown) throw new Failure(`--compare has no "${unknown}", only ${[...loads.keys()].join(', ')}.`);
  const commits = [...new Set(refs.map(findCommit))];
  const folder = mkdtempSync(join(tmpdir(), 'gauge-compare-'));
  const versions: Version[] = [];
  let server: Awaited<ReturnType<typeof createPostgresServer>> | undefined;
  try {
    for (const commit of commits) buildCommit(commit, join(folder, commit));
    server = await createPostgresServer(settings);
    const admin = new pg.Client({ connectionString: server.url('postgres') });
    await admin.connect();
    const names = [run('git', ['describe', '--always', '--dirty']), ...commits];
    for (const i of names.keys()) await admin.query(`create database version_${i}`);
    await admin.end();
    for (const [i, name] of names.entries()) {
      const env = { DATABASE_URL: server.url(`version_${i}`), MARKETS: markets };
      const main = join(i === 0 ? '.' : join(folder, name), 'dist/main.js');
      const product = await startProduct(env, [], main).catch((error: Error) => {
        throw new Failure(`${name} did not start: ${findReason(error.message)}`);
      });
      versions.push({ name, database: `version_${i}`, product, tenants: [] });
      versions[i]!.tenants = await createTenants(env.DATABASE_URL, i === 0);
    }
    const postmaster = Number(readFileSync(join(server.dataDir, 'postmaster.pid'), 'utf8').split('\n')[0]);
    console.log(`${machine()}, Node ${process.version}, markets ${markets}, ${turns} turns of a second`);
    for (const key of keys) {
      const load = loads.get(key)!;
      const figures: number[][][] = versions.map(() => []);
      for (const version of versions) await measureTurn(version, load, 2, postmaster);
      for (let turn = 0; turn < turns; turn++) {
        // Always in this order, because a turn takes up to a third more processor time after a longer wait.
        for (const [i, version] of versions.entries())
          figures[i]!.push(await measureTurn(version, load, 1, postmaster));
      }
      printTable(key, versions, figures);
    }
  } finally {
    for (const { product } of versions) await product.stop();
    await server?.remove();
    rmSync(folder, { recursive: true, force: true });
  }
}
