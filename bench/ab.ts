import { readFileSync } from 'node:fs';
import { spawn } from 'node:child_process';
import { pino } from 'pino';
import { openDatabase } from '../src/db/open.js';
import { createPostgresServer, freePort } from '../test/support/postgres-server.js';
import { createTenants, load, PLACEHOLDER, startBaseline, usageRequest, checkRequest, getRequest } from './world.js';
const [mode, ...dirs] = process.argv.slice(2);
const server = await createPostgresServer({ max_wal_size: '4GB', shared_buffers: '512MB' });
const url = server.url('postgres');
const db = await openDatabase({ databaseUrl: url, dataDir: '' }, pino({ level: 'silent' }));
const tenants = await createTenants(db, 16); await db.close();
const base = await startBaseline('bench/baseline-express.ts');
const sides: { name: string; port: number; pid: number; requests: string[]; kill(): void }[] = [{ name: 'baseline', port: base.port, pid: base.pid, requests: [mode === 'check' ? getRequest('/hello') : usageRequest(tenants[0]!, 1, '/events')], kill: () => void base.stop() }];
for (const d of dirs) {
  const [dir, ...flags] = d.split(' ');
  const port = await freePort();
  const c = spawn(process.execPath, [dir + '/main.js', ...flags], { env: { PATH: process.env.PATH, NODE_ENV: 'production', HOST: '127.0.0.1', PORT: String(port), DATABASE_URL: url, SESSION_KEYS: 'a-session-key-for-the-benchmarks', LIMIT_USAGE_PER_MINUTE: '1000000000', LIMIT_ENTITLEMENTS_PER_MINUTE: '1000000000' }, stdio: ['ignore', 'ignore', 'ignore'] });
  for (;;) { if ((await fetch(`http://127.0.0.1:${port}/readyz`).catch(() => undefined))?.ok) break; await new Promise((r) => setTimeout(r, 100)); }
  sides.push({ name: d, port, pid: c.pid!, requests: tenants.map((t) => mode === 'check' ? checkRequest(t, 50) : usageRequest(t, 1)), kill: () => c.kill() });
}
const cpu = (pid: number) => { const f = readFileSync('/proc/' + pid + '/stat', 'utf8').split(') ')[1]!.split(' '); return (Number(f[11]) + Number(f[12])) * 10; };
const out = new Map(sides.map((s) => [s.name, { rate: [] as number[], us: [] as number[] }]));
let n = 0;
for (let round = 0; round < Number(process.env.ROUNDS ?? 12) + 2; round++) for (const s of sides) {
  const c0 = cpu(s.pid);
  const r = await load({ port: s.port, connections: 64, seconds: 1, requests: s.requests, placeholder: PLACEHOLDER, keyPrefix: Date.now().toString(36) + n++ + '-' });
  if (round < 2) continue;
  out.get(s.name)!.rate.push(r.perSecond); out.get(s.name)!.us.push((cpu(s.pid) - c0) * 1000 / r.requests);
}
const med = (a: number[]) => a.toSorted((x, y) => x - y)[a.length >> 1]!;
const b = out.get('baseline')!;
for (const [k, v] of out) console.log(k.padEnd(40), 'req/s', Math.round(med(v.rate)), 'ratio', med(v.rate.map((x, i) => x / b.rate[i]!)).toFixed(2), 'cpu µs', med(v.us).toFixed(0), 'cpu ratio', med(v.us.map((x, i) => b.us[i]! / x)).toFixed(2));
for (const s of sides) s.kill();
await new Promise((r) => setTimeout(r, 1000)); await server.remove(); process.exit(0);
