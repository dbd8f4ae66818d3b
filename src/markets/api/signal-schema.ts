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
      'The bankroll in dollars that sizes are calculated from, above 0 and below 1,000,000,000. If left out: what a paper account begins with.',
    ),
});

const signalSchema = z
  .object({
    market: marketSchema,
    side: z.enum(['yes', 'no']),
    price: dollars('The best ask of the side.'),
    depth: contractsField('Contracts offered at `price`.'),
    probability: probability('The probability that the side pays, according to the forecast.'),
    breakEven: z.number().describe('The probability above which the purchase is worth its price and fee.'),
    edge: z.number().describe('`probability` less `breakEven`.'),
    fullKelly: z.number().describe('The full Kelly share of the bankroll, fee included.'),
    fractionalKelly: z.number().describe('The share that is used.'),
    contracts: count('Contracts to buy: always whole contracts, available in the book.'),
    limitPrice: dollars('The highest price needed to fill them.'),
    averagePrice: dollars('The average price of all contracts, without the fee.'),
    fee: dollars("The venue's fee for all contracts."),
    stake: dollars('Prices and fee of all contracts. It is also the most that can be lost.'),
    expectedValue: dollars(
      'The value of the purchase according to the forecast, less `stake`. Negative for a hedge.',
    ),
    worstCase: dollars(
      'The most that it can lose by itself: its stake. What the purchases of an event lose together is with the event.',
    ),
    rest: z
      .object({
        price: dollars(
          'One step above the best bid of the side, where that reaches no ask; else the best bid.',
        ),
        contractsAhead: contractsField('Contracts ahead of it there.'),
        breakEven: z.number().describe("With the maker's fee."),
        edge: z.number().describe('`probability` less `breakEven`: what it is worth **if it fills**.'),
        worthMoreAbove: z
          .number()
          .nullable()
          .describe(
            'The share of such orders that must fill for waiting to be worth more than taking, at the same probability; `null` if neither is worth its cost.',
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
        'What limited it below the Kelly size: one of the caps, the available cash, or the depth of the book; `null` if nothing did.',
      ),
    reasons: z
      .array(z.string())
      .describe('In words: the forecast, the price, the size, and how such forecasts have performed.'),
    expiresAt: timeField('When it should no longer be acted on.'),
  })
  .meta({ id: 'Signal' });

const gateSchema = z
  .object({
    state: z.enum(['open', 'closed']).describe('Signals are let through while it is `open`.'),
    leadHours: count(
      'The hours before the end of the day at which the forecasts were recorded that it is judged by; 0 where none are.',
    ),
    n: count('Settled days that it is judged by.'),
    evidence: z
      .number()
      .describe('The evidence that the forecasts are ahead, as odds to 1. It has to reach `needed`.'),
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
      .describe('The confidence interval of `difference`.'),
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
    hour: z.int().nullable().describe('In the local time of the place; `null` except for hours.'),
    method: z
      .string()
      .nullable()
      .describe('How the probabilities were made, see the forecasts; `null` without a forecast.'),
    isCalibrated: z
      .boolean()
      .describe(
        'Whether the probabilities are calibrated against the outcomes of earlier ones. Without that there are no signals.',
      ),
    gate: gateSchema.describe(
      'Whether such forecasts have been ahead of the prices that could be paid at this station and this long before the end of the day.',
    ),
    signals: count('The number of signals for this event.'),
    stake: dollars('The stake of all its signals.'),
    worstCase: dollars('The most they can lose together, whichever bracket wins.'),
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
      .describe('The sides without a signal, and why.'),
  })
  .meta({ id: 'EventSignals' });

export const signalListSchema = z
  .object({
    bankroll: dollars('The bankroll that sizes are calculated from.'),
    kellyShare: z.number().describe('The share of the Kelly fraction that is used.'),
    marketCap: z.number().describe('The maximum staked on one market, as a share of the bankroll.'),
    eventCap: z.number().describe('The maximum staked on one event, as a share of the bankroll.'),
    dayCap: z
      .number()
      .describe(
        'The maximum staked on all events of a climate date, as a share of the bankroll: of maxima, minima and hours together, since the weather of cities is correlated. Events with more growth come first.',
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
