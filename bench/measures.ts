/** One value per round, usually a ratio whose two sides are measured back to back. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { LoadPlan, LoadResult } from './load.js';
import {
  checkRequest,
  getRequest,
  load,
  PLACEHOLDER,
  usageRequest,
  type Product,
  type Tenant,
} from './world.js';

export interface World {
  seconds: number;
  tenants: Tenant[];
  product: Product;
  productUrl: string;
  express: { port: number };
  directUrl: string;
  databasePid: number;
  createDatabase: (name: string) => Promise<string>;
  /** In the prefilled table. */
  rows: number;
  /** On a large table of events and on an empty one; undefined unless a prefilled table was requested. */
  grown?: { full: Side; empty: Side };
}

export interface Side {
  product: Product;
  tenants: Tenant[];
}

export interface Sample {
  value: number;
  /** For the log. */
  note: string;
}

export interface Measure {
  key: string;
  name: string;
  target: string;
  isGood(value: number): boolean;
  run(world: World): Promise<Sample>;
}

const runFile = promisify(execFile);
let runs = 0;

export interface LoadOptions extends Pick<LoadPlan, 'connections' | 'rate' | 'rotates' | 'follow'> {
  /** Share; `requests` and `perSecond` exclude refused requests. */
  mostRefused?: number;
}

export async function measureLoad(
  port: number,
  seconds: number,
  requests: string[],
  { mostRefused = 0, ...options }: LoadOptions,
): Promise<LoadResult> {
  const keyPrefix = `${Date.now().toString(36)}-${runs++}-`;
  const result = await load({ port, seconds, requests, placeholder: PLACEHOLDER, keyPrefix, ...options });
  const accepted = Object.entries(result.statuses).reduce(
    (sum, [status, count]) => (status.startsWith('2') ? sum + count : sum),
    0,
  );
  const share = accepted / result.requests;
  if (share < 1 - mostRefused) throw new Error(`Unexpected answers: ${JSON.stringify(result.statuses)}`);
  return { ...result, requests: accepted, perSecond: result.perSecond * share };
}

/** Accepted per second. */
async function events({ product, tenants }: Side, seconds: number, size: number): Promise<number> {
  const requests = tenants.map((tenant) => usageRequest(tenant, size));
  const { perSecond } = await measureLoad(product.port, seconds, requests, {
    connections: size === 1 ? 64 : 8,
  });
  return perSecond * size;
}

async function direct({ directUrl, seconds }: World, size: number): Promise<number> {
  const { stdout } = await runFile(process.execPath, [
    '--import',
    'tsx',
    'bench/baseline-direct.ts',
    directUrl,
    String(size),
    String(seconds),
  ]);
  return (JSON.parse(stdout) as { perSecond: number }).perSecond;
}

export function ratio(value: number, baseline: number, unit: string): Sample {
  return {
    value: value / baseline,
    note: `${Math.round(value).toLocaleString('en')} ÷ ${Math.round(baseline).toLocaleString('en')} ${unit}`,
  };
}

export const atLeast = (target: number) => ({
  target: `≥ ${target.toFixed(2)}`,
  isGood: (value: number) => value >= target,
});
export const atMost = (target: number, unit: string) => ({
  target: `≤ ${target} ${unit}`,
  isGood: (value: number) => value <= target,
});

function batchMeasure(size: number, target: number): Measure {
  return {
    key: `batch-${size}`,
    name: `batch ${size} ÷ direct \`pg\` insert + totals, pool of 4`,
    ...atLeast(target),
    async run(world) {
      const baseline = await direct(world, size);
      return ratio(await events(world, world.seconds, size), baseline, 'events/s');
    },
  };
}

function hotMeasure(size: number): Measure {
  return {
    key: `hot-${size}`,
    name: `one hot Organization ÷ sixteen, batch ${size}`,
    ...atLeast(0.85),
    async run(world) {
      const sixteen = await events(world, world.seconds, size);
      const hot = await events({ ...world, tenants: world.tenants.slice(0, 1) }, world.seconds, size);
      return ratio(hot, sixteen, 'events/s');
    },
  };
}

export const measures: Measure[] = [
  {
    key: 'batch-1',
    name: 'batch 1, 64 senders ÷ bare Express with `express.json()`',
    ...atLeast(1.8),
    async run(world) {
      const requests = [usageRequest(world.tenants[0]!, 1, '/events')];
      const baseline = await measureLoad(world.express.port, world.seconds, requests, { connections: 64 });
      return ratio(await events(world, world.seconds, 1), baseline.perSecond, 'requests/s');
    },
  },
  batchMeasure(100, 0.85),
  batchMeasure(500, 0.92),
  hotMeasure(1),
  hotMeasure(100),
  hotMeasure(500),
  {
    key: 'check',
    name: 'check of 50 slugs, no cache trusted ÷ Express hello',
    ...atLeast(1.25),
    async run(world) {
      const baseline = await measureLoad(world.express.port, world.seconds, [getRequest('/hello')], {
        connections: 64,
      });
      const requests = world.tenants.map((tenant) => checkRequest(tenant, 50));
      const { perSecond } = await measureLoad(world.product.port, world.seconds, requests, {
        connections: 64,
      });
      return ratio(perSecond, baseline.perSecond, 'requests/s');
    },
  },
  {
    key: 'check-query',
    name: 'check of 50 slugs ÷ Express with one prepared query a request',
    ...atLeast(1.5),
    async run(world) {
      const requests = world.tenants.map((tenant) => checkRequest(tenant, 50));
      const ask = (port: number) => measureLoad(port, world.seconds, requests, { connections: 64 });
      const baseline = await ask(world.express.port);
      const { perSecond } = await ask(world.product.port);
      return ratio(perSecond, baseline.perSecond, 'requests/s');
    },
  },
  {
    key: 'grown',
    name: 'the full table ÷ an empty one, time-ordered keys, batch 500',
    ...atLeast(0.8),
    async run({ grown, seconds }) {
      if (!grown) return { value: Number.NaN, note: 'not requested' };
      const empty = await events(grown.empty, seconds, 500);
      return ratio(await events(grown.full, seconds, 500), empty, 'events/s');
    },
  },
  {
    key: 'p99',
    name: 'p99 at half of the peak, batch 1',
    ...atMost(50, 'ms'),
    async run(world) {
      const peak = await events(world, world.seconds, 1);
      const requests = world.tenants.map((tenant) => usageRequest(tenant, 1));
      const { p50Ms, p99Ms } = await measureLoad(world.product.port, world.seconds, requests, {
        connections: 64,
        rate: peak / 2,
      });
      return {
        value: p99Ms,
        note: `at ${Math.round(peak / 2).toLocaleString('en')} requests/s; p50 ${p50Ms.toFixed(1)} ms`,
      };
    },
  },
  {
    key: 'memory',
    name: 'memory of the server under full load',
    ...atMost(350, 'MB'),
    async run(world) {
      await events(world, world.seconds, 500);
      const { now, peak } = world.product.memoryMb();
      return { value: peak, note: `${now} MB resident now, ${peak} MB maximum` };
    },
  },
];
