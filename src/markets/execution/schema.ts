import { z } from 'zod';
import { idField, timeField } from '../../core/http/fields.js';
import { contractsField } from '../market/contracts.js';

export const MOST_DAYS = 92;
export const USUAL_DAYS = 7;

const day = z.iso
  .date('must be a day, like 2026-01-31')
  .refine((date) => date >= '2000' && date < '2100', 'must be a day of this century');

export const executionQuerySchema = z.strictObject({
  from: day
    .optional()
    .describe(`The first day in UTC, \`YYYY-MM-DD\`. Left out: ${USUAL_DAYS - 1} days before \`to\`.`),
  to: day.optional().describe('The last day in UTC, which is included. Left out: today.'),
  limit: z
    .string()
    .regex(/^([1-9]\d?|100)$/, 'must be a whole number from 1 to 100')
    .optional()
    .describe('How many of the newest live orders are listed in `shadow.orders`: 1 to 100, 25 if left out.'),
});

const dollars = (description: string) =>
  z
    .string()
    .regex(/^-?\d+\.\d{4,6}$/)
    .describe(`${description} Dollars.`);

const inTheEnd = 'At what the markets paid in the end, of those whose settlement is final.';
const minuteLater = 'At the price a minute later, of those that have one.';

const fillsPnl = (description: string) =>
  z
    .object({
      fills: z.int().describe('The number of fills with such a price.'),
      all: dollars(
        'Profit or loss after fees, as if each had been held so long; `null` if none has a price.',
      ).nullable(),
      missed: dollars('The part of it that is of fills that would have missed.').nullable(),
    })
    .describe(description);

const fillsSchema = z
  .object({
    fills: z.int(),
    contracts: contractsField('Filled.'),
    fees: dollars('Paid for them.'),
    judged: z.int().describe('Fills of which it is known whether they would have missed.'),
    missed: z
      .int()
      .describe(
        'Of these, fills at whose price or better no other taker traded within a minute, while the next book that was seen had nothing left there.',
      ),
    missedContracts: contractsField('The contracts of the fills that would have missed.'),
    after: z
      .array(
        z.object({
          seconds: z.int(),
          fills: z.int().describe('Fills whose price at that time is known.'),
          move: dollars(
            'How far the price of a contract had moved on average in favour of the order, before fees: the middle of the book, or the last print; `null` if it is not known of any.',
          ).nullable(),
        }),
      )
      .describe('Seconds after the fill.'),
    afterMinute: fillsPnl(minuteLater),
    settled: fillsPnl(inTheEnd),
  })
  .meta({ id: 'ExecutionFills' });

const shadowPnl = (description: string) =>
  z
    .object({
      orders: z.int().describe('The number of orders with such a price.'),
      live: dollars('Profit or loss of the live fills after fees; `null` if none has a price.').nullable(),
      paper: dollars('That of the same orders on paper.').nullable(),
    })
    .describe(description);

const sideSchema = z.object({
  contracts: contractsField('Filled.'),
  averagePrice: dollars('The average price of a contract; `null` if nothing was filled.').nullable(),
  fees: dollars('Paid for them.'),
});

const sideSumSchema = sideSchema.omit({ averagePrice: true });

const shadowSchema = z
  .object({
    count: z.int().describe('Live orders whose outcome is known.'),
    live: sideSumSchema,
    paper: sideSumSchema,
    afterMinute: shadowPnl(minuteLater),
    settled: shadowPnl(inTheEnd),
    roundTripMs: z
      .int()
      .nullable()
      .describe(
        "From sending an order to the venue's answer, the middle one of them: what `PAPER_LATENCY_MS` stands for.",
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
          afterMinute: dollars(
            'The price of a contract a minute later; `null` if it is not known.',
          ).nullable(),
        }),
      )
      .describe('The newest.'),
  })
  .meta({
    id: 'ExecutionShadow',
    description:
      'Live orders, and what paper would have filled of each on the book that was known when it was sent.',
  });

export const executionSchema = z
  .object({
    from: timeField('Inclusive.'),
    until: timeField('Exclusive.'),
    paperLatencyMs: z.int().describe('The current latency of a paper order.'),
    paper: fillsSchema,
    live: fillsSchema.nullable().describe('`null` for a test key.'),
    shadow: shadowSchema.nullable().describe('`null` for a test key.'),
  })
  .meta({ id: 'Execution' });
