/** Compares service keys with Organizations' own keys, and one call for many Organizations with many calls. */
import { pino } from 'pino';
import { openDatabase } from '../src/core/db/open.js';
import { createServiceKey } from '../test/support/fixtures.js';
import { atLeast, measureLoad, ratio, type Measure, type World } from './measures.js';
import { compare, cpuNote, createTenantsIn } from './reservations.js';
import { checkRequest, usageRequest, verifyRequest, type Tenant } from './world.js';

const ORGANIZATIONS = 40;

interface Sides {
  secret: string;
  tenants: Tenant[];
}

let sides: Promise<Sides> | undefined;

async function createSides(databaseUrl: string): Promise<Sides> {
  const tenants = await createTenantsIn(databaseUrl, ORGANIZATIONS, {});
  const db = await openDatabase({ databaseUrl, dataDir: '' }, pino({ level: 'silent' }));
  const { secret } = await createServiceKey(db, ['usage:write', 'entitlements:read', 'keys:verify']);
  await db.close();
  return { secret, tenants };
}

/** @param choose the requests of both sides, and how many connections send them */
const measure = (
  key: string,
  name: string,
  target: number,
  choose: (sides: Sides) => [own: string[], other: string[], connections: number, eventsRatio?: number],
): Measure => ({
  key,
  name,
  ...atLeast(target),
  async run(world: World) {
    const [own, other, connections, eventsRatio = 1] = choose(
      await (sides ??= createSides(world.productUrl)),
    );
    const toLoad = (requests: string[]) => (seconds: number) =>
      measureLoad(world.product.port, seconds, requests, { connections });
    const both = await compare(world, [toLoad(own), toLoad(other)]);
    const sample = ratio(both[0]!.perSecond * eventsRatio, both[1]!.perSecond, 'requests/s');
    return { ...sample, note: `${sample.note}; ${cpuNote(both)}` };
  },
});

const send = (size: number) =>
  measure(
    `service-${size}`,
    `batch ${size} with a service key ÷ with API keys`,
    0.97,
    ({ secret, tenants }) => [
      tenants.map((tenant) =>
        usageRequest(
          { ...tenant, secret },
          size,
          `/service/organizations/${tenant.organization}/usage/events`,
        ),
      ),
      tenants.map((tenant) => usageRequest(tenant, size)),
      size === 1 ? 64 : 8,
    ],
  );

const MANY = 480;

export const serviceKeyMeasures: Measure[] = [
  send(1),
  send(100),
  measure(
    'service-many',
    `events of ${MANY} in one call for ${ORGANIZATIONS} Organizations ÷ in ${ORGANIZATIONS} calls`,
    3,
    ({ secret, tenants }) => [
      [
        usageRequest({ ...tenants[0]!, secret }, MANY, '/service/usage/events', (i) => {
          const { organization, slugs } = tenants[i % ORGANIZATIONS]!;
          return { organization, productSlug: slugs[0] };
        }),
      ],
      tenants.map((tenant) => usageRequest(tenant, MANY / ORGANIZATIONS)),
      8,
      ORGANIZATIONS,
    ],
  ),
  measure('verify', 'verify a key and one slug ÷ check one slug', 1, ({ secret, tenants }) => [
    tenants.map((tenant) => verifyRequest(tenant, secret)),
    tenants.map((tenant) => checkRequest(tenant, 1)),
    64,
  ]),
];
