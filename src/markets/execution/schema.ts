import { z } from 'zod';
import {
  idField,
  integerField,
  integerOrNull,
  namedObject,
  numberField,
  timeField,
} from '../../core/http/fields.js';
import { contractsField } from '../market/contracts.js';
import { dollarsField } from '../market/money.js';

export const MOST_DAYS = 92;
export const USUAL_DAYS = 7;

export const dayField = z.iso
  .date('must be a day, like 2026-01-31')
  .refine((date) => date.startsWith('20'), 'must be a day of this century')
  .meta({ pattern: '^20' });

export const executionQuerySchema = z.strictObject({
  from: dayField
    .optional()
    .describe(`The first day in UTC, \`YYYY-MM-DD\`. Default: ${USUAL_DAYS - 1} days before \`to\`.`),
  to: dayField.optional().describe('The last day in UTC, inclusive. Default: today.'),
  limit: z
    .string()
    .regex(/^([1-9]\d?|100)$/, 'must be a whole number from 1 to 100')
    .optional()
    .describe('The number of newest live orders in `shadow.orders`, 1 to 100. Default: 25.'),
});

const inTheEnd = 'Valued at the final payout, for fills in settled markets.';
const minuteLater = 'Valued at the price a minute later, for fills with a known price then.';

const fillsPnl = (description: string) =>
  z
    .object({
      fills: integerField('The number of fills that could be valued.'),
      all: dollarsField(
        'Profit or loss after fees if each fill had been held until then; `null` if none could be valued.',
      ).nullable(),
      missed: dollarsField('The part from fills that would have missed.').nullable(),
    })
    .describe(description);

const fillsSchema = namedObject('ExecutionFills', {
  fills: z.int(),
  contracts: contractsField('Contracts filled.'),
  fees: dollarsField('The fees of these fills.'),
  judged: integerField('Fills for which it is known whether they would have missed.'),
  missed: integerField(
    'Judged fills that would have missed: no other taker traded at their price or better within a minute, and the next observed book had nothing left there.',
  ),
  missedContracts: contractsField('The contracts of the fills that would have missed.'),
  after: z
    .array(
      z.object({
        seconds: z.int(),
        fills: integerField('Fills whose price at that time is known.'),
        move: dollarsField(
          'The average move of the price per contract in favour of the order, before fees, by the middle of the book or the last print; `null` if no price is known.',
        ).nullable(),
      }),
    )
    .describe('Price moves by seconds after the fill.'),
  afterMinute: fillsPnl(minuteLater),
  settled: fillsPnl(inTheEnd),
});

const shadowPnl = (description: string) =>
  z
    .object({
      orders: integerField('The number of orders that could be valued.'),
      live: dollarsField(
        'Profit or loss of the live fills after fees; `null` if none could be valued.',
      ).nullable(),
      paper: dollarsField('Profit or loss of the same orders on paper.').nullable(),
    })
    .describe(description);

const sideSchema = z.object({
  contracts: contractsField('Contracts filled.'),
  averagePrice: dollarsField('The average price of a contract; `null` if nothing was filled.').nullable(),
  fees: dollarsField('The fees of these fills.'),
});

const sideSumSchema = sideSchema.omit({ averagePrice: true });

const shadowSchema = z
  .object({
    count: integerField('Live orders whose outcome is known.'),
    live: sideSumSchema,
    paper: sideSumSchema,
    afterMinute: shadowPnl(minuteLater),
    settled: shadowPnl(inTheEnd),
    roundTripMs: integerOrNull(
      'The median time from sending an order to the venue’s response, which `PAPER_LATENCY_MS` simulates.',
    ),
    orders: z
      .array(
        z.object({
          id: idField('The id of the trade.'),
          ticker: z.string(),
          side: z.enum(['yes', 'no']),
          action: z.enum(['buy', 'sell']),
          at: timeField('When it was sent.'),
          contracts: contractsField('Contracts ordered.'),
          live: sideSchema,
          paper: sideSchema,
          afterMinute: dollarsField(
            'The price of a contract a minute later; `null` if it is not known.',
          ).nullable(),
        }),
      )
      .describe('The newest orders first.'),
  })
  .meta({
    id: 'ExecutionShadow',
    description:
      'Live orders, and what paper trading would have filled of each on the book known when it was sent.',
  });

const queueSchema = z
  .object({
    orders: integerField('Live orders with a place in the venue’s queue.'),
    places: integerField(
      'Recorded places: one when an order is first found in the book, and one per change.',
    ),
    medianError: contractsField(
      'The median of the difference between both; `null` without places.',
    ).nullable(),
    p90Error: contractsField('90% of the differences are at most this; `null` without places.').nullable(),
    correction: z
      .object({
        orders: integerField(
          'The number of live orders of the last 30 days from which the factor is learned.',
        ),
        factor: numberField(
          'Multiplier for the queue ahead of a new paper order; 1 with fewer than 30 orders.',
        ),
      })
      .describe('The current correction of the paper queue, whatever the period.'),
  })
  .meta({
    id: 'ExecutionQueue',
    description:
      'Places of live orders in the queue: the contracts ahead according to the venue, compared with the uncorrected paper queue. Better prices count as ahead.',
  });

export const executionSchema = namedObject('Execution', {
  from: timeField('Inclusive.'),
  until: timeField('Exclusive.'),
  paperLatencyMs: integerField('The current latency of a paper order.'),
  paper: fillsSchema,
  paperNearExtreme: fillsSchema.describe(
    'Paper fills while a single minute at the station could have decided the market; they are not in `paper`.',
  ),
  live: fillsSchema.nullable().describe('`null` for a test key.'),
  shadow: shadowSchema.nullable().describe('`null` for a test key.'),
  queue: queueSchema.nullable().describe('`null` for a test key.'),
});
