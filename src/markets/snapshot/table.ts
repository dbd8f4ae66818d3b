import { index, jsonb, pgTable, primaryKey, text } from 'drizzle-orm/pg-core';
import { time } from '../../core/db/sql.js';

/** Best YES bid and ask in millionths of a dollar; null if the book has no such price. */
export type BestPrices = [bid: number | null, ask: number | null];

/** Prices of an event's markets every five minutes while a market is open. Retained for three days. */
export const priceHistory = pgTable(
  'price_history',
  {
    marketSource: text('market_source').notNull(),
    eventTicker: text('event_ticker').notNull(),
    at: time('at').notNull(),
    /** Prices by ticker for all markets of the event, because they are always read together. */
    prices: jsonb().$type<Record<string, BestPrices>>().notNull(),
  },
  (t) => [
    primaryKey({ name: 'price_history_pk', columns: [t.marketSource, t.eventTicker, t.at] }),
    // Serves the clean-up.
    index('price_history_age').on(t.at),
  ],
);
