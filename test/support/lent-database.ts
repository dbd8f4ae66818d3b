import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { PGlite } from '@electric-sql/pglite';
import { pino } from 'pino';
import { inject } from 'vitest';
import type { Database } from '../../src/core/db/client.js';
import { embeddedDatabase, openPglite } from '../../src/core/db/embedded.js';
import type { PgliteClient } from '../../src/core/db/pglite-port.js';
import { withPreparedStatements } from '../../src/core/db/prepared-statements.js';

export interface Lent {
  db: Database;
  folder: string;
  giveBack: () => Promise<void>;
}

interface OpenDatabase {
  pglite: PGlite;
  client: PgliteClient;
  folder: string;
  signature: string;
}

export const silent = pino({ level: 'silent' });

/** Emptied databases for reuse, because opening one takes longer than most files' tests. */
const empty: OpenDatabase[] = [];
/** A file's services may still be working when the file returns its database. */
const EMPTIED_WITHIN_MS = 3000;

/** Lends a migrated, empty database. Anything that still uses it after its return gets an error. */
export async function lendEmbedded(): Promise<Lent> {
  const opened = empty.pop() ?? (await open());
  const { proxy, revoke } = Proxy.revocable(opened.client, {});
  const db = closedOnce(embeddedDatabase(proxy, () => undefined));
  return {
    db,
    folder: opened.folder,
    async giveBack() {
      revoke();
      if (!opened.pglite.closed && (await isEmptied(opened))) empty.push(opened);
      else await discard(opened);
    },
  };
}

async function open(): Promise<OpenDatabase> {
  const folder = copyEmbedded(inject('embeddedTemplate'));
  const pglite = await openPglite(join(folder, 'pglite'));
  return { pglite, client: withPreparedStatements(pglite), folder, signature: await signatureOf(pglite) };
}

async function discard({ pglite, folder }: OpenDatabase): Promise<void> {
  if (!pglite.closed) await pglite.close();
  rmSync(folder, { recursive: true, force: true });
}

/**
 * @returns true if the database is back in its original state. After a test that changes the schema, it is not reused.
 */
async function isEmptied({ pglite, signature }: OpenDatabase): Promise<boolean> {
  const tooLong = new Promise<false>((resolve) => setTimeout(resolve, EMPTIED_WITHIN_MS, false).unref());
  const emptied = async () => {
    await pglite.exec(RESET);
    if ((await signatureOf(pglite)) !== signature) return false;
    await pglite.exec(EMPTY);
    return true;
  };
  return Promise.race([emptied().catch(() => false), tooLong]);
}

/** `discard all`, except that statements stay prepared. */
const RESET = 'reset all; unlisten *; select pg_advisory_unlock_all(); discard sequences; discard temp';

export const SIGNATURE = `
  select (select json_agg((oid, relname, relkind, reloptions) order by oid) from pg_class
      where relnamespace = 'public'::regnamespace),
    (select json_agg((attrelid, attname, atttypid, attnotnull) order by attrelid, attnum) from pg_attribute
      where attrelid >= 16384 and attnum > 0
      and attrelid in (select oid from pg_class where relnamespace = 'public'::regnamespace)),
    (select json_agg((oid, tgenabled) order by oid) from pg_trigger), (select max(oid) from pg_constraint),
    (select count(*) from pg_constraint), (select max(oid) from pg_proc), (select count(*) from pg_proc),
    (select max(oid) from pg_namespace), (select json_agg((oid, rolname) order by oid) from pg_authid),
    (select count(*) from pg_db_role_setting)`;

/** Deleting the rows of small tables takes a quarter of the time of a truncation, which creates new files. */
export const EMPTY = `do $$
declare small text; large text;
begin
  select string_agg(format('delete from %s;', oid::regclass), '') filter (where pg_relation_size(oid) <= 262144),
    string_agg(oid::regclass::text, ', ') filter (where pg_relation_size(oid) > 262144)
  into small, large from pg_class
  where relnamespace = 'public'::regnamespace and relkind = 'r' and relname <> 'schema_requirement' and pg_relation_size(oid) > 0;
  perform set_config('session_replication_role', 'replica', true);
  if small is not null then execute small; end if;
  if large is not null then execute 'truncate ' || large || ' cascade'; end if;
  perform setval(seqrelid, seqstart, false) from pg_sequence join pg_class c on c.oid = seqrelid
    where relnamespace = 'public'::regnamespace;
  delete from pg_statistic where starelid >= 16384;
  update pg_class set relpages = 0, reltuples = -1 where relnamespace = 'public'::regnamespace and reltuples > 0;
end $$`;

const signatureOf = async (pglite: PGlite): Promise<string> =>
  JSON.stringify((await pglite.query(SIGNATURE, [], { rowMode: 'array' })).rows);

export function copyEmbedded(template: string): string {
  // Databases that are still lent when the last file ends are removed with the template.
  const folder = mkdtempSync(join(inject('embeddedTemplate'), '../test-'));
  cpSync(template, folder, { recursive: true });
  return folder;
}

export function closedOnce(db: Database): Database {
  let closed: Promise<void> | undefined;
  return { ...db, close: () => (closed ??= db.close()) };
}
