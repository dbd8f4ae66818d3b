import { rmSync } from 'node:fs';
import { inject, it } from 'vitest';
import type { Database } from '../../src/core/db/client.js';
import { freezeGroups, type MaintenanceDatabase } from '../../src/core/db/maintenance.js';
import { openDatabase } from '../../src/core/db/open.js';
import { createCitusDatabase } from './citus-cluster.js';
import {
  closedOnce,
  copyEmbedded,
  EMPTY,
  type Lent,
  lendEmbedded,
  SIGNATURE,
  silent,
} from './lent-database.js';
import { dropDatabase, inDatabase, query } from './postgres-server.js';

export const isEmbedded = process.env.TEST_DATABASE === 'embedded';

/** Defines a test that only a real Postgres can run, without listing it as skipped elsewhere. */
export const itOnPostgres = (isEmbedded ? () => undefined : it) as typeof it;

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
  return isEmbedded ? createEmbedded(template) : createOnServers(template);
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

interface ServerDatabase {
  name: string;
  url: string;
  /** Identifies the migrated schema and the shard groups' placement; undefined if the database is not reused. */
  signature: string | undefined;
}

/** Emptied databases for reuse, because creating one takes longer. They are removed with the servers. */
const emptied: ServerDatabase[] = [];

async function createOnServers(template?: string): Promise<TestDatabase> {
  const servers = isCitus ? inject('citusUrls') : [inject('postgresUrl')];
  const made = (template === undefined && emptied.pop()) || (await make(servers, template));
  const db = closedOnce(await openDatabase({ databaseUrl: made.url, dataDir: '' }, silent));
  return {
    db,
    url: made.url,
    async becomeTemplate() {
      await db.close();
      return made.name;
    },
    async remove() {
      await db.close();
      if (await isEmptied(servers, made).catch(() => false)) emptied.push(made);
      else await dropDatabase(servers, made.name);
    },
  };
}

async function make(servers: string[], template?: string): Promise<ServerDatabase> {
  const name = `test_${process.pid}_${Math.random().toString(36).slice(2, 10)}`;
  if (!isCitus) await query(servers[0]!, `create database ${name} template ${template ?? 'template_gauge'}`);
  else if (template === undefined) await createCitusDatabase(servers, name);
  else throw new Error('A sharded database cannot be copied.');
  const url = inDatabase(servers[0]!, name);
  return { name, url, signature: template === undefined ? await readSignature(url) : undefined };
}

const placements = isCitus
  ? '(select json_agg((shardid, groupid) order by shardid, groupid) from pg_dist_placement)'
  : 'null';

const readSignature = async (url: string): Promise<string> =>
  JSON.stringify(
    await query(url, `select to_json(s) as schema, ${placements} as placements from (${SIGNATURE}) s`),
  );

/**
 * Empties the database for reuse, unless a test has changed the schema or moved a group.
 * @returns true if the database is back in its original state
 */
async function isEmptied(servers: string[], { name, url, signature }: ServerDatabase): Promise<boolean> {
  if (signature === undefined || (await readSignature(url)) !== signature) return false;
  await Promise.all(
    servers.map((server) =>
      query(
        inDatabase(server, name),
        // A service that is still running would fill the database again.
        `select pg_terminate_backend(pid, 1000) from pg_stat_activity
          where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'`,
        // Shards are emptied as the tables that they are on each server.
        ...(isCitus
          ? ['set citus.override_table_visibility to off', 'set citus.enable_manual_changes_to_shards to on']
          : []),
        EMPTY,
      ),
    ),
  );
  return true;
}
