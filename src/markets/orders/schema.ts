import { z } from 'zod';
import { idField, nextCursorField, timeField } from '../../core/http/fields.js';
import { timeInput } from '../../core/http/validate.js';
import { mayRest, timesInForce } from '../market/book.js';
import {
  contractsField,
  isOrderSize,
  MAX_CONTRACTS,
  MIN_CONTRACTS,
  ORDER_SIZE,
} from '../market/contracts.js';
import { cancelCauses, orderStatuses, tradeModes } from '../ledger/orders-table.js';

export const MAX_BODY_BYTES = 4 * 1024;
export const MAX_PAGE = 100;

const sides = ['yes', 'no'] as const;
const actions = ['buy', 'sell'] as const;

/** The format of venue tickers; longer than any that exists. */
const ticker = z
  .string()
  .regex(/^[A-Za-z0-9._-]{1,64}$/, 'must be a market’s ticker, like KXHIGHNY-26JAN31-B40.5');

export const orderSchema = z
  .strictObject({
    ticker: ticker.describe('The market.'),
    side: z.enum(sides).describe('The side that is bought or sold.'),
    action: z.enum(actions),
    contracts: z
      .number()
      .refine(isOrderSize, ORDER_SIZE)
      .meta({
        minimum: MIN_CONTRACTS,
        maximum: MAX_CONTRACTS,
        description: `${MIN_CONTRACTS} to ${MAX_CONTRACTS.toLocaleString('en')}, with at most two decimals. Each whole one pays a dollar if its side wins.`,
      }),
    limitPrice: z
      .string()
      .regex(/^\d(\.\d{1,6})?$/, 'must be a price in dollars as a decimal string, like "0.5600"')
      .describe(
        'The worst price of a contract of `side`, in dollars: a purchase pays no more, a sale brings no less. A multiple of the market’s `tickSize`.',
      ),
    mode: z.enum(tradeModes).optional().describe('`paper` if left out.'),
    timeInForce: z
      .enum(timesInForce)
      .optional()
      .describe(
        '`immediate_or_cancel` (if left out): what the book holds is filled, the rest is cancelled. `fill_or_kill`: all or nothing. `good_till_cancelled`: the rest waits in the book until it is filled or cancelled. `good_till_time`: until `expiresAt` at the latest.',
      ),
    expiresAt: timeInput
      .optional()
      .describe('When what is still in the book is cancelled; with `good_till_time`, and only with it.'),
    postOnly: z
      .boolean()
      .optional()
      .describe(
        'Only for orders that may rest: never takes what is in the book. One that would be filled at once is refused with `price_moved`.',
      ),
    cancelOn: z
      .array(z.enum(cancelCauses))
      .max(cancelCauses.length)
      .optional()
      .describe(
        'Only for orders that may rest; all three if left out. What cancels it automatically. `observation`: a report of the market’s station has come in or is due since it was placed. `stale`: the market data is too old, or its book is in doubt. `gate_closed`: the gate of the market’s signal closes; left out of the answer where it is closed already. A trading switch that lets the order no longer pass cancels it always.',
      ),
  })
  .superRefine(({ timeInForce = 'immediate_or_cancel', expiresAt, postOnly, cancelOn }, context) => {
    const refuse = (field: string, message: string) =>
      context.addIssue({ code: 'custom', path: [field], message });
    const isTimed = timeInForce === 'good_till_time';
    if (isTimed && expiresAt === undefined) refuse('expiresAt', 'is required with good_till_time');
    if (!isTimed && expiresAt !== undefined) refuse('expiresAt', 'is allowed only with good_till_time');
    for (const [field, value] of Object.entries({ postOnly, cancelOn }))
      if (!mayRest(timeInForce) && value !== undefined)
        refuse(field, 'is allowed only with good_till_cancelled and good_till_time');
  })
  .meta({ id: 'OrderInput' });

export const decreaseSchema = z
  .strictObject({
    remainingContracts: z
      .number()
      .refine(
        (value) => value === 0 || isOrderSize(value),
        `must be 0, or ${ORDER_SIZE.replace(/^must be /, '')}`,
      )
      .meta({
        minimum: 0,
        maximum: MAX_CONTRACTS,
        description: 'The contracts that may still be filled: at most as many as now. 0 cancels the order.',
      }),
  })
  .meta({ id: 'OrderDecrease' });

export const orderHeaders = z.object({
  'Idempotency-Key': z
    .string()
    .regex(/^[\x21-\x7e]{1,255}$/)
    .describe(
      '1 to 255 visible ASCII characters, new for each order and kept for its repeats: however often it is sent, the order is placed once.',
    ),
});

export const listTradesSchema = z.object({
  mode: z.enum(tradeModes).optional().describe('Both if left out; of a test key, `paper`.'),
  ticker: ticker.optional().describe('Only trades of this market.'),
  limit: z
    .string()
    .regex(/^([1-9]\d?|100)$/, `must be a whole number from 1 to ${MAX_PAGE}`)
    .optional()
    .describe(`How many at most, 1 to ${MAX_PAGE}; 50 if left out.`),
  cursor: z
    .uuid('must be a nextCursor of an earlier answer')
    .optional()
    .describe('The `nextCursor` of the page before.'),
});

const dollars = (description: string) =>
  z
    .string()
    .regex(/^-?\d+\.\d{4,6}$/)
    .meta({ description: `${description} Dollars, a decimal string.` });

const tradeFillSchema = z
  .object({
    price: dollars('The price of a contract.'),
    contracts: contractsField('Contracts filled at this price.'),
    fee: dollars(
      'With what rounds its balance change down to $0.0001, less what is given back of earlier fills’ roundings. Never below 0.',
    ),
    filledAt: timeField('When it was filled.'),
  })
  .meta({ id: 'TradeFill' });

export const tradeSchema = z
  .object({
    id: idField('The id of the trade.'),
    mode: z.enum(tradeModes),
    status: z
      .enum(orderStatuses)
      .describe(
        '`pending`: sent to the venue, and its answer is not known yet; only live trades. `resting`: what is not filled yet waits in the book. The others are final. `partially_filled`: the rest was cancelled. `cancelled`: nothing was filled. `rejected`: the venue would not take it.',
      ),
    reason: z
      .string()
      .nullable()
      .describe('Why it was not filled completely; `null` if it was, or still may be.'),
    ticker: z.string(),
    eventTicker: z.string(),
    seriesTicker: z.string(),
    station: z.string().nullable().describe('The id of the station that the series settles on.'),
    side: z.enum(sides),
    action: z.enum(actions),
    contracts: contractsField('As ordered, or as decreased since.'),
    limitPrice: dollars('As ordered.'),
    timeInForce: z.enum(timesInForce),
    expiresAt: timeField('When a `good_till_time` order ends.').nullable(),
    postOnly: z.boolean().describe('Only rests in the book, never takes.'),
    cancelOn: z.array(z.enum(cancelCauses)).describe('What cancels it automatically.'),
    filledContracts: contractsField('Contracts filled.'),
    remainingContracts: contractsField('Contracts that may still be filled; 0 once it has ended.'),
    queueAhead: contractsField(
      'For a resting paper order: contracts ahead of it at its price, which trade first. `null` while only the best prices of its market are known, and for all others.',
    ).nullable(),
    averagePrice: dollars(
      'The average price of what was filled, without fees; `null` if nothing was.',
    ).nullable(),
    fees: dollars('The fees of all fills.'),
    total: dollars(
      'What the balance changed by, fees included: negative for a purchase. A purchase of the side that is not held closes pairs of YES and NO, and each pair pays a dollar at once, which is counted here.',
    ),
    fills: z.array(tradeFillSchema).describe('The fills, level by level.'),
    idempotencyKey: z.string(),
    clientOrderId: z
      .string()
      .describe('The client order id sent to the venue; derived from the idempotency key.'),
    venueOrderId: z.string().nullable().describe('The venue’s id of a live order.'),
    createdAt: timeField('When it was accepted.'),
    finishedAt: timeField('When it ended; `null` while it is pending or resting.').nullable(),
  })
  .meta({ id: 'Trade', description: 'An order and what became of it.' });

export const tradeAnswerSchema = z.object({ trade: tradeSchema }).meta({ id: 'TradeAnswer' });

export const tradeListSchema = z
  .object({
    trades: z.array(tradeSchema).describe('Newest first.'),
    nextCursor: nextCursorField,
  })
  .meta({ id: 'TradeList' });
