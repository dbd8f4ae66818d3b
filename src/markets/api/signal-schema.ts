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
      'The bankroll in dollars for the sizes, above 0 and below 1,000,000,000. Default: the initial cash of a paper account.',
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
    edge: z.number().describe('`probability` minus `breakEven`.'),
    fullKelly: z.number().describe('The full Kelly share of the bankroll, including the fee.'),
    fractionalKelly: z.number().describe('The share that is used.'),
    contracts: count('Contracts to buy: always whole contracts, available in the book.'),
    limitPrice: dollars('The highest price needed to fill them.'),
    averagePrice: dollars('The average price of all contracts, without the fee.'),
    fee: dollars("The venue's fee for all contracts."),
    stake: dollars('The price and fee of all contracts, which is also the maximum loss.'),
    expectedValue: dollars(
      'The value of the purchase according to the forecast, minus `stake`. Negative for a hedge.',
    ),
    worstCase: dollars(
      'The maximum loss of this purchase alone: its stake. The event has the joint maximum loss of its purchases.',
    ),
    rest: z
      .object({
        price: dollars(
          'One step above the best bid of the side if that is below the best ask; otherwise the best bid.',
        ),
        contractsAhead: contractsField('Contracts ahead of it there.'),
        breakEven: z.number().describe("With the maker's fee."),
        edge: z.number().describe('`probability` less `breakEven`: what it is worth **if it fills**.'),
        worthMoreAbove: z
          .number()
          .nullable()
          .describe(
            'The share of such orders that must fill for waiting to be better than taking, at the same probability; `null` if neither is worth its cost.',
          ),
        problem: z
          .string()
          .nullable()
          .describe(
            'Why such an order is refused now unless its `cancelOn` leaves out `observation`, for people; `null` if it is accepted.',
          ),
      })
      .nullable()
      .describe(
        'The same purchase as a resting order (`timeInForce`, `postOnly`). It pays only if it fills, which is not certain, and traders who fill it may know more. `null` for a hedge.',
      ),
    isHedge: z
      .boolean()
      .describe(
        'True for a purchase that costs more than it is worth alone, but pays where the others of its event lose.',
      ),
    limitedBy: z
      .enum(['market', 'event', 'day', 'cash', 'depth'])
      .nullable()
      .describe(
        'The limit that kept it below the Kelly size: a cap, the available cash, or the depth of the book; `null` if none did.',
      ),
    reasons: z
      .array(z.string())
      .describe('A text with the forecast, the price, the size, and the record of such forecasts.'),
    expiresAt: timeField('When it should no longer be acted on.'),
  })
  .meta({ id: 'Signal' });

const gateSchema = z
  .object({
    state: z.enum(['open', 'closed']).describe('Signals are shown while the gate is `open`.'),
    leadHours: count(
      'Hours before the end of the day at which the scored forecasts were recorded; 0 if none were.',
    ),
    n: count('The number of settled days behind the verdict.'),
    evidence: z
      .number()
      .describe('The evidence that the forecasts are ahead, as odds to 1. The gate opens at `needed`.'),
    needed: z.number(),
    difference: z
      .number()
      .nullable()
      .describe(
        'Mean log score of the forecasts over the last days, minus that of the prices paid for each outcome, fee included. Below zero the forecasts were ahead. `null` for too few days.',
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
    station: z.string().describe('The id of the station; for hourly markets, of the area.'),
    city: z.string().nullable(),
    date: dateField,
    hour: z.int().nullable().describe('The hour in local time; `null` except for hourly markets.'),
    method: z
      .string()
      .nullable()
      .describe('How the probabilities were made, see the forecasts; `null` without a forecast.'),
    isCalibrated: z
      .boolean()
      .describe(
        'Whether the probabilities are calibrated against the outcomes of earlier ones. Without that there are no signals.',
      ),
    gate: gateSchema.describe('Whether forecasts at this station and lead have beaten the payable prices.'),
    signals: count('The number of signals for this event.'),
    stake: dollars('The stake of all its signals.'),
    worstCase: dollars('Their maximum joint loss, whichever bracket wins.'),
    growth: z
      .number()
      .describe(
        'Expected growth, from the signals, of the logarithm of the part of the bankroll that `kellyShare` puts at stake, exact costs included.',
      ),
    gap: z.number().describe('The largest possible shortfall of growth from the optimum (the duality gap).'),
    suppressed: z
      .array(
        z.object({
          ticker: z.string(),
          side: z.enum(['yes', 'no']),
          reason: z.string(),
          isWithheld: z.boolean().describe('True if this side would have a signal with an open gate.'),
        }),
      )
      .describe('The sides without a signal, and why.'),
  })
  .meta({ id: 'EventSignals' });

export const signalListSchema = z
  .object({
    bankroll: dollars('The bankroll used for the sizes.'),
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
        'How sizes are computed: `joint_event` maximises growth over the outcomes that the markets of an event distinguish.',
      ),
    signals: z.array(signalSchema),
    events: z.array(eventSignalsSchema),
    ...freshness,
  })
  .meta({ id: 'SignalList' });
