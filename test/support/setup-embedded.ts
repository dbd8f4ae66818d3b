import { cpSync, existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isDeepStrictEqual } from 'node:util';
import { readMigrationFiles } from 'drizzle-orm/migrator';
import { pino } from 'pino';
import type { TestProject } from 'vitest/node';
import { provideOwnBuild } from './own-build.js';
import { connectDatabase, openDatabase } from '../../src/core/db/open.js';

export default async function setup(project: TestProject) {
  const build = project.name === 'browser' ? undefined : provideOwnBuild();
  const databases = mkdtempSync(join(tmpdir(), 'gauge-embedded-'));
  const folder = join(databases, 'template');
  if (!(await copyInstalled(folder))) {
    rmSync(folder, { recursive: true, force: true });
    await (await openDatabase(...inFolder(folder))).close();
  }
  const removeBuild = await build;
  project.provide('embeddedTemplate', folder);
  return () => {
    removeBuild?.();
    rmSync(databases, { recursive: true, force: true });
  };
}

const inFolder = (dataDir: string) =>
  [{ databaseUrl: undefined, dataDir }, pino({ level: 'silent' })] as const;
const path = (of: string) => fileURLToPath(new URL(`../../${of}`, import.meta.url));

/**
 * Copies the installation's empty database, because creating one takes seconds.
 * @returns true if it exists and has exactly these migrations
 */
async function copyInstalled(folder: string): Promise<boolean> {
  const installed = path('dist/database');
  if (!existsSync(join(installed, 'pglite'))) return false;
  cpSync(installed, folder, { recursive: true });
  const db = await connectDatabase(...inFolder(folder));
  try {
    const text = 'select hash from drizzle.__drizzle_migrations order by created_at';
    const applied = await db.run({ name: 'applied_migrations', text }, []);
    const written = readMigrationFiles({ migrationsFolder: path('migrations') }).map(({ hash }) => ({
      hash,
    }));
    return isDeepStrictEqual(applied, written);
  } catch {
    return false;
  } finally {
    await db.close();
  }
}
