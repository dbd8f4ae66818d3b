import { readFileSync, readdirSync } from 'node:fs';
import { pino } from 'pino';
import { openDatabase } from '../src/db/open.js';
import { createPostgresServer } from '../test/support/postgres-server.js';
import { createTenants, load, PLACEHOLDER, startProduct, startBaseline, usageRequest, checkRequest, getRequest } from './world.js';
const server = await createPostgresServer({ max_wal_size: '4GB', shared_buffers: '512MB' });
const url = server.url('postgres');
const db = await openDatabase({ databaseUrl: url, dataDir: '' }, pino({ level: 'silent' }));
const tenants = await createTenants(db, 16);
await db.close();
const product = await startProduct({ DATABASE_URL: url });
const base = await startBaseline('bench/baseline-express.ts');
const snap = () => { const m = new Map<number, [string, number, number]>(); for (const d of readdirSync('/proc')) if (/^\d+$/.test(d)) try { const s = readFileSync(`/proc/${d}/stat`, 'utf8'); const f = s.slice(s.lastIndexOf(')') + 2).split(' '); const c = readFileSync(`/proc/${d}/cmdline`, 'utf8').replaceAll('\0', ' ').slice(0, 60); m.set(Number(d), [c, Number(f[11]) * 10, Number(f[12]) * 10]); } catch {} return m; };
const idle = () => { const f = readFileSync('/proc/stat', 'utf8').split('\n')[0]!.split(/\s+/).map(Number); return f[4]! * 10; };
async function measure(name: string, requests: string[], port: number) {
  await load({ port, connections: 64, seconds: 2, requests, placeholder: PLACEHOLDER, keyPrefix: 'w' + Date.now().toString(36) });
  const p = load({ port, connections: 64, seconds: 6, requests, placeholder: PLACEHOLDER, keyPrefix: Date.now().toString(36) });
  await new Promise((r) => setTimeout(r, 2000));
  const a = snap(), i0 = idle(), t0 = performance.now(); await new Promise((r) => setTimeout(r, 3000)); const b = snap(), i1 = idle(); const dt = (performance.now() - t0);
  const r = await p;
  console.log(name, Math.round(r.perSecond), 'req/s; idle', ((i1 - i0) / dt * 50).toFixed(0) + '%');
  const g = new Map<string, [number, number]>();
  for (const [pid, [c, u, s]] of b) { const o = a.get(pid); const du = u - (o?.[1] ?? 0), ds = s - (o?.[2] ?? 0); if (du + ds < 20) continue; const k = c.startsWith('postgres') ? 'postgres' : c || 'kernel'; const v = g.get(k) ?? [0, 0]; g.set(k, [v[0] + du, v[1] + ds]); }
  for (const [k, [u, s]] of g) console.log('   ', k.padEnd(62), 'user', (u / dt * 100).toFixed(0) + '%', 'sys', (s / dt * 100).toFixed(0) + '%', ((u + s) * 1000 / (r.perSecond * dt / 1000)).toFixed(0), 'µs/req');
}
const what = process.argv.slice(2);
for (let i = 0; i < 2; i++) {
if (what.includes('express')) await measure('express json', [usageRequest(tenants[0]!, 1, '/events')], base.port);
if (what.includes('b1')) await measure('b1', tenants.map((t) => usageRequest(t, 1)), product.port);
if (what.includes('hello')) await measure('hello', [getRequest('/hello')], base.port);
if (what.includes('check')) await measure('check', tenants.map((t) => checkRequest(t, 50)), product.port);
}
await product.stop(); await base.stop(); await server.remove();
