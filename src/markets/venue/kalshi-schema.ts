import { z } from 'zod';
import { WEATHER_SHARD } from '../market/market.js';

/**
 * Fields used from the venue's responses (OpenAPI 3.13 to 3.34); other fields may come and go. A missing or mistyped
 * field excludes only its own market; see `readMarket`.
 */
export const dollars = z.string().regex(/^-?\d{1,12}(\.\d{1,6})?$/);
/** From nothing to a dollar. Any other amount is no price. */
export const price = z.string().regex(/^(0(\.\d{1,6})?|1(\.0{1,6})?)$/);
export const count = z.string().regex(/^\d{1,12}(\.\d{1,2})?$/);
/** In a trade or a fill. */
export const tradedPrice = price.refine((text) => !/^[01](\.0*)?$/.test(text), 'nobody trades at $0 or $1');
export const tradedCount = count.refine((text) => Number(text) > 0, 'nobody trades 0 contracts');
export const time = z.iso.datetime({ offset: true });

const priceRange = z.object({ start: price, end: price, step: price });

export const kalshiResultSchema = z.object({
  ticker: z.string().min(1),
  status: z.string(),
  result: z.string(),
  settlement_value_dollars: dollars.nullish(),
});
export type KalshiResult = z.infer<typeof kalshiResultSchema>;

export const kalshiOutcomeSchema = kalshiResultSchema.extend({
  event_ticker: z.string().min(1),
  yes_sub_title: z.string(),
  expiration_value: z.string(),
  // Missing for the winning markets of some months, but repeated in the rules, the label and the ticker.
  strike_type: z.string().nullish(),
  floor_strike: z.number().nullish(),
  cap_strike: z.number().nullish(),
  rules_primary: z.string(),
  rules_secondary: z.string().default(''),
});
export type KalshiOutcome = z.infer<typeof kalshiOutcomeSchema>;

export const kalshiMarketSchema = kalshiOutcomeSchema.extend({
  market_type: z.string(),
  title: z.string().default(''),
  open_time: time,
  close_time: time,
  yes_bid_dollars: price,
  yes_ask_dollars: price,
  no_bid_dollars: price,
  no_ask_dollars: price,
  yes_bid_size_fp: count.optional(),
  yes_ask_size_fp: count.optional(),
  last_price_dollars: price,
  volume_fp: count,
  volume_24h_fp: count,
  open_interest_fp: count,
  price_ranges: z.array(priceRange).min(1),
  // Responses from before September 2026 lack both fields.
  exchange_index: z.int().default(WEATHER_SHARD),
  settlement_bounds_type: z.string().default('default'),
  settlement_floor_dollars: dollars.nullish(),
});
export type KalshiMarket = z.infer<typeof kalshiMarketSchema>;

export const kalshiMarketsPageSchema = z.object({ markets: z.array(z.unknown()), cursor: z.string() });

/** `[price, contracts]`, bids only. */
const level = z.tuple([price, count]);

const orderBook = z.object({
  yes_dollars: z.array(level).nullish(),
  no_dollars: z.array(level).nullish(),
});
export type KalshiOrderBook = z.infer<typeof orderBook>;

export const kalshiOrderBookSchema = z.object({ orderbook_fp: orderBook });

export const kalshiOrderBooksSchema = z.object({
  orderbooks: z.array(z.unknown()),
});

export const kalshiListedBookSchema = z.object({ ticker: z.string().min(1), orderbook_fp: orderBook });

export const kalshiExchangeStatusSchema = z.object({
  exchange_active: z.boolean(),
  trading_active: z.boolean(),
  exchange_estimated_resume_time: z.string().nullish().catch(null),
});

export const kalshiSeriesSchema = z.object({
  ticker: z.string().min(1),
  // A fee that cannot be read is unknown, and the series' markets are not traded.
  fee_type: z.string().catch('unreadable'),
  fee_multiplier: z.number().min(0).max(100).nullable().catch(null),
});
export type KalshiSeries = z.infer<typeof kalshiSeriesSchema>;

export const kalshiSeriesListSchema = z.object({ series: z.array(z.unknown()) });

/** Markets settled before this time are listed under `/historical/markets`. */
export const kalshiCutoffSchema = z.object({ market_settled_ts: time });
