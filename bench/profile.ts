/** `npm run profile`: the ten most expensive functions by self time, with 64 senders and batches of one event. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { openDatabase } from '../src/core/db/open.js';
import { createPostgresServer } from '../test/support/postgres-server.js';
import { createTenants, load, PLACEHOLDER, startProduct, usageRequest } from './world.js';

interface CpuProfile {
  nodes: { id: number; callFrame: { functionName: string; url: string; lineNumber: number } }[];
  samples: number[];
  timeDeltas: number[];
}

const SECONDS = 10;
const folder = mkdtempSync(join(tmpdir(), 'gauge-profile-'));
const server = await createPostgresServer({ max_wal_size: '4GB', shared_buffers: '512MB' });
const url = server.url('postgres');
const db = await openDatabase({ databaseUrl: url, dataDir: '' }, pino({ level: 'silent' }));
const tenants = await createTenants(db, 16);
await db.close();
const product = await startProduct({ DATABASE_URL: url }, ['--cpu-prof', `--cpu-prof-dir=${folder}`]);
const requests = tenants.map((tenant) => usageRequest(tenant, 1));
const plan = { port: product.port, connections: 64, requests, placeholder: PLACEHOLDER };
await load({ ...plan, seconds: 3, keyPrefix: 'warm-' });
const startedAt = performance.now();
const result = await load({ ...plan, seconds: SECONDS, keyPrefix: 'hot-' });
const share = (performance.now() - startedAt) * 1000;
await product.stop();
await server.remove();

const file = readdirSync(folder).find((name) => name.endsWith('.cpuprofile'))!;
const profile = JSON.parse(readFileSync(join(folder, file), 'utf8')) as CpuProfile;
rmSync(folder, { recursive: true, force: true });
const frames = new Map(profile.nodes.map((node) => [node.id, node.callFrame]));
const self = new Map<string, number>();
let busy = 0;
let age = 0;
// Leaves out the startup. The shutdown is included, but it is short.
for (let i = profile.samples.length - 1; i >= 0 && age < share; i--) {
  const { functionName, url: source, lineNumber } = frames.get(profile.samples[i]!)!;
  const spent = profile.timeDeltas[i]!;
  age += spent;
  if (functionName === '(idle)') continue;
  busy += spent;
  const place = source === '' ? '' : ` ${source.replace(/^.*\/(node_modules|dist)\//, '')}:${lineNumber + 1}`;
  const name = `${functionName || '(anonymous)'}${place}`;
  self.set(name, (self.get(name) ?? 0) + spent);
}

const count = Number(process.argv[2] ?? 10);
console.log(
  `${Math.round(result.perSecond).toLocaleString('en')} requests/s; the event loop was busy ${Math.round((busy / age) * 100)} % of the time\n`,
);
for (const [name, spent] of [...self].toSorted((a, b) => b[1] - a[1]).slice(0, count)) {
  console.log(`${((spent / busy) * 100).toFixed(1).padStart(5)} %  ${name}`);
}
