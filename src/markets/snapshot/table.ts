import { index, pgTable, primaryKey } from 'drizzle-orm/pg-core';
import { time } from '../../core/db/sql.js';

/**
 * YES, in millionths of a dollar; null if the book has no such price. The forecast is a probability in millionths, null
 * if there was none, and missing in older rows.
 */
export type BestPrices = [bid: number | null, ask: number | null, forecast?: number | null];

/** Every five minutes while a market is open. Kept for three days. */
export const priceHistory = pgTable(
  'price_history',
  (c) => ({
    marketSource: c.text('market_source').notNull(),
    eventTicker: c.text('event_ticker').notNull(),
    at: time('at').notNull(),
    /** By ticker, because an event's markets are always read together. */
    prices: c.jsonb().$type<Record<string, BestPrices>>().notNull(),
  }),
  (t) => [
    primaryKey({ name: 'price_history_pk', columns: [t.marketSource, t.eventTicker, t.at] }),
    // For the clean-up.
    index('price_history_age').on(t.at),
  ],
);
