/**
 * `npm run bench:webhooks`: the delay before a message's first attempt, at a steady rate, while some receivers hang.
 * The service runs as shipped, except that production mode is off, because it forbids sending to this machine.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import { Command } from 'commander';
import { pino } from 'pino';
import { readConfig } from '../src/config.js';
import { systemClock } from '../src/core/time.js';
import { textArray } from '../src/core/db/sql.js';
import type { Template } from '../src/core/db/client.js';
import { openDatabase } from '../src/core/db/open.js';
import { queueInStatement } from '../src/accounts/webhooks/outbox.js';
import { createPostgresServer } from '../test/support/postgres-server.js';
import { createOrganization } from '../test/support/fixtures.js';
import { listen } from '../test/support/webhooks.js';
import { cpuMsOf, startProduct } from './world.js';

const options = new Command('webhooks')
  .option('--rate <n>', 'messages per second', '1000')
  .option('--seconds <n>', 'seconds of load', '30')
  .option('--endpoints <n>', 'endpoints that answer', '20')
  .option('--hanging <n>', 'endpoints that never answer, but get as many messages each', '20')
  .option('--backlog <n>', 'messages that wait for a hanging endpoint at the start', '100000')
  .parse()
  .opts<Record<'rate' | 'seconds' | 'endpoints' | 'hanging' | 'backlog', string>>();
const [rate, seconds, endpoints, hanging] = [
  options.rate,
  options.seconds,
  options.endpoints,
  options.hanging,
].map(Number) as [number, number, number, number];
const backlog = hanging === 0 ? 0 : Number(options.backlog);

const tell: Template = {
  name: 'bench_tell',
  text: (t) => `
${t.with} told as materialized (
  select org_id, true as livemode, 'api_key.created' as type,
    '{"apiKey": {"id": "01935a3f-8f00-7c3e-9d2a-4b5c6d7e8f90", "name": "Runtime in Frankfurt", "prefix": "org_live_7Hq", "expiresAt": null}}'::jsonb as data,
    null::text as once_key
  from unnest($1::uuid[]) as x (org_id)${t.held}
), ${queueInStatement(t, 'told', '$2::timestamptz')}
select count(*)::text from webhook_message`,
};

const delaysMs: number[] = [];
const seen = new Set<string>();
const receiver = createServer((req, res) => {
  if (req.url === '/hanging') return;
  const chunks: Buffer[] = [];
  req.on('data', (chunk: Buffer) => chunks.push(chunk));
  req.on('end', () => {
    const { timestamp } = JSON.parse(Buffer.concat(chunks).toString()) as { timestamp: string };
    delaysMs.push(Date.now() - Date.parse(timestamp));
    seen.add(String(req.headers['webhook-id']));
    res.writeHead(204).end();
  });
});
await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve));
const { port } = receiver.address() as AddressInfo;

const server = await createPostgresServer({ max_wal_size: '4GB', shared_buffers: '512MB' });
const url = server.url('postgres');
const db = await openDatabase({ databaseUrl: url, dataDir: '' }, pino({ level: 'silent' }));
const secretKeys = 'a-secret-key-for-the-benchmarks';
const config = readConfig({ SECRET_KEYS: secretKeys, MARKETS: 'off' });
const deps = { db, config, clock: systemClock };
const orgIds: string[] = [];
for (let n = 0; n < endpoints + hanging; n++) {
  const { id } = await createOrganization(db);
  const path = n < endpoints ? 'answers' : 'hanging';
  await listen(deps, id, { url: `http://127.0.0.1:${port}/${path}` });
  orgIds.push(id);
}
if (backlog > 0) {
  const told = Array.from({ length: 1_000 }, () => orgIds.at(-1)!);
  for (let n = 0; n < backlog; n += told.length)
    await db.shards.groups[0]!.run(tell, [textArray(told), new Date().toISOString()]);
}
const product = await startProduct({
  NODE_ENV: 'development',
  DATABASE_URL: url,
  MARKETS: 'off',
  SECRET_KEYS: secretKeys,
  LOG_LEVEL: 'warn',
});

const group = db.shards.groups[0]!;
let written = 0;
/**
 * Ratio of all messages to the messages for responsive endpoints. Each hanging endpoint gets as many messages as each
 * responsive one.
 */
const share = (endpoints + hanging) / endpoints;
const startedMs = performance.now();
const cpuBefore = cpuMsOf(product.pid);
while (performance.now() - startedMs < seconds * 1000) {
  const due = Math.floor(((performance.now() - startedMs) / 1000) * rate * share) - written;
  const told = Array.from({ length: due }, (_, i) => orgIds[(written + i) % orgIds.length]!);
  if (due > 0) await group.run(tell, [textArray(told), new Date().toISOString()]);
  written += due;
  await setTimeout(10);
}
const expected = Array.from({ length: written }, (_, i) => i % orgIds.length).filter(
  (n) => n < endpoints,
).length;
for (let waits = 0; seen.size < expected && waits < 300; waits++) await setTimeout(100);
const cpu = (cpuMsOf(product.pid) - cpuBefore) / (seconds * 1000);

const sorted = delaysMs.toSorted((a, b) => a - b);
const quantile = (q: number) =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] ?? Number.NaN;
console.log(
  `${expected} messages to ${endpoints} endpoints in ${seconds} s (${Math.round(expected / seconds)}/s), beside ${written - expected} to ${hanging} that hang, and ${backlog} that waited for one of them:`,
);
console.log(
  `first attempt after p50 ${quantile(0.5)} ms, p99 ${quantile(0.99)} ms, at most ${sorted.at(-1)} ms; ${seen.size} arrived, ${delaysMs.length - seen.size} twice; ${cpu.toFixed(2)} cores, ${product.memoryMb().peak} MB at most`,
);
await product.stop();
receiver.closeAllConnections();
receiver.close();
await db.close();
await server.remove();
