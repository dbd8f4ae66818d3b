import { randomInt } from 'node:crypto';
import { sql } from 'drizzle-orm';
import { addSystemKey } from '../accounts/api-keys/api-keys.js';
import { change, byService } from '../accounts/audit/audit.js';
import type { Context } from '../core/http/context.js';
import type { Orm, Tx } from '../core/db/client.js';
import { putGrant } from '../metering/entitlements/grants.js';
import { putProduct, type ProductInput } from '../metering/entitlements/products.js';
import {
  DEFAULT_MAX_QUANTITY,
  type EntitlementKind,
  type UsageLimit,
} from '../metering/entitlements/table.js';
import { putMember } from '../accounts/identity/members/members.js';
import { putOrganization } from '../accounts/identity/organizations/organizations.js';
import type { Source } from '../accounts/identity/source.js';
import { choosePassword, putUser, type PasswordChoice } from '../accounts/identity/users/users.js';
import { organizations, type Role } from '../accounts/organizations/table.js';
import { writeDemo, type DemoData } from './demo.js';

/** An arbitrary constant; all instances ask for the same lock. */
const DEMO_LOCK = 4_283_641_098;

type SeedContext = Pick<Context, 'config' | 'db' | 'clock'>;

/**
 * Fills a database without Organizations with demo data, once, however many instances start together. `readDemo` can
 * read the result later. Never runs in production.
 * @returns undefined if there was nothing to do
 */
export async function seedDemo({ config, db, clock }: SeedContext): Promise<DemoData | undefined> {
  if (config.production || !(await isEmpty(db.orm))) return undefined;
  const password = randomPassword();
  const choices = await choosePasswords(db.orm, password);
  return change({ db, clock }, byService, async (tx) => {
    await tx.execute(sql`select pg_advisory_xact_lock(${DEMO_LOCK})`);
    if (!(await isEmpty(tx))) return undefined;
    const source: Source = {
      actor: 'system',
      at: new Date(clock.now()),
      ip: undefined,
      requestId: undefined,
    };
    const keys = await makeDemo(tx, choices, source);
    const pastUpTo = source.at.toISOString();
    const demo: DemoData = { ...toDemoData(db.kind, password, keys), pastUpTo };
    // Written before the commit: after a crash in between, the next start seeds again and overwrites the file.
    await writeDemo(config.dataDir, demo);
    return demo;
  });
}

/** The demo's data: invented companies and people, on a domain that cannot exist. */
const demoOrganizations = [
  { slug: 'northwind-labs', name: 'Northwind Labs' },
  { slug: 'helios-weather', name: 'Helios Weather' },
] as const;

type OrganizationSlug = (typeof demoOrganizations)[number]['slug'];

interface DemoPerson {
  email: string;
  name: string;
  roles: Partial<Record<OrganizationSlug, Role>>;
}

const demoPeople: DemoPerson[] = [
  { email: 'ada@northwind.example', name: 'Ada Lindqvist', roles: { 'northwind-labs': 'owner' } },
  {
    email: 'ben@northwind.example',
    name: 'Ben Okafor',
    roles: { 'northwind-labs': 'admin', 'helios-weather': 'member' },
  },
  { email: 'chloe@northwind.example', name: 'Chloé Martin', roles: { 'northwind-labs': 'member' } },
  { email: 'dev@northwind.example', name: 'Dev Raman', roles: { 'northwind-labs': 'billing' } },
  { email: 'elena@helios.example', name: 'Elena Vidal', roles: { 'helios-weather': 'owner' } },
];

interface DemoProduct extends Omit<ProductInput, 'maxQuantity'> {
  slug: string;
  grants: Partial<Record<OrganizationSlug, EntitlementKind>>;
  /** Limits of each entitlement. */
  limits?: UsageLimit[];
}

const demoProducts: DemoProduct[] = [
  {
    slug: 'forecast-api',
    name: 'Forecast API',
    usageMetric: 'requests',
    unitCap: '10000',
    grants: { 'northwind-labs': 'live', 'helios-weather': 'live' },
  },
  {
    slug: 'map-tiles',
    name: 'Map tiles',
    usageMetric: 'tiles',
    unitCap: null,
    grants: { 'northwind-labs': 'live' },
    limits: [
      { quantity: '80000', window: 'calendar_day', enforcement: 'warn' },
      { quantity: '30000', window: 'PT5H', enforcement: 'block' },
    ],
  },
  {
    slug: 'climate-archive',
    name: 'Climate archive',
    usageMetric: 'rows',
    unitCap: null,
    grants: { 'northwind-labs': 'read_only' },
  },
];

async function isEmpty(orm: Orm): Promise<boolean> {
  return (await orm.select({ id: organizations.id }).from(organizations).limit(1)).length === 0;
}

/** Hashes the passwords before the lock is taken, because hashing is slow. */
async function choosePasswords(orm: Orm, password: string): Promise<Map<string, PasswordChoice>> {
  return new Map(
    await Promise.all(
      demoPeople.map(async ({ email }) => [email, await choosePassword(orm, email, password)] as const),
    ),
  );
}

/** Performs the operator API's steps directly, and creates keys for the first Organization. */
async function makeDemo(
  tx: Tx,
  choices: ReadonlyMap<string, PasswordChoice>,
  source: Source,
): Promise<DemoData['keys']> {
  const orgIds = new Map<string, string>();
  for (const { slug, name } of demoOrganizations) {
    const { resource } = await putOrganization(tx, slug, { name }, source);
    orgIds.set(slug, resource.id);
  }
  for (const { email, name, roles } of demoPeople) {
    await putUser(tx, email, { name, ...choices.get(email)! }, source);
    for (const [slug, role] of Object.entries(roles)) await putMember(tx, slug, email, { role }, source);
  }
  for (const { slug, grants, limits, ...product } of demoProducts) {
    await putProduct(tx, slug, { ...product, maxQuantity: DEFAULT_MAX_QUANTITY }, source);
    for (const [orgSlug, kind] of Object.entries(grants)) {
      await putGrant(
        tx,
        orgSlug,
        slug,
        { kind, startsAt: undefined, endsAt: null, unitCap: undefined, limits },
        source,
      );
    }
  }
  const orgId = orgIds.get(demoOrganizations[0].slug)!;
  const makeKey = async (name: string, livemode: boolean, scopes: string[]) =>
    // Created by the system, not by a person, so it does not count towards the Organization's hourly key changes.
    (await addSystemKey(tx, orgId, { name, livemode, scopes, now: source.at })).secret;
  const runtime = ['usage:write', 'usage:read', 'entitlements:read'];
  return {
    live: await makeKey('production runtime', true, runtime),
    test: await makeKey('staging runtime', false, runtime),
    trading: await makeKey('paper trader', false, ['trading:read', 'trading:write']),
  };
}

function toDemoData(database: DemoData['database'], password: string, keys: DemoData['keys']): DemoData {
  const first = demoOrganizations[0].slug;
  const logins = demoPeople.flatMap(({ email, name, roles }) =>
    demoOrganizations.flatMap((organization) => {
      const role = roles[organization.slug];
      return role ? [{ email, name, organization: organization.name, role, password }] : [];
    }),
  );
  const products = demoProducts.flatMap(({ slug, usageMetric, unitCap, grants }) => {
    const kind = grants[first];
    return kind ? [{ slug, usageMetric, unitCap, kind }] : [];
  });
  return { database, logins, keys, products };
}

const alphabet = 'abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789';

/** 16 characters without look-alikes, about 92 bits. */
const randomPassword = () => Array.from({ length: 16 }, () => alphabet[randomInt(alphabet.length)]).join('');
