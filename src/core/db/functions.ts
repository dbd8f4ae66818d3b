import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { sql } from 'drizzle-orm';
import type { Orm } from './client.js';

const root = fileURLToPath(new URL('../..', import.meta.url));

/**
 * Creates or replaces the SQL functions of every feature's `functions.sql`. Citus copies them to its other servers. A
 * changed file needs a migration, so that existing databases get it.
 */
export async function createFunctions(orm: Orm): Promise<void> {
  const files = readdirSync(root, { recursive: true, encoding: 'utf8' });
  for (const file of files.filter((path) => path.endsWith('functions.sql')).sort())
    for (const statement of readFileSync(join(root, file), 'utf8').split('--> statement-breakpoint'))
      await orm.execute(sql.raw(statement));
}
