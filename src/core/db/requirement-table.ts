import { sql } from 'drizzle-orm';
import { pgTable } from 'drizzle-orm/pg-core';
import { time } from './sql.js';

/** The migration that an instance must know. One that older versions cannot run beside sets its own number. */
export const schemaRequirement = pgTable('schema_requirement', (c) => ({
  migration: c.integer('migration').notNull(),
  /** CloudEvents received before this time have keys in which a slash was not escaped. */
  since: time('since')
    .notNull()
    .default(sql`now()`),
}));
