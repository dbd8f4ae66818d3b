import { index, jsonb, pgTable, primaryKey, text } from 'drizzle-orm/pg-core';
import { time } from '../../core/db/sql.js';

/** Best bid and ask of YES, in millionths of a dollar; null where there was none. */
export type BestPrices = [bid: number | null, ask: number | null];

/** What the markets of an event cost, every five minutes while one of them is open. Kept for three days. */
export const priceHistory = pgTable(
  'price_history',
  {
    marketSource: text('market_source').notNull(),
    eventTicker: text('event_ticker').notNull(),
    /** The beginning of the five minutes. */
    at: time('at').notNull(),
    /** By ticker, of all its markets: they are always looked at together. */
    prices: jsonb().$type<Record<string, BestPrices>>().notNull(),
  },
  (t) => [
    primaryKey({ name: 'price_history_pk', columns: [t.marketSource, t.eventTicker, t.at] }),
    // Serves the clean-up.
    index('price_history_age').on(t.at),
  ],
);
