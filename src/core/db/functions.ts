import { sql } from 'drizzle-orm';
import { readFeatureFiles } from '../feature-files.js';
import type { Orm } from './client.js';

/**
 * Citus copies the functions to its other servers. A changed file needs a migration, so that existing databases get it.
 */
export async function createFunctions(orm: Orm): Promise<void> {
  for (const text of readFeatureFiles('functions.sql'))
    for (const statement of text.split('--> statement-breakpoint')) await orm.execute(sql.raw(statement));
}
