import { mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import { pino } from 'pino';
import { openDatabase } from '../src/db/open.js';
import { createPostgresServer } from '../test/support/postgres-server.js';
import { createTenants, load, PLACEHOLDER, startProduct, usageRequest, checkRequest } from './world.js';
const folder = mkdtempSync('/tmp/prof-');
const server = await createPostgresServer({ max_wal_size: '4GB', shared_buffers: '512MB' });
const url = server.url('postgres');
const db = await openDatabase({ databaseUrl: url, dataDir: '' }, pino({ level: 'silent' }));
const tenants = await createTenants(db, 16); await db.close();
const product = await startProduct({ DATABASE_URL: url }, ['--cpu-prof', '--cpu-prof-interval=500', `--cpu-prof-dir=${folder}`]);
const requests = tenants.map((t) => process.argv[2] === 'check' ? checkRequest(t, 50) : usageRequest(t, 1));
await load({ port: product.port, connections: 64, seconds: 3, requests, placeholder: PLACEHOLDER, keyPrefix: 'w' });
const r = await load({ port: product.port, connections: 64, seconds: 8, requests, placeholder: PLACEHOLDER, keyPrefix: 'h' });
await product.stop(); await server.remove();
const p = JSON.parse(readFileSync(folder + '/' + readdirSync(folder)[0], 'utf8'));
const nodes = new Map<number, any>(p.nodes.map((n: any) => [n.id, n])); const parent = new Map<number, number>();
for (const n of p.nodes) for (const c of n.children ?? []) parent.set(c, n.id);
const name = (n: any) => `${n.callFrame.functionName || '(anon)'} ${n.callFrame.url.replace(/^.*\/(node_modules|dist)\//, '')}:${n.callFrame.lineNumber + 1}`;
const selfT = new Map<number, number>(); let total = 0; let age = 0;
for (let i = p.samples.length - 1; i >= 0 && age < 8.2e6; i--) { age += p.timeDeltas[i]; const n = nodes.get(p.samples[i]); if (n.callFrame.functionName === '(idle)') continue; total += p.timeDeltas[i]; selfT.set(n.id, (selfT.get(n.id) ?? 0) + p.timeDeltas[i]); }
const incl = new Map<string, number>(), self = new Map<string, number>();
for (const [id, t] of selfT) { self.set(name(nodes.get(id)), (self.get(name(nodes.get(id))) ?? 0) + t); const seen = new Set<string>(); for (let x: number | undefined = id; x !== undefined; x = parent.get(x)) { const k = name(nodes.get(x)); if (!seen.has(k)) { seen.add(k); incl.set(k, (incl.get(k) ?? 0) + t); } } }
const per = total / (r.perSecond * 8);
console.log(Math.round(r.perSecond), 'req/s; busy µs/req', per.toFixed(0));

const inc = new Map<number, number>();
const sum = (id: number): number => { const n = nodes.get(id); let t = selfT.get(id) ?? 0; for (const c of n.children ?? []) t += sum(c); inc.set(id, t); return t; };
const root = p.nodes.find((n: any) => n.callFrame.functionName === '(root)'); sum(root.id);
const min = Number(process.argv[3] ?? 1.2);
// merge same-named children
type T = { name: string; self: number; total: number; kids: Map<string, T> };
const build = (ids: number[], nm: string): T => { const t: T = { name: nm, self: 0, total: 0, kids: new Map() }; const g = new Map<string, number[]>(); for (const id of ids) { t.self += selfT.get(id) ?? 0; t.total += inc.get(id) ?? 0; for (const c of nodes.get(id).children ?? []) { const k = name(nodes.get(c)); g.set(k, [...(g.get(k) ?? []), c]); } } for (const [k, v] of g) t.kids.set(k, build(v, k)); return t; };
const print = (t: T, d: number) => { const us = t.total / total * per; if (us < min) return; console.log(' '.repeat(d) + us.toFixed(1) + ' (' + (t.self / total * per).toFixed(1) + ') ' + t.name); for (const k of [...t.kids.values()].sort((a, b) => b.total - a.total)) print(k, d + 1); };
print(build([root.id], 'root'), 0);
