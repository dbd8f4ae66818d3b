import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { pino } from 'pino';
import { inject } from 'vitest';
import type { Database } from '../../src/core/db/client.js';
import { openDatabase } from '../../src/core/db/open.js';

export const isEmbedded = process.env.TEST_DATABASE === 'embedded';

export interface TestDatabase {
  db: Database;
  /** Undefined on the embedded database. */
  url: string | undefined;
  remove(): Promise<void>;
}

/** A migrated, empty database for one test file: a copy of the template, made in milliseconds. */
export async function createTestDatabase(): Promise<TestDatabase> {
  return isEmbedded ? createEmbedded() : createPostgres();
}

async function createEmbedded(): Promise<TestDatabase> {
  const folder = mkdtempSync(join(tmpdir(), 'gauge-test-'));
  cpSync(inject('embeddedTemplate'), folder, { recursive: true });
  const db = await openDatabase({ databaseUrl: undefined, dataDir: folder }, pino({ level: 'silent' }));
  return {
    db,
    url: undefined,
    async remove() {
      await db.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function createPostgres(): Promise<TestDatabase> {
  const adminUrl = inject('postgresUrl');
  const name = `test_${process.pid}_${Math.random().toString(36).slice(2, 10)}`;
  const run = async (sql: string) => {
    const client = new pg.Client({ connectionString: adminUrl });
    await client.connect();
    try {
      await client.query(sql);
    } finally {
      await client.end();
    }
  };
  await run(`create database ${name} template template_gauge`);
  const url = adminUrl.replace(/\/postgres$/, `/${name}`);
  const db = await openDatabase({ databaseUrl: url, dataDir: '' }, pino({ level: 'silent' }));
  return {
    db,
    url,
    async remove() {
      await db.close();
      await run(`drop database ${name} with (force)`);
    },
  };
}
