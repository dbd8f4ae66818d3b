import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { eq } from 'drizzle-orm';
import { z } from 'zod';
import { hashSecret } from '../accounts/api-keys/bearer-key.js';
import { apiKeys } from '../accounts/api-keys/table.js';
import type { Context } from '../core/http/context.js';
import { entitlementKinds } from '../metering/entitlements/table.js';
import { roles } from '../accounts/organizations/table.js';

/** Everything about the demo that can be shown. Only the process that created the demo knows the secrets in the clear. */
const demoSchema = z.strictObject({
  /** The embedded database is only for trying Gauge, and the greeting says so. */
  database: z.enum(['embedded', 'postgres']),
  logins: z.array(
    z.strictObject({
      email: z.string(),
      name: z.string(),
      organization: z.string(),
      role: z.enum(roles),
      password: z.string(),
    }),
  ),
  keys: z.strictObject({
    live: z.string(),
    test: z.string(),
    /** May read the portfolio and place orders; a test key, so it trades only on paper. */
    trading: z.string(),
  }),
  products: z
    .array(
      z.strictObject({
        slug: z.string(),
        usageMetric: z.string(),
        unitCap: z.string().nullable(),
        kind: z.enum(entitlementKinds),
      }),
    )
    .min(1),
  /** End of the past that is still to be filled in; ISO 8601. */
  pastUpTo: z.iso.datetime().optional(),
});

export type DemoData = z.infer<typeof demoSchema>;

const fileName = 'demo.json';

/** Keeps the demo's passwords and keys, readable only by their owner, so that later starts can show them again. */
export async function writeDemo(dataDir: string, demo: DemoData): Promise<void> {
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  const file = join(dataDir, fileName);
  const temporary = `${file}.${process.pid}`;
  await writeFile(temporary, `${JSON.stringify(demo, null, 2)}\n`, { mode: 0o600 });
  await rename(temporary, file);
}

/** Undefined in production, without a demo made here, if its key no longer works, or for another database's file. */
export async function readDemo({
  config,
  db,
  clock,
}: Pick<Context, 'config' | 'db' | 'clock'>): Promise<DemoData | undefined> {
  if (config.production) return undefined;
  const demo = await readFileIfAny(join(config.dataDir, fileName));
  if (!demo) return undefined;
  const [key] = await db.orm
    .select({ revokedAt: apiKeys.revokedAt, expiresAt: apiKeys.expiresAt })
    .from(apiKeys)
    .where(eq(apiKeys.hashedSecret, hashSecret(demo.keys.live)));
  const isWorking = key && !key.revokedAt && (!key.expiresAt || key.expiresAt.getTime() > clock.now());
  return isWorking ? demo : undefined;
}

async function readFileIfAny(file: string): Promise<DemoData | undefined> {
  try {
    return demoSchema.safeParse(JSON.parse(await readFile(file, 'utf8'))).data;
  } catch {
    return undefined;
  }
}
