import { sql } from 'drizzle-orm';
import {
  boolean,
  check,
  date,
  index,
  integer,
  pgTable,
  primaryKey,
  text,
  timestamp,
  uniqueIndex,
} from 'drizzle-orm/pg-core';

/** `preliminary`: a report on the day so far. `corrected`: a final report that replaces another. */
export const climateStages = ['preliminary', 'final', 'corrected'] as const;
export type ClimateStage = (typeof climateStages)[number];

/**
 * One row per climate report as issued. Markets settle on the first final report, which the service deletes after a
 * week.
 */
export const climateProducts = pgTable(
  'climate_products',
  {
    /** ICAO station id. */
    station: text().notNull(),
    kind: text({ enum: ['daily_maximum', 'daily_minimum'] }).notNull(),
    date: date({ mode: 'string' }).notNull(),
    issuedAt: timestamp('issued_at', { withTimezone: true, mode: 'date' }).notNull(),
    fetchedAt: timestamp('fetched_at', { withTimezone: true, mode: 'date' }).notNull().defaultNow(),
    stage: text({ enum: climateStages }).notNull().default('final'),
    value: integer().notNull(),
    /** True for the first final report with a value, if no earlier report can have been missed. */
    isFirstFinal: boolean('is_first_final').notNull(),
    /** The venue's settlement value, set only on the first final report; null until known. */
    settled: integer(),
  },
  (t) => [
    primaryKey({ columns: [t.station, t.kind, t.date, t.issuedAt] }),
    // Allows one first final report per day, and serves the comparison with the venue.
    uniqueIndex('climate_products_first')
      .on(t.station, t.kind, t.date)
      .where(sql`${t.isFirstFinal}`),
    // Used to find days without a report, and by the clean-up.
    index('climate_products_date').on(t.date),
    check('climate_products_kind', sql`${t.kind} in ('daily_maximum', 'daily_minimum')`),
    check('climate_products_settled', sql`${t.settled} is null or ${t.isFirstFinal}`),
  ],
);
