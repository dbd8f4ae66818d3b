import { randomInt } from 'node:crypto';
import { sql } from 'drizzle-orm';
import { v7 as uuid } from 'uuid';
import { change, byService } from '../accounts/audit/audit.js';
import type { Context } from '../core/http/context.js';
import type { Orm, Tx } from '../core/db/client.js';
import { DAY_MS, HOUR_MS } from '../core/time.js';
import { inviteAsOperator } from '../accounts/identity/members/invitations.js';
import { putMember } from '../accounts/identity/members/members.js';
import { putOrganization } from '../accounts/identity/organizations/organizations.js';
import { createSecretBox } from '../core/secret-box.js';
import { generateSecret } from '../accounts/identity/second-factor/totp.js';
import { auditPerson, type Source } from '../accounts/identity/source.js';
import { operators, secondFactors } from '../accounts/identity/table.js';
import { insertUser } from '../accounts/identity/users/queries.js';
import { choosePassword, putUser, type PasswordChoice } from '../accounts/identity/users/users.js';
import { createPortalSession } from '../accounts/portal/portal.js';
import { portalSessionInputSchema } from '../accounts/portal/schema.js';
import { organizations, users, type Role } from '../accounts/organizations/table.js';
import {
  demoOrganizations,
  writeDemo,
  type DemoData,
  type DemoKeys,
  type DemoPart,
  type DemoSlug,
  later,
  type DemoOrganization,
} from './demo.js';

/** Arbitrary; all instances share it. */
const DEMO_LOCK = 4_283_641_098;

/**
 * Once even if several instances start together, and never in production. `readDemo` reads the result.
 * @returns undefined if the database has Organizations
 */
export async function seedDemo(
  { config, db, clock }: Pick<Context, 'config' | 'db' | 'clock'>,
  parts: readonly DemoPart[],
): Promise<DemoData | undefined> {
  if (config.production || !(await isEmpty(db.orm))) return undefined;
  const password = randomPassword();
  const choices = await choosePasswords(db.orm, password);
  const factorSecret = generateSecret();
  return change({ db, clock }, byService, async (tx) => {
    await tx.execute(sql`select pg_advisory_xact_lock(${DEMO_LOCK})`);
    if (!(await isEmpty(tx))) return undefined;
    const now = clock.now();
    const at = new Date(now - SEEDED_BEFORE_MS);
    const operatorId = await makeOperator(tx, choices, { at, factorSecret, secretKeys: config.secretKeys });
    const source: Source = {
      actor: `operator:${demoOperator.email}`,
      at,
      ip: undefined,
      requestId: undefined,
    };
    const made = await makeOrganizations(tx, choices, later(source, 1.37));
    const pastUpTo = new Date(now).toISOString();
    const seeded = [];
    const begun = later(source, 2 * 24);
    for (const [i, part] of parts.entries())
      seeded.push(await part.seed(tx, made, later(begun, i * 71.3), config, now));
    const people = await tx.select().from(users).orderBy(users.email);
    for (const [i, { id: userId, email }] of people.entries()) {
      const signedIn = later(
        source,
        (SEEDED_BEFORE_MS - JOINED_BEFORE_MS) / HOUR_MS - (people.length - i) * 3.7,
      );
      await auditPerson(tx, { userId, email }, 'user.signed_in', signedIn);
    }
    for (const person of demoPeople.filter(({ isNew }) => isNew)) {
      const owners = new Map(made.map(({ slug, ownerId }) => [slug, ownerId]));
      await addPerson(tx, choices, person, { ...source, at: new Date(now - JOINED_BEFORE_MS) }, owners);
    }
    const invited = { ...source, at: new Date(now - DAY_MS) };
    const input = { email: 'lars@tromso.example', role: 'owner', days: 7 } as const;
    await inviteAsOperator(tx, made.at(-1)!.id, input, operatorId, invited, undefined);
    const keys = Object.assign({}, ...seeded.map((fields) => fields.keys)) as DemoKeys;
    const own = { database: db.kind, logins: toLogins(password, factorSecret), pastUpTo };
    const demo = Object.assign({}, ...seeded, own, { keys }) as DemoData;
    // After a crash before the commit, the next start seeds again and overwrites the file.
    await writeDemo(config.dataDir, demo);
    return demo;
  });
}

const JOINED_BEFORE_MS = 2 * DAY_MS;

/** Older than all usage and trades in the demo's past. */
const SEEDED_BEFORE_MS = 75 * DAY_MS;

/** Fictional; the email address is at a domain that cannot exist. */
interface DemoPerson {
  email: string;
  name: string;
  roles: Partial<Record<DemoSlug, Role>>;
  /** Joined recently, so that the audit log has a recent entry. */
  isNew?: true;
}

const demoOperator = { email: 'olivia@gauge.example', name: 'Olivia Berg' };

const demoPeople: DemoPerson[] = [
  { email: 'ada@northwind.example', name: 'Ada Lindqvist', roles: { 'northwind-labs': 'owner' } },
  { email: 'elena@helios.example', name: 'Elena Vidal', roles: { 'helios-weather': 'owner' } },
  { email: 'mia@aurora.example', name: 'Mia Holm', roles: { 'aurora-grid': 'owner' } },
  { email: 'lucia@solara.example', name: 'Lucía Ferrer', roles: { 'solara-rooftops': 'owner' } },
  { email: 'ingrid@fjordline.example', name: 'Ingrid Solberg', roles: { 'fjordline-ferries': 'owner' } },
  { email: 'sam@kestrel.example', name: 'Sam Whitlock', roles: { 'kestrel-drones': 'owner' } },
  {
    email: 'ben@northwind.example',
    name: 'Ben Okafor',
    roles: { 'northwind-labs': 'admin', 'helios-weather': 'member' },
  },
  { email: 'chloe@northwind.example', name: 'Chloé Martin', roles: { 'northwind-labs': 'member' } },
  { email: 'dev@northwind.example', name: 'Dev Raman', roles: { 'northwind-labs': 'billing' }, isNew: true },
];

async function isEmpty(orm: Orm): Promise<boolean> {
  return (await orm.select({ id: organizations.id }).from(organizations).limit(1)).length === 0;
}

/** Slow: called before taking the lock. */
async function choosePasswords(orm: Orm, password: string): Promise<Map<string, PasswordChoice>> {
  return new Map(
    await Promise.all(
      [demoOperator, ...demoPeople].map(
        async ({ email }) => [email, await choosePassword(orm, email, password)] as const,
      ),
    ),
  );
}

/** The console requires a second factor. */
async function makeOperator(
  tx: Tx,
  choices: ReadonlyMap<string, PasswordChoice>,
  { at, factorSecret, secretKeys }: { at: Date; factorSecret: string; secretKeys: readonly string[] },
): Promise<string> {
  const { email, name } = demoOperator;
  const { passwordHash } = choices.get(email)!;
  const userId = uuid({ msecs: at.getTime() });
  const where = { at, ip: undefined, requestId: undefined };
  await insertUser(tx, { id: userId, email, name, passwordHash, createdAt: at, provenAt: at });
  await auditPerson(tx, { userId, email }, 'user.created', where, { after: { name }, by: 'setup' });
  await tx.insert(operators).values({ userId, createdAt: at });
  const added = { by: 'setup', createdBy: null, wasOperator: false };
  await auditPerson(tx, { userId, email }, 'operator.added', where, added);
  const secret = createSecretBox(secretKeys).seal(userId, factorSecret);
  await tx
    .insert(secondFactors)
    .values({ userId, secret, confirmedAt: at, lastStep: null, setupSession: '', createdAt: at });
  return userId;
}

async function makeOrganizations(
  tx: Tx,
  choices: ReadonlyMap<string, PasswordChoice>,
  source: Source,
): Promise<[DemoOrganization, ...DemoOrganization[]]> {
  const ids = new Map<DemoSlug, string>();
  const actors = new Map<DemoSlug, string>();
  for (const [i, { slug, ...terms }] of demoOrganizations.entries()) {
    const input = { ...terms, mayCorrect: true };
    const { resource } = await putOrganization(tx, slug, input, later(source, i * 0.29));
    ids.set(slug, resource.id);
    actors.set(slug, source.actor);
  }
  for (const [i, person] of demoPeople.filter(({ isNew }) => !isNew).entries())
    await addPerson(tx, choices, person, later(source, 0.7 + i * 2.61), actors);
  return [...ids].map(([slug, id]) => ({ id, slug, ownerId: actors.get(slug)! })) as [DemoOrganization];
}

/** The operator adds the owner, who then adds the others. */
async function addPerson(
  tx: Tx,
  choices: ReadonlyMap<string, PasswordChoice>,
  { email, name, roles }: DemoPerson,
  source: Source,
  actors: Map<DemoSlug, string>,
): Promise<void> {
  const { resource } = await putUser(tx, email, { name, ...choices.get(email)! }, source);
  for (const [slug, role] of Object.entries(roles) as [DemoSlug, Role][]) {
    await putMember(tx, slug, email, { role }, { ...source, actor: actors.get(slug)! });
    if (role === 'owner') actors.set(slug, resource.id);
  }
}

const toLogins = (password: string, factorSecret: string): DemoData['logins'] => [
  ...demoPeople.flatMap(({ email, name, roles }) =>
    demoOrganizations.flatMap((organization) => {
      const role = roles[organization.slug];
      return role ? [{ email, name, organization: organization.name, role, password }] : [];
    }),
  ),
  { ...demoOperator, organization: 'This service', role: 'operator', password, factorSecret },
];

const alphabet = 'abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789';

/** No look-alikes, about 92 bits. */
const randomPassword = () => Array.from({ length: 16 }, () => alphabet[randomInt(alphabet.length)]).join('');

/** Shows the second Organization's usage. Undefined if an earlier version made the demo, without it. */
export async function createDemoPortal({
  db,
  clock,
}: Pick<Context, 'db' | 'clock'>): Promise<string | undefined> {
  const [, { slug }] = demoOrganizations;
  const source = {
    actor: `operator:${demoOperator.email}`,
    at: new Date(clock.now()),
    ip: undefined,
    requestId: undefined,
  };
  const input = portalSessionInputSchema.parse({});
  return change({ db, clock }, byService, (tx) => createPortalSession(tx, slug, input, source)).then(
    ({ path }) => path,
    () => undefined,
  );
}
