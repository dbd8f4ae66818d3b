import { sql } from 'drizzle-orm';
import { readFeatureFiles } from '../feature-files.js';
import type { Orm } from './client.js';

/** Citus copies the functions to its other servers. Only a migration brings a changed file to existing databases. */
export const createFunctions = (orm: Orm): Promise<void> =>
  orm.transaction(async (tx) => {
    for (const text of readFeatureFiles('functions.sql'))
      for (const statement of text.split('--> statement-breakpoint')) await tx.execute(sql.raw(statement));
  });
