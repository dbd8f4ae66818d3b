import { z } from 'zod';
import { parseCount, toHundredths } from '../../market/contracts.js';
import { DOLLAR, parseDollars, type Micros } from '../../market/money.js';
import type { Side } from '../../market/book.js';
import { price } from '../kalshi-schema.js';

/** Bids at one price, in hundredths of a contract so that sums are exact. */
export interface RawLevel {
  price: Micros;
  hundredths: number;
}

/** Common fields. Every frame with `sid` and `seq` uses one number of that subscription's sequence. */
interface Envelope {
  id?: number | undefined;
  sid?: number | undefined;
  seq?: number | undefined;
  /** Sending time in milliseconds; absent before October 2026. */
  sentAtMs?: number | undefined;
}

export interface SnapshotFrame extends Envelope {
  type: 'snapshot';
  ticker: string;
  levels: Record<Side, RawLevel[]>;
}

export interface DeltaFrame extends Envelope {
  type: 'delta';
  ticker: string;
  side: Side;
  price: Micros;
  /** Negative for removed bids. */
  hundredths: number;
}

/** Lifecycle event of a market; times are in seconds. */
export interface LifecycleFrame extends Envelope {
  type: 'lifecycle';
  ticker: string;
  event: string;
  closeSeconds: number | undefined;
}

export type Frame =
  | SnapshotFrame
  | DeltaFrame
  | LifecycleFrame
  | (Envelope & { type: 'subscribed'; channel: string; sid: number })
  | (Envelope & { type: 'error'; code: number; message: string })
  // Acknowledgements and ignored frames.
  | (Envelope & { type: 'other' })
  // A known type with an invalid body.
  | (Envelope & { type: 'unreadable'; ticker: string | undefined; problem: string });

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
const subscribedSchema = z.object({ channel: z.string(), sid: z.int() });
const errorSchema = z.object({ code: z.int(), msg: z.string().catch('') });
const snapshotSchema = z.object({
  market_ticker: z.string().min(1),
  yes_dollars_fp: side,
  no_dollars_fp: side,
});
const deltaSchema = z.object({
  market_ticker: z.string().min(1),
  price_dollars: price,
  delta_fp: count,
  side: z.enum(['yes', 'no']),
});
/** The last second that a date can have. */
const MAX_SECONDS = 8_640_000_000_000;
const lifecycleSchema = z.object({
  market_ticker: z.string().min(1),
  event_type: z.string(),
  close_ts: z.number().min(0).max(MAX_SECONDS).optional().catch(undefined),
});
const tickerSchema = z.object({ market_ticker: z.string() });

/** @param text one message of a subscription with `use_yes_price`, in which NO prices are given as YES prices */
export function readFrame(text: string): Frame {
  const parsed = envelopeSchema.safeParse(parseJson(text));
  if (!parsed.success) return { type: 'unreadable', ticker: undefined, problem: 'no envelope' };
  const { type, id, sid, seq, sending_ts_ms: sentAtMs, msg } = parsed.data;
  const envelope = { id, sid, seq, sentAtMs };
  const body = readBody(type, msg);
  if (body instanceof z.ZodError) {
    const ticker = tickerSchema.safeParse(msg).data?.market_ticker;
    const [{ path, message } = { path: [], message: 'unknown' }] = body.issues;
    return { type: 'unreadable', ...envelope, ticker, problem: `${type} ${path.join('.')}: ${message}` };
  }
  return { ...envelope, ...body } as Frame;
}

function readBody(type: string, msg: unknown): object {
  switch (type) {
    case 'subscribed':
      return read(subscribedSchema, msg, (found) => ({ type, ...found }));
    case 'error':
      return read(errorSchema, msg, ({ code, msg: message }) => ({ type, code, message }));
    case 'orderbook_snapshot':
      return read(snapshotSchema, msg, (found) => ({
        type: 'snapshot',
        ticker: found.market_ticker,
        levels: { yes: readLevels('yes', found.yes_dollars_fp), no: readLevels('no', found.no_dollars_fp) },
      }));
    case 'orderbook_delta':
      return read(deltaSchema, msg, (found) => ({
        type: 'delta',
        ticker: found.market_ticker,
        side: found.side,
        price: readPrice(found.side, found.price_dollars),
        hundredths: readHundredths(found.delta_fp),
      }));
    case 'market_lifecycle_v2':
      return read(lifecycleSchema, msg, ({ market_ticker: ticker, event_type: event, close_ts }) => ({
        type: 'lifecycle',
        ticker,
        event,
        closeSeconds: close_ts,
      }));
    default:
      return { type: 'other' };
  }
}

function read<T extends z.ZodType>(schema: T, msg: unknown, use: (found: z.output<T>) => object): object {
  const { data, error } = schema.safeParse(msg);
  return error ?? use(data);
}

const readLevels = (of: Side, levels: [string, string][] | null | undefined): RawLevel[] =>
  (levels ?? []).map(([price, contracts]) => ({
    price: readPrice(of, price),
    hundredths: readHundredths(contracts),
  }));

const readPrice = (of: Side, text: string): Micros =>
  of === 'yes' ? parseDollars(text) : DOLLAR - parseDollars(text);

const readHundredths = (text: string): number => toHundredths(parseCount(text));

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
