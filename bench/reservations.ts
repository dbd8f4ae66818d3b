/** The cost that limits and webhooks add to events, and the cost of a reservation. */
import pg from 'pg';
import { pino } from 'pino';
import { openDatabase } from '../src/core/db/open.js';
import type { UsageLimit } from '../src/metering/entitlements/table.js';
import { createListener } from '../test/support/webhook-messages.js';
import { fillEvents } from './fill.js';
import type { LoadResult } from './load.js';
import {
  atLeast,
  atMost,
  measureLoad,
  ratio,
  type LoadOptions,
  type Measure,
  type Sample,
  type World,
} from './measures.js';
import {
  cpuMsOf,
  createTenants,
  ID_PLACEHOLDER,
  itemsCheckRequest,
  reserveRequest,
  settleRequest,
  startProduct,
  usageRequest,
  type Product,
  type Tenant,
} from './world.js';

const block = (window: string): UsageLimit => ({ quantity: '1000000000', window, enforcement: 'block' });
const warn = (window: string): UsageLimit => ({ ...block(window), enforcement: 'warn' });
export const LIMITS = {
  month: [block('calendar_month')],
  rolling: [block('PT5H'), block('calendar_month')],
};
const silent = pino({ level: 'silent' });

/** Created on first use. */
const limited = new Map<string, Promise<Tenant[]>>();

function tenantsWith(world: World, name: string, limits: UsageLimit[]): Promise<Tenant[]> {
  let tenants = limited.get(name);
  if (!tenants) limited.set(name, (tenants = createTenantsIn(world.productUrl, 16, { limits })));
  return tenants;
}

type Terms = Parameters<typeof createTenants>[2];

/** With webhooks and without, created on first use. */
const listening = new Map<string, Promise<[Tenant[], Tenant[]]>>();

function tenantsListening(world: World, name: string, terms: Terms): Promise<[Tenant[], Tenant[]]> {
  let sides = listening.get(name);
  if (!sides) {
    const { productUrl: url } = world;
    sides = Promise.all([createTenantsIn(url, 16, terms, true), createTenantsIn(url, 16, terms)]);
    listening.set(name, sides);
  }
  return sides;
}

export async function createTenantsIn(
  databaseUrl: string,
  count: number,
  terms: Terms,
  isListening = false,
): Promise<Tenant[]> {
  const db = await openDatabase({ databaseUrl, dataDir: '' }, silent);
  const tenants = await createTenants(db, count, terms);
  if (isListening)
    for (const { orgId } of tenants) await createListener(db, orgId, { types: ['usage.threshold_reached'] });
  await db.close();
  return tenants;
}

interface Work {
  perSecond: number;
  /** Server and database, per request, in µs. */
  cpuUs: number;
}

/** In short, alternating turns, so that other load on the machine affects all sides equally. */
export async function compare(
  { product, databasePid, seconds }: World,
  sides: ((seconds: number) => Promise<LoadResult>)[],
): Promise<Work[]> {
  const turns = Math.max(1, Math.round(seconds));
  const sums = sides.map(() => ({ requests: 0, seconds: 0, cpuMs: 0 }));
  const cpu = () => cpuMsOf(product.pid) + cpuMsOf(databasePid, true);
  for (let turn = 0; turn < turns; turn++)
    for (const [i, run] of sides.entries()) {
      const before = cpu();
      const { requests, perSecond } = await run(seconds / turns);
      const sum = sums[i]!;
      sum.cpuMs += cpu() - before;
      sum.requests += requests;
      sum.seconds += requests / perSecond;
    }
  return sums.map((sum) => ({
    perSecond: sum.requests / sum.seconds,
    cpuUs: (sum.cpuMs * 1000) / sum.requests,
  }));
}

export const cpuNote = ([own, other]: Work[]) =>
  `processor time ${own!.cpuUs.toFixed(0)} and ${other!.cpuUs.toFixed(0)} µs a request`;

const sendEvents =
  ({ product }: World, tenants: Tenant[], size: number) =>
  (seconds: number) =>
    measureLoad(
      product.port,
      seconds,
      tenants.map((tenant) => usageRequest(tenant, size)),
      { connections: size === 1 ? 64 : 8 },
    );

const limitMeasure = (key: keyof typeof LIMITS, name: string, size: number): Measure => ({
  key: `limits-${key}-${size}`,
  name: `events with ${name} that blocks ÷ without limits, batch ${size}, by processor time`,
  ...atLeast(0.9),
  async run(world) {
    const tenants = await tenantsWith(world, key, LIMITS[key]);
    const both = await compare(world, [
      sendEvents(world, tenants, size),
      sendEvents(world, world.tenants, size),
    ]);
    const { note } = ratio(both[0]!.perSecond, both[1]!.perSecond, 'requests/s');
    return { value: both[1]!.cpuUs / both[0]!.cpuUs, note: `${note}; ${cpuNote(both)}` };
  },
});

/** Far below a cap, statements record nothing for the threshold evaluation; beyond it, every statement does. */
const webhookMeasure = (key: string, name: string, size: number, terms: Terms): Measure => ({
  key: `webhooks-${key}-${size}`,
  name: `events with ${name} to which an endpoint listens ÷ to which none does, batch ${size}, by processor time`,
  ...atLeast(0.95),
  async run(world) {
    const sides = await tenantsListening(world, key, terms);
    const both = await compare(
      world,
      sides.map((tenants) => sendEvents(world, tenants, size)),
    );
    const { note } = ratio(both[0]!.perSecond, both[1]!.perSecond, 'requests/s');
    return { value: both[1]!.cpuUs / both[0]!.cpuUs, note: `${note}; ${cpuNote(both)}` };
  },
});

export const settling = (tenants: Tenant[]): LoadOptions => ({
  connections: 64,
  follow: { requests: tenants.map(settleRequest), idPlaceholder: ID_PLACEHOLDER },
});

const reserveAndSettle =
  ({ product }: World, tenants: Tenant[]) =>
  (seconds: number) =>
    measureLoad(product.port, seconds, tenants.map(reserveRequest), settling(tenants));

async function compareReservations(
  world: World,
  limits: keyof typeof LIMITS,
  choose: (tenants: Tenant[]) => ((seconds: number) => Promise<LoadResult>)[],
): Promise<Sample> {
  const both = await compare(world, choose(await tenantsWith(world, limits, LIMITS[limits])));
  const sample = ratio(both[0]!.perSecond, both[1]!.perSecond, 'requests/s');
  return { ...sample, note: `${sample.note}; ${cpuNote(both)}` };
}

/** Compares with only reporting usage of the same products. */
const reserveMeasure = (limits: keyof typeof LIMITS, name: string): Measure => ({
  key: `reserve-settle-${limits}`,
  name: `reserve and settle ÷ two events at batch 1, ${name}, 64 senders`,
  ...atLeast(0.7),
  run: (world) =>
    compareReservations(world, limits, (tenants) => [
      reserveAndSettle(world, tenants),
      sendEvents(world, tenants, 1),
    ]),
});

/** Its own database, with events throughout a rolling window; started on first use. */
let rolling: Promise<{ product: Product; tenant: Tenant; client: pg.Client }> | undefined;

async function startRolling({ createDatabase, rows }: World) {
  const url = await createDatabase('rolling');
  const [tenant] = await createTenantsIn(url, 1, { limits: [block('P7D')] });
  // The events go back slightly further than the window, so that the window starts among them.
  await fillEvents(url, Math.ceil((rows * 7.5) / 7), { keys: 1, days: 7.5 });
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  return { product: await startProduct({ DATABASE_URL: url }), tenant: tenant!, client };
}

/**
 * A week and enough minutes to start the window mid-hour, so that events of a partial hour must be read one by one.
 * Returns the number of events in the window.
 */
async function limitToAWeek(client: pg.Client): Promise<number> {
  const minutes = 7 * 24 * 60 + ((new Date().getUTCMinutes() + 30) % 60);
  await client.query('update entitlements set limits = $1', [JSON.stringify([block(`PT${minutes}M`)])]);
  const { rows } = await client.query<{ count: string }>(
    'select count(*)::text from usage_events where occurred_at > now() - make_interval(mins => $1)',
    [minutes],
  );
  return Number(rows[0]!.count);
}

async function measureRolling(world: World): Promise<Sample> {
  const { product, tenant, client } = await (rolling ??= startRolling(world));
  const inWindow = await limitToAWeek(client);
  const cpu = () => cpuMsOf(product.pid) + cpuMsOf(world.databasePid, true);
  const check = async (slug: string) => {
    const before = cpu();
    const requests = [itemsCheckRequest(tenant, slug)];
    const result = await measureLoad(product.port, Math.max(3, world.seconds), requests, {
      connections: 4,
      rate: 20,
    });
    return { ...result, cpuMs: (cpu() - before) / result.requests };
  };
  const none = await check(tenant.slugs[1]!);
  const { p50Ms, p99Ms, cpuMs } = await check(tenant.slugs[0]!);
  const note = `${inWindow.toLocaleString('en')} events, 20 checks/s; p50 ${p50Ms.toFixed(1)} ms, ${cpuMs.toFixed(1)} ms of processor time; without events p50 ${none.p50Ms.toFixed(1)}, p99 ${none.p99Ms.toFixed(1)}, ${none.cpuMs.toFixed(1)} ms`;
  return { value: p99Ms, note };
}

export async function stopRolling(): Promise<void> {
  await (await rolling)?.client.end();
  await (await rolling)?.product.stop();
}

export const reservationMeasures: Measure[] = [
  limitMeasure('month', 'a limit of the month', 1),
  limitMeasure('rolling', 'limits of five hours and of the month', 1),
  limitMeasure('rolling', 'limits of five hours and of the month', 100),
  ...[1, 100].flatMap((size) => [
    webhookMeasure('far', 'a cap that is far', size, { hasOwnCap: true, unitCap: '1000000000000' }),
    webhookMeasure('reached', 'a cap that is exceeded', size, { hasOwnCap: true, unitCap: '1' }),
    webhookMeasure('rolling', 'a limit of five hours', size, { limits: [warn('PT5H')] }),
  ]),
  reserveMeasure('month', 'a limit of the month'),
  reserveMeasure('rolling', 'limits of five hours and of the month'),
  {
    key: 'reserve-hot',
    name: 'reserve and settle: one hot product ÷ sixteen',
    ...atLeast(0.7),
    run: (world) =>
      compareReservations(world, 'rolling', (tenants) => [
        reserveAndSettle(world, tenants.slice(0, 1)),
        reserveAndSettle(world, tenants),
      ]),
  },
  {
    key: 'check-rolling',
    name: 'p99 of a check, a week that rolls over the events of `--rows`',
    ...atMost(50, 'ms'),
    run: measureRolling,
  },
];
