import { z } from 'zod';
import { describeType, type TypeDescription } from '../accounts/webhooks/types.js';
import {
  booleanField,
  idField,
  integerField,
  numberOrNull,
  textField,
  timeField,
} from '../core/http/fields.js';
import { contractsField } from './market/contracts.js';
import { dollarsField } from './market/money.js';

const sideField = z.enum(['yes', 'no']);

const marketFields = {
  mode: z.enum(['paper', 'live']),
  ticker: z.string(),
  eventTicker: z.string(),
};

const nameMode = (mode: 'paper' | 'live') => (mode === 'paper' ? 'Paper' : 'Live');

/** `$10.00` or `-$0.5625`, with at least two decimals. */
const shortDollars = (dollars: string) => dollars.replace(/^(-?)(\d+\.\d\d\d*?)0*$/, '$1$$$2');

type MarketTypes = typeof marketTypes;

declare module '../accounts/webhooks/types.js' {
  interface ChosenTypes extends MarketTypes {}
}

export const marketTypes = {
  'trade.filled': describeType({
    summary: 'An order was filled, fully or partially.',
    schema: z.object({
      ...marketFields,
      tradeId: idField('The id of the trade.'),
      idempotencyKey: z.string(),
      status: z.enum(['pending', 'resting', 'filled', 'partially_filled', 'cancelled', 'rejected']),
      side: sideField,
      action: z.enum(['buy', 'sell']),
      contracts: contractsField('Contracts ordered.'),
      filledContracts: contractsField('Contracts filled so far.'),
      fills: z
        .array(
          z.object({
            n: integerField('The number of the fill within the trade.'),
            price: dollarsField('The price per contract.'),
            contracts: contractsField('Contracts filled at this price.'),
            fee: dollarsField('The fee of this fill.'),
            filledAt: timeField('When it was filled.'),
          }),
        )
        .describe('The new fills.'),
    }),
    sentence: ({ mode, ticker, side, action, contracts, filledContracts, status }) =>
      `${nameMode(mode)} order ${status.replace('_', ' ')}: ${action} ${filledContracts} of ${contracts} ${side.toUpperCase()} contracts of ${ticker}.`,
    page: '/dashboard/portfolio/orders',
  }),
  'market.settled': describeType({
    summary: 'A market with an open position was settled, or a payout was corrected.',
    schema: z.object({
      ...marketFields,
      state: z.enum(['finalized', 'void']),
      value: dollarsField('Payout of a YES contract; `null` for a void market.').nullable(),
      temperature: numberOrNull('The reported temperature, °F.'),
      side: sideField.describe('The side held.'),
      contracts: contractsField('Contracts held.'),
      payout: dollarsField('The change of the balance; negative if a correction took money back.'),
      isCorrection: booleanField('True if an earlier result was already paid.'),
    }),
    sentence: ({ mode, ticker, state, side, contracts, payout, isCorrection }) =>
      `${ticker} ${isCorrection ? 'was settled again' : state === 'void' ? 'was voided' : 'was settled'}: ${shortDollars(payout)} for ${contracts} ${side.toUpperCase()} contracts (${mode}).`,
    page: '/dashboard/portfolio#settlements-title',
  }),
  'trading.halted': describeType({
    summary: 'A switch stopped all orders, or all orders except those that reduce a position.',
    schema: z.object({
      owner: z
        .enum(['service', 'operator', 'own'])
        .describe(
          'The owner of the switch: the whole service, its operator for this Organization, or the Organization itself.',
        ),
      state: z.enum(['reduce_only', 'halt']),
      reason: z.string(),
      changedAt: timeField('When the state took effect.'),
    }),
    sentence: ({ state, reason }) =>
      `${state === 'halt' ? 'Trading is halted' : 'Only orders that reduce a position are accepted'}: ${reason}`,
    page: '/dashboard/portfolio/risk',
  }),
  'signal.gate_changed': describeType({
    summary: 'The gate for a station and lead opened or closed.',
    schema: z.object({
      kind: z.enum(['daily_maximum', 'daily_minimum', 'hourly']),
      station: textField('The id of the station; for hourly markets, of the area.'),
      leadHours: integerField(
        'The lead of the judged forecasts, in hours before the end of the day or before the hour.',
      ),
      state: z.enum(['open', 'closed']),
      n: integerField('The settled days it is judged on.'),
      reason: textField('Why it is open or closed.'),
    }),
    sentence: ({ kind, station, leadHours, state, reason }) =>
      `The gate of ${station} (${kind.replace('_', ' ')}, ${leadHours} hours ahead) is ${state}: ${reason}`,
    page: '/dashboard/scores',
  }),
} as const satisfies Record<string, TypeDescription>;
