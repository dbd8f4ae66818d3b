import { z } from 'zod';
import {
  booleanField,
  idField,
  namedObject,
  numberOrNull,
  textField,
  textOrNull,
  timeField,
} from '../../core/http/fields.js';
import { marketStatuses } from '../market/market.js';
import { reconciliationSchema } from '../live/schema.js';
import { sourceSchema } from '../snapshot/schema.js';
import { tradeModes } from '../ledger/orders-table.js';
import { contractsField } from '../market/contracts.js';
import { dollarsField } from '../market/money.js';

export const portfolioQuerySchema = z.strictObject({
  mode: z
    .enum(tradeModes, 'must be paper or live')
    .optional()
    .describe('Default: `paper`. The two modes are completely separate.'),
});

const positionSchema = namedObject('Position', {
  ticker: z.string(),
  eventTicker: z.string(),
  station: textOrNull('The station that settles it, `KNYC`.'),
  city: z.string().nullable(),
  date: textOrNull('The climate day at the station, `YYYY-MM-DD`.'),
  label: textField('The bracket, in °F.'),
  side: z.enum(['yes', 'no']),
  contracts: contractsField('Contracts of `side` held.'),
  averagePrice: dollarsField('The average purchase price of a contract, without fees.'),
  cost: dollarsField('The purchase cost of the contracts, without fees.'),
  liquidationValue: dollarsField(
    'The proceeds of selling them now, after fees; `null` without market data.',
  ).nullable(),
  liquidationFees: dollarsField("The venue's fee for that sale."),
  valuation: z
    .enum(['book', 'expected', 'closed', 'not_listed', 'unknown'])
    .describe(
      '`book`: sold into the current bids. `expected`: by a result that is not final or not booked yet. `closed`: no orders and no result. `not_listed`: no longer listed by the venue. `unknown`: no market data.',
    ),
  unsellableContracts: contractsField('Contracts without bids now. Their value is 0.'),
  unrealisedPnl: dollarsField('`liquidationValue` minus `cost`.').nullable(),
  realisedPnl: dollarsField('Over the whole life of the position, without fees.'),
  fees: dollarsField('Fees over the whole life of the position.'),
  status: z
    .enum(marketStatuses)
    .nullable()
    .describe("The market's state; `null` if the venue does not show it."),
  settlement: z
    .object({
      state: z.string(),
      value: dollarsField(
        'The payout of a YES contract. A value between 0 and a dollar is a last fair price, used without data; NO pays the rest.',
      ).nullable(),
      temperature: numberOrNull(
        'The reported temperature, °F: whole degrees of a day, hundredths of an hour.',
      ),
      source: textOrNull(
        'The settlement source according to the rules; `null` if they cannot be interpreted.',
      ),
    })
    .nullable()
    .describe("The venue's latest settlement of the market, if any."),
  openedAt: timeField('When the first contract was bought.'),
  updatedAt: timeField('When it last changed.'),
});

const eventSchema = z
  .object({
    eventTicker: z.string(),
    cost: dollarsField('The total cost of the positions of the event.'),
    worstCase: dollarsField('Profit or loss in the worst outcome: payout minus cost, without fees.'),
    bestCase: dollarsField('Profit or loss in the best outcome.'),
    outcomes: z
      .array(
        z.object({
          ticker: textOrNull(
            'The winning bracket; for an hour, the highest threshold passed. `null`: another bracket, or none.',
          ),
          payout: dollarsField('The payout of the positions.'),
          result: dollarsField('Payout minus cost.'),
        }),
      )
      .describe(
        'All outcomes of the day or hour, from cold to warm. If the relation between the markets is unknown: the worst and the best outcome.',
      ),
  })
  .meta({
    id: 'EventExposure',
    description:
      'The positions of one event, netted: exactly one bracket of a day wins, and for an hour every threshold passed.',
  });

const openOrderSchema = namedObject('OpenOrder', {
  id: idField('As in `GET /trades`.'),
  ticker: z.string(),
  side: z.enum(['yes', 'no']),
  action: z.enum(['buy', 'sell']),
  contracts: contractsField('Contracts ordered, or the number after a decrease.'),
  filledContracts: contractsField('Contracts filled.'),
  status: z.enum(['pending', 'resting']).describe('Sent to the venue, or in the book.'),
  queueAhead: contractsField(
    'For a resting paper order: the contracts ahead of it, if known; otherwise `null`.',
  ).nullable(),
  limitPrice: dollarsField('The limit price.'),
  reserved: dollarsField('Cash reserved for the contracts that can still be filled.'),
  createdAt: timeField('When it was placed.'),
});

const portfolioSchema = namedObject('Portfolio', {
  mode: z.enum(tradeModes),
  cash: dollarsField('Cash, including what is reserved.'),
  reserved: dollarsField('Reserved for open orders.'),
  available: dollarsField('`cash` minus `reserved`.'),
  equity: dollarsField('`cash` plus `liquidationValue`; `null` if that is `null`.').nullable(),
  liquidationValue: dollarsField('The sum over the positions; `null` if one of them is `null`.').nullable(),
  cost: dollarsField('The purchase cost of the open positions, without fees.'),
  realisedPnl: dollarsField('Since the account was opened, without fees.'),
  unrealisedPnl: dollarsField('`liquidationValue` minus `cost`.').nullable(),
  fees: dollarsField('Since the account was opened.'),
  deposits: dollarsField('Deposits minus withdrawals.'),
  transfers: dollarsField(
    'For a live account: transfers from other exchange shards of the venue minus transfers to them. They are neither deposits nor profits.',
  ),
  positions: z.array(positionSchema).describe('Open positions by station, day and bracket; at most 500.'),
  isCut: booleanField('True if there are more positions; the others are valued at 0.'),
  events: z.array(eventSchema),
  openOrders: z
    .array(openOrderSchema)
    .describe('Orders in the book or sent to the venue, oldest first, at most 100.'),
  openOrderCount: z.int(),
});

export const portfolioAnswerSchema = namedObject('PortfolioAnswer', {
  portfolio: portfolioSchema,
  venue: reconciliationSchema
    .nullish()
    .describe(
      'In live mode: the comparison with the venue’s account, and other activity on it. `null` if the Organization does not trade live here.',
    ),
  asOf: timeField(
    'When the market data used for the valuation was fetched; `null` without market data.',
  ).nullable(),
  ageSeconds: z.int().nullable(),
  stale: booleanField('True if the market data is older than 30 seconds, or missing.'),
  sources: z.array(sourceSchema),
});
