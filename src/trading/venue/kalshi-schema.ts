import { z } from 'zod';

/**
 * What is read of the venue's answers (OpenAPI 3.13 to 3.32). Fields that are not read may come and go. A market that lacks one
 * of these, or has it in another type, is left out by itself, see `readMarket`.
 */
const dollars = z.string().regex(/^-?\d{1,12}(\.\d{1,6})?$/);
const count = z.string().regex(/^\d{1,12}(\.\d{1,2})?$/);
const time = z.iso.datetime({ offset: true });

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
  // Winners of some months have lost these three; the rules, the label and the ticker say the same.
  strike_type: z.string().nullish(),
  floor_strike: z.number().nullish(),
  cap_strike: z.number().nullish(),
  rules_primary: z.string(),
  rules_secondary: z.string().default(''),
  price_ranges: z.array(priceRange).min(1),
});
export type KalshiMarket = z.infer<typeof kalshiMarketSchema>;

/** The markets themselves are looked at one by one. */
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

/** A series as the catalogue lists it. */
export const kalshiSeriesSchema = z.object({
  ticker: z.string().min(1),
  title: z.string(),
  fee_type: z.string(),
  fee_multiplier: z.number().min(0).max(100),
});
export type KalshiSeries = z.infer<typeof kalshiSeriesSchema>;

export const kalshiSeriesListSchema = z.object({ series: z.array(z.unknown()) });

/** Markets that were settled before this have moved to `/historical/markets`. */
export const kalshiCutoffSchema = z.object({ market_settled_ts: time });
