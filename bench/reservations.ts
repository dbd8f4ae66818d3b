/** The measures of limits and reservations: what a limit costs the events, and a permission beside them. */
import pg from 'pg';
import { pino } from 'pino';
import { openDatabase } from '../src/core/db/open.js';
import type { UsageLimit } from '../src/entitlements/table.js';
import { fillEvents } from './fill.js';
import { atLeast, atMost, events, measureLoad, ratio, type Measure, type World } from './measures.js';
import {
  cpuMsOf,
  createTenants,
  ID_PLACEHOLDER,
  itemsCheckRequest,
  reserveRequest,
  settleRequest,
  startProduct,
  type Product,
  type Tenant,
} from './world.js';

const block = (window: string): UsageLimit => ({ quantity: '1000000000', window, enforcement: 'block' });
const silent = pino({ level: 'silent' });

/** Sixteen tenants more, made once for each kind of limit. */
const limited = new Map<string, Promise<Tenant[]>>();

function tenantsWith(world: World, name: string, limits: UsageLimit[]): Promise<Tenant[]> {
  let tenants = limited.get(name);
  if (!tenants) limited.set(name, (tenants = createTenantsIn(world.productUrl, 16, limits)));
  return tenants;
}

async function createTenantsIn(databaseUrl: string, count: number, limits: UsageLimit[]): Promise<Tenant[]> {
  const db = await openDatabase({ databaseUrl, dataDir: '' }, silent);
  return createTenants(db, count, { limits }).finally(() => db.close());
}

/** Events a second, and per second of the server's processor time with that of its database. */
async function eventsAndCpu(
  { product, databasePid }: World,
  tenants: Tenant[],
  seconds: number,
  size: number,
) {
  const cpu = () => cpuMsOf(product.pid) + cpuMsOf(databasePid, true);
  const before = cpu();
  const perSecond = await events({ product, tenants }, seconds, size);
  return { perSecond, perCpuSecond: (perSecond * seconds * 1000) / (cpu() - before) };
}

const limitMeasure = (key: string, name: string, size: number, limits: UsageLimit[]): Measure => ({
  key: `limits-${key}-${size}`,
  name: `events with ${name} that blocks ÷ without limits, batch ${size}, by processor time`,
  ...atLeast(0.9),
  async run(world) {
    const tenants = await tenantsWith(world, key, limits);
    const free = await eventsAndCpu(world, world.tenants, world.seconds, size);
    const own = await eventsAndCpu(world, tenants, world.seconds, size);
    const { note } = ratio(own.perSecond, free.perSecond, 'events/s');
    return { value: own.perCpuSecond / free.perCpuSecond, note };
  },
});

const MONTH = [block('calendar_month')];
const FIVE_HOURS = [block('PT5H'), block('calendar_month')];

/** Requests a second: half of them reserve, half settle what was held. */
async function reserveAndSettle({ product, seconds }: World, tenants: Tenant[]): Promise<number> {
  const { perSecond } = await measureLoad(product.port, seconds, tenants.map(reserveRequest), {
    connections: 64,
    follow: { requests: tenants.map(settleRequest), idPlaceholder: ID_PLACEHOLDER },
  });
  return perSecond;
}

/** One Organization with its events in the window, and a product on them, made once. */
let rolling: Promise<{ product: Product; tenant: Tenant; inWindow: number }> | undefined;

async function startRolling({ createDatabase, rows }: World) {
  const url = await createDatabase('rolling');
  const [tenant] = await createTenantsIn(url, 1, [block('P7D')]);
  // A little more than the window holds, so that it begins among them.
  await fillEvents(url, Math.ceil((rows * 7.5) / 7), { keys: 1, days: 7.5 });
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const { rows: found } = await client.query<{ count: string }>(
    `select count(*)::text from usage_events where occurred_at > now() - interval '7 days'`,
  );
  await client.end();
  return {
    product: await startProduct({ DATABASE_URL: url }),
    tenant: tenant!,
    inWindow: Number(found[0]!.count),
  };
}

export const stopRolling = async (): Promise<void> => (await rolling)?.product.stop();

export const reservationMeasures: Measure[] = [
  limitMeasure('month', 'a limit of the month', 1, MONTH),
  limitMeasure('rolling', 'limits of five hours and of the month', 1, FIVE_HOURS),
  limitMeasure('rolling', 'limits of five hours and of the month', 100, FIVE_HOURS),
  {
    key: 'reserve-settle',
    name: 'reserve and settle ÷ two events at batch 1, 64 senders',
    ...atLeast(0.7),
    async run(world) {
      const tenants = await tenantsWith(world, 'rolling', FIVE_HOURS);
      const two = await events(world, world.seconds, 1);
      return ratio(await reserveAndSettle(world, tenants), two, 'requests/s');
    },
  },
  {
    key: 'reserve-hot',
    name: 'reserve and settle: one hot product ÷ sixteen',
    ...atLeast(0.7),
    async run(world) {
      const tenants = await tenantsWith(world, 'rolling', FIVE_HOURS);
      const sixteen = await reserveAndSettle(world, tenants);
      return ratio(await reserveAndSettle(world, tenants.slice(0, 1)), sixteen, 'requests/s');
    },
  },
  {
    key: 'check-rolling',
    name: 'p99 of a check, a week that rolls over the events of `--rows`',
    ...atMost(50, 'ms'),
    async run(world) {
      const { product, tenant, inWindow } = await (rolling ??= startRolling(world));
      const { p50Ms, p99Ms } = await measureLoad(
        product.port,
        Math.max(3, world.seconds),
        [itemsCheckRequest(tenant)],
        {
          connections: 4,
          rate: 20,
        },
      );
      const note = `${inWindow.toLocaleString('en')} events in the window, 20 checks/s; p50 ${p50Ms.toFixed(1)} ms`;
      return { value: p99Ms, note };
    },
  },
];
