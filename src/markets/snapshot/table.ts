import { index, jsonb, pgTable, primaryKey, text } from 'drizzle-orm/pg-core';
import { time } from '../../core/db/sql.js';

/** Best YES bid and ask in millionths of a dollar; null without one. */
export type BestPrices = [bid: number | null, ask: number | null];

/** Prices of an event's markets every five minutes while one is open. Kept for three days. */
export const priceHistory = pgTable(
  'price_history',
  {
    marketSource: text('market_source').notNull(),
    eventTicker: text('event_ticker').notNull(),
    at: time('at').notNull(),
    /** By ticker, for all markets of the event, which are always read together. */
    prices: jsonb().$type<Record<string, BestPrices>>().notNull(),
  },
  (t) => [
    primaryKey({ name: 'price_history_pk', columns: [t.marketSource, t.eventTicker, t.at] }),
    // For the clean-up.
    index('price_history_age').on(t.at),
  ],
);
