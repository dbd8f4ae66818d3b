import { integer, pgTable } from 'drizzle-orm/pg-core';

/**
 * One row: the number of the migration that an instance must know to run on this schema. A migration that older
 * versions cannot run beside sets it to its own number.
 */
export const schemaRequirement = pgTable('schema_requirement', { migration: integer('migration').notNull() });
