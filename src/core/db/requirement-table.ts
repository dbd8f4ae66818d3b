import { sql } from 'drizzle-orm';
import { integer, pgTable } from 'drizzle-orm/pg-core';
import { time } from './sql.js';

/**
 * One row: the number of the migration that an instance must know to run on this schema. A migration that older
 * versions cannot run beside sets it to its own number.
 */
export const schemaRequirement = pgTable('schema_requirement', {
  migration: integer('migration').notNull(),
  /** When the table was made. CloudEvents received before it have keys in which a slash was not escaped. */
  since: time('since')
    .notNull()
    .default(sql`now()`),
});
