import { z } from 'zod';
import { parseCount, toHundredths } from '../../market/contracts.js';
import { parseDollars, type Micros } from '../../market/money.js';
import { sidePrice, type Side } from '../../market/book.js';
import { price } from '../kalshi-schema.js';

/** Common fields. Every frame with `sid` and `seq` uses one number of that subscription's sequence. */
interface Envelope {
  id?: number | undefined;
  sid?: number | undefined;
  seq?: number | undefined;
  /** Sending time in milliseconds; absent before October 2026. */
  sentAtMs?: number | undefined;
}

const count = z.string().regex(/^-?\d{1,12}(\.\d{1,2})?$/);
const side = z.array(z.tuple([price, count])).nullish();

const envelopeSchema = z.object({
  type: z.string(),
  id: z.int().optional().catch(undefined),
  // Without its number, a frame of a subscription leaves a gap.
  sid: z.int().optional().catch(undefined),
  seq: z.int().optional().catch(undefined),
  sending_ts_ms: z.number().optional().catch(undefined),
  msg: z.unknown().optional(),
});
/** The last second that a date can have. */
const MAX_SECONDS = 8_640_000_000_000;
const bodies = {
  subscribed: z
    .object({ channel: z.string(), sid: z.int() })
    .transform((found) => ({ type: 'subscribed' as const, ...found })),
  error: z
    .object({ code: z.int(), msg: z.string().catch('') })
    .transform(({ code, msg: message }) => ({ type: 'error' as const, code, message })),
  orderbook_snapshot: z
    .object({ market_ticker: z.string().min(1), yes_dollars_fp: side, no_dollars_fp: side })
    .transform((found) => ({
      type: 'snapshot' as const,
      ticker: found.market_ticker,
      levels: { yes: readLevels('yes', found.yes_dollars_fp), no: readLevels('no', found.no_dollars_fp) },
    })),
  orderbook_delta: z
    .object({
      market_ticker: z.string().min(1),
      price_dollars: price,
      delta_fp: count,
      side: z.enum(['yes', 'no']),
    })
    .transform((found) => ({
      type: 'delta' as const,
      ticker: found.market_ticker,
      side: found.side,
      price: readPrice(found.side, found.price_dollars),
      /** Negative for removed bids. */
      hundredths: readHundredths(found.delta_fp),
    })),
  /** Lifecycle event of a market; times are in seconds. */
  market_lifecycle_v2: z
    .object({
      market_ticker: z.string().min(1),
      event_type: z.string(),
      close_ts: z.number().min(0).max(MAX_SECONDS).optional().catch(undefined),
    })
    .transform(({ market_ticker: ticker, event_type: event, close_ts: closeSeconds }) => ({
      type: 'lifecycle' as const,
      ticker,
      event,
      closeSeconds,
    })),
};
const tickerSchema = z.object({ market_ticker: z.string() });

export type Frame =
  | (Envelope & z.output<(typeof bodies)[keyof typeof bodies]>)
  // Acknowledgements and ignored frames.
  | (Envelope & { type: 'other' })
  // A known type with an invalid body.
  | (Envelope & { type: 'unreadable'; ticker: string | undefined; problem: string });
export type SnapshotFrame = Frame & { type: 'snapshot' };
export type DeltaFrame = Frame & { type: 'delta' };
export type LifecycleFrame = Frame & { type: 'lifecycle' };

/** @param text one message of a subscription with `use_yes_price`, in which NO prices are given as YES prices */
export function readFrame(text: string): Frame {
  const parsed = envelopeSchema.safeParse(parseJson(text));
  if (!parsed.success) return { type: 'unreadable', ticker: undefined, problem: 'no envelope' };
  const { type, id, sid, seq, sending_ts_ms: sentAtMs, msg } = parsed.data;
  const envelope = { id, sid, seq, sentAtMs };
  if (!isKnown(type)) return { type: 'other', ...envelope };
  const body = bodies[type].safeParse(msg);
  if (body.success) return { ...envelope, ...body.data };
  const ticker = tickerSchema.safeParse(msg).data?.market_ticker;
  const { path, message } = body.error.issues[0]!;
  return { type: 'unreadable', ...envelope, ticker, problem: `${type} ${path.join('.')}: ${message}` };
}

const isKnown = (type: string): type is keyof typeof bodies => Object.hasOwn(bodies, type);

/** In hundredths of a contract, so that sums are exact. */
function readLevels(of: Side, levels: [string, string][] | null | undefined) {
  return (levels ?? []).map(([price, contracts]) => ({
    price: readPrice(of, price),
    hundredths: readHundredths(contracts),
  }));
}

const readPrice = (of: Side, text: string): Micros => sidePrice(of, parseDollars(text));

const readHundredths = (text: string): number => toHundredths(parseCount(text));

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
