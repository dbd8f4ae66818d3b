import { spawn } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { pino } from 'pino';
import { afterAll, beforeAll, inject } from 'vitest';
import type { Database } from '../../src/core/db/client.js';
import { openDatabase } from '../../src/core/db/open.js';
import { ownScript } from './own-build.js';
import { createTestDatabase, isEmbedded, type TestDatabase } from './database.js';

/**
 * A command that runs as a separate process on the test file's own database.
 * @param path such as `src/commands/reconcile`
 */
export function maintenanceCommand(path: string) {
  const folder = mkdtempSync(join(tmpdir(), `gauge-${basename(path)}-`));
  const dataDir = join(folder, 'data');
  let postgres: TestDatabase | undefined;
  let env: Record<string, string>;

  beforeAll(async () => {
    if (isEmbedded) cpSync(inject('embeddedTemplate'), dataDir, { recursive: true });
    else postgres = await createTestDatabase();
    env = postgres ? { DATABASE_URL: postgres.url! } : { DATA_DIR: dataDir };
  });
  afterAll(async () => {
    await postgres?.remove();
    rmSync(folder, { recursive: true, force: true });
  });

  /** Opens the embedded database only while `work` runs, because only one process can open it. */
  async function withDatabase<T>(work: (db: Database) => Promise<T>): Promise<T> {
    if (postgres) return work(postgres.db);
    const db = await openDatabase({ databaseUrl: undefined, dataDir }, pino({ level: 'silent' }));
    try {
      return await work(db);
    } finally {
      await db.close();
    }
  }

  const environment = (other = path) => ({
    command: ownScript(other),
    env: { PATH: process.env.PATH, ...env },
  });

  async function run(args: string[], more: Record<string, string> = {}, other?: string) {
    const own = environment(other);
    const child = spawn(process.execPath, [...own.command, ...args], { env: { ...own.env, ...more } });
    let stdout = '';
    let stderr = '';
    child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
    child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
    const code = await new Promise((resolve) => child.on('close', resolve));
    return { code, stdout, stderr };
  }

  return { folder, environment, run, withDatabase };
}
