import { z } from 'zod';
import { namedObject, timeField } from '../../../core/http/fields.js';
import { formatExactMoney } from '../../../core/pages/format.js';
import { text } from '../../../core/http/validate.js';
import { defaultLimits } from '../limits.js';
import { switchStates } from '../../ledger/risk-table.js';
import { isCount } from '../../market/contracts.js';

type Limit = keyof typeof defaultLimits;

function byDefault(limit: Limit): string {
  const value = defaultLimits[limit];
  return `Default: ${typeof value === 'bigint' ? formatExactMoney(value) : value}.`;
}

const countField = (limit: Limit, description: string) =>
  z
    .int('must be a whole number from 0')
    .min(0, 'must be a whole number from 0')
    .max(10_000_000, 'must be at most 10,000,000')
    .nullish()
    .describe(`${description} ${byDefault(limit)}`);

const contractsLimit = (limit: Limit, description: string) =>
  z
    .number('must be a number from 0')
    .min(0, 'must be a number from 0')
    .max(10_000_000, 'must be at most 10,000,000')
    .refine(isCount, 'must have at most two decimals')
    .nullish()
    .describe(`${description} At most two decimals. ${byDefault(limit)}`);

const moneyPattern = '^(0|[1-9]\\d{0,8})(\\.\\d{1,6})?$';
const moneyField = (limit: Limit, description: string) =>
  z
    .string()
    .regex(new RegExp(moneyPattern), 'must be an amount in dollars, like 250.00')
    .meta({ pattern: moneyPattern })
    .nullish()
    .describe(`${description} A decimal string in dollars. ${byDefault(limit)}`);

export const limitsSchema = z
  .strictObject({
    maxOrderContracts: contractsLimit('maxOrderContracts', 'The maximum contracts per order.'),
    maxOrderCost: moneyField(
      'maxOrderCost',
      'The maximum cost of a purchase at its limit price, including the fee.',
    ),
    maxPositionContracts: contractsLimit(
      'maxPositionContracts',
      'The maximum contracts held in a market after the order.',
    ),
    maxEventLoss: moneyField(
      'maxEventLoss',
      'The maximum loss of an event in its worst outcome after the order. Its brackets exclude each other, so the payout of one offsets the losses of the others.',
    ),
    maxDailyLoss: moneyField(
      'maxDailyLoss',
      'The maximum loss since midnight UTC: realised losses, fees, and the change in the liquidation value of the positions. At the limit, only orders that reduce positions are accepted.',
    ),
    maxOpenOrders: countField('maxOpenOrders', 'The maximum number of open orders, including the new one.'),
    priceCollar: moneyField(
      'priceCollar',
      'The maximum distance of a limit price beyond the best price in the book.',
    ),
  })
  .meta({ id: 'TradingLimitsInput' });

export const switchSchema = z
  .strictObject({
    state: z
      .enum(switchStates)
      .describe(
        '`open`: orders are accepted. `reduce_only`: only orders that reduce positions. `halt`: none.',
      ),
    reason: text(300)
      .nullish()
      .describe('Shown to the people whose orders are refused. Required unless the state is `open`.'),
  })
  .meta({ id: 'TradingSwitchInput' });

const amount = () => z.string().regex(/^\d+\.\d{4,6}$/);

const effectiveSchema = namedObject('EffectiveTradingLimits', {
  maxOrderContracts: z.number().min(0),
  maxOrderCost: amount(),
  maxPositionContracts: z.number().min(0),
  maxEventLoss: amount(),
  maxDailyLoss: amount(),
  maxOpenOrders: z.int().min(0),
  priceCollar: amount(),
});

const declaredSchema = namedObject(
  'DeclaredTradingLimits',
  Object.fromEntries(Object.entries(effectiveSchema.shape).map(([name, field]) => [name, field.nullable()])),
);

export const limitsAnswerSchema = namedObject('TradingLimits', {
  effective: effectiveSchema.describe('The limits that apply to the next order.'),
  declared: declaredSchema.describe('The declared limits; `null` means the default.'),
  updatedAt: timeField('When they were last declared; `null` if they never were.').nullable(),
});

const state = z.enum(switchStates);
const part = {
  state,
  reason: z.string().nullable(),
  changedAt: timeField('When it was last set; `null` if it never was.').nullable(),
};

export const serviceSwitchAnswerSchema = namedObject('ServiceTradingSwitch', part);

export const switchAnswerSchema = namedObject('TradingSwitch', {
  state: state.describe('The strictest of the three switches; it applies to the next order.'),
  service: serviceSwitchAnswerSchema.describe('The switch of the whole service.'),
  operator: z.object(part).describe('Set here.'),
  own: z
    .object({ ...part, by: z.object({ id: z.uuid(), name: z.string() }).nullable() })
    .describe('Set by an owner or admin of the Organization, on its page.'),
});
