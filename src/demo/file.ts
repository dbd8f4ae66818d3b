import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { eq } from 'drizzle-orm';
import { hashSecret } from '../api-keys/secret.js';
import { apiKeys } from '../api-keys/table.js';
import type { Context } from '../core/http/context.js';
import { demoSchema, type DemoData } from './demo.js';

const fileName = 'demo.json';

/** Keeps the demo's passwords and keys for its owner's eyes, so that later starts can show them again. */
export async function writeDemo(dataDir: string, demo: DemoData): Promise<void> {
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  const file = join(dataDir, fileName);
  const temporary = `${file}.${process.pid}`;
  await writeFile(temporary, `${JSON.stringify(demo, null, 2)}\n`, { mode: 0o600 });
  await rename(temporary, file);
}

/**
 * The demo of this database as it was made, or undefined: in production, where no demo was made from here, or when its key no
 * longer works. A file that was left by another database is not this one's.
 */
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
