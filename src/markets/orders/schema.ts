import { z } from 'zod';
import {
  booleanField,
  idField,
  namedObject,
  nextCursorField,
  textField,
  textOrNull,
  timeField,
} from '../../core/http/fields.js';
import { timeInput } from '../../core/http/validate.js';
import { acceptedTimesInForce, mayRest, readTimeInForce, timesInForce } from '../market/book.js';
import {
  contractsField,
  isOrderSize,
  MAX_CONTRACTS,
  MIN_CONTRACTS,
  ORDER_SIZE,
} from '../market/contracts.js';
import { dollarsField } from '../market/money.js';
import { cancelCauses, orderStatuses, tradeModes } from '../ledger/orders-table.js';

export const MAX_BODY_BYTES = 4 * 1024;
export const MAX_PAGE = 100;

const sides = ['yes', 'no'] as const;
const actions = ['buy', 'sell'] as const;

/** Format of venue tickers. The length limit exceeds that of any existing ticker. */
const ticker = z
  .string()
  .regex(/^[A-Za-z0-9._-]{1,64}$/, 'must be a market’s ticker, like KXHIGHNY-26JAN31-B40.5');

export const orderSchema = z
  .strictObject({
    ticker: ticker.describe('The market.'),
    side: z.enum(sides).describe('The side to buy or sell.'),
    action: z.enum(actions),
    contracts: z
      .number()
      .refine(isOrderSize, ORDER_SIZE)
      .meta({
        minimum: MIN_CONTRACTS,
        maximum: MAX_CONTRACTS,
        description: `${MIN_CONTRACTS} to ${MAX_CONTRACTS.toLocaleString('en')}, with at most two decimals. Each contract pays a dollar if its side wins.`,
      }),
    limitPrice: z
      .string()
      .regex(/^\d(\.\d{1,6})?$/, 'must be a price in dollars as a decimal string, like "0.5600"')
      .describe(
        'The limit price per contract of `side`, in dollars: the most that a purchase pays, or the least that a sale brings. A multiple of the market’s `tickSize`.',
      ),
    mode: z.enum(tradeModes).optional().describe('Default: `paper`.'),
    timeInForce: z
      .enum(acceptedTimesInForce)
      .optional()
      .describe(
        '`immediate_or_cancel` (the default): fill what the book has and cancel the rest. `fill_or_kill`: all or nothing. `good_till_cancelled`: the rest stays in the book until it is filled or cancelled; `good_till_canceled` means the same. `good_till_time`: until `expiresAt` at the latest.',
      ),
    expiresAt: timeInput
      .optional()
      .describe(
        'When the rest of the order is cancelled. Required with `good_till_time`, and allowed only with it.',
      ),
    postOnly: z
      .boolean()
      .optional()
      .describe(
        'Only for orders that can rest. The order never takes liquidity: if it would fill at once, it is refused with `price_moved`.',
      ),
    cancelOn: z
      .array(z.enum(cancelCauses))
      .max(cancelCauses.length)
      .optional()
      .describe(
        'Only for orders that can rest. The conditions that cancel the order automatically. Default: all three. `observation`: a report of the market’s station has arrived or become due since the order was placed, or a border of the bracket is within 2 °F of the day’s extreme so far, from 10:00 to 17:00 in local standard time (for minima: 3:00 to 8:00); then the order is also refused with `market_closed`. `stale`: the market data is too old, or the book is in doubt. `gate_closed`: the gate of the market’s signal closes; not in the response if the gate is already closed. A trading switch that no longer allows the order always cancels it.',
      ),
  })
  .superRefine(({ timeInForce = 'immediate_or_cancel', expiresAt, postOnly, cancelOn }, context) => {
    const refuse = (field: string, message: string) =>
      context.addIssue({ code: 'custom', path: [field], message });
    const isTimed = timeInForce === 'good_till_time';
    if (isTimed && expiresAt === undefined) refuse('expiresAt', 'is required with good_till_time');
    if (!isTimed && expiresAt !== undefined) refuse('expiresAt', 'is allowed only with good_till_time');
    for (const [field, value] of Object.entries({ postOnly, cancelOn }))
      if (!mayRest(readTimeInForce(timeInForce)) && value !== undefined)
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
        description:
          'The contracts that can still be filled, at most the current number. 0 cancels the order.',
      }),
  })
  .meta({ id: 'OrderDecrease' });

export const orderHeaders = z.object({
  'Idempotency-Key': z
    .string()
    .regex(/^[\x21-\x7e]{1,255}$/)
    .describe(
      '1 to 255 visible ASCII characters. Use a new value for each order and the same value for its retries; the order is placed once.',
    ),
});

export const listTradesSchema = z.object({
  mode: z.enum(tradeModes).optional().describe('Default: both modes; `paper` for a test key.'),
  ticker: ticker.optional().describe('Only trades of this market.'),
  limit: z
    .string()
    .regex(/^([1-9]\d?|100)$/, `must be a whole number from 1 to ${MAX_PAGE}`)
    .optional()
    .describe(`The maximum number to return, 1 to ${MAX_PAGE}. Default: 50.`),
  cursor: z
    .uuid('must be a nextCursor from an earlier response')
    .optional()
    .describe('The `nextCursor` of the previous page.'),
});

const tradeFillSchema = namedObject('TradeFill', {
  price: dollarsField('The price per contract.'),
  contracts: contractsField('Contracts filled at this price.'),
  fee: dollarsField(
    'Includes the rounding of the balance change down to $0.0001, minus rebates of earlier rounding. Never below 0.',
  ),
  filledAt: timeField('When it was filled.'),
});

export const tradeSchema = z
  .object({
    id: idField('The id of the trade.'),
    mode: z.enum(tradeModes),
    status: z
      .enum(orderStatuses)
      .describe(
        '`pending`: sent to the venue, outcome unknown; live trades only. `resting`: the unfilled contracts wait in the book. The others are final. `partially_filled`: the rest was cancelled. `cancelled`: nothing was filled. `rejected`: the venue refused it.',
      ),
    reason: textOrNull('Why it was not filled completely; `null` if it was or still can be.'),
    ticker: z.string(),
    eventTicker: z.string(),
    seriesTicker: z.string(),
    station: textOrNull('The id of the station whose report settles the series.'),
    side: z.enum(sides),
    action: z.enum(actions),
    contracts: contractsField('Contracts ordered, or the number after a decrease.'),
    limitPrice: dollarsField('The limit price per contract.'),
    timeInForce: z.enum(timesInForce),
    expiresAt: timeField('When a `good_till_time` order ends.').nullable(),
    postOnly: booleanField('True if the order never takes liquidity.'),
    cancelOn: z.array(z.enum(cancelCauses)).describe('The conditions that cancel it automatically.'),
    filledContracts: contractsField('Contracts filled.'),
    remainingContracts: contractsField('Contracts that can still be filled; 0 after it has ended.'),
    queueAhead: contractsField(
      "For a resting paper order: the contracts ahead of it at its price. `null` while only the market's best prices are known, and for other orders.",
    ).nullable(),
    averagePrice: dollarsField('The average fill price without fees; `null` without fills.').nullable(),
    fees: dollarsField('The fees of all fills.'),
    total: dollarsField(
      'The change of the balance, including fees; negative for a purchase. Buying the opposite of a held side closes pairs of YES and NO; each pair pays a dollar at once, which is included here.',
    ),
    fills: z.array(tradeFillSchema).describe('The fills by price level.'),
    idempotencyKey: z.string(),
    clientOrderId: textField('The client order id sent to the venue; derived from the idempotency key.'),
    venueOrderId: textOrNull('The venue’s id of a live order.'),
    createdAt: timeField('When it was accepted.'),
    finishedAt: timeField('When it ended; `null` while it is pending or resting.').nullable(),
  })
  .meta({ id: 'Trade', description: 'An order and its outcome.' });

export const tradeAnswerSchema = namedObject('TradeAnswer', { trade: tradeSchema });

export const tradeListSchema = namedObject('TradeList', {
  trades: z.array(tradeSchema).describe('Newest first.'),
  nextCursor: nextCursorField,
});
