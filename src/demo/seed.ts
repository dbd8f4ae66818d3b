import { randomInt } from 'node:crypto';
import { sql } from 'drizzle-orm';
import { change, byService } from '../accounts/audit/audit.js';
import type { Context } from '../core/http/context.js';
import type { Orm, Tx } from '../core/db/client.js';
import { putMember } from '../accounts/identity/members/members.js';
import { putOrganization } from '../accounts/identity/organizations/organizations.js';
import type { Source } from '../accounts/identity/source.js';
import { choosePassword, putUser, type PasswordChoice } from '../accounts/identity/users/users.js';
import { organizations, type Role } from '../accounts/organizations/table.js';
import {
  demoOrganizations,
  writeDemo,
  type DemoData,
  type DemoKeys,
  type DemoPart,
  type DemoSlug,
} from './demo.js';

/** An arbitrary constant; all instances ask for the same lock. */
const DEMO_LOCK = 4_283_641_098;

/**
 * Fills a database without Organizations with demo data, once, however many instances start together. `readDemo` can
 * read the result later. Never runs in production.
 * @returns undefined if there was nothing to do
 */
export async function seedDemo(
  { config, db, clock }: Pick<Context, 'config' | 'db' | 'clock'>,
  parts: readonly DemoPart[],
): Promise<DemoData | undefined> {
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
    const first = await makeOrganizations(tx, choices, source);
    const pastUpTo = source.at.toISOString();
    const seeded = [];
    for (const part of parts) seeded.push(await part.seed(tx, first, source));
    const keys = Object.assign({}, ...seeded.map((fields) => fields.keys)) as DemoKeys;
    const own = { database: db.kind, logins: toLogins(password), pastUpTo };
    const demo = Object.assign({}, ...seeded, own, { keys }) as DemoData;
    // Written before the commit: after a crash in between, the next start seeds again and overwrites the file.
    await writeDemo(config.dataDir, demo);
    return demo;
  });
}

/** Invented people, on domains that cannot exist. */
interface DemoPerson {
  email: string;
  name: string;
  roles: Partial<Record<DemoSlug, Role>>;
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

/**
 * Performs the operator API's steps directly.
 * @returns the first Organization
 */
async function makeOrganizations(tx: Tx, choices: ReadonlyMap<string, PasswordChoice>, source: Source) {
  const made = [];
  for (const { slug, name } of demoOrganizations) {
    const { resource } = await putOrganization(tx, slug, { name }, source);
    made.push({ slug, id: resource.id });
  }
  for (const { email, name, roles } of demoPeople) {
    await putUser(tx, email, { name, ...choices.get(email)! }, source);
    for (const [slug, role] of Object.entries(roles)) await putMember(tx, slug, email, { role }, source);
  }
  return made[0]!;
}

const toLogins = (password: string): DemoData['logins'] =>
  demoPeople.flatMap(({ email, name, roles }) =>
    demoOrganizations.flatMap((organization) => {
      const role = roles[organization.slug];
      return role ? [{ email, name, organization: organization.name, role, password }] : [];
    }),
  );

const alphabet = 'abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789';

/** 16 characters without look-alikes, about 92 bits. */
const randomPassword = () => Array.from({ length: 16 }, () => alphabet[randomInt(alphabet.length)]).join('');
