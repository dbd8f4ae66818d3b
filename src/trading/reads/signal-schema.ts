import { z } from 'zod';
import { timeField } from '../../core/http/fields.js';
import { contractsField } from '../market/contracts.js';
import { temperatureKinds } from '../market/market.js';
import { count, dateField, dollars, freshness, marketSchema, probability } from './schema.js';

export const signalsQuerySchema = z.strictObject({
  bankroll: z
    .string()
    .regex(/^(?=.*[1-9])\d{1,9}(\.\d{1,2})?$/, 'must be an amount in dollars above 0, like 2500.00')
    .optional()
    .describe(
      'Dollars that the sizes are reckoned from, above 0 and below 1,000,000,000. If left out: what a paper account begins with.',
    ),
});

const signalSchema = z
  .object({
    market: marketSchema,
    side: z.enum(['yes', 'no']),
    price: dollars('The best ask of the side.'),
    depth: contractsField('Contracts offered at `price`.'),
    probability: probability('That the side pays, by the forecast.'),
    breakEven: z.number().describe('From which probability on the purchase is worth its price and fee.'),
    edge: z.number().describe('`probability` less `breakEven`.'),
    fullKelly: z.number().describe('The Kelly share of the bankroll, fee included.'),
    fractionalKelly: z.number().describe('What is used of it.'),
    contracts: count('What to buy: always whole contracts, which are in the book.'),
    limitPrice: dollars('The highest price that is needed.'),
    averagePrice: dollars('Over all contracts, without the fee.'),
    fee: dollars("The venue's fee for all contracts."),
    stake: dollars('Prices and fee of all contracts. It is also the most that can be lost.'),
    expectedValue: dollars('What the purchase is worth by the forecast, less `stake`. Negative for a hedge.'),
    worstCase: dollars(
      'The most that it can lose by itself: its stake. What the purchases of an event lose together is with the event.',
    ),
    rest: z
      .object({
        price: dollars(
          'One step above the best bid of the side, where that reaches no ask; else the best bid.',
        ),
        contractsAhead: contractsField('Contracts ahead of it there.'),
        breakEven: z.number().describe('With the fee of who waits.'),
        edge: z.number().describe('`probability` less `breakEven`: what it is worth **if it fills**.'),
        worthMoreAbove: z
          .number()
          .nullable()
          .describe(
            'From which share of such orders filled on waiting is worth more than taking, the probability being the same; `null` where it is not worth its cost either way.',
          ),
      })
      .nullable()
      .describe(
        'The same purchase as an order that waits in the book (`timeInForce`, `postOnly`). It pays only if it fills, which nothing here promises: those who trade with it may know more. `null` for a hedge.',
      ),
    isHedge: z
      .boolean()
      .describe(
        'True for a purchase that costs more than it is worth by itself: it pays where the others of its event lose.',
      ),
    limitedBy: z
      .enum(['market', 'event', 'day', 'cash', 'depth'])
      .nullable()
      .describe(
        'What kept it smaller than Kelly would have it: one of the caps, the money, or what is in the book; `null` for nothing.',
      ),
    reasons: z
      .array(z.string())
      .describe('In words: the forecast, the price, the size, and how such forecasts have done.'),
    expiresAt: timeField('When it should no longer be acted on.'),
  })
  .meta({ id: 'Signal' });

const gateSchema = z
  .object({
    state: z.enum(['open', 'closed']).describe('Signals come through while it is `open`.'),
    leadHours: count(
      'The hours before the end of the day at which the forecasts were recorded that it is judged by; 0 where none are.',
    ),
    n: count('Settled days that it is judged by.'),
    evidence: z.number().describe('That the forecasts are ahead, to 1: what it has to reach is `needed`.'),
    needed: z.number(),
    difference: z
      .number()
      .nullable()
      .describe(
        'Over the last days: mean log score of the forecasts less that of what each outcome cost to buy, fee included. Below zero the forecasts were ahead. `null` for too few days.',
      ),
    interval: z
      .object({ low: z.number(), high: z.number() })
      .nullable()
      .describe('Where `difference` may lie by chance.'),
    reason: z.string().describe('Why it is open or closed.'),
  })
  .meta({ id: 'SignalGate' });

const eventSignalsSchema = z
  .object({
    eventTicker: z.string(),
    kind: z.enum(temperatureKinds),
    station: z.string().describe('The id of a station; of hours that of an area.'),
    city: z.string().nullable(),
    date: dateField,
    hour: z.int().nullable().describe('By the clock of the place; `null` but for hours.'),
    method: z
      .string()
      .nullable()
      .describe('How the probabilities were made, see the forecasts; `null` without a forecast.'),
    isCalibrated: z
      .boolean()
      .describe(
        'Whether the probabilities are corrected by how earlier ones came out. Without it nothing is a signal.',
      ),
    gate: gateSchema.describe(
      'Whether such forecasts have been ahead of the prices that could be paid at this station and this long before the end of the day.',
    ),
    signals: count('How many of the signals are of this event.'),
    stake: dollars('The stake of all its signals.'),
    worstCase: dollars('The most that they lose together, whichever bracket wins.'),
    growth: z
      .number()
      .describe(
        'Expected growth by its signals of the logarithm of the part of the bankroll that `kellyShare` puts at stake, exact costs included.',
      ),
    gap: z
      .number()
      .describe(
        'How far from the best possible growth the full sizes may be, by the conditions that an optimum must meet.',
      ),
    suppressed: z
      .array(
        z.object({
          ticker: z.string(),
          side: z.enum(['yes', 'no']),
          reason: z.string(),
          isWithheld: z
            .boolean()
            .describe('True for what would be a signal of this event if its forecasts had earned it.'),
        }),
      )
      .describe('The sides that have no signal, and why.'),
  })
  .meta({ id: 'EventSignals' });

export const signalListSchema = z
  .object({
    bankroll: dollars('What the sizes are reckoned from.'),
    kellyShare: z.number().describe('The share of the Kelly fraction that is used.'),
    marketCap: z.number().describe('The most that is staked on a market, as a share of the bankroll.'),
    eventCap: z.number().describe('The most that is staked on an event, as a share of the bankroll.'),
    dayCap: z
      .number()
      .describe(
        'The most that is staked on all events of a climate date, as a share of the bankroll: of maxima, minima and hours together, since the weather of cities goes together. Events with more growth come first.',
      ),
    sizing: z
      .string()
      .describe(
        'How sizes are found: `joint_event` maximises the growth over the outcomes that the markets of an event tell apart.',
      ),
    signals: z.array(signalSchema),
    events: z.array(eventSignalsSchema),
    ...freshness,
  })
  .meta({ id: 'SignalList' });
