import { sql } from 'drizzle-orm';
import { check, index, pgTable, primaryKey, uniqueIndex } from 'drizzle-orm/pg-core';

/** `preliminary`: on the day so far. `corrected`: replaces another final report. */
export const climateStages = ['preliminary', 'final', 'corrected'] as const;

/** As issued. Markets settle on the first final report, which the service deletes after a week. */
export const climateProducts = pgTable(
  'climate_products',
  (c) => ({
    /** ICAO id. */
    station: c.text().notNull(),
    kind: c.text({ enum: ['daily_maximum', 'daily_minimum'] }).notNull(),
    date: c.date({ mode: 'string' }).notNull(),
    issuedAt: c.timestamp('issued_at', { withTimezone: true, mode: 'date' }).notNull(),
    fetchedAt: c.timestamp('fetched_at', { withTimezone: true, mode: 'date' }).notNull().defaultNow(),
    stage: c.text({ enum: climateStages }).notNull().default('final'),
    value: c.integer().notNull(),
    /** With a value, and no earlier report can have been missed. */
    isFirstFinal: c.boolean('is_first_final').notNull(),
    /** Set only on the first final report. */
    settled: c.integer(),
  }),
  (t) => [
    primaryKey({ columns: [t.station, t.kind, t.date, t.issuedAt] }),
    // One first final report per day. Also serves the comparison with the venue.
    uniqueIndex('climate_products_first')
      .on(t.station, t.kind, t.date)
      .where(sql`${t.isFirstFinal}`),
    // Finds days without a report, and serves the clean-up.
    index('climate_products_date').on(t.date),
    check('climate_products_kind', sql`${t.kind} in ('daily_maximum', 'daily_minimum')`),
    check('climate_products_settled', sql`${t.settled} is null or ${t.isFirstFinal}`),
  ],
);
