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

/**
 * `preliminary`: of the day so far, in the evening. `corrected`: final, and says itself that it replaces another one.
 */
export const climateStages = ['preliminary', 'final', 'corrected'] as const;
export type ClimateStage = (typeof climateStages)[number];

/**
 * What the weather service's climate reports said of a day, each as it was issued: corrections are rows of their own. The
 * first final one is what markets settle on, and is kept when it comes: the weather service forgets it within a week.
 */
export const climateProducts = pgTable(
  'climate_products',
  {
    /** ICAO id. */
    station: text().notNull(),
    kind: text({ enum: ['daily_maximum', 'daily_minimum'] }).notNull(),
    date: date({ mode: 'string' }).notNull(),
    /** By the header of the message. */
    issuedAt: timestamp('issued_at', { withTimezone: true, mode: 'date' }).notNull(),
    /** When it came into our hands. */
    fetchedAt: timestamp('fetched_at', { withTimezone: true, mode: 'date' }).notNull().defaultNow(),
    stage: text({ enum: climateStages }).notNull().default('final'),
    /** Whole °F. */
    value: integer().notNull(),
    /** Certainly the first final report with a value: none before it was missed. */
    isFirstFinal: boolean('is_first_final').notNull(),
    /** What the venue settled the day's markets by, beside the first report; null until it has. */
    settled: integer(),
  },
  (t) => [
    primaryKey({ columns: [t.station, t.kind, t.date, t.issuedAt] }),
    // There is one first report. Serves the comparison with the venue.
    uniqueIndex('climate_products_first')
      .on(t.station, t.kind, t.date)
      .where(sql`${t.isFirstFinal}`),
    // Serves the search for days without a report, and the clean-up.
    index('climate_products_date').on(t.date),
    check('climate_products_kind', sql`${t.kind} in ('daily_maximum', 'daily_minimum')`),
    check('climate_products_settled', sql`${t.settled} is null or ${t.isFirstFinal}`),
  ],
);
