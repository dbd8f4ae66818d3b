import { z } from 'zod';
import {
  booleanField,
  integerOrNull,
  namedObject,
  numberField,
  numberOrNull,
  textField,
  textOrNull,
  timeField,
} from '../../core/http/fields.js';
import { contractsField } from '../market/contracts.js';
import { dollarsField } from '../market/money.js';
import { temperatureKinds } from '../market/market.js';
import { count, dateField, freshness, marketSchema, probability } from './schema.js';

export const signalsQuerySchema = z.strictObject({
  bankroll: z
    .string()
    .regex(/^(?=.*[1-9])\d{1,9}(\.\d{1,2})?$/, 'must be an amount in dollars above 0, like 2500.00')
    .optional()
    .describe(
      'The bankroll in dollars for the sizes, above 0 and below 1,000,000,000. Default: the initial cash of a paper account.',
    ),
});

const signalSchema = namedObject('Signal', {
  market: marketSchema,
  side: z.enum(['yes', 'no']),
  price: dollarsField('The best ask of the side.'),
  depth: contractsField('Contracts offered at `price`.'),
  probability: probability('The probability that the side pays, according to the forecast.'),
  breakEven: numberField('The probability above which the purchase is worth its price and fee.'),
  edge: numberField('`probability` minus `breakEven`.'),
  fullKelly: numberField('The full Kelly share of the bankroll, including the fee.'),
  fractionalKelly: numberField('The share that is used.'),
  contracts: count('Contracts to buy: always whole contracts, available in the book.'),
  limitPrice: dollarsField('The highest price needed to fill them.'),
  averagePrice: dollarsField('The average price of all contracts, without the fee.'),
  fee: dollarsField("The venue's fee for all contracts."),
  stake: dollarsField('The price and fee of all contracts, which is also the maximum loss.'),
  expectedValue: dollarsField(
    'The value of the purchase according to the forecast, minus `stake`. Negative for a hedge.',
  ),
  worstCase: dollarsField(
    'The maximum loss of this purchase alone: its stake. The event has the joint maximum loss of its purchases.',
  ),
  rest: z
    .object({
      price: dollarsField(
        'One step above the best bid of the side if that is below the best ask; otherwise the best bid.',
      ),
      contractsAhead: contractsField('Contracts ahead of it there.'),
      breakEven: numberField("With the maker's fee."),
      edge: numberField('`probability` less `breakEven`: what it is worth **if it fills**.'),
      worthMoreAbove: numberOrNull(
        'The share of such orders that must fill for waiting to be better than taking, at the same probability; `null` if neither is worth its cost.',
      ),
      problem: textOrNull(
        'Why such an order is refused now unless its `cancelOn` leaves out `observation`, for people; `null` if it is accepted.',
      ),
    })
    .nullable()
    .describe(
      'The same purchase as a resting order (`timeInForce`, `postOnly`). It pays only if it fills, which is not certain, and traders who fill it may know more. `null` for a hedge.',
    ),
  isHedge: booleanField(
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
});

const gateSchema = namedObject('SignalGate', {
  state: z.enum(['open', 'closed']).describe('Signals are shown while the gate is `open`.'),
  leadHours: count(
    'Hours before the end of the day at which the scored forecasts were recorded; 0 if none were.',
  ),
  n: count('The number of settled days behind the verdict.'),
  evidence: numberField(
    'The evidence that the forecasts are ahead, as odds to 1. The gate opens at `needed`.',
  ),
  needed: z.number(),
  difference: numberOrNull(
    'Mean log score of the forecasts over the last days, minus that of the prices paid for each outcome, fee included. Below zero the forecasts were ahead. `null` for too few days.',
  ),
  interval: z
    .object({ low: z.number(), high: z.number() })
    .nullable()
    .describe('The confidence interval of `difference`.'),
  reason: textField('Why it is open or closed.'),
});

const eventSignalsSchema = namedObject('EventSignals', {
  eventTicker: z.string(),
  kind: z.enum(temperatureKinds),
  station: textField('The id of the station; for hourly markets, of the area.'),
  city: z.string().nullable(),
  date: dateField,
  hour: integerOrNull('The hour in local time; `null` except for hourly markets.'),
  method: textOrNull('How the probabilities were made, see the forecasts; `null` without a forecast.'),
  isCalibrated: booleanField(
    'Whether the probabilities are calibrated against the outcomes of earlier ones. Without that there are no signals.',
  ),
  gate: gateSchema.describe('Whether forecasts at this station and lead have beaten the payable prices.'),
  signals: count('The number of signals for this event.'),
  stake: dollarsField('The stake of all its signals.'),
  worstCase: dollarsField('Their maximum joint loss, whichever bracket wins.'),
  growth: numberField(
    'Expected growth, from the signals, of the logarithm of the part of the bankroll that `kellyShare` puts at stake, exact costs included.',
  ),
  gap: numberField('The largest possible shortfall of growth from the optimum (the duality gap).'),
  suppressed: z
    .array(
      z.object({
        ticker: z.string(),
        side: z.enum(['yes', 'no']),
        reason: z.string(),
        isWithheld: booleanField('True if this side would have a signal with an open gate.'),
      }),
    )
    .describe('The sides without a signal, and why.'),
});

export const signalListSchema = namedObject('SignalList', {
  bankroll: dollarsField('The bankroll used for the sizes.'),
  kellyShare: numberField('The share of the Kelly fraction that is used.'),
  marketCap: numberField('The maximum staked on one market, as a share of the bankroll.'),
  eventCap: numberField('The maximum staked on one event, as a share of the bankroll.'),
  dayCap: numberField(
    'The maximum staked on all events of a climate date, as a share of the bankroll: of maxima, minima and hours together, since the weather of cities is correlated. Events with more growth come first.',
  ),
  sizing: textField(
    'How sizes are computed: `joint_event` maximises growth over the outcomes that the markets of an event distinguish.',
  ),
  signals: z.array(signalSchema),
  events: z.array(eventSignalsSchema),
  ...freshness,
});
