import { rmSync } from 'node:fs';
import pg from 'pg';
import { inject } from 'vitest';
import type { Database } from '../../src/core/db/client.js';
import { freezeGroups, type MaintenanceDatabase } from '../../src/core/db/maintenance.js';
import { openDatabase } from '../../src/core/db/open.js';
import { createCitusDatabase, dropCitusDatabase, query } from './citus-cluster.js';
import { closedOnce, copyEmbedded, type Lent, lendEmbedded, SIGNATURE, silent } from './lent-database.js';

export const isEmbedded = process.env.TEST_DATABASE === 'embedded';
export const isCitus = process.env.TEST_DATABASE === 'citus';

export interface TestDatabase {
  db: Database;
  /** Undefined on the embedded database. */
  url: string | undefined;
  /**
   * Closes the database, so that it can be copied until it is removed. @returns the database's name, for
   * `createTestDatabase`
   */
  becomeTemplate(): Promise<string>;
  remove(): Promise<void>;
}

export const asMaintained = ({
  db: { orm },
  url,
}: TestDatabase): Pick<MaintenanceDatabase, 'orm' | 'withoutIngestion'> => ({
  orm,
  withoutIngestion: (orgIds, work) =>
    url === undefined ? work(orgIds, false) : freezeGroups(orm, url, orgIds, work),
});

/**
 * Creates a database for one test file in milliseconds by copying a template. The default template is migrated and
 * empty.
 */
export async function createTestDatabase(template?: string): Promise<TestDatabase> {
  if (isCitus) return createCitus(template);
  return isEmbedded ? createEmbedded(template) : createPostgres(template);
}

async function createEmbedded(template?: string): Promise<TestDatabase> {
  const { db, folder, giveBack } = template === undefined ? await lendEmbedded() : await openCopy(template);
  return {
    db,
    url: undefined,
    async becomeTemplate() {
      await db.close();
      return folder;
    },
    remove: giveBack,
  };
}

async function openCopy(template: string): Promise<Lent> {
  const folder = copyEmbedded(template);
  const db = closedOnce(await openDatabase({ databaseUrl: undefined, dataDir: folder }, silent));
  return {
    db,
    folder,
    async giveBack() {
      await db.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function createPostgres(template = 'template_gauge'): Promise<TestDatabase> {
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
  await run(`create database ${name} template ${template}`);
  const url = adminUrl.replace(/\/postgres$/, `/${name}`);
  const opened = await openDatabase({ databaseUrl: url, dataDir: '' }, silent);
  const db = closedOnce(opened);
  return {
    db,
    url,
    async becomeTemplate() {
      await db.close();
      return name;
    },
    async remove() {
      await db.close();
      await run(`drop database ${name} with (force)`);
    },
  };
}

/**
 * Emptied sharded databases, kept for reuse, because creating one takes two seconds on three servers. They are removed
 * with the servers.
 */
const emptied: ShardedDatabase[] = [];

interface ShardedDatabase {
  name: string;
  url: string;
  /** Identifies the migrated schema and the shard groups' placement. */
  signature: string;
}

async function createCitus(template?: string): Promise<TestDatabase> {
  if (template !== undefined) throw new Error('A sharded database cannot be copied.');
  const urls = inject('citusUrls');
  const sharded = emptied.pop() ?? (await makeSharded(urls));
  const { name, url } = sharded;
  const db = closedOnce(await openDatabase({ databaseUrl: url, dataDir: '' }, silent));
  return {
    db,
    url,
    becomeTemplate: () => Promise.reject(new Error('A sharded database cannot be copied.')),
    async remove() {
      await db.close();
      if (await isEmptied(sharded).catch(() => false)) emptied.push(sharded);
      else await dropCitusDatabase(urls, name);
    },
  };
}

async function makeSharded(urls: string[]): Promise<ShardedDatabase> {
  const name = `test_${process.pid}_${Math.random().toString(36).slice(2, 10)}`;
  const url = await createCitusDatabase(urls, name);
  return { name, url, signature: await signatureOf(url) };
}

const signatureOf = async (url: string): Promise<string> =>
  JSON.stringify([
    await query(url, SIGNATURE),
    await query(url, 'select shardid, groupid from pg_dist_placement order by 1, 2'),
  ]);

/**
 * Empties the database for reuse, unless a test has changed the schema or moved a group.
 * @returns true if the database is back in its original state
 */
async function isEmptied({ url, signature }: ShardedDatabase): Promise<boolean> {
  if ((await signatureOf(url)) !== signature) return false;
  const [{ tables } = { tables: '' }] = await query<{ tables: string }>(
    url,
    // A service that is still running would fill the database again.
    `select pg_terminate_backend(pid, 1000) from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'`,
    `select string_agg(oid::regclass::text, ', ') as tables from pg_class
      where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition`,
  );
  await query(url, `truncate ${tables} restart identity cascade`);
  return true;
}
