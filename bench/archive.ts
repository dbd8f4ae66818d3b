/**
 * `npm run bench:archive`: measures the ingestion rate while `npm run archive` moves old months into files. The archive
 * process is paused and resumed every few seconds, so that rates with and without it are compared over adjacent
 * intervals, and it is killed and restarted five times. Afterwards, checks that each archived event is in exactly one
 * file and that every event is counted once.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { createReadStream, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { createGunzip } from 'node:zlib';
import { Command } from 'commander';
import pg from 'pg';
import { pino } from 'pino';
import { openForMaintenance } from '../src/core/db/maintenance.js';
import { openDatabase } from '../src/core/db/open.js';
import { firstRemembered } from '../src/metering/ingestion/batch.js';
import { compare, hasDrift } from '../src/metering/reconciliation/reconcile.js';
import { createPostgresServer } from '../test/support/postgres-server.js';
import { fillEvents } from './fill.js';
import { createTenants, load, PLACEHOLDER, startProduct, usageRequest } from './world.js';

const options = new Command('archive')
  .option('--rows <n>', 'events to archive', '500000')
  .option('--seconds <n>', 'seconds of each turn', '4')
  .option('--batch <n>', 'events per request', '100')
  .option('--rest <factor>', 'as for npm run archive')
  .parse()
  .opts<{ rows: string; seconds: string; batch: string; rest?: string }>();
const rows = Number(options.rows);
const seconds = Number(options.seconds);
const batch = Number(options.batch);

const HORIZON = 13;
const KILLS = [0.1, 0.3, 0.5, 0.7, 0.9];

const folder = mkdtempSync(join(tmpdir(), 'gauge-bench-archive-'));
const before = firstRemembered(HORIZON, Date.now()).slice(0, 7);
const server = await createPostgresServer({ max_wal_size: '4GB', shared_buffers: '512MB' });
const url = server.url('postgres');
const db = await openDatabase({ databaseUrl: url, dataDir: '' }, pino({ level: 'silent' }));
const tenants = await createTenants(db, 16);
// Events over thirty days, spanning two past months.
await fillEvents(url, rows, { days: 30, daysAgo: 460 });
const product = await startProduct({ DATABASE_URL: url });
const client = new pg.Client({ connectionString: url });
await client.connect();

async function ask(text: string): Promise<number> {
  const { rows } = await client.query<{ n: string | null }>(text);
  return Number(rows[0]!.n);
}

let peakMb = 0;
let isEnded = false;

function start(args: string[]): ChildProcess {
  const child = spawn(process.execPath, ['dist/metering/commands/archive.js', ...args], {
    env: { PATH: process.env.PATH, DATABASE_URL: url, DEDUPE_HORIZON_MONTHS: String(HORIZON) },
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  child.once('exit', (code) => {
    if (code !== null && code !== 0) throw new Error(`The archive ended with ${code}.`);
    isEnded = code === 0;
  });
  return child;
}

const rest = options.rest === undefined ? [] : ['--rest', options.rest];
const archive = () => start(['--before', before, '--to', folder, ...rest]);

function noteMemory({ pid, exitCode }: ChildProcess): void {
  if (exitCode !== null) return;
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  peakMb = Math.max(peakMb, Math.round(Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024));
}

let sent = 0;
let turns = 0;
/** Sends usage for a few seconds and returns the number of events accepted per second. */
async function ingest(): Promise<number> {
  const { perSecond, requests, statuses } = await load({
    port: product.port,
    seconds,
    requests: tenants.map((tenant) => usageRequest(tenant, batch)),
    placeholder: PLACEHOLDER,
    keyPrefix: `turn-${turns++}-`,
    connections: 8,
  });
  if (statuses['202'] !== requests) throw new Error(`Unexpected answers: ${JSON.stringify(statuses)}`);
  sent += requests * batch;
  return perSecond * batch;
}

/**
 * Share of the archiving that is complete. Each event counts twice: once when it is written to a file and once when it
 * is deleted.
 */
const shareDone = async () =>
  (await ask(
    `select (select coalesce(sum(events), 0) from usage_archives) + (select coalesce(sum(deleted_events), 0) from usage_archived_totals) as n`,
  )) /
  (2 * rows);

/** Number of consecutive turns with the archive running, between two turns with it paused. */
const BESIDE = 3;

await ingest();
const ratios: number[] = [];
let kills = 0;
let activeSeconds = 0;
let child = archive();

async function killWhenDue(): Promise<void> {
  if (kills === KILLS.length || (await shareDone()) < KILLS[kills]!) return;
  const ended = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGKILL');
  await ended;
  if (isEnded) return;
  kills++;
  child = archive();
}

try {
  child.kill('SIGSTOP');
  for (let alone = await ingest(); !isEnded;) {
    child.kill('SIGCONT');
    const beside: number[] = [];
    while (beside.length < BESIDE && !isEnded) {
      const startedAt = performance.now();
      const rate = await ingest();
      noteMemory(child);
      activeSeconds += (performance.now() - startedAt) / 1000;
      // The archive process exits during the last turn, so that turn does not count.
      if (!isEnded) beside.push(rate);
      await killWhenDue();
    }
    child.kill('SIGSTOP');
    const next = await ingest();
    for (const rate of beside) ratios.push(rate / ((alone + next) / 2));
    alone = next;
  }
  await report();
} finally {
  child.kill('SIGKILL');
  await client.end();
  await product.stop();
  await db.close();
  await server.remove();
  rmSync(folder, { recursive: true, force: true });
}

/** Reads all archive files. `misplaced` is the number of generated keys that do not occur exactly once. */
async function readFiles(): Promise<{ lines: number; misplaced: number; bytes: number }> {
  const seen = new Uint8Array(rows);
  let lines = 0;
  let bytes = 0;
  for (const name of readdirSync(folder, { recursive: true }) as string[]) {
    if (!name.endsWith('.ndjson.gz')) continue;
    bytes += statSync(join(folder, name)).size;
    const input = createReadStream(join(folder, name)).pipe(createGunzip());
    for await (const line of createInterface({ input, crlfDelay: Infinity })) {
      const { idempotencyKey } = JSON.parse(line) as { idempotencyKey: string };
      seen[Number(idempotencyKey)]!++;
      lines++;
    }
  }
  return { lines, misplaced: seen.filter((count) => count !== 1).length, bytes };
}

async function report(): Promise<void> {
  console.log(`killed ${kills} times; turns: ${ratios.map((ratio) => ratio.toFixed(2)).join(' ')}`);
  const { lines, misplaced, bytes } = await readFiles();
  const left = await ask(
    `select count(*) as n from usage_events where occurred_at < '${before}-01T00:00:00Z'`,
  );
  const recorded = await ask('select count(*) as n from usage_events');
  const counted = await ask('select sum(events) as n from usage_totals');
  // Opens the database without the service's timeouts, because the comparison reads every event.
  const maintenance = await openForMaintenance({ databaseUrl: url, dataDir: '' });
  const drift = hasDrift(await compare(maintenance.orm, {}));
  await maintenance.close();
  const verified = await new Promise((resolve) => start(['--verify', folder]).once('exit', resolve));
  const sorted = ratios.toSorted((a, b) => a - b);
  const at = (share: number) => sorted[Math.floor(share * (sorted.length - 1))]?.toFixed(2);
  const n = (value: number) => Math.round(value).toLocaleString('en');
  console.log(`${availableParallelism()} cores, Node ${process.versions.node}`);
  console.log(`| ${n(rows)} events archived, batch ${batch} | |\n|---|---|`);
  for (const [name, value] of [
    [
      'ingestion during the archive ÷ without it, median of turns',
      `${at(0.5)} (${at(0.25)} – ${at(0.75)}, ${ratios.length} turns)`,
    ],
    ['killed', `${kills} times`],
    ['events archived per second: written, read back and deleted', n(rows / activeSeconds)],
    ['maximum memory of the archive', `${peakMb} MB`],
    ['bytes per event in its file', (bytes / rows).toFixed(0)],
    ['events in files, events not in exactly one', `${n(lines)}, ${misplaced}`],
    ['archived events left in the table', n(left)],
    ['events sent meanwhile, events in the table', `${n(sent)}, ${n(recorded)}`],
    ['events counted in totals', `${n(counted)} of ${n(rows + sent)}`],
    ['drift', drift ? 'yes' : 'none'],
    ['--verify', verified === 0 ? 'files match what was written and counted' : `exit ${String(verified)}`],
  ])
    console.log(`| ${name} | ${value} |`);
  const isGood =
    lines === rows && misplaced === 0 && left === 0 && recorded === sent && counted === rows + sent;
  if (!isGood || drift || verified !== 0) process.exitCode = 1;
}
