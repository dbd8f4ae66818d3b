import { z } from 'zod';
import { WEATHER_SHARD } from '../market/market.js';

/**
 * Fields used from the venue's responses (OpenAPI 3.13 to 3.32); other fields may come and go. A missing or mistyped
 * field excludes only its own market; see `readMarket`.
 */
export const dollars = z.string().regex(/^-?\d{1,12}(\.\d{1,6})?$/);
export const count = z.string().regex(/^\d{1,12}(\.\d{1,2})?$/);
export const time = z.iso.datetime({ offset: true });

const priceRange = z.object({ start: dollars, end: dollars, step: dollars });

export const kalshiMarketSchema = z.object({
  ticker: z.string().min(1),
  event_ticker: z.string().min(1),
  market_type: z.string(),
  title: z.string().default(''),
  yes_sub_title: z.string(),
  open_time: time,
  close_time: time,
  status: z.string(),
  yes_bid_dollars: dollars,
  yes_ask_dollars: dollars,
  no_bid_dollars: dollars,
  no_ask_dollars: dollars,
  yes_bid_size_fp: count.optional(),
  yes_ask_size_fp: count.optional(),
  last_price_dollars: dollars,
  volume_fp: count,
  volume_24h_fp: count,
  open_interest_fp: count,
  result: z.string(),
  settlement_value_dollars: dollars.nullish(),
  expiration_value: z.string(),
  // Missing for the winning markets of some months, but repeated in the rules, the label and the ticker.
  strike_type: z.string().nullish(),
  floor_strike: z.number().nullish(),
  cap_strike: z.number().nullish(),
  rules_primary: z.string(),
  rules_secondary: z.string().default(''),
  price_ranges: z.array(priceRange).min(1),
  // Responses from before September 2026 lack both fields.
  exchange_index: z.int().default(WEATHER_SHARD),
  settlement_bounds_type: z.string().default('default'),
  settlement_floor_dollars: dollars.nullish(),
});
export type KalshiMarket = z.infer<typeof kalshiMarketSchema>;

export const kalshiMarketsPageSchema = z.object({ markets: z.array(z.unknown()), cursor: z.string() });

/** `[price, contracts]`, bids only. */
const level = z.tuple([dollars, count]);

const orderBook = z.object({
  yes_dollars: z.array(level).nullish(),
  no_dollars: z.array(level).nullish(),
});
export type KalshiOrderBook = z.infer<typeof orderBook>;

export const kalshiOrderBookSchema = z.object({ orderbook_fp: orderBook });

export const kalshiOrderBooksSchema = z.object({
  orderbooks: z.array(z.object({ ticker: z.string().min(1), orderbook_fp: orderBook })),
});

export const kalshiExchangeStatusSchema = z.object({
  exchange_active: z.boolean(),
  trading_active: z.boolean(),
  exchange_estimated_resume_time: z.string().nullish(),
});

export const kalshiSeriesSchema = z.object({
  ticker: z.string().min(1),
  title: z.string(),
  fee_type: z.string(),
  fee_multiplier: z.number().min(0).max(100),
});
export type KalshiSeries = z.infer<typeof kalshiSeriesSchema>;

export const kalshiSeriesListSchema = z.object({ series: z.array(z.unknown()) });

/** Markets settled before this time are listed under `/historical/markets`. */
export const kalshiCutoffSchema = z.object({ market_settled_ts: time });
