/** A private Postgres, the built product, and its data. */
import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import type { Database } from '../src/core/db/client.js';
import { createKey, createOrganization } from '../test/support/fixtures.js';
import { createProduct, grant } from '../test/metering/support/products.js';
import { findFreePort } from '../test/support/free-port.js';
import type { LoadPlan, LoadResult } from './load.js';

export interface Tenant {
  orgId: string;
  /** The slug. */
  organization: string;
  secret: string;
  slugs: string[];
}

export interface Product {
  port: number;
  pid: number;
  databaseUrl: string;
  memoryMb(): { now: number; peak: number };
  stop(): Promise<void>;
}

/** In production mode, with raised limits, ample paper cash and no latency for paper orders. */
export async function startProduct(
  env: Record<string, string>,
  nodeFlags: string[] = [],
  main = 'dist/main.js',
): Promise<Product> {
  const folder = mkdtempSync(join(tmpdir(), 'gauge-bench-'));
  const port = await findFreePort();
  const out = openSync(join(folder, 'log'), 'w');
  const child = spawn(process.execPath, [...nodeFlags, main], {
    env: {
      PATH: process.env.PATH,
      NODE_ENV: 'production',
      MALLOC_TRIM_THRESHOLD_: '1048576',
      MARKETS: 'on',
      HOST: '127.0.0.1',
      PORT: String(port),
      DATA_DIR: join(folder, 'data'),
      PUBLIC_URL: `http://127.0.0.1:${port}`,
      TRUST_PROXY: '0',
      SESSION_KEYS: 'a-session-key-for-the-benchmarks',
      SECRET_KEYS: 'a-secret-key-for-the-benchmarks',
      LIMIT_USAGE_PER_MINUTE: '1000000000',
      LIMIT_ENTITLEMENTS_PER_MINUTE: '1000000000',
      LIMIT_SERVICE_PER_MINUTE: '1000000000',
      LIMIT_DASHBOARD_PER_MINUTE: '1000000000',
      LIMIT_READS_PER_MINUTE: '1000000000',
      LIMIT_TRADING_PER_MINUTE: '1000000000',
      PAPER_CASH: '100000000.00',
      PAPER_LATENCY_MS: '0',
      ...env,
    },
    stdio: ['ignore', out, out],
  });
  for (let i = 0; ; i++) {
    const ready = await fetch(`http://127.0.0.1:${port}/readyz`).catch(() => undefined);
    if (ready?.ok) break;
    if (i > 600 || child.exitCode !== null) {
      await stopChild(child);
      throw new Error(`The product did not start:\n${readFileSync(join(folder, 'log'), 'utf8')}`);
    }
    await setTimeout(100);
  }
  return {
    port,
    pid: child.pid!,
    databaseUrl: env.DATABASE_URL ?? '',
    memoryMb() {
      const status = readFileSync(`/proc/${child.pid}/status`, 'utf8');
      const megabytes = (name: string) =>
        Math.round(Number(new RegExp(`${name}:\\s+(\\d+)`).exec(status)?.[1]) / 1024);
      return { now: megabytes('VmRSS'), peak: megabytes('VmHWM') };
    },
    async stop() {
      await stopChild(child);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Includes children that have exited. */
export function cpuMsOf(pid: number, withChildren = false): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ');
  const sum = (first: number) => Number(fields[first]) + Number(fields[first + 1]);
  // The fields are in hundredths of a second.
  const own = sum(11) * 10;
  if (!withChildren) return own;
  const running = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean);
  return running.reduce((all, child) => all + cpuMsOfChild(Number(child)), own + sum(13) * 10);
}

function cpuMsOfChild(pid: number): number {
  try {
    return cpuMsOf(pid);
  } catch {
    // The process has exited since it was listed.
    return 0;
  }
}

/** The markets' simulated past is built and the gates are evaluated, which is assumed at 0.5 s of CPU time in 5 s. */
export async function waitUntilIdle({ pid }: Product): Promise<void> {
  for (let before = cpuMsOf(pid), used = Infinity; used > 500;) {
    await setTimeout(5000);
    used = cpuMsOf(pid) - before;
    before += used;
  }
}

/** The file prints `{ "port": … }` as its first line. */
export async function startBaseline(
  file: string,
  ...args: string[]
): Promise<{ port: number; pid: number; stop(): Promise<void> }> {
  const child = spawn(process.execPath, ['--import', 'tsx', file, ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const line = await new Promise<string>((resolve) =>
    child.stdout.once('data', (data: Buffer) => resolve(data.toString())),
  );
  return { port: (JSON.parse(line) as { port: number }).port, pid: child.pid!, stop: () => stopChild(child) };
}

async function stopChild(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null) return;
  const ended = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGTERM');
  await ended;
}

/** With 50 products, and entitlements to all of them. */
export async function createTenants(
  db: Database,
  count: number,
  granted: Parameters<typeof grant>[3] = {},
): Promise<Tenant[]> {
  const products = [];
  for (let i = 0; i < 50; i++)
    products.push(await createProduct(db, { unitCap: i % 2 ? '1000000000' : null }));
  const tenants: Tenant[] = [];
  for (let i = 0; i < count; i++) {
    const organization = await createOrganization(db);
    for (const product of products) await grant(db, organization.id, product.id, granted);
    const key = await createKey(db, organization.id);
    tenants.push({
      orgId: organization.id,
      organization: organization.slug,
      secret: key.secret,
      slugs: products.map((product) => product.slug),
    });
  }
  return tenants;
}

export const PLACEHOLDER = '@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@';

const authorizationOf = (secret: string | undefined): string =>
  secret ? `Authorization: Bearer ${secret}\r\n` : '';

function post(path: string, body: string, secret?: string): string {
  return `POST ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n${authorizationOf(secret)}Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
}

/**
 * For a tenant's first product.
 * @param more additional fields for the event at the given index
 */
export function usageRequest(
  { secret, slugs }: Tenant,
  size: number,
  path = '/api/usage/events',
  more: (index: number) => object = () => ({}),
): string {
  const events = Array.from({ length: size }, (_, i) => ({
    productSlug: slugs[0],
    metric: 'calls',
    quantity: 1,
    idempotencyKey: PLACEHOLDER,
    ...more(i),
  }));
  return post(path, JSON.stringify({ events }), secret);
}

/** With a placeholder as its idempotency key. */
export function tradeRequest(secret: string, order: Record<string, unknown>): string {
  const request = post('/trade', JSON.stringify(order), secret);
  return request.replace('\r\n\r\n', `\r\nIdempotency-Key: ${PLACEHOLDER}\r\n\r\n`);
}

export function checkRequest({ secret, slugs }: Tenant, size: number): string {
  return post('/api/entitlements/check', JSON.stringify({ productSlugs: slugs.slice(0, size) }), secret);
}

export function itemsCheckRequest({ secret }: Tenant, productSlug: string): string {
  const items = [{ productSlug, quantity: 1 }];
  return post('/api/entitlements/check', JSON.stringify({ items }), secret);
}

export function verifyRequest({ secret, slugs }: Tenant, serviceSecret: string): string {
  return post('/service/keys/verify', JSON.stringify({ secret, productSlug: slugs[0] }), serviceSecret);
}

export function reserveRequest({ secret, slugs }: Tenant): string {
  const body = { productSlug: slugs[0], metric: 'calls', quantity: 2, idempotencyKey: PLACEHOLDER };
  return post('/api/usage/reservations', JSON.stringify(body), secret);
}

export const ID_PLACEHOLDER = '00000000-0000-0000-0000-00000000face';

export const settleRequest = ({ secret }: Tenant): string =>
  post(`/api/usage/reservations/${ID_PLACEHOLDER}/settle`, '{"quantity":1}', secret);

export function getRequest(path: string, secret?: string): string {
  return `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n${authorizationOf(secret)}\r\n`;
}

export async function load(plan: LoadPlan): Promise<LoadResult> {
  const child = spawn(process.execPath, ['--import', 'tsx', 'bench/load.ts'], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  let output = '';
  child.stdout.on('data', (data: Buffer) => (output += data.toString()));
  child.stdin.end(JSON.stringify(plan));
  const code = await new Promise((resolve) => child.once('exit', resolve));
  if (code !== 0) throw new Error(`The load generator ended with ${String(code)}.`);
  return JSON.parse(output) as LoadResult;
}
