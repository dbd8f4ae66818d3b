import { z } from 'zod';
import { idField, timeField } from '../../core/http/fields.js';
import { marketStatuses } from '../market/market.js';
import { reconciliationSchema } from '../live/schema.js';
import { sourceSchema } from '../snapshot/schema.js';
import { tradeModes } from '../ledger/orders-table.js';
import { contractsField } from '../market/contracts.js';

export const portfolioQuerySchema = z.strictObject({
  mode: z
    .enum(tradeModes, 'must be paper or live')
    .optional()
    .describe('`paper` if left out. The two are apart in everything.'),
});

const dollarsField = (description: string) =>
  z
    .string()
    .regex(/^-?\d+\.\d{4,6}$/)
    .describe(`${description} Dollars.`);

const positionSchema = z
  .object({
    ticker: z.string(),
    eventTicker: z.string(),
    station: z.string().nullable().describe('The station that settles it, `KNYC`.'),
    city: z.string().nullable(),
    date: z.string().nullable().describe('The climate day at the station, `YYYY-MM-DD`.'),
    label: z.string().describe('The bracket, in °F.'),
    side: z.enum(['yes', 'no']),
    contracts: contractsField('Contracts of `side` held.'),
    averagePrice: dollarsField('What a contract was bought for on average, without fees.'),
    cost: dollarsField('What the contracts were bought for, without fees.'),
    liquidationValue: dollarsField(
      'What they could be sold for now, after fees; `null` while there is no market data.',
    ).nullable(),
    liquidationFees: dollarsField("The venue's fee for that sale."),
    valuation: z
      .enum(['book', 'expected', 'closed', 'not_listed', 'unknown'])
      .describe(
        '`book`: sold into the bids that stand there now. `expected`: a result is named that is not final yet, or not booked yet, and it stands. `closed`: no orders and no result. `not_listed`: no longer shown by the venue. `unknown`: no market data.',
      ),
    unsellableContracts: contractsField('Contracts without bids now. They are valued at nothing.'),
    unrealisedPnl: dollarsField('`liquidationValue` less `cost`.').nullable(),
    realisedPnl: dollarsField('Over the whole life of the position, fees apart.'),
    fees: dollarsField('Paid for it, over its whole life.'),
    status: z
      .enum(marketStatuses)
      .nullable()
      .describe("The market's state; `null` where the venue does not show it."),
    settlement: z
      .object({
        state: z.string(),
        value: dollarsField(
          'What a YES contract pays. Between nothing and a dollar it is a last fair price, where no data came; NO pays the rest.',
        ).nullable(),
        temperature: z
          .number()
          .nullable()
          .describe('The reported temperature, °F: whole degrees of a day, hundredths of an hour.'),
        source: z
          .string()
          .nullable()
          .describe(
            'Who reports it, by the rules of the day; `null` where they do not say it in a way that is understood.',
          ),
      })
      .nullable()
      .describe("The venue's latest settlement of the market, if there is one."),
    openedAt: timeField('When the first contract was bought.'),
    updatedAt: timeField('When it last changed.'),
  })
  .meta({ id: 'Position' });

const eventSchema = z
  .object({
    eventTicker: z.string(),
    cost: dollarsField('The total cost of the positions of the event.'),
    worstCase: dollarsField('Profit or loss in the worst outcome: payout less cost, without fees.'),
    bestCase: dollarsField('Profit or loss in the best outcome.'),
    outcomes: z
      .array(
        z.object({
          ticker: z
            .string()
            .nullable()
            .describe(
              'The bracket that wins; of an hour the highest threshold that is passed. `null`: another one, or none.',
            ),
          payout: dollarsField('What the positions pay then.'),
          result: dollarsField('Payout less cost.'),
        }),
      )
      .describe(
        'Every way the day or the hour can end, from cold to warm. Where it is not known how the markets go together: the worst and the best.',
      ),
  })
  .meta({
    id: 'EventExposure',
    description:
      'The positions of one event. They are netted: exactly one bracket of a day wins, and every threshold that an hour passes.',
  });

const openOrderSchema = z
  .object({
    id: idField('As in `GET /trades`.'),
    ticker: z.string(),
    side: z.enum(['yes', 'no']),
    action: z.enum(['buy', 'sell']),
    contracts: contractsField('As ordered, or as decreased since.'),
    filledContracts: contractsField('Contracts filled.'),
    status: z.enum(['pending', 'resting']).describe('On the way to the venue, or in the book.'),
    queueAhead: contractsField(
      'For a resting paper order: contracts ahead of it, where that is known; else `null`.',
    ).nullable(),
    limitPrice: dollarsField('The worst price to trade at.'),
    reserved: dollarsField('Cash reserved for what may still be filled.'),
    createdAt: timeField('When it was placed.'),
  })
  .meta({ id: 'OpenOrder' });

const portfolioSchema = z
  .object({
    mode: z.enum(tradeModes),
    cash: dollarsField('Cash, including what is reserved.'),
    reserved: dollarsField('Kept for open orders.'),
    available: dollarsField('`cash` less `reserved`: what may be spent.'),
    equity: dollarsField('`cash` and `liquidationValue`; `null` while that is.').nullable(),
    liquidationValue: dollarsField('The sum over the positions; `null` while one of them is.').nullable(),
    cost: dollarsField('What the open positions were bought for, without fees.'),
    realisedPnl: dollarsField('Since the account was opened, fees apart.'),
    unrealisedPnl: dollarsField('`liquidationValue` less `cost`.').nullable(),
    fees: dollarsField('Since the account was opened.'),
    deposits: dollarsField('Deposits less withdrawals.'),
    transfers: dollarsField(
      'Of a live account: transfers from other exchange shards of the venue less those to them. They are neither deposits nor profits.',
    ),
    positions: z.array(positionSchema).describe('Open ones, by station, day and bracket; 500 at most.'),
    isCut: z
      .boolean()
      .describe('True if there are more positions than that: the others count as worth nothing.'),
    events: z.array(eventSchema),
    openOrders: z
      .array(openOrderSchema)
      .describe('Oldest first, 100 at most: orders in the book, or on their way to the venue.'),
    openOrderCount: z.int(),
  })
  .meta({ id: 'Portfolio' });

export const portfolioAnswerSchema = z
  .object({
    portfolio: portfolioSchema,
    venue: reconciliationSchema
      .nullish()
      .describe(
        'In live mode: how the account compares with the venue’s, and what others did with it. `null` if the Organization does not trade live here.',
      ),
    asOf: timeField(
      'When the market data used for the valuation was fetched; `null` while there is none.',
    ).nullable(),
    ageSeconds: z.int().nullable(),
    stale: z.boolean().describe('True if the market data is older than 30 seconds, or missing.'),
    sources: z.array(sourceSchema),
  })
  .meta({ id: 'PortfolioAnswer' });
