import { z } from 'zod';

/**
 * What is read of the venue's answers about an account (OpenAPI 3.13 to 3.32). Directions are not: they come from our own
 * orders, because the venue is about to rename them.
 */
const dollars = z.string().regex(/^-?\d{1,12}(\.\d{1,6})?$/);
const count = z.string().regex(/^\d{1,12}(\.\d{1,2})?$/);
const signedCount = z.string().regex(/^-?\d{1,12}(\.\d{1,2})?$/);
const time = z.iso.datetime({ offset: true });
const id = z.string().min(1).max(200);

/** The answer to an order. It says neither market nor side: what was asked for is known here. */
export const createdOrderSchema = z.object({
  order_id: id,
  client_order_id: z.string().optional(),
  fill_count: count,
  remaining_count: count,
});

export const venueOrderSchema = z.object({
  order_id: id,
  /** Empty for orders that were placed by hand. */
  client_order_id: z.string(),
  ticker: id,
  status: z.enum(['resting', 'canceled', 'executed']),
  yes_price_dollars: dollars,
  initial_count_fp: count,
  fill_count_fp: count,
  remaining_count_fp: count,
  created_time: time.nullish(),
});
export type VenueOrder = z.infer<typeof venueOrderSchema>;

export const venueFillSchema = z.object({
  fill_id: id,
  order_id: z.string(),
  ticker: id,
  count_fp: count,
  yes_price_dollars: dollars,
  fee_cost: dollars,
  created_time: time.nullish(),
});
export type VenueFillAnswer = z.infer<typeof venueFillSchema>;

export const venuePositionSchema = z.object({ ticker: id, position_fp: signedCount });
export type VenuePosition = z.infer<typeof venuePositionSchema>;

export const venueSettlementSchema = z.object({
  ticker: id,
  market_result: z.string(),
  /** Cents. */
  revenue: z.number(),
  settled_time: time,
});
export type VenueSettlement = z.infer<typeof venueSettlementSchema>;

const cursor = z.string().nullish();
export const ordersPageSchema = z.object({ orders: z.array(venueOrderSchema), cursor });
export const fillsPageSchema = z.object({ fills: z.array(venueFillSchema), cursor });
export const positionsPageSchema = z.object({ market_positions: z.array(venuePositionSchema), cursor });
export const settlementsPageSchema = z.object({ settlements: z.array(venueSettlementSchema), cursor });
/** `balance` is in cents; newer versions add the exact amount. */
export const balanceSchema = z.object({ balance: z.int(), balance_dollars: dollars.optional() });

/** Plain, or wrapped, or only a sentence. */
const errorFields = z.object({
  code: z.string(),
  message: z.string().optional(),
  details: z.string().optional(),
});
export const errorSchema = z.union([z.object({ error: z.union([errorFields, z.string()]) }), errorFields]);
