import { randomBytes } from 'node:crypto';
import { mkdir, readFile, rename, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { eq } from 'drizzle-orm';
import { z } from 'zod';
import { hashSecret } from '../accounts/api-keys/bearer-key.js';
import { apiKeys } from '../accounts/api-keys/table.js';
import type { Source } from '../accounts/identity/source.js';
import type { Tx } from '../core/db/client.js';
import type { Context } from '../core/http/context.js';
import { HOUR_MS } from '../core/time.js';
import { roles } from '../accounts/organizations/table.js';

const demoSchema = z.object({
  /** The greeting says that the embedded database is only for trials. */
  database: z.enum(['embedded', 'postgres']),
  logins: z.array(
    z.strictObject({
      email: z.string(),
      name: z.string(),
      organization: z.string(),
      role: z.enum([...roles, 'operator']),
      password: z.string(),
      /** Base32. */
      factorSecret: z.string().optional(),
    }),
  ),
  /** ISO 8601. Undefined once the past has been filled in. */
  pastUpTo: z.iso.datetime().optional(),
});

export interface DemoKeys {}

/** Each product adds its own with `declare module`. */
export interface DemoFields {
  keys: DemoKeys;
}

/** Includes secrets in plain text, which the database does not hold. */
export type DemoData = z.infer<typeof demoSchema> & DemoFields;

export const demoOrganizations = [
  { slug: 'northwind-labs', name: 'Northwind Labs', marketAccess: 'trade' },
  // Only meters its usage.
  { slug: 'helios-weather', name: 'Helios Weather', marketAccess: 'none' },
  { slug: 'aurora-grid', name: 'Aurora Grid', marketAccess: 'none' },
  { slug: 'solara-rooftops', name: 'Solara Rooftops', marketAccess: 'none' },
  { slug: 'fjordline-ferries', name: 'Fjordline Ferries', marketAccess: 'none' },
  { slug: 'kestrel-drones', name: 'Kestrel Drones', marketAccess: 'none' },
  { slug: 'tromso-robotics', name: 'Tromsø Robotics', marketAccess: 'none' },
] as const;

export type DemoSlug = (typeof demoOrganizations)[number]['slug'];

export interface DemoOrganization {
  id: string;
  slug: DemoSlug;
  /** The operator's audit name while the Organization has no owner. */
  ownerId: string;
}

/** The demo's first steps look like days of work. */
export const later = (source: Source, hours: number): Source => ({
  ...source,
  at: new Date(source.at.getTime() + Math.round(hours * HOUR_MS)),
});

export interface DemoPart {
  schema: z.ZodType<PartialFields>;
  /**
   * @param organizations main Organization first
   * @param nowMs end of the past, which is filled in later
   */
  seed(
    tx: Tx,
    organizations: readonly [DemoOrganization, ...DemoOrganization[]],
    source: Source,
    config: Context['config'],
    nowMs: number,
  ): Promise<PartialFields>;
}

/** Printed after the demo has started. */
export interface GreetingPart {
  keys: { name: string; secret: string; note?: string }[];
  /** `title` completes "API keys of …". */
  keyTable?: { title: string; rows: string[][] };
  /** To paste, each with an explanation above it. */
  steps: { text: string; command: string }[];
}

type PartialFields = Partial<Omit<DemoFields, 'keys'>> & { keys: Partial<DemoKeys> };

const fileName = 'demo.json';

/** Later starts show the passwords and keys again. */
export const writeDemo = (dataDir: string, demo: DemoData): Promise<void> =>
  writeOwn(dataDir, fileName, JSON.stringify(demo, null, 2));

/** All or nothing, readable only by its owner. */
async function writeOwn(dataDir: string, name: string, text: string): Promise<void> {
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  const file = join(dataDir, name);
  const temporary = `${file}.${process.pid}`;
  await writeFile(temporary, `${text}\n`, { mode: 0o600 });
  await rename(temporary, file);
}

/** Stays the same over restarts. Replaces one that others may have read, or that is damaged. */
export async function keepSecret(dataDir: string, name: 'session-key' | 'operator-token'): Promise<string> {
  const kept = await readOwn(join(dataDir, name));
  if (kept !== undefined && /^[\da-f]{64}$/.test(kept)) return kept;
  const secret = randomBytes(32).toString('hex');
  await writeOwn(dataDir, name, secret);
  return secret;
}

/** Undefined without a file, or if others may read it. */
async function readOwn(file: string): Promise<string | undefined> {
  try {
    const isShared = process.platform !== 'win32' && ((await stat(file)).mode & 0o077) !== 0;
    return isShared ? undefined : (await readFile(file, 'utf8')).trim();
  } catch {
    return undefined;
  }
}

/** Undefined in production, without a demo file of this database, or if the file's first key no longer works. */
export async function readDemo(
  { config, db, clock }: Pick<Context, 'config' | 'db' | 'clock'>,
  parts: readonly DemoPart[],
): Promise<DemoData | undefined> {
  if (config.production) return undefined;
  const schema = parts.reduce<z.ZodType>((all, part) => z.intersection(all, part.schema), demoSchema);
  const demo = schema.safeParse(await readJsonIfAny(join(config.dataDir, fileName))).data as
    | DemoData
    | undefined;
  const secret = demo && (Object.values(demo.keys)[0] as string | undefined);
  if (secret === undefined) return undefined;
  const [key] = await db.orm
    .select({ revokedAt: apiKeys.revokedAt, expiresAt: apiKeys.expiresAt })
    .from(apiKeys)
    .where(eq(apiKeys.hashedSecret, hashSecret(secret)));
  const isWorking = key && !key.revokedAt && (!key.expiresAt || key.expiresAt.getTime() > clock.now());
  return isWorking ? demo : undefined;
}

async function readJsonIfAny(file: string): Promise<unknown> {
  try {
    return JSON.parse(await readFile(file, 'utf8'));
  } catch {
    return undefined;
  }
}
