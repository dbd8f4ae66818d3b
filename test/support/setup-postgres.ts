import { pino } from 'pino';
import type { TestProject } from 'vitest/node';
import { openDatabase } from '../../src/core/db/open.js';
import { provideOwnBuild } from './own-build.js';
import { createPostgresServer, provideData, query, type PostgresServer } from './postgres-server.js';

declare module 'vitest' {
  interface ProvidedContext {
    /** URL of the server's maintenance database. `template_gauge` on the server is migrated and empty. */
    postgresUrl: string;
    embeddedTemplate: string;
  }
}

export default async function setup(project: TestProject) {
  const build = provideOwnBuild();
  // Tests on this server prove nothing about crashes, so they need no fsync.
  const server = await createPostgresServer({ fsync: 'off', max_connections: '200' });
  await makeTemplate(server);
  // Servers started from the copied data have the migrated schema in the `postgres` database; on this server, that
  // database stays empty.
  const admin = server.url('template1');
  await query(
    admin,
    'drop database postgres with (force)',
    'create database postgres template template_gauge',
  );
  const removeData = await provideData(server);
  await query(admin, 'drop database postgres with (force)', 'create database postgres');
  const removeBuild = await build;
  project.provide('postgresUrl', server.url('postgres'));
  return () => {
    removeBuild();
    removeData();
    return server.remove();
  };
}

export async function makeTemplate(server: PostgresServer): Promise<void> {
  await query(server.url('postgres'), 'create database template_gauge');
  const db = await openDatabase(
    { databaseUrl: server.url('template_gauge'), dataDir: '' },
    pino({ level: 'silent' }),
  );
  await db.close();
}
